"""Ties among equally good choices of victims (goal 6): the pods that started last are evicted."""

from itertools import groupby

from solver.cp_sat.lexicographic import Search
from solver.cp_sat.linear import Sum, one, total
from solver.cp_sat.variables import Model

_DIGITS = 1 << 24
"""The largest number of values that one number may have. Digits are minimised together as one number up to this limit.
"""

Digit = tuple[int, Sum, int]
"""A digit of the number to minimise, as three values. They are the last position in the list of start times that the
digit covers, the digit as a model expression, and how many values it can have.
"""


def prefer_started_last(model: Model, search: Search) -> None:
    """Minimise the number of victims with the earliest start time, then the number of victims with the next start time,
    and so on. Fix the result.
    """
    if _settled(model, search):
        return
    pods = model.instance.problem.victims
    by_start = sorted(model.evict, key=lambda victim: pods[victim].started)
    row = [
        total(one(model.evict[victim]) for victim in group)
        for _, group in groupby(by_start, key=lambda victim: pods[victim].started)
    ]
    first = 0
    while stretch := _stretch(model, row, first, search.solution):
        model.instance.deadline.check()
        before = search.solution
        _minimise(search, stretch)
        open_places = [place for place, _, _ in stretch if row[place].value(before)]
        improved = [place for place in open_places if row[place].value(search.solution) != row[place].value(before)]
        last = min([*improved, open_places[-1]])
        for place in range(first, last + 1):
            search.hold(row[place], row[place].value(search.solution))
        first = last + 1


def _stretch(model: Model, row: list[Sum], first: int, solution: list[int]) -> list[Digit]:
    """Return digits for the start times from position `first` of `row` on, as many digits as one number holds. Empty if
    no position can improve.

    `row`: by start time, the number of victims. Positions without victims cannot improve. They only have to stay empty
    as long as no position before them improves. Such positions in sequence share one digit, a flag.
    """
    digits: list[Digit] = []
    quiet: list[int] = []
    size = 1
    for place in range(first, len(row)):
        if not row[place].value(solution):
            quiet.append(place)
            continue
        span = len(row[place].terms) + 1
        size *= 2 * span
        if digits and size > _DIGITS:
            break
        if quiet:
            digits.append((quiet[-1], _any_victim(model, [row[each] for each in quiet]), 2))
        digits.append((place, row[place], span))
        quiet = []
    return digits


def _any_victim(model: Model, places: list[Sum]) -> Sum:
    """Return a flag that is 1 if any victim at the positions `places` is evicted. `places`: by position, the number of
    victims.
    """
    flag = model.flag()
    for place in places:
        for _, victim in place.terms:
            model.cp.add_implication(victim, flag)
    return one(flag)


def _minimise(search: Search, stretch: list[Digit]) -> None:
    """Minimise the digits as one number, the first digit weighing most. The values found are not fixed."""
    number, weight = Sum(), 1
    for _, digit, span in reversed(stretch):
        number += digit.times(weight)
        weight *= span
    search.lower(number)


def _settled(model: Model, search: Search) -> bool:
    """Return whether no other choice of victims is equally good. In this case, fix the victims in the model."""
    others = [flag for flag in model.evict.values() if not search.solution[flag.index]]
    if search.try_improve(Sum(tuple((1, flag) for flag in others))):
        return False
    for flag in model.evict.values():
        search.hold(one(flag), search.solution[flag.index])
    return True
