"""One table for every sort of domain, from the nodes up, and the way back down to the nodes of the best plans."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from solver.deadline import NO_DEADLINE, Deadline
from solver.tree import ROOT
from solver.tree_dp.class_vectors import INFEASIBLE_COST, Table, Vector, effort, merged, nothing, splits, splitting
from solver.tree_dp.multi_class_rules import MultiClassRules

_KEPT = 200
"""Additions that every cost that is kept counts for: memory is bounded with the time."""


class TooMuchError(Exception):
    """Counting would take too long."""


@dataclass
class TableEffort:
    """Additions of costs that may still be made, before the deadline."""

    left: int
    deadline: Deadline = NO_DEADLINE

    def spend(self, additions: int) -> None:
        """Take them off. Raises `TooMuchError` where there are not so many left, `OutOfTimeError` where the time is."""
        self.deadline.look()
        self.left -= additions
        if self.left < 0:
            raise TooMuchError


@dataclass(frozen=True)
class Costs:
    """What each goal weighs in a cost; 0: not heeded. By level, but for `disliked` and `terminating`."""

    gang: tuple[int, ...]
    sets: tuple[int, ...]
    disliked: int
    room: tuple[int, ...]
    left: tuple[int, ...]
    terminating: int = 0


@dataclass(frozen=True)
class _Step:
    """Another child, by its key, to those before it. `place`: a number of its own, from 1."""

    place: int
    key: int
    before: Table
    after: Table


@dataclass(frozen=True)
class _Domain:
    """The table of domains that are alike. `steps`: child by child, without those that surely stay empty because so
    many alike ones are not needed.
    """

    table: Table
    steps: tuple[_Step, ...] = ()


@dataclass
class Tables:
    """One table per sort of domain, for certain costs. Domains that are alike share a key."""

    rules: MultiClassRules
    costs: Costs
    effort: TableEffort
    _known: list[_Domain] = field(default_factory=list)
    _keys: dict[tuple[object, ...], int] = field(default_factory=dict)
    _steps: dict[tuple[int, int], _Step] = field(default_factory=dict)
    _key_of: dict[tuple[int, int], int | None] = field(default_factory=dict)

    def cost(self, level: int, number: int, counts: Vector) -> int | None:
        """What so many members inside a domain cost at best; None where they cannot be there."""
        key = self._key(level, number)
        table = nothing(len(counts)) if key is None else self._known[key].table
        if (
            any(count >= size for count, size in zip(counts, table.shape, strict=True))
            or table[counts] >= INFEASIBLE_COST
        ):
            return None
        return int(table[counts])

    def in_best(self, level: int, number: int, counts: Vector) -> Iterator[tuple[int, Vector]]:
        """The nodes of a domain with the numbers that they have in the best ways to have so many members there."""
        wanted = {(level, number): {counts}}
        for each in range(level, self.rules.instance.tree.depth - 1):
            inside: dict[tuple[int, int], set[Vector]] = {}
            for (_, domain), totals in wanted.items():
                self._trace(each, domain, totals, inside)
            wanted = inside
        for (_, node), totals in wanted.items():
            for total in sorted(totals):
                yield node, total

    def _trace(self, level: int, number: int, totals: set[Vector], inside: dict[tuple[int, int], set[Vector]]) -> None:
        """Add to `inside` what the children of a domain have when it has one of `totals`. Of children that are alike,
        each can have what the last can.
        """
        key = self._key(level, number)
        if key is None:
            return
        alike = self._children(level, number)
        for step in reversed(self._known[key].steps):
            parts, rests = set[Vector](), set[Vector]()
            last = self._known[step.key].table
            self.effort.spend(len(totals) * splitting(step.before))
            for total in totals:
                for rest, part in splits(step.before, last, total, int(step.after[total])):
                    parts.add(part)
                    rests.add(rest)
            children = alike.pop(step.key, [])
            if any(map(any, parts)):
                inside.update({(level + 1, child): {part for part in parts if any(part)} for child in children})
            totals = rests

    def _children(self, level: int, number: int) -> dict[int, list[int]]:
        """The children of a domain that have room, by key in ascending order: those that are alike together."""
        found: dict[int, list[int]] = {}
        for child in self.rules.instance.tree.children(level, number):
            key = self._key(level + 1, child)
            if key is not None:
                found.setdefault(key, []).append(child)
        return dict(sorted(found.items()))

    def _key(self, level: int, number: int) -> int | None:
        """The key of a domain; None where it has no room."""
        if (level, number) not in self._key_of:
            last = self.rules.instance.tree.depth - 1
            self._key_of[level, number] = self._node(number) if level == last else self._domain(level, number)
        return self._key_of[level, number]

    def _domain(self, level: int, number: int) -> int | None:
        alike = self._children(level, number)
        keys = tuple(key for key, children in alike.items() for _ in children[: self._of_use(key)])
        if not keys:
            return None
        sign = (level, keys, self._potential(level, number))
        if sign not in self._keys:
            steps: list[_Step] = []
            for key in keys:
                steps.append(self._step(steps[-1] if steps else None, key))
            self._keys[sign] = len(self._known)
            self._known.append(_Domain(self._with_own(level, number, steps[-1].after), tuple(steps)))
        return self._keys[sign]

    def _of_use(self, key: int) -> int:
        """How many domains of one sort can have anybody at the same time."""
        sizes = self._known[key].table.shape
        return sum(most for most, size in zip(self.rules.full, sizes, strict=True) if size > 1)

    def _step(self, previous: _Step | None, key: int) -> _Step:
        """One more child; the first of them are often the same as elsewhere, and then already known."""
        sign = (previous.place if previous else 0, key)
        if sign not in self._steps:
            before = previous.after if previous else nothing(len(self.rules.full))
            last = self._known[key].table
            self.effort.spend(effort(before, last))
            after = merged(before, last, self.rules.full)
            self.effort.spend(_KEPT * after.size)
            self._steps[sign] = _Step(len(self._steps) + 1, key, before, after)
        return self._steps[sign]

    def _node(self, node: int) -> int | None:
        rules, instance = self.rules, self.rules.instance
        most = rules.capacity[node].tolist()
        if not any(most):
            return None
        amounts, penalties = rules.amounts[node].tolist(), rules.penalties[:, node].tolist()
        level, now = instance.tree.depth - 1, rules.now[node] if self.costs.terminating else 0
        sign = (level, *most, *amounts, *penalties, now, self._potential(level, node))
        if sign not in self._keys:
            own_part = tuple(slice(count + 1) for count in most)
            table = np.zeros([count + 1 for count in most], dtype=np.int64)
            if any(penalties):
                lack = np.tensordot(np.array(penalties), rules.counts[:, *own_part], axes=1)
                weight = self.costs.disliked
                table += np.where(lack > INFEASIBLE_COST // weight, INFEASIBLE_COST, lack * weight)
            if self.costs.terminating:
                table += self.costs.terminating * np.maximum(rules.used[own_part] - now, 0)
            for resource, amount in enumerate(amounts):
                asked = rules.asked[resource][own_part]
                table[(asked > amount) & (asked > 0)] = INFEASIBLE_COST
            self._keys[sign] = len(self._known)
            self._known.append(_Domain(self._with_own(level, node, table)))
        return self._keys[sign]

    def _potential(self, level: int, number: int) -> int:
        """The potential of a domain, where the costs depend on it."""
        heeded = level > ROOT and (self.costs.room[level] or self.costs.left[level])
        return self.rules.instance.domain_potential(level, number) if heeded else 0

    def _with_own(self, level: int, number: int, inside: Table) -> Table:
        """What a domain costs itself once a member is in it, and what its rules forbid."""
        if level == ROOT:
            return inside
        rules, costs = self.rules, self.costs
        own_part = tuple(map(slice, inside.shape))
        potential, present = self._potential(level, number), rules.present[own_part]
        own = present * (costs.gang[level] + costs.room[level] * potential)
        own += costs.sets[level] * rules.sets_present[own_part]
        own += costs.left[level] * present * (rules.used[own_part] < potential)
        allowed = rules.allowed[level][own_part] & (inside < INFEASIBLE_COST)
        table: Table = np.where(allowed, np.minimum(inside + own, INFEASIBLE_COST), INFEASIBLE_COST)
        return table
