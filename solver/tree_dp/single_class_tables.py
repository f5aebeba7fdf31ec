"""The dynamic programme for alike members: the recurrence up the tree, and the gangs to which it applies.

The table of a domain gives, for every number n of members, the best goal values of n members inside it.
"""

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from solver.bounds.member_classes import MemberClass, alike
from solver.capacity import Counts, needed_members
from solver.instance import Instance
from solver.objective import ordered, precedes
from solver.problem import Spread
from solver.tree import ROOT
from solver.tree_dp.min_plus import INFEASIBLE_COST, Layout, Products, WordTable, layout_of
from solver.tree_dp.spread_groups import MOST_WAYS, level_of_groups, never_binds, possible_emptiest

_LARGE = 1 << 62
"""The most members of a domain that has no limit. It is more than any table has."""

Sums = list[tuple[str, int]]
"""Values that a table sums over domains: pairs of a name and the largest possible sum."""


@dataclass(frozen=True)
class CountingRules:
    """All constraints of a gang of one member class besides capacity, as limits on the number of members in a domain.

    `required`: the narrowest level of which one domain must hold all members. `multiple[level]`: some numbers; the
    members in a domain are a multiple of each of them. `caps[level]`: by domain, the most members. `least[level]`: by
    domain, the fewest members. A domain without an entry has no limit.
    """

    required: int
    multiple: tuple[tuple[int, ...], ...]
    caps: tuple[dict[int, int], ...]
    least: tuple[dict[int, int], ...]

    @property
    def numbers(self) -> bool:
        """Whether a constraint other than capacity limits how many members a domain may have: a cap, a multiple, or a
        minimum for the domain.
        """
        return any(self.caps) or any(self.multiple) or any(self.least)


@dataclass(frozen=True, slots=True)
class _GroupLimits:
    """The limits that one topology spread or exclusion constraint sets for its groups of nodes: by group, the most and
    the fewest members that the group may get. A group without an entry has no limit.
    """

    most: Mapping[str, int]
    least: Mapping[str, int]


@dataclass(frozen=True)
class Domain:
    """A domain that can hold members. Alike domains have the same `key`, which is the number of their common table.

    `groups`: pairs of a key and the children that have this key, sorted by `first_name`. `first_name`: the smallest
    place, in natural order of names, of a node inside that has capacity.
    """

    level: int
    number: int
    key: int
    first_name: int
    groups: tuple[tuple[int, tuple["Domain", ...]], ...] = ()


def countable(instance: Instance) -> tuple[MemberClass, CountingRules] | None:
    """Return the one member class of the gang and its constraints, if one set of limits on counts expresses all
    constraints exactly.

    None if this is not possible, or if some domain must have members.
    """
    ways = ways_to_count(instance)
    return ways[0] if ways is not None and len(ways) == 1 and not any(ways[0][1].least) else None


def ways_to_count(instance: Instance) -> list[tuple[MemberClass, CountingRules]] | None:
    """Return the one member class of the gang, with alternative limits on the number of members in each domain. None if
    such limits cannot express the gang's constraints.

    Every valid plan respects the limits of at least one alternative, and a plan that respects them breaks no
    constraint. The alternatives differ in the number of pods that the emptiest group of a topology spread has at the
    end.
    """
    kinds = alike(instance)
    if instance.evicting or kinds is None or len(kinds) != 1 or instance.problem.multiples:
        return None
    problem, kind = instance.problem, kinds[0]
    pod_set = problem.sets[kind.pod_set]
    if any(kind.shape in rule.shapes for rule in problem.affinities):
        return None
    levels = [problem.required, pod_set.required]
    levels += [rule.level for rule in problem.together if kind.pod_set in rule.pod_sets]
    multiple: list[list[int]] = [[] for _ in problem.levels]
    for each in pod_set.multiples:
        multiple[each.level].append(each.of)
    for part in pod_set.slices:
        multiple[part.level].append(part.size)
    required = max((level for level in levels if level is not None), default=ROOT)
    bounds = _bounds_of_domains(instance, kind)
    if bounds is None:
        return None
    return [(kind, CountingRules(required, tuple(map(tuple, multiple)), caps, least)) for caps, least in bounds]


_ByLevel = tuple[dict[int, int], ...]
"""Limits on the members of domains: for each level, a number of members by domain. A domain without an entry has no
limit.
"""


def _bounds_of_domains(instance: Instance, kind: MemberClass) -> list[tuple[_ByLevel, _ByLevel]] | None:
    """Return caps, exclusions and topology spread as limits on the members in each domain: a list of alternatives, each
    with the most and the fewest members by domain.

    None if such limits cannot express the constraints exactly, or if there are too many alternatives.
    """
    caps: list[dict[int, int]] = [{} for _ in instance.problem.levels]
    for cap in instance.problem.sets[kind.pod_set].caps:
        for domain in range(instance.tree.count(cap.level)):
            caps[cap.level][domain] = min(cap.count, caps[cap.level].get(domain, cap.count))
    rules: list[tuple[Sequence[str | None], list[_GroupLimits]]] = []
    for rule in instance.problem.exclusions:
        if kind.shape in rule.shapes:
            limits = _GroupLimits(dict.fromkeys({name for name in rule.group if name is not None}, rule.count), {})
            rules.append((rule.group, [limits]))
    for spread in instance.spreads:
        limits_of_spread = _limits(instance, kind, spread)
        if limits_of_spread is None:
            return None
        rules.append((spread.group, limits_of_spread))
    if math.prod(len(ways) for _, ways in rules) > MOST_WAYS:
        return None
    places, nodes = [], np.flatnonzero(instance.capacity[kind.shape]).tolist()
    for group, ways in rules:
        place = level_of_groups(instance, nodes, group) if any(way.most for way in ways) else (ROOT, {})
        if place is None:
            return None
        places.append(place)
    return [_bounded(caps, places, way) for way in itertools.product(*(ways for _, ways in rules))]


def _bounded(
    caps: Sequence[dict[int, int]], places: Sequence[tuple[int, Mapping[str, int]]], limits: Sequence[_GroupLimits]
) -> tuple[_ByLevel, _ByLevel]:
    """Return the most and the fewest members by domain for one alternative.

    `caps`: by level and domain. `places`: for each constraint the level of its groups, and the domain of each group.
    `limits`: the limits of each constraint's groups.
    """
    most: _ByLevel = tuple(map(dict, caps))
    least: _ByLevel = tuple({} for _ in caps)
    for (level, domains), limit in zip(places, limits, strict=True):
        for name, domain in domains.items():
            if name in limit.most:
                most[level][domain] = min(limit.most[name], most[level].get(domain, limit.most[name]))
            if limit.least.get(name, 0) > 0:
                least[level][domain] = max(limit.least[name], least[level].get(domain, 0))
    return most, least


def _limits(instance: Instance, kind: MemberClass, rule: Spread) -> list[_GroupLimits] | None:
    """Return a topology spread constraint as limits of its groups. There is one alternative for each possible number of
    pods in the emptiest group after placement.

    None if such limits cannot express the constraint exactly.
    """
    if kind.shape not in rule.shapes or never_binds(rule):
        return [_GroupLimits({}, {})]
    if rule.victims:
        return None
    counts = Counter(dict(rule.counts))
    for seat in instance.pinned:
        name = rule.group[instance.pinned_node(seat)]
        if name is not None and name in counts and instance.member(seat).shape in rule.counted:
            counts[name] += 1
    if kind.shape not in rule.counted:
        emptiest = 0 if rule.from_zero else min(counts.values())
        return [_GroupLimits({name: 0 for name, count in counts.items() if count > emptiest + rule.skew}, {})]
    least = max(0, needed_members(instance.problem) - len(instance.pinned))
    opened = {rule.group[node] for node in np.flatnonzero(instance.capacity[kind.shape]).tolist()}
    return [
        _GroupLimits(
            {name: max(0, emptiest + rule.skew - count) for name, count in counts.items()},
            {name: emptiest - count for name, count in counts.items() if count < emptiest},
        )
        for emptiest in possible_emptiest(rule, opened, least, len(kind.ranks), counts)
    ]


def domain_tables_of(instance: Instance, kind: MemberClass, rules: CountingRules) -> "DomainTables | None":
    """Return the tables of a gang of one member class; None if its amounts are too large to be packed into words."""
    layout = layout_of(*around_split(sums_of(instance, kind)))
    return None if layout is None else DomainTables(instance, kind, rules, layout)


def around_split(sums: Mapping[str, Sums]) -> tuple[Sums, Sums]:
    """Return `sums` in the order of the goals, divided in two: the sums before the parts (a) and (b) of waste, and the
    sums after these parts.

    `sums`: by term of a goal, named as in `solver.objective.ordered`. The parts (a) and (b) are the potential of a
    domain and of its parents. They are known without a table, so the tables leave them out.
    """
    before = {term for term in sums if precedes(term, "waste/a")}
    primary = ordered({term: sums[term] for term in before})
    secondary = ordered({term: sums[term] for term in sums.keys() - before})
    return [*itertools.chain(*primary)], [*itertools.chain(*secondary)]


def sums_of(instance: Instance, kind: MemberClass) -> dict[str, Sums]:
    """Return the sums that a domain's table holds, each with its largest possible value, by term of a goal as named in
    `solver.objective.ordered`.

    A node's `terminating` sum is at most what terminating pods hold there, because members never use more than `free`.
    """
    members, depth = len(kind.ranks), instance.tree.depth
    shape = instance.problem.shapes[kind.shape]
    weights = _weights(instance, kind)
    spread = int(weights.max(initial=0) - weights.min(initial=0))
    usable = instance.capacity[kind.shape] > 0
    leaving = int(np.maximum(instance.problem.nodes.terminating[usable, instance.scarce], 0).sum())
    total = sum(instance.potential)
    return {
        "compactness": [(f"touched {level}", members) for level in range(depth)],
        "preferences": [("preferences", members * spread)],
        "terminating": [("terminating", min(leaving, members * shape.requests[instance.scarce]))],
        "waste/c": [(f"room {level}", total) for level in range(depth)],
        "waste/d": [(f"left {level}", members) for level in range(depth)],
    }


def _weights(instance: Instance, kind: MemberClass) -> Counts:
    """Return, by node, the weight of the node preferences that it fulfils; 0 if the gang cannot run there."""
    shape = instance.problem.shapes[kind.shape]
    weights = np.zeros(len(instance.problem.nodes), dtype=np.int64)
    for node, weight in shape.preferences.items():
        if node in shape.nodes:
            weights[node] = weight
    return weights


class DomainTables:
    """The tables of a gang of one member class, each computed at its first use. Alike domains share one key and one
    table.

    A sum that has no place in `layout` is left out. `raw[key]`: the product of the children's tables, before the
    domain's own part is added. `weights[node]`: the weight of the node preferences that it fulfils. `now[node]`: the
    free capacity of the scarcest resource that no terminating pod holds.
    """

    def __init__(self, instance: Instance, kind: MemberClass, rules: CountingRules, layout: Layout) -> None:
        self.instance, self.kind, self.rules, self.layout = instance, kind, rules, layout
        self.members = len(kind.ranks)
        self.products = Products(layout.words, self.members, instance.deadline)
        self.raw: dict[int, WordTable] = {}
        self._shape = instance.problem.shapes[kind.shape]
        self._request = self._shape.requests[instance.scarce]
        self._capacity = instance.capacity[kind.shape].tolist()
        nodes = instance.problem.nodes
        self.now = np.maximum(nodes.free[:, instance.scarce] - nodes.terminating[:, instance.scarce], 0)
        self._leaving = np.maximum(nodes.terminating[:, instance.scarce], 0).tolist()
        self.weights = _weights(instance, kind)
        self.best_weight = int(self.weights.max(initial=0))
        self._keys: dict[tuple[object, ...], int] = {}
        self._domains: dict[tuple[int, int], Domain | None] = {}
        self._primary_only = layout.words == layout.primary

    @cached_property
    def primary(self) -> "DomainTables":
        """The gang's tables with the primary words only: goal 3, without waste.

        More domains share a table than with all words: without waste, the only free capacity that counts is the part
        that terminating pods hold.
        """
        return DomainTables(self.instance, self.kind, self.rules, self.layout.primary_alone)

    def table(self, domain: Domain) -> WordTable:
        """Return the table of a domain: its best goal vector for each number of members."""
        return self.products.tables[domain.key]

    def domains(self, level: int) -> list[Domain]:
        """Return all domains of a level (or ROOT, the whole cluster) that can hold a member."""
        found = (self.domain(level, number) for number in range(self.instance.tree.count(level)))
        return [domain for domain in found if domain is not None]

    def domain(self, level: int, number: int) -> Domain | None:
        """Return a domain of a level (or ROOT, the whole cluster) by its number; None if it can hold no member."""
        if (level, number) not in self._domains:
            self._domains[level, number] = self._written(level, number)
        return self._domains[level, number]

    def _written(self, level: int, number: int) -> Domain | None:
        """Return a domain, with its table computed; None if the domain can hold no member. Raises `OutOfTimeError`."""
        self.instance.deadline.check()
        if level == self.instance.tree.depth - 1:
            most = self._capacity[number]
            return (
                Domain(level, number, self._node_key(number, most), self.instance.name_rank[number]) if most else None
            )
        found = (self.domain(level + 1, child) for child in self.instance.tree.children(level, number))
        children = [child for child in found if child is not None]
        return self._domain(level, number, children) if children else None

    def _domain(self, level: int, number: int, children: list[Domain]) -> Domain:
        """Return a domain with these children. Its table is computed, unless an alike domain has one."""
        by_key: dict[int, list[Domain]] = {}
        for child in sorted(children, key=lambda each: each.first_name):
            by_key.setdefault(child.key, []).append(child)
        signature = tuple(sorted((key, len(alike)) for key, alike in by_key.items()))
        potential, limits = self._potential(level, number), self._limits(level, number)
        key = self._key(("domain", level, signature, potential, limits))
        if key not in self.raw:
            self.raw[key] = self.products.product(signature)
            self.products.tables.append(self._with_own(level, potential, limits, self.raw[key]))
        groups = tuple((each, tuple(alike)) for each, alike in by_key.items())
        return Domain(level, number, key, min(child.first_name for child in children), groups)

    def _node_key(self, node: int, most: int) -> int:
        """Return the key of the table of a node that holds up to `most` members. The table is computed, unless an alike
        node has one.
        """
        level = self.instance.tree.depth - 1
        now, leaving = int(self.now[node]), self._leaving[node]
        weight = self._shape.preferences.get(node, 0)
        potential, limits = self._potential(level, node), self._limits(level, node)
        waits = leaving > 0 and now < most * self._request
        key = self._key(("node", most, (now, leaving) if waits else None, weight, potential, limits))
        if key not in self.raw:
            counts = np.arange(min(most, self.members) + 1, dtype=np.int64)
            alone = np.zeros((self.layout.words, len(counts)), dtype=np.int64)
            self._add(alone, "preferences", counts * (self.best_weight - weight))
            if waits:
                # The layout has bits for amounts up to `leaving`. Only tables in which victims are gone (`no_room`)
                # exceed it.
                self._add(alone, "terminating", np.clip(counts * self._request - now, 0, leaving))
            self.raw[key] = alone
            self.products.tables.append(self._with_own(level, potential, limits, alone))
        return key

    def _with_own(self, level: int, potential: int, limits: tuple[int, int], inside: WordTable) -> WordTable:
        """Return the table `inside`, the product of a domain's children, with the domain's own part added. Numbers of
        members that the domain's limits forbid become infeasible.

        table[:, n] = inside[:, n] + own(n), and own(0) = 0, because a domain without a member costs nothing. `limits`:
        the fewest and the most members. At a node, `inside` is the node's cost without the domain's own part.
        """
        table = inside.copy()
        if level == ROOT:
            return table
        counts = np.arange(table.shape[1], dtype=np.int64)
        used = (counts > 0).astype(np.int64)
        self._add(table, f"touched {level}", used)
        self._add(table, f"room {level}", used * potential)
        self._add(table, f"left {level}", used * (potential - counts * self._request > 0))
        least, most = limits
        forbidden = (counts < least) | (counts > most)
        for of in self.rules.multiple[level]:
            forbidden |= counts % of != 0
        table[:, forbidden] = INFEASIBLE_COST
        table[:, table[0] >= INFEASIBLE_COST] = INFEASIBLE_COST
        return table

    def _add(self, table: WordTable, component: str, amounts: WordTable) -> None:
        """Add `amounts` (by number of members) to the value `component` of a table's goal vectors, in place. Nothing
        happens if the layout leaves the value out.
        """
        if component in self.layout.at:
            word, shift = self.layout.at[component]
            table[word] += amounts << shift

    def _potential(self, level: int, number: int) -> int:
        """Return the potential of a domain. Return 0 if the tables leave out waste, because only waste depends on the
        potential.
        """
        return 0 if self._primary_only else self.instance.domain_potential(level, number)

    def _limits(self, level: int, number: int) -> tuple[int, int]:
        """Return the fewest and the most members that a domain may have, by `CountingRules.least` and
        `CountingRules.caps`. Capacity and multiples are not considered.
        """
        if level == ROOT:
            return 0, _LARGE
        return self.rules.least[level].get(number, 0), self.rules.caps[level].get(number, _LARGE)

    def encloses(self, level: int, members: int) -> NDArray[np.bool_]:
        """Return, by domain of `level` (or ROOT, the whole cluster), whether all `members` members can be in this
        domain and none elsewhere, although some domains must have members (`CountingRules.least`).

        They cannot if a domain elsewhere must have members, or if a wider domain around it must have more than
        `members` members.
        """
        tree = self.instance.tree
        found = np.ones(tree.count(level), dtype=np.bool_)
        for at, least in enumerate(self.rules.least):
            forced = list(least)
            if at >= level:
                around = np.unique(tree.around(at, level)[forced])
                found &= np.isin(np.arange(len(found)), around) & (len(around) == 1) if forced else True
            elif forced:
                enough = len(forced) == 1 and members >= least[forced[0]]
                found &= (tree.around(level, at) == forced[0]) & enough
        return found

    def _key(self, signature: tuple[object, ...]) -> int:
        return self._keys.setdefault(signature, len(self._keys))
