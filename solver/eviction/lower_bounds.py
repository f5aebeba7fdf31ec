"""Lower bounds on the evictions that a member needs, node by node: bounds by counting for goal 1.

The parts of the goal (victims by priority, broken gangs, evicted amount of the scarcest resource) are digits of one
number, the price. If a gang goes whole, its price is divided into shares. Its members on nodes where the planned gang
may run pay these shares. So no plan costs less than the prices of the victims on its nodes.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from solver.bounds.eviction_closure import gangs_broken
from solver.capacity import Counts, needed_members
from solver.eviction.slot_costs import INFEASIBLE_SLOT, PaidVictims, most_on_a_node, slot_costs
from solver.instance import Instance
from solver.objective import ordered
from solver.problem import VictimTable

INFEASIBLE_PRICE = 1 << (1 << 20)
"""The price of an impossible plan, a Python integer of 2^20 bits.

Each priority adds at most 63 + 8 bits to a real price, so prices of 14,000 priorities stay below it.
"""
_SLOT_BITS = 59
"""How many bits of a price the table of slots holds. The lower bits are rounded down."""
_SHARE_BITS = 8
"""Prices are in 256ths, in each part separately, so that shares of a gang need no bits of another part."""
_WORD = 48
"""The most bits of neighbouring digits that are summed as one number. Sums fit 64 bits."""
MANY = 32
"""The most members on one node for which prices are computed."""


@dataclass(frozen=True, slots=True)
class LexicographicWeights:
    """The weights of the digits: a victim by its priority, a broken gang, a unit of the scarcest resource.

    `shift`: the low bits that do not fit the table of slots. `cuts`: bit positions that divide a price into parts of
    whole digits; the last one is 0.
    """

    priority: dict[int, int]
    broken: int
    unit: int
    scarce: int
    shift: int
    cuts: tuple[int, ...]

    def of(self, victims: VictimTable, victim: int) -> int:
        """Return the price of a victim by itself."""
        return self.priority[int(victims.priority[victim])] + self.unit * int(victims.requests[victim, self.scarce])

    def parts(self, price: int) -> tuple[int, ...]:
        """Return a price as numbers to compare one after the other.

        Prices of several nodes may be summed part by part, because no part of a victim's price carries into the next.
        """
        found = []
        for cut in self.cuts:
            found.append(price >> cut)
            price &= (1 << cut) - 1
        return tuple(found)

    def price(self, parts: Iterable[int]) -> int:
        """Return the price of summed parts."""
        return sum(part << cut for part, cut in zip(parts, self.cuts, strict=True))


@dataclass(frozen=True)
class _Columns:
    """The useful victims, by their place in `instance.useful`. `gang`: -1 for none."""

    positions: Counts
    node: Counts
    priority: Counts
    gang: Counts
    held: Counts


@dataclass(frozen=True)
class EvictionPrices:
    """Prices for one level, of which one domain must hold the gang.

    `slots[node, k]`: a lower bound on the additional cost of member k + 1 on a node, in units of `1 << weights.shift`.
    `needed`: the missing members of the minimum. `shares[victim]`: the lower bound for a member of a gang that goes
    whole. `fixed`: victims that can never go. `elsewhere[victim]`: the members that go with it and are where the
    planned gang may not run. Each domain has such an entry for one member of a gang.
    """

    instance: Instance
    level: int
    needed: int
    slots: Counts
    weights: LexicographicWeights
    shares: dict[int, int]
    fixed: frozenset[int]
    elsewhere: dict[int, tuple[int, ...]]
    columns: _Columns

    def of(self, victims: Iterable[int]) -> int:
        """Return the price of a plan that evicts these victims."""
        problem, gone = self.instance.problem, tuple(victims)
        broken = len(gangs_broken(problem, gone))
        return sum(self.weights.of(problem.victims, victim) for victim in gone) + broken * self.weights.broken

    def shares_on(self, node: int) -> dict[int, int]:
        """Return the victims that may go from a node, with a lower bound on the price of each."""
        order, nodes = self._by_node
        victims_on_node = self.columns.positions[
            order[np.searchsorted(nodes, node) : np.searchsorted(nodes, node + 1)]
        ].tolist()
        victims = self.instance.problem.victims
        return {
            victim: self.shares[victim] if victim in self.shares else self.weights.of(victims, victim)
            for victim in victims_on_node
            if victim not in self.fixed
        }

    @cached_property
    def _by_node(self) -> tuple[Counts, Counts]:
        """The places of victims in order of their nodes, and the nodes."""
        order: Counts = np.argsort(self.columns.node, kind="stable")
        return order, self.columns.node[order]

    def least(self, domain: int) -> int:
        """Return a lower bound on the price of a plan in a domain; `INFEASIBLE_PRICE`: there is no plan."""
        least, _ = self._cheapest(domain)
        return INFEASIBLE_PRICE if least >= INFEASIBLE_SLOT else least << self.weights.shift

    def cheap_nodes(self, domain: int, plenty: int, at_least: int = 0) -> tuple[int, ...]:
        """Return the cheapest nodes of a domain, with `plenty` times the needed capacity, but `at_least` so
        many nodes.
        """
        nodes = np.array(self.instance.tree.nodes(self.level, domain), dtype=np.int64)
        nodes = nodes[np.argsort(self.slots[nodes, 0], kind="stable")]
        nodes = nodes[self.slots[nodes, 0] < INFEASIBLE_SLOT]
        rooms = np.cumsum((self.slots[nodes] < INFEASIBLE_SLOT).sum(axis=1))
        enough = int(np.searchsorted(rooms, plenty * self.needed)) + 1
        return tuple(nodes[: max(enough, at_least)].tolist())

    def nodes_within(self, domain: int, most: int) -> list[int]:
        """Return the nodes of a domain that a plan with a price of at most `most` can use."""
        least, dearest = self._cheapest(domain)
        nodes = np.array(self.instance.tree.nodes(self.level, domain), dtype=np.int64)
        first = self.slots[nodes, 0]
        within = min(most >> self.weights.shift, INFEASIBLE_SLOT - 1) - least + dearest
        found: list[int] = nodes[(first <= min(max(within, 0), INFEASIBLE_SLOT - 1))].tolist()
        return found

    def _cheapest(self, domain: int) -> tuple[int, int]:
        """Return the cost of the cheapest slots that a domain needs, and the most expensive of them.

        `INFEASIBLE_SLOT`: the domain has too few slots.
        """
        slots = self.slots[list(self.instance.tree.nodes(self.level, domain))].ravel()
        slots = slots[slots < INFEASIBLE_SLOT]
        if len(slots) < self.needed:
            return INFEASIBLE_SLOT, INFEASIBLE_SLOT
        if self.needed <= 0:
            return 0, 0
        cheapest = np.partition(slots, self.needed - 1)[: self.needed]
        return int(cheapest.sum()), int(cheapest.max())


def prices_of(instance: Instance, level: int) -> EvictionPrices | None:
    """Return the prices of an instance with evictions; None if too many members fit on one node.

    `level`: one domain of it (or of ROOT) must hold the gang. Raises `OutOfTimeError`.
    """
    problem = instance.problem
    most = most_on_a_node(instance)
    if most > MANY:
        return None
    needed = needed_members(problem) - len(instance.pinned)
    columns = _columns(instance)
    weights = _lexicographic_weights(instance, columns)
    gangs = _gangs(instance, level, columns, weights)
    slots = slot_costs(instance, PaidVictims(columns.node, columns.held, _paid(columns, weights, gangs)), most)
    return EvictionPrices(
        instance, level, needed, slots, weights, gangs.shares, frozenset(gangs.fixed), gangs.elsewhere, columns
    )


def _columns(instance: Instance) -> _Columns:
    victims, useful = instance.problem.victims, np.array(instance.useful, dtype=np.int64)
    return _Columns(
        useful, victims.node[useful], victims.priority[useful], victims.gang[useful], victims.requests[useful]
    )


def _lexicographic_weights(instance: Instance, columns: _Columns) -> LexicographicWeights:
    """Return the weights of the digits. Each digit has enough bits for the largest value in a best plan."""
    priorities = np.unique(columns.priority)[::-1].tolist()
    one = np.ones(len(columns.node), dtype=np.int64)
    sizes = {
        "victims": [_largest(instance, columns, one * (columns.priority == priority)) for priority in priorities],
        "gangs_broken": [len(np.unique(columns.gang[columns.gang >= 0]))],
        "evicted": [_largest(instance, columns, columns.held[:, instance.scarce])],
    }
    words = _words([size.bit_length() for sizes_of_term in ordered(sizes) for size in sizes_of_term])
    # The weight of each digit, the least important first.
    weights, cuts, place = list[int](), list[int](), 0
    for word in reversed(words):
        cuts.append(place)
        place += _SHARE_BITS
        for bits in reversed(word):
            weights.append(1 << place)
            place += bits
    by_term = {term: [weights.pop() for _ in sizes[term]] for term in ordered({term: term for term in sizes})}
    return LexicographicWeights(
        dict(zip(priorities, by_term["victims"], strict=True)),
        by_term["gangs_broken"][0],
        by_term["evicted"][0],
        instance.scarce,
        max(0, place - _SLOT_BITS),
        tuple(reversed(cuts)),
    )


def _words(digits: list[int]) -> list[list[int]]:
    """Group neighbouring digits, given by their bits, into words that also hold the bits of shares."""
    words = list[list[int]]()
    for bits in digits:
        if words and sum(words[-1]) + bits + _SHARE_BITS <= _WORD:
            words[-1].append(bits)
        else:
            words.append([bits])
    return words


def _largest(instance: Instance, columns: _Columns, amounts: Counts) -> int:
    """Return an upper bound on the summed amounts of victims in a best plan.

    Pods without a gang go from at most as many nodes as there are members. All pods of gangs may go.
    """
    alone = columns.gang < 0
    on = np.zeros(len(instance.problem.nodes), dtype=np.int64)
    np.add.at(on, columns.node[alone], amounts[alone])
    return int(np.sort(on)[::-1][: len(instance.pending)].sum() + amounts[~alone].sum())


@dataclass(frozen=True, slots=True)
class _Gangs:
    """Lower bounds for members of gangs that go whole, the victims that can never go, and victims that go together."""

    shares: dict[int, int]
    fixed: set[int]
    elsewhere: dict[int, tuple[int, ...]]


def _gangs(instance: Instance, level: int, columns: _Columns, weights: LexicographicWeights) -> _Gangs:
    """Price the members that a gang cannot spare: they go only if the gang goes whole."""
    problem = instance.problem
    members: dict[int, list[int]] = {}
    for place in np.flatnonzero(columns.gang >= 0).tolist():
        members.setdefault(int(columns.gang[place]), []).append(instance.useful[place])
    found = _Gangs({}, set(), {})
    for gang, gang_victims in instance.deadline.iterate(members.items()):
        running = problem.victim_gangs[gang]
        needed = [victim for victim in gang_victims if running.cannot_spare(victim)]
        if needed and len(gang_victims) < running.running:
            found.fixed.update(needed)
        elif needed:
            own = {victim: weights.of(problem.victims, victim) for victim in gang_victims}
            for near in _by_domain(instance, level, gang_victims):
                _add_shares(found, weights, own, near, frozenset(needed))
    return found


def _by_domain(instance: Instance, level: int, gang_victims: list[int]) -> list[list[int]]:
    """Return the victims of a gang that are where the planned gang may run, grouped by domain."""
    nodes, domains = instance.problem.victims.node, instance.tree.domains(level)
    inside: dict[int, list[int]] = {}
    for victim in gang_victims:
        if instance.usable[nodes[victim]]:
            inside.setdefault(int(domains[nodes[victim]]), []).append(victim)
    return [*inside.values()]


def _add_shares(
    found: _Gangs, weights: LexicographicWeights, own: dict[int, int], near: list[int], needed: frozenset[int]
) -> None:
    """Divide a gang's whole price among the needed members in one domain.

    The other members there pay their own price, because they may go alone. `own`: the price of each member by itself.
    """
    paying = [victim for victim in near if victim in needed]
    if not paying:
        return
    alone = sum(own[victim] for victim in near if victim not in needed)
    found.shares.update(_handed_out(weights, sum(own.values()) + weights.broken - alone, paying))
    if len(near) < len(own):
        found.elsewhere[paying[0]] = tuple(victim for victim in own if victim not in near)


def _handed_out(weights: LexicographicWeights, price: int, near: list[int]) -> dict[int, int]:
    """Return each member's share of a gang's price, part by part. The first members pay the remainder of
    the division.
    """
    shares = dict.fromkeys(near, 0)
    for part, cut in zip(weights.parts(price), weights.cuts, strict=True):
        share, short = divmod(part, len(near))
        for place, victim in enumerate(near):
            shares[victim] += (share + (place < short)) << cut
    return shares


def _paid(columns: _Columns, weights: LexicographicWeights, gangs: _Gangs) -> Counts:
    """Return, by victim, a lower bound on its price in units of the table of slots; `INFEASIBLE_SLOT`: it cannot go.

    The rows are parallel to `columns`. The shift rounds down, so sums stay lower bounds.
    """
    paid = (columns.held[:, weights.scarce] * weights.unit) >> weights.shift
    for priority, weight in weights.priority.items():
        paid[columns.priority == priority] += weight >> weights.shift
    for place in np.flatnonzero(columns.gang >= 0).tolist():
        victim = int(columns.positions[place])
        if victim in gangs.fixed:
            paid[place] = INFEASIBLE_SLOT
        elif victim in gangs.shares:
            paid[place] = gangs.shares[victim] >> weights.shift
    found: Counts = paid
    return found
