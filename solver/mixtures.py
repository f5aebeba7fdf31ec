"""Gangs of several kinds by counting: what each domain can hold of every kind together, and at what cost.

The goals from compactness to waste are sums over domains, and most rules bind the numbers in one domain, so a dynamic
programme up the tree knows exactly how good a plan inside a domain can be, and which nodes have which numbers in the
best ones (`solver.vectors`). CP-SAT is left with those: who among them comes first by rank and name.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from solver.bounds import Counts
from solver.case import Case
from solver.kinds import Kind, alike
from solver.problem import PodSet
from solver.tree import ROOT
from solver.vectors import BITS, NEVER, Table, Vector, effort, merged, nothing, splits

_MIXTURES = 2_000
"""Up to how many different numbers of members of every kind it is counted."""

_EFFORT = 2_000_000_000
"""Additions of costs (about half a second) after which counting is given up."""

Allowed = NDArray[np.bool_]
Spread = tuple[int, ...]
"""Level by level, the domains of the gang and, where there are several sets, summed over them."""


class TooMuchError(Exception):
    """Counting would take too long."""


@dataclass(frozen=True)
class Best:
    """What the best plans for everybody inside a domain come to: domains used, and the weight of node preferences."""

    spread: Spread
    liked: int


@dataclass(frozen=True)
class _Costs:
    """What each goal weighs in a cost; 0: not heeded. By level, but for `disliked` and `terminating`."""

    gang: tuple[int, ...]
    sets: tuple[int, ...]
    disliked: int
    room: tuple[int, ...]
    left: tuple[int, ...]
    terminating: int = 0


def mixtures_of(case: Case) -> "Mixtures | None":
    """The tables of a case, of which everybody has to be placed. None where counting does not tell the whole truth, or
    where there would be too much to count.
    """
    problem = case.problem
    if case.evicting or case.pinned or problem.spreads or problem.exclusions or not case.pending:
        return None
    if any(pod_set.slices for pod_set in problem.sets) and not _whole_slices(case):
        return None
    ranks: dict[tuple[int, int], list[int]] = {}
    for seat in case.pending:
        ranks.setdefault((seat.pod_set, case.member(seat).shape), []).append(seat.rank)
    kinds = tuple(Kind(pod_set, shape, tuple(held)) for (pod_set, shape), held in sorted(ranks.items()))
    if np.prod([len(kind.ranks) + 1 for kind in kinds], dtype=np.float64) > _MIXTURES:
        return None
    found = Mixtures(case, kinds)
    return found if found.counted else None


def _whole_slices(case: Case) -> bool:
    """Whether slices only say that numbers in domains are multiples of their sizes."""
    sets = tuple(replace(pod_set, minimum=len(pod_set.members)) for pod_set in case.problem.sets)
    return alike(replace(case, problem=replace(case.problem, sets=sets))) is not None


class Mixtures:
    """All that counting tells about the domains of a case, worked out when asked for. Raises `TooMuchError`."""

    def __init__(self, case: Case, kinds: tuple[Kind, ...]) -> None:
        self.case, self.kinds = case, kinds
        self.full: Vector = tuple(len(kind.ranks) for kind in kinds)
        depth, members = case.tree.depth, sum(self.full)
        self._filled = sorted({kind.pod_set for kind in kinds})
        several = len(self._filled) > 1
        self.rules = _Rules(case, kinds, self._filled)
        most = [members] * (2 * depth if several else depth)
        most.append(int(np.array(self.full) @ self.rules.dislikes.max(axis=1)))
        self._radices = [each + 1 for each in most]
        weights = _weights(self._radices)
        self.counted = weights[0] * self._radices[0] < 1 << BITS
        step = 2 if several else 1
        levels = weights[:-1]
        sets = tuple(levels[1::2]) if several else (0,) * depth
        self._compact = _Costs(tuple(levels[::step]), sets, weights[-1], (0,) * depth, (0,) * depth)
        self._tables = _Tables(self.rules, self._compact)

    @property
    def liked_at_most(self) -> int:
        """No plan has more weight of node preferences."""
        return self.rules.liked_at_most

    def best(self, level: int, domain: int) -> Best | None:
        """The best inside one domain; None where it cannot hold everybody."""
        cost = self._tables.cost(level, domain, self.full)
        if cost is None:
            return None
        *spread, disliked = _digits(cost, self._radices)
        step = len(spread) // self.case.tree.depth
        for wider in range(max(level, 0)):
            spread[wider * step : (wider + 1) * step] = [1, len(self._filled)][:step]
        return Best(tuple(spread), self.liked_at_most - disliked)

    def narrowed(self, level: int, domain: int) -> Counts:
        """How many members of each shape the nodes have at most in the best plans inside a domain that can hold
        everybody, as far as goals go that do not tell members apart: shapes x nodes. Where several kinds share a shape,
        what the nodes can hold of it, if they have any.
        """
        case = self.case
        cost = self._tables.cost(level, domain, self.full)
        if cost is None:
            raise ValueError("this domain cannot hold everybody")
        tables = _Tables(self.rules, self._waste(level, _digits(cost, self._radices)))
        capacity = np.zeros_like(case.capacity)
        owners = Counter(kind.shape for kind in self.kinds)
        for node, counts in tables.in_best(level, domain, self.full):
            for kind, count in zip(self.kinds, counts, strict=True):
                most = count if owners[kind.shape] == 1 else int(case.capacity[kind.shape, node]) if count else 0
                capacity[kind.shape, node] = max(capacity[kind.shape, node], most)
        return capacity

    def _waste(self, level: int, reached: list[int]) -> _Costs:
        """All goals up to the room left inside a domain, and what waits for room if ranks say nothing before that; as
        many of them as a cost has place for. A goal that is known needs no more place than what it comes to.
        """
        case, depth = self.case, self.case.tree.depth
        step = (len(reached) - 1) // depth
        inside = range(level + 1, depth)
        touched = {each: reached[each * step] for each in inside}
        most = [sum(sorted(case.potentials[each + 1])[-touched[each] :]) for each in inside]
        most += [touched[each] for each in inside]
        if len(self.kinds) == len(self._filled):
            most.append(int(self.rules.used.max()))
        radices = [*(each + 1 for each in reached), *(each + 1 for each in most)]
        while _weights(radices)[0] * radices[0] >= 1 << BITS:
            radices.pop()
        weights = _weights(radices)
        known, others = weights[: len(reached)], [*weights[len(reached) :], *[0] * len(most)]
        room, left = [0] * depth, [0] * depth
        for place, each in enumerate(inside):
            room[each], left[each] = others[place], others[len(inside) + place]
        sets = known[1:-1:2] if step > 1 else [0] * depth
        waits = others[2 * len(inside)] if len(self.kinds) == len(self._filled) else 0
        return _Costs(tuple(known[:-1:step]), tuple(sets), known[-1], tuple(room), tuple(left), waits)


def _weights(radices: list[int]) -> list[int]:
    """What one of each digit is worth, the most important digit first."""
    weights = [1]
    for radix in reversed(radices[1:]):
        weights.append(weights[-1] * radix)
    return weights[::-1]


def _digits(number: int, radices: list[int]) -> list[int]:
    """The digits of a number, the most important first."""
    found = []
    for radix in reversed(radices):
        number, digit = divmod(number, radix)
        found.append(digit)
    return found[::-1]


class _Rules:
    """What all tables of a case share: arrays with one axis per kind, over all numbers of members.

    `asked[resource]`, `used`: what so many ask for, of the scarcest resource; `in_set[place]`: how many of a filled
    set; `allowed[level]`: whether so many may be in one domain. `dislikes[kind, node]`: what the node lacks of the best
    weight of node preferences.
    """

    def __init__(self, case: Case, kinds: tuple[Kind, ...], filled: list[int]) -> None:
        self.case, self.kinds, self.filled = case, kinds, filled
        shapes = [case.problem.shapes[kind.shape] for kind in kinds]
        full = [len(kind.ranks) for kind in kinds]
        self.full: Vector = tuple(full)
        self.counts = np.indices([count + 1 for count in full], dtype=np.int64)
        requests = np.array([shape.requests for shape in shapes], dtype=np.int64)
        self.asked = np.tensordot(requests.T, self.counts, axes=1)
        self.used = self.asked[case.scarce]
        owners = np.array([[kind.pod_set == each for kind in kinds] for each in filled], dtype=np.int64)
        self.in_set = np.tensordot(owners, self.counts, axes=1)
        self.allowed = [self._allowed(level) for level in range(case.tree.depth)]
        self.capacity = np.minimum(case.capacity[[kind.shape for kind in kinds]].T, full)
        self.amounts = np.minimum(np.maximum(case.amounts, 0), self.capacity @ requests)
        liked = np.zeros((len(kinds), len(case.problem.nodes)), dtype=np.int64)
        for place, shape in enumerate(shapes):
            for node, weight in shape.preferences.items():
                liked[place, node] = weight
        best = liked.max(axis=1, initial=0)
        self.liked_at_most = int(best @ np.array(full))
        self.dislikes = best[:, None] - liked

    def _allowed(self, level: int) -> Allowed:
        """Whether the rules of a level allow so many members in one of its domains."""
        problem = self.case.problem
        fine = np.ones(self.used.shape, dtype=np.bool_)
        for place, position in enumerate(self.filled):
            fine &= _allowed_of(problem.sets[position], level, self.in_set[place])
        for rule in problem.multiples:
            if rule.level == level:
                fine &= self.in_set.sum(axis=0) % rule.of == 0
        for each in problem.together:
            if each.level == level:
                bound = [place for place, position in enumerate(self.filled) if position in each.pod_sets]
                here = self.in_set[bound].sum(axis=0)
                fine &= (here == 0) | (here == sum(len(problem.sets[position].members) for position in each.pod_sets))
        return fine

    @cached_property
    def now(self) -> list[int]:
        """By node, what there is of the scarcest resource without waiting for pods on their way out."""
        nodes, scarce = self.case.problem.nodes, self.case.scarce
        found: list[int] = np.maximum(0, nodes.free[:, scarce] - nodes.terminating[:, scarce]).tolist()
        return found

    @cached_property
    def present(self) -> Table:
        """1 where anybody is there."""
        present: Table = np.any(self.in_set > 0, axis=0).astype(np.int64)
        return present

    @cached_property
    def sets_present(self) -> Table:
        """How many sets are there."""
        present: Table = np.sum(self.in_set > 0, axis=0, dtype=np.int64)
        return present


def _allowed_of(pod_set: PodSet, level: int, here: Table) -> Allowed:
    """Whether the rules of a set allow so many of it in one domain of a level."""
    fine = np.ones(here.shape, dtype=np.bool_)
    if pod_set.required == level:
        fine &= (here == 0) | (here == len(pod_set.members))
    for cap in pod_set.caps:
        if cap.level == level:
            fine &= here <= cap.count
    rules = [(rule.level, rule.of) for rule in pod_set.multiples]
    rules += [(rule.level, rule.size) for rule in pod_set.slices]
    for at, of in rules:
        if at == level:
            fine &= here % of == 0
    return fine


@dataclass(frozen=True)
class _Domain:
    """The table of domains that are alike. `before[i]`: of the first i children together, `children[i]` by key."""

    table: Table
    children: tuple[int, ...] = ()
    before: tuple[Table, ...] = ()


@dataclass
class _Tables:
    """One table per sort of domain, for certain costs. Domains that are alike share a key."""

    rules: _Rules
    costs: _Costs
    effort: int = 0
    _known: list[_Domain] = field(default_factory=list)
    _keys: dict[tuple[object, ...], int] = field(default_factory=dict)
    _products: dict[tuple[int, ...], Table] = field(default_factory=dict)
    _key_of: dict[tuple[int, int], int | None] = field(default_factory=dict)

    def cost(self, level: int, number: int, counts: Vector) -> int | None:
        """What so many members inside a domain cost at best; None where they cannot be there."""
        key = self._key(level, number)
        table = nothing(len(counts)) if key is None else self._known[key].table
        if any(count >= size for count, size in zip(counts, table.shape, strict=True)) or table[counts] >= NEVER:
            return None
        return int(table[counts])

    def in_best(self, level: int, number: int, counts: Vector) -> Iterator[tuple[int, Vector]]:
        """The nodes of a domain with the numbers that they have in the best ways to have so many members there."""
        wanted = {(level, number): {counts}}
        for each in range(level, self.rules.case.tree.depth - 1):
            inside: dict[tuple[int, int], set[Vector]] = {}
            for (_, domain), totals in wanted.items():
                self._trace(each, domain, totals, inside)
            wanted = inside
        for (_, node), totals in wanted.items():
            for total in sorted(totals):
                yield node, total

    def _trace(self, level: int, number: int, totals: set[Vector], inside: dict[tuple[int, int], set[Vector]]) -> None:
        """Add to `inside` what the children of a domain have when it has one of `totals`."""
        key = self._key(level, number)
        if key is None:
            return
        domain = self._known[key]
        for place in range(len(domain.children) - 1, -1, -1):
            child = self._children(level, number)[place]
            before, last = domain.before[place], self._known[domain.children[place]].table
            after, parts, rests = domain.before[place + 1], set[Vector](), set[Vector]()
            for total in totals:
                for rest, part in splits(before, last, total, int(after[total])):
                    parts.add(part)
                    rests.add(rest)
            if any(map(any, parts)):
                inside[level + 1, child] = {part for part in parts if any(part)}
            totals = rests

    def _children(self, level: int, number: int) -> list[int]:
        """The children of a domain that have room, those that are alike next to each other."""
        found = [(self._key(level + 1, child), child) for child in self.rules.case.tree.children(level, number)]
        return [child for _, child in sorted((key, child) for key, child in found if key is not None)]

    def _key(self, level: int, number: int) -> int | None:
        """The key of a domain; None where it has no room."""
        if (level, number) not in self._key_of:
            last = self.rules.case.tree.depth - 1
            self._key_of[level, number] = self._node(number) if level == last else self._domain(level, number)
        return self._key_of[level, number]

    def _domain(self, level: int, number: int) -> int | None:
        children = [self._key(level + 1, child) for child in self._children(level, number)]
        keys = tuple(key for key in children if key is not None)
        if not keys:
            return None
        sign = (level, keys, self._potential(level, number))
        if sign not in self._keys:
            before = [nothing(len(self.rules.full)), *map(self._together, accumulate((key,) for key in keys))]
            table = self._with_own(level, number, before[-1])
            self._keys[sign] = len(self._known)
            self._known.append(_Domain(table, keys, tuple(before)))
        return self._keys[sign]

    def _together(self, keys: tuple[int, ...]) -> Table:
        """The table of children together; the first of them are often the same, and then already known."""
        if keys not in self._products:
            last = self._known[keys[-1]].table
            first = self._products[keys[:-1]] if len(keys) > 1 else nothing(len(self.rules.full))
            self.effort += effort(first, last)
            if self.effort > _EFFORT:
                raise TooMuchError
            self._products[keys] = merged(first, last, self.rules.full)
        return self._products[keys]

    def _node(self, node: int) -> int | None:
        rules, case = self.rules, self.rules.case
        most = rules.capacity[node].tolist()
        if not any(most):
            return None
        amounts, dislikes = rules.amounts[node].tolist(), rules.dislikes[:, node].tolist()
        level, now = case.tree.depth - 1, rules.now[node] if self.costs.terminating else 0
        sign = (level, *most, *amounts, *dislikes, now, self._potential(level, node))
        if sign not in self._keys:
            here = tuple(slice(count + 1) for count in most)
            table = np.zeros([count + 1 for count in most], dtype=np.int64)
            if any(dislikes):
                lack = np.tensordot(np.array(dislikes), rules.counts[:, *here], axes=1)
                weight = self.costs.disliked
                table += np.where(lack > NEVER // weight, NEVER, lack * weight)
            if self.costs.terminating:
                table += self.costs.terminating * np.maximum(rules.used[here] - now, 0)
            for resource, amount in enumerate(amounts):
                asked = rules.asked[resource][here]
                table[(asked > amount) & (asked > 0)] = NEVER
            self._keys[sign] = len(self._known)
            self._known.append(_Domain(self._with_own(level, node, table)))
        return self._keys[sign]

    def _potential(self, level: int, number: int) -> int:
        """The potential of a domain, where the costs depend on it."""
        heeded = level > ROOT and (self.costs.room[level] or self.costs.left[level])
        return self.rules.case.domain_potential(level, number) if heeded else 0

    def _with_own(self, level: int, number: int, inside: Table) -> Table:
        """What a domain costs itself once a member is in it, and what its rules forbid."""
        if level == ROOT:
            return inside
        rules, costs = self.rules, self.costs
        here = tuple(map(slice, inside.shape))
        potential, present = self._potential(level, number), rules.present[here]
        own = present * (costs.gang[level] + costs.room[level] * potential)
        own += costs.sets[level] * rules.sets_present[here]
        own += costs.left[level] * present * (rules.used[here] < potential)
        allowed = rules.allowed[level][here] & (inside < NEVER)
        table: Table = np.where(allowed, np.minimum(inside + own, NEVER), NEVER)
        return table
