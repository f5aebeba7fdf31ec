"""Exact evictions for a gang of alike members: a dynamic programme in which the cost of victims is one more sum over
nodes.

The relaxation assumes that any victim may be evicted alone. Then the best victims on a node depend only on the number
of members there, and all goals are sums over domains (`solver.tree_dp.min_plus`). If a running gang must be evicted
whole, its price is divided among its members (`solver.eviction.lower_bounds`). So the relaxation never overestimates
the cost of a plan. If the best relaxed plan evicts running gangs only whole and respects all limits on evictions, it is
the best plan. Otherwise the result is unknown.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from solver.bounds.eviction_closure import cleared, gangs_broken, gangs_cut
from solver.bounds.member_classes import MemberClass
from solver.capacity import Counts
from solver.cp_sat.solve import Solved
from solver.eviction.lower_bounds import INFEASIBLE_PRICE, EvictionPrices, LexicographicWeights
from solver.eviction.node_victims import VictimChoice, VictimSearch
from solver.instance import Instance
from solver.objective import ComparisonKey, ordered
from solver.tree_dp.min_plus import INFEASIBLE_COST, Layout, layout_of
from solver.tree_dp.reconstruct import first_node, seated
from solver.tree_dp.single_class_counts import holds
from solver.tree_dp.single_class_tables import (
    CountingRules,
    Domain,
    DomainTables,
    around_split,
    countable,
    sums_of,
)

_MEMBERS = 128
"""The most members of a gang that is solved here: tables for more would be large."""
_NODES = 3_000
"""The most usable nodes of a gang that is solved here."""
_EFFORT = 50_000
"""The most choices of victims to examine, on all nodes together. To examine so many takes a fraction of a second."""
_TABLE_WORDS = 4
"""How many words (64-bit integers) of the nodes' tables count as one examined choice of victims.

The largest tables take longer to compute than the choices, up to two seconds. The CP-SAT search that runs if this
method gives up takes longer still.
"""
_PLENTY = 2
"""The first plan uses the cheapest nodes that together have this many times the needed capacity."""


class TooLargeError(Exception):
    """The tables would be too large, or there are too many choices of victims to examine."""


def solve_eviction_dp(instance: Instance, prices: EvictionPrices) -> Solved | None:
    """Return the best plan with evictions; None if the relaxation does not find it, or does not apply to the gang.

    `prices`: the lower bounds of the nodes, for the gang's required level.
    """
    if instance.problem.conflicts or any(rule.victims for rule in instance.problem.spreads):
        return None  # whether a node may be used depends on which victims are evicted, not only on their capacity
    room = cleared(instance)
    found = countable(room)
    if found is None or not 0 < prices.needed <= _MEMBERS:
        return None
    kind, rules = found
    if prices.needed < len(kind.ranks):
        return None
    try:
        return _EvictionDp(instance, room, kind, rules, prices).best()
    except TooLargeError:
        return None


class _EvictionDp:
    """Searches the domains of the gang's required level for the best plan, in order of the lower bounds on the price of
    victims in each domain.

    `room`: the instance as if all useful victims were gone. `choices[node]`: the best choices of victims on a node for
    0, 1, ... members.
    """

    def __init__(
        self, instance: Instance, room: Instance, kind: MemberClass, rules: CountingRules, prices: EvictionPrices
    ) -> None:
        self.instance, self.room, self.kind, self.rules, self.prices = instance, room, kind, rules, prices
        self.members = len(kind.ranks)
        self.choices: dict[int, list[VictimChoice | None]] = {}
        self.effort = 0

    def best(self) -> Solved | None:
        """Return the best plan in any domain. None if no domain has a plan, or if the best relaxed plan breaks a limit
        on evictions. Raises `TooLargeError`.
        """
        domains = range(self.instance.tree.count(self.prices.level))
        least = {domain: self.prices.least(domain) for domain in domains}
        best: _DomainPlan | None = None
        for domain in sorted(domains, key=lambda each: (least[each], each)):
            if least[domain] >= (INFEASIBLE_PRICE if best is None else best.price + 1):
                break
            leaf = self._best_in(domain, INFEASIBLE_PRICE - 1 if best is None else best.price)
            if leaf is not None and (best is None or leaf.better(best)):
                best = leaf
        return None if best is None else self._solved(best)

    def _best_in(self, domain: int, most: int) -> "_DomainPlan | None":
        """Return the best relaxed plan in a domain if the price of its victims is at most `most`.

        If every plan in the domain is more expensive, the result is None or one of these plans.
        """
        cheap = self.prices.cheap_nodes(domain, _PLENTY)
        first = self._leaf(cheap) if most == INFEASIBLE_PRICE - 1 else None
        within = self.prices.nodes_within(domain, most if first is None else min(most, first.price))
        return first if first is not None and set(within) <= set(cheap) else self._leaf(within)

    def _leaf(self, nodes: Iterable[int]) -> "_DomainPlan | None":
        """Return the best relaxed plan over these nodes of one domain; None if they cannot hold the gang. Raises
        `TooLargeError`.
        """
        chosen = sorted(nodes)
        if len(chosen) > _NODES:
            raise TooLargeError
        inside = np.zeros(len(self.instance.problem.nodes), dtype=np.bool_)
        inside[chosen] = True
        instance = replace(self.room, capacity=np.where(inside, self.room.capacity, 0))
        for node in self.instance.deadline.iterate(chosen):
            if node not in self.choices:
                self.choices[node] = self._choices_on(node)
        tables = _eviction_tables(
            instance, (self.kind, self.rules), self.prices.weights, {node: self.choices[node] for node in chosen}
        )
        self._spend(len(chosen) * tables.layout.words // _TABLE_WORDS)
        best: _DomainPlan | None = None
        for level in range(self.instance.tree.depth - 1, max(self.prices.level, self.rules.required) - 1, -1):
            for number in sorted({self.instance.tree.domain(level, node) for node in chosen}):
                leaf = _leaf_of(tables, level, number)
                if leaf is not None and (best is None or leaf.better(best)):
                    best = leaf
        return best

    def _choices_on(self, node: int) -> list[VictimChoice | None]:
        """Return, for 0, 1, ... members, the best choice of victims on a node; None for a number of members that does
        not fit.
        """
        shape = self.kind.shape
        requests = self.instance.problem.shapes[shape].requests
        search = VictimSearch(self.instance, node, self.prices.shares_on(node), requests, self.prices.elsewhere)
        found, spent = [], 0
        for count in range(min(self.members, int(self.room.capacity[shape, node])) + 1):
            found.append(search.best(count))
            self._spend(search.effort - spent)
            spent = search.effort
        return found

    def _spend(self, effort: int) -> None:
        """Add `effort` (examined choices of victims) to the effort so far. Raises `TooLargeError` if the sum exceeds
        its limit.
        """
        self.effort += effort
        if self.effort > _EFFORT:
            raise TooLargeError

    def _solved(self, leaf: "_DomainPlan") -> Solved | None:
        """Return the relaxed plan `leaf` as a solution; None if it is not a valid plan, or if its price differs from
        the price in the relaxation.

        The plan is not valid if it cuts a running gang below its minimum without evicting it whole, or exceeds a
        disruption budget. The price differs if a gang is evicted whole although none of the members that bear a share
        of its price is a victim. None also if the price of a node's victims is only a lower bound.
        """
        problem = self.instance.problem
        row = seated(leaf.tables, leaf.domain, self.members)
        chosen = [self.choices[node][count] for node, count in sorted(Counter(row).items())]
        gone = frozenset(victim for choice in chosen if choice is not None for victim in choice.victims)
        cut, broken = gangs_cut(problem.victims, gone), gangs_broken(problem, gone)
        if any(cut[gang] < problem.victim_gangs[gang].running for gang in broken):
            return None
        if self.prices.of(gone) != leaf.price:
            return None
        if any(len(budget.victims & gone) > budget.allowed for budget in problem.budgets):
            return None
        if any(choice is None or not choice.exact for choice in chosen):
            return None
        rows: list[tuple[int | None, ...]] = [() for _ in problem.sets]
        rows[self.kind.pod_set] = tuple(row)
        return Solved(tuple(rows), tuple(sorted(gone)), (), proven=True)


@dataclass(frozen=True, slots=True)
class _Costs:
    """The costs of victims for the tables. `choices[node]`: the best choices of victims for 0, 1, ... members.

    `largest`: by name of a sum in the tables, its upper bound. `starts`: the start times of all victims, ascending.
    """

    weights: LexicographicWeights
    choices: dict[int, list[VictimChoice | None]]
    largest: dict[str, int]
    starts: list[int]


class _EvictionTables(DomainTables):
    """Tables for alike members in which the price of a node's victims (`VictimChoice`) is part of the node's cost."""

    def __init__(
        self, instance: Instance, rule: tuple[MemberClass, CountingRules], layout: Layout, costs: _Costs
    ) -> None:
        super().__init__(instance, *rule, layout)
        self.costs = costs

    def sums(self, domain: Domain) -> dict[str, int]:
        """Return the values of the best plan with all members inside a domain, by name of a value in the tables.

        The values are the parts of goals that are sums over domains, such as the price of victims.
        """
        words = self.table(domain)[:, self.members].tolist()
        return {
            name: (words[word] >> shift) & ((1 << self.costs.largest[name].bit_length()) - 1)
            for name, (word, shift) in self.layout.at.items()
        }

    def _node_key(self, node: int, most: int) -> int:
        """Return the key of the table of a node that holds up to `most` members. Nodes with equal choices of victims
        share one table.
        """
        level = self.instance.tree.depth - 1
        choices = self.costs.choices[node][: min(most, self.members) + 1]
        weight = self._shape.preferences.get(node, 0)
        potential, limits = self.instance.potential[node], self._limits(level, node)
        costs = tuple(None if each is None else (each.price, each.waits, each.starts) for each in choices)
        key = self._key(("paid", costs, weight, potential, limits))
        if key not in self.raw:
            counts = np.arange(len(choices), dtype=np.int64)
            alone = np.zeros((self.layout.words, len(counts)), dtype=np.int64)
            self._add(alone, "preferences", counts * (self.best_weight - weight))
            for count, choice in enumerate(choices):
                self._pay(alone[:, count : count + 1], choice)
            self.raw[key] = alone
            self.products.tables.append(self._with_own(level, potential, limits, alone))
        return key

    def _pay(self, column: Counts, choice: VictimChoice | None) -> None:
        """Add the cost of a choice of victims to one column of a table, in place. `choice` None: even all victims free
        too little, so the column becomes infeasible.
        """
        if choice is None:
            column[:] = INFEASIBLE_COST
            return
        for name, part in _parts(self.costs.weights, choice.price):
            self._add(column, name, np.array([part]))
        self._add(column, "terminating", np.array([choice.waits]))
        for start, times in Counter(choice.starts).items():
            self._add(column, _started(start), np.array([times]))


def _parts(weights: LexicographicWeights, price: int) -> list[tuple[str, int]]:
    """Return a price of victims in parts, because one word of a table may be too small for it.

    Each part is a pair: its name in the tables, such as `price 0`, and its value. The most important part comes first.
    """
    return [(f"price {place}", part) for place, part in enumerate(weights.parts(price))]


def _eviction_tables(
    instance: Instance,
    rule: tuple[MemberClass, CountingRules],
    weights: LexicographicWeights,
    choices: dict[int, list[VictimChoice | None]],
) -> _EvictionTables:
    """Return the tables in which each node offers the given choices of victims.

    `choices[node]`: the best choice of victims for 0, 1, ... members. `rule`: the gang's member class and its limits on
    counts. Raises `TooLargeError` if the sums do not fit into words.
    """
    kind, _ = rule
    given = [[each for each in options if each is not None] for options in choices.values()]
    dearest: dict[str, list[int]] = {}
    for options in given:
        parts = [dict(_parts(weights, each.price)) for each in options]
        for name in parts[0] if parts else ():
            dearest.setdefault(name, []).append(max(each[name] for each in parts))
    started = Counter[int]()
    for options in given:
        most = Counter[int]()
        for choice in options:
            most |= Counter(choice.starts)
        started += most
    primary, secondary = around_split(
        sums_of(instance, kind)
        | {
            "victims": [(name, sum(sorted(each, reverse=True)[: len(kind.ranks)])) for name, each in dearest.items()],
            "started": [(_started(start), most) for start, most in sorted(started.items())],
        }
    )
    layout = layout_of(primary, secondary)
    if layout is None:
        raise TooLargeError
    costs = _Costs(weights, choices, dict(primary + secondary), sorted(started))
    return _EvictionTables(instance, rule, layout, costs)


def _started(start: int) -> str:
    """Return the name, in the tables, of the number of victims with this start time."""
    return f"started {start}"


@dataclass(frozen=True, slots=True)
class _DomainPlan:
    """The best plan whose narrowest domain is `domain`. `price`: the value of goal 1 (victims) as one number.

    `score`: its goal values in their order, up to the victims' start times.
    """

    tables: _EvictionTables
    domain: Domain
    price: int
    score: ComparisonKey

    def better(self, other: "_DomainPlan") -> bool:
        """Return whether this plan is better than the plan `other`, whose domain shares no node with this one. If both
        are equally good, the plan whose first node name comes first is better.
        """
        if self.score != other.score:
            return self.score < other.score
        own, its = (first_node(each.tables, each.domain, each.tables.members) for each in (self, other))
        return own < its


def _leaf_of(tables: _EvictionTables, level: int, number: int) -> _DomainPlan | None:
    """Return the best plan of all members in a domain; None if the members do not fit.

    Also None if the best plan uses only one domain of the next narrower level, because the plan is then found in that
    narrower domain.
    """
    domain = tables.domain(level, number)
    if domain is None or not holds(tables, domain, tables.members):
        return None
    sums = tables.sums(domain)
    depth = tables.instance.tree.depth
    if level + 1 < depth and sums[f"touched {level + 1}"] == 1:
        return None
    node = tables.instance.tree.nodes(level, number)[0]
    inside = range(level + 1, depth)
    weights = tables.costs.weights
    paid = tuple(sums[f"price {place}"] for place in range(len(weights.cuts)))
    potential = tables.instance.domain_potential
    score = ordered(
        {
            "victims": paid,
            "compactness": tuple(sums[f"touched {each}"] if each > level else 1 for each in range(depth)),
            "preferences": (sums["preferences"],),
            "terminating": (sums["terminating"],),
            "waste/a": (potential(level, number),),
            "waste/b": tuple(potential(*each) for each in tables.instance.parents(level, node)),
            "waste/c": tuple(sums[f"room {each}"] for each in inside),
            "waste/d": tuple(sums[f"left {each}"] for each in inside),
            "started": tuple(-start for start in tables.costs.starts for _ in range(sums[_started(start)])),
        }
    )
    return _DomainPlan(tables, domain, weights.price(paid), score)
