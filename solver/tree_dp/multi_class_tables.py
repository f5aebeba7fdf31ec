"""The tables of the dynamic programme for several member classes: one for each class of alike domains, from the nodes
up.
"""

from dataclasses import dataclass, field

import numpy as np

from solver.deadline import NO_DEADLINE, Deadline
from solver.tree import ROOT
from solver.tree_dp.class_vectors import (
    CostTable,
    Vector,
    effort,
    merged,
    nothing,
    reaching,
)
from solver.tree_dp.min_plus import INFEASIBLE_COST
from solver.tree_dp.multi_class_rules import MultiClassRules
from solver.tree_dp.spread_groups import SpreadWay

_KEPT = 200
"""Each stored cost counts as this many additions. So the limit of effort also limits memory."""


class TooMuchError(Exception):
    """The tables would take too much effort. The caller then tries another method."""


@dataclass
class TableEffort:
    """The remaining effort for tables: how many additions of costs may still be made (`left`), and the deadline."""

    left: int
    deadline: Deadline = NO_DEADLINE

    def spend(self, additions: int) -> None:
        """Subtract `additions` from the remaining effort. Raises `TooMuchError` if too few additions are left,
        `OutOfTimeError` if the deadline has passed.
        """
        self.deadline.check()
        self.left -= additions
        if self.left < 0:
            raise TooMuchError


@dataclass(frozen=True)
class Costs:
    """The weight of each goal in a cost. A weight of 0, or an empty tuple, leaves the goal out.

    By level: `gang` and `sets` weigh goal 3 (domains of the gang, and domains of each set summed over the sets), `room`
    and `left` the parts (c) and (d) of waste. `disliked` weighs lost node preferences, `terminating` the used capacity
    of terminating pods.
    """

    gang: tuple[int, ...]
    sets: tuple[int, ...]
    disliked: int
    room: tuple[int, ...]
    left: tuple[int, ...]
    terminating: int = 0

    def heeds_potential(self, level: int) -> bool:
        """Whether the cost of a domain of `level` depends on the domain's potential, under these weights. False at
        ROOT, where domains have no cost of their own.
        """
        return level > ROOT and bool(self.room) and bool(self.room[level] or self.left[level])


NOTHING = Costs((), (), 0, (), ())
"""Weights that leave out all goals."""


@dataclass(frozen=True)
class MergeStep:
    """One step in computing the table of a domain's children together: a child whose table has the number `key` joins
    the children before it.

    `place`: the number of the step, from 1. `previous`: the number of the step before it; 0: it is the first step.
    `before` and `after`: the table of the children without and with this child.
    """

    place: int
    previous: int
    key: int
    before: CostTable
    after: CostTable


@dataclass(frozen=True)
class SortOfDomain:
    """A class of alike domains with their common table. `level` and `number` name one of the domains.

    `steps`: the steps that merge the children's tables, child by child; empty for a node. If more alike children exist
    than can have members at the same time, the rest have no step.
    """

    level: int
    number: int
    table: CostTable
    steps: tuple[MergeStep, ...] = ()


@dataclass
class Tables:
    """The tables of an instance for given weights of goals and for one alternative that meets topology spread.

    Alike domains share a key, and `known[key]` has their table. `later`: weights of goals that decide between plans of
    equal cost. The tables do not contain these goals, but alike domains are equal in these goals, too. `has_all_goals`:
    `costs` and `later` together have all goals before node names.
    """

    rules: MultiClassRules
    way: SpreadWay
    costs: Costs
    effort: TableEffort
    later: Costs = NOTHING
    has_all_goals: bool = False
    known: list[SortOfDomain] = field(default_factory=list)
    _keys: dict[tuple[object, ...], int] = field(default_factory=dict)
    _steps: dict[tuple[int, int], MergeStep] = field(default_factory=dict)
    _key_of: dict[tuple[int, int], int | None] = field(default_factory=dict)

    def cost(self, level: int, number: int, counts: Vector) -> int | None:
        """Return the least cost of placing `counts` members inside a domain and none elsewhere. None if the domain
        cannot hold them, or if a constraint forbids it.
        """
        if not self.way.allows(level, number, counts):
            return None
        key = self.key(level, number)
        table = nothing(len(counts)) if key is None else self.known[key].table
        if (
            any(count >= size for count, size in zip(counts, table.shape, strict=True))
            or table[counts] >= INFEASIBLE_COST
        ):
            return None
        return int(table[counts])

    def children(self, level: int, number: int) -> dict[int, list[int]]:
        """Return the children of a domain that can hold members, by the number of their table (key). Alike children
        share a table.

        Keys ascend, so the order is the same for alike domains.
        """
        found: dict[int, list[int]] = {}
        for child in self.rules.instance.tree.children(level, number):
            key = self.key(level + 1, child)
            if key is not None:
                found.setdefault(key, []).append(child)
        return dict(sorted(found.items()))

    def key(self, level: int, number: int) -> int | None:
        """Return the key of a domain, the index of its table in `known`; None if the domain can hold no member."""
        if (level, number) not in self._key_of:
            last = self.rules.instance.tree.depth - 1
            self._key_of[level, number] = self._node(number) if level == last else self._domain(level, number)
        return self._key_of[level, number]

    def _domain(self, level: int, number: int) -> int | None:
        """Return the key of a domain above the node, the index of its table in `known`; None if the domain can hold no
        member. The table is computed, unless an alike domain has one.
        """
        alike = self.children(level, number)
        keys = tuple(key for key, children in alike.items() for _ in children[: self._of_use(key)])
        nobody = nothing(len(self.rules.full))
        if not keys and self.way.allowed(level, number, nobody == 0).all():
            return None
        sign = (level, keys, self._potential(level, number), self.way.sign(level, number))
        if sign not in self._keys:
            steps: list[MergeStep] = []
            for key in keys:
                steps.append(self._step(steps[-1] if steps else None, key))
            self._keys[sign] = len(self.known)
            inside = steps[-1].after if steps else nobody
            self.known.append(SortOfDomain(level, number, self._with_own(level, number, inside), tuple(steps)))
        return self._keys[sign]

    def _of_use(self, key: int) -> int | None:
        """Return how many alike domains with the table `key` can have members at the same time. Only so many are
        merged (`MergeStep`), because further ones stay empty.

        None if there is no such limit, because each of these domains must have members.
        """
        table = self.known[key].table
        if table.flat[0] >= INFEASIBLE_COST:
            return None
        return sum(most for most, size in zip(self.rules.full, table.shape, strict=True) if size > 1)

    def _step(self, previous: MergeStep | None, key: int) -> MergeStep:
        """Return the step in which a child with the table `key` joins the children of the step `previous` (None: no
        children). Domains whose first children are alike share these steps.
        """
        sign = (previous.place if previous else 0, key)
        if sign not in self._steps:
            before = previous.after if previous else nothing(len(self.rules.full))
            last = self.known[key].table
            self.effort.spend(effort(before, last))
            after = merged(before, last, self.rules.full)
            self.effort.spend(_KEPT * after.size)
            self._steps[sign] = MergeStep(len(self._steps) + 1, sign[0], key, before, after)
        return self._steps[sign]

    def _node(self, node: int) -> int | None:
        """Return the key of a node, the index of its table in `known`; None if the node can hold no member. The table
        is computed, unless an alike node has one.
        """
        rules, instance = self.rules, self.rules.instance
        most = rules.capacity[node].tolist()
        if not any(most):
            return None
        amounts, penalties = rules.amounts[node].tolist(), rules.penalties[:, node].tolist()
        level = instance.tree.depth - 1
        now = rules.now[node] if self.costs.terminating or self.later.terminating else 0
        sign = (level, *most, *amounts, *penalties, now, self._potential(level, node), self.way.sign(level, node))
        if sign not in self._keys:
            own_part = tuple(slice(count + 1) for count in most)
            table = np.zeros([count + 1 for count in most], dtype=np.int64)
            if any(penalties):
                lack = np.tensordot(np.array(penalties), rules.counts[:, *own_part], axes=1)
                table += _weighed(lack, self.costs.disliked)
            if self.costs.terminating:
                table += _weighed(np.maximum(rules.used[own_part] - now, 0), self.costs.terminating)
            table = np.minimum(table, INFEASIBLE_COST)
            for resource, amount in enumerate(amounts):
                asked = rules.asked[resource][own_part]
                table[(asked > amount) & (asked > 0)] = INFEASIBLE_COST
            self._keys[sign] = len(self.known)
            self.known.append(SortOfDomain(level, node, self._with_own(level, node, table)))
        return self._keys[sign]

    def _potential(self, level: int, number: int) -> int:
        """Return the potential of a domain; 0 if no weight makes a cost depend on it."""
        heeded = self.costs.heeds_potential(level) or self.later.heeds_potential(level)
        return self.rules.instance.domain_potential(level, number) if heeded else 0

    def _with_own(self, level: int, number: int, inside: CostTable) -> CostTable:
        """Return the table of a domain, computed from `inside`, the table of its children: the domain's own cost is
        added for each count vector with members.

        Count vectors that constraints forbid become infeasible.
        """
        if level == ROOT:
            return inside
        rules, costs = self.rules, self.costs
        own_part = tuple(map(slice, inside.shape))
        potential, present = self._potential(level, number), rules.present[own_part]
        own = present * (costs.gang[level] + costs.room[level] * potential)
        own += costs.sets[level] * rules.sets_present[own_part]
        own += costs.left[level] * present * (rules.used[own_part] < potential)
        allowed = self.way.allowed(level, number, rules.allowed[level][own_part] & (inside < INFEASIBLE_COST))
        return reaching(np.where(allowed, np.minimum(inside + own, INFEASIBLE_COST), INFEASIBLE_COST))

    def own_later(self, sort: SortOfDomain, counts: Vector) -> int:
        """Return a domain's own part of the later cost (the goals that the tables do not contain) if it has `counts`
        members, on whichever of its nodes. 0 at ROOT or without members.
        """
        level, rules, costs = sort.level, self.rules, self.later
        if level == ROOT or not any(counts):
            return 0
        potential, used = self._potential(level, sort.number), int(rules.used[counts])
        own = int(rules.present[counts]) * (costs.room[level] * potential + costs.left[level] * (used < potential))
        if costs.terminating and level == rules.instance.tree.depth - 1:
            own += costs.terminating * max(used - rules.now[sort.number], 0)
        return own


def _weighed(amounts: CostTable, weight: int) -> CostTable:
    """Return `amounts` times `weight`, capped at `INFEASIBLE_COST`. Larger costs would not fit 64 bits, and no best
    plan has such a cost.
    """
    return np.where(amounts > INFEASIBLE_COST // weight, INFEASIBLE_COST, amounts * weight)
