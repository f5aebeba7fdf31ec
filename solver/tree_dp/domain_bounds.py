"""Lower bounds by counting: which domains may hold a whole gang of alike members, and the least goal values in each."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from solver.capacity import Counts
from solver.tree import ROOT, Tree
from solver.tree_dp.single_class_tables import DomainTables

_LARGEST = np.iinfo(np.int64).max
"""The initial value when the minimum over words of a table is computed: no word is larger."""
_FEW = 8
"""The most domains of one level of which `_Rooms.confine` tries all combinations. With more domains, the bound is not
raised.
"""

DomainCost = tuple[int, ...]
"""The goal values of a domain in their order: the primary words of its vector, the potential of the domain and of its
parents, then the secondary words.
"""


def candidates(tables: DomainTables, level: int, members: int) -> list[tuple[int, DomainCost]]:
    """Return the domains of a level (or ROOT, the whole cluster) that may hold `members` members, each with a lower
    bound on its goal values. The domain with the best bound comes first.

    A bound has the first entries of a `DomainCost`: the primary words, then the potential of the domain and of its
    parents.
    """
    tree, layout = tables.instance.tree, tables.layout
    rooms = _Rooms(tree, level, members, _room_by_level(tables, level))
    fitting = (rooms.by_level[level] >= members) & _allowed_around(tables, level, members)
    if not fitting.any():
        return []
    primary = np.zeros((layout.primary, tree.count(level)), dtype=np.int64)
    wider = np.ones(tree.count(level), dtype=np.int64)
    for narrower in range(max(level, 0), tree.depth):
        touched, enough = rooms.fewest(narrower)
        fitting &= enough
        if narrower > level + 1:
            rooms.confine(touched, narrower, np.where(_least(primary, fitting), wider, 0))
        word, shift = layout.at[f"touched {narrower}"]
        primary[word] += touched << shift
        wider = touched
    word, shift = layout.at["preferences"]
    primary[word] += members * _min_penalty(tables, level) << shift
    word, shift = layout.at["terminating"]
    primary[word] += _least_terminating(tables, level, members) << shift
    outward = range(level, ROOT - 1, -1)
    room = [
        np.array(tables.instance.potentials[each + 1], dtype=np.int64)[tree.around(level, each)] for each in outward
    ]
    found = np.flatnonzero(fitting)
    bounds = np.concatenate([primary, room])[:, found]
    order = np.lexsort(bounds[::-1])
    return [
        (number, tuple(bound)) for number, bound in zip(found[order].tolist(), bounds.T[order].tolist(), strict=True)
    ]


def _room_by_level(tables: DomainTables, level: int) -> dict[int, Counts]:
    """Return upper bounds on the members that domains can hold, by level from the node out to `level` (or ROOT, the
    whole cluster).

    Each value is an array by domain of its level. Caps and multiples of a domain and of all domains inside it are
    respected. So a domain with capacity for 10 members and a cap of 4 counts with 4.
    """
    tree, rules = tables.instance.tree, tables.rules
    room = tables.instance.capacity[tables.kind.shape]
    found = {}
    for each in range(tree.depth - 1, level - 1, -1):
        if each < tree.depth - 1:
            inside, room = room, np.zeros(tree.count(each), dtype=np.int64)
            np.add.at(room, tree.around(each + 1, each), inside)
        if each > ROOT:
            room = room.copy()
            for domain, most in rules.caps[each].items():
                room[domain] = min(room[domain], most)
            for of in rules.multiple[each]:
                room -= room % of
        found[each] = room
    return found


def _allowed_around(tables: DomainTables, level: int, members: int) -> NDArray[np.bool_]:
    """Return, by domain of `level` (or ROOT, the whole cluster), whether all `members` can be in the domain and none
    elsewhere, as far as the constraints on other domains decide it.

    These constraints are the caps and multiples of the wider domains around the domain, and the domains elsewhere that
    must have members.
    """
    tree, rules = tables.instance.tree, tables.rules
    allowed = tables.encloses(level, members)
    for wider in range(level):
        if any(members % of for of in rules.multiple[wider]):
            return np.zeros_like(allowed)
        if full := [domain for domain, most in rules.caps[wider].items() if most < members]:
            allowed &= ~np.isin(tree.around(level, wider), full)
    return allowed


@dataclass(frozen=True, slots=True)
class _Rooms:
    """For each domain of `level`: bounds on how many narrower domains inside it are needed to hold `members` members.

    `by_level[narrower]`: the most members that each domain of the level `narrower` can hold.
    """

    tree: Tree
    level: int
    members: int
    by_level: Mapping[int, Counts]

    def fewest(self, narrower: int) -> tuple[Counts, NDArray[np.bool_]]:
        """Return two arrays by domain of `level`. The first has the fewest domains of the level `narrower` inside it
        that together hold all members. The second has whether even all domains of `narrower` inside it can hold them.

        The domains with the most capacity are counted first, so no other choice needs fewer.
        """
        count = self.tree.count(self.level)
        room, around = self.by_level[narrower], self.tree.around(narrower, self.level)
        order = np.lexsort((-room, around))
        room, around = room[order], around[order]
        before = np.cumsum(room) - room
        starts = np.searchsorted(around, np.arange(count))
        needed = (before - before[starts][around] < self.members) & (room > 0)
        complete, fewest = np.zeros((2, count), dtype=np.int64)
        np.add.at(complete, around, room)
        np.add.at(fewest, around, needed)
        return fewest, complete >= self.members

    def confine(self, fewest: Counts, narrower: int, wider: Counts) -> None:
        """Raise the bound `fewest` on domains of the level `narrower`, because they must lie in few domains of the next
        wider level. Changes `fewest` in place.

        `wider`: by domain of `level`, how many domains of the next wider level a best plan touches; 0: the bound stays.
        Compactness counts wider levels first. So a plan that touches more domains of the wider level is worse, however
        few narrower domains it needs.
        """
        between = self.tree.around(narrower - 1, self.level)
        room = self.by_level[narrower]
        for domain in np.flatnonzero((wider > 0) & (fewest > 1)).tolist():
            wide_domains = np.flatnonzero(between == domain).tolist()
            if wider[domain] < len(wide_domains) <= _FEW:
                parts = [room[list(self.tree.children(narrower - 1, wide))] for wide in wide_domains]
                fewest[domain] = _confined(parts, int(wider[domain]), self.members, int(fewest[domain]))


def _least(primary: Counts, fitting: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return, by domain, whether `fitting` marks the domain and no other marked domain has a smaller bound. Such
    domains are searched first. `primary`: the bounds, words x domains.
    """
    for word in primary:
        fitting = fitting & (word == word[fitting].min(initial=_LARGEST))
    return fitting


def _confined(parts: list[Counts], count: int, members: int, least: int) -> int:
    """Return the fewest domains that together hold `members` members, if they must all be children of `count` parents.

    `parts`: for each parent, the capacities of its children. `least`: a lower bound of the result. The search stops
    when it reaches this bound, which the parents with the most capacity often do.
    """
    parts = sorted(parts, key=np.sum, reverse=True)
    fewest = sum(map(len, parts))
    for some in combinations(parts, count):
        fewest = min(fewest, _first_to_hold(np.concatenate(some), members))
        if fewest == least:
            break
    return fewest


def _first_to_hold(room: Counts, members: int) -> int:
    """Return how many of the numbers in `room`, the largest first, are needed for a sum of at least `members`. If the
    sum of all is less, return their number plus 1.
    """
    return 1 + int(np.searchsorted(np.cumsum(-np.sort(-room)), members))


def _min_penalty(tables: DomainTables, level: int) -> Counts:
    """Return, by domain of `level`, the least weight of node preferences that a member loses if it is placed in the
    domain. The member's best node of the cluster, at a loss of 0, may be elsewhere.
    """
    tree, preference_score = tables.instance.tree, tables.weights
    best = np.full(tree.count(level), preference_score.min(initial=0), dtype=np.int64)
    np.maximum.at(best, tree.domains(level), preference_score)
    return tables.best_weight - best


def _least_terminating(tables: DomainTables, level: int, members: int) -> Counts:
    """Return, by domain of `level`, a lower bound on terminating capacity: what `members` members use in the domain
    while terminating pods still hold it.
    """
    instance, shape = tables.instance, tables.kind.shape
    request = instance.problem.shapes[shape].requests[instance.scarce]
    now = np.minimum(tables.now, instance.capacity[shape] * request)
    least: Counts = np.maximum(members * request - instance.tree.summed(level, now), 0)
    return least
