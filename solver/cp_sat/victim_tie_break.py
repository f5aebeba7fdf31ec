"""Ties among equally good choices of victims (goal 6): pods that started later are evicted in place of older pods."""

from itertools import groupby

from solver.cp_sat.lexicographic import Search
from solver.cp_sat.linear import Sum, one, total
from solver.cp_sat.variables import Model

_DIGITS = 1 << 24
"""The largest number of values that one number may have. Digits are minimised together as one number up to this limit.
"""

Digit = tuple[int, Sum, int]
"""A digit of the number to minimise: one start time, or several consecutive ones.

Its three values are the position of its last start time (0 is the earliest), the digit's value as a model expression,
and how many values the digit can have.
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
    no start time can improve.

    `row`: by start time, the earliest first, how many pods with this start time are evicted. A start time without
    victims cannot improve, and must only stay without victims. So consecutive start times without victims share one
    digit, which is 1 if one of their pods is evicted.
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
    """Return a flag that is 1 if any pod with one of these start times is evicted. `places`: for each start time, how
    many of its pods are evicted, as a sum of flags.
    """
    flag = model.flag()
    for place in places:
        for _, victim in place.terms:
            model.cp.add_implication(victim, flag)
    return one(flag)


def _minimise(search: Search, stretch: list[Digit]) -> None:
    """Minimise the digits as one number, in which the first digit weighs most. The values are not fixed afterwards."""
    number, weight = Sum(), 1
    for _, digit, span in reversed(stretch):
        number += digit.times(weight)
        weight *= span
    search.lower(number)


def _settled(model: Model, search: Search) -> bool:
    """Return whether no other choice of victims is equally good. If so, fix the present victims in the model."""
    others = [flag for flag in model.evict.values() if not search.solution[flag.index]]
    if search.try_improve(Sum(tuple((1, flag) for flag in others))):
        return False
    for flag in model.evict.values():
        search.hold(one(flag), search.solution[flag.index])
    return True
