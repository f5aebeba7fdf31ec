"""Lower bounds for goal 1: the least price of the victims that each member on a node needs, by counting.

A price is one number whose digits are the parts of goal 1: victims by priority, broken gangs, evicted amount of the
scarcest resource. If a running gang must be evicted whole, its price is divided among its members on nodes where the
planned gang may run. So the sum of the prices of the victims on a plan's nodes is never more than the plan's price.
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
"""The bits of a price that the table of slots holds. If a price has more, the lower ones are cut off."""
_SHARE_BITS = 8
"""In each part of a price, the smallest unit is 1/256 (8 bits). A share of a gang's price is rounded to this unit, so
it needs no bits of another part.
"""
_WORD = 48
"""The most bits of neighbouring digits that are added as one number, so that sums fit 64 bits."""
MANY = 32
"""The most members that may fit on one node. If more fit, no prices are computed."""


@dataclass(frozen=True, slots=True)
class LexicographicWeights:
    """The weights by which goal 1 (victims) becomes one number, the price. The digits of a price are the victims by
    priority, the broken gangs and the evicted amount.

    `priority`: by priority, the weight of one victim of this priority. `broken`: the weight of a broken gang. `unit`:
    the weight of one unit of the scarcest resource. `scarce`: the position of the scarcest resource. `shift`: how many
    low bits of a price the entries of `EvictionPrices.slots` leave out, because they would not fit. `cuts`: bit
    positions that divide a price into parts of whole digits; the last position is 0.
    """

    priority: dict[int, int]
    broken: int
    unit: int
    scarce: int
    shift: int
    cuts: tuple[int, ...]

    def of(self, victims: VictimTable, victim: int) -> int:
        """Return the price of a victim by itself, without the gang that its eviction may break."""
        return self.priority[int(victims.priority[victim])] + self.unit * int(victims.requests[victim, self.scarce])

    def parts(self, price: int) -> tuple[int, ...]:
        """Return a price as numbers to compare one after the other, the most important first.

        Prices of several nodes may be summed part by part, because no part of a victim's price carries into the next.
        """
        found = []
        for cut in self.cuts:
            found.append(price >> cut)
            price &= (1 << cut) - 1
        return tuple(found)

    def price(self, parts: Iterable[int]) -> int:
        """Return a price as one number, given its parts: numbers that are compared one after the other, the most
        important first. The parts may be sums over several nodes.
        """
        return sum(part << cut for part, cut in zip(parts, self.cuts, strict=True))


@dataclass(frozen=True)
class _Columns:
    """Arrays with one row for each useful victim, in the order of `instance.useful`.

    `held`: victims x resources, their requests. `positions`: the victims' positions in the problem. `gang`: the running
    gang of each victim; -1 for a victim without a gang.
    """

    positions: Counts
    node: Counts
    priority: Counts
    gang: Counts
    held: Counts


@dataclass(frozen=True)
class EvictionPrices:
    """Lower bounds on the price of victims for each node of an instance. One domain of `level` (or ROOT, the whole
    cluster) must hold the gang.

    `slots[node, k]`: a lower bound on the additional price of victims if a node gets member k + 1 after k members, in
    units of `1 << weights.shift`. `needed`: the members that are missing to the gang's minimum. `shares[victim]`: for a
    victim whose eviction means that its gang is evicted whole, its share of the gang's price. `fixed`: victims that can
    never be evicted. `elsewhere[victim]`: members of the same running gang that are evicted with this victim. They are
    in other domains of `level`, or on nodes where the planned gang may not run. In each domain, only one member of a
    running gang has such an entry. So the members elsewhere are added to a plan's victims only once.
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
        """Return the price of evicting these victims: the value of goal 1 as one number."""
        problem, gone = self.instance.problem, tuple(victims)
        broken = len(gangs_broken(problem, gone))
        return sum(self.weights.of(problem.victims, victim) for victim in gone) + broken * self.weights.broken

    def shares_on(self, node: int) -> dict[int, int]:
        """Return a lower bound on the price of each victim on a node, by victim. A victim that can never be evicted has
        no entry.
        """
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
        """Two arrays that list the useful victims in order of their nodes: the victims' positions in `instance.useful`,
        and their nodes.
        """
        order: Counts = np.argsort(self.columns.node, kind="stable")
        return order, self.columns.node[order]

    def least(self, domain: int) -> int:
        """Return a lower bound on the price of the victims of any plan in a domain. `INFEASIBLE_PRICE`: the domain has
        no plan.
        """
        least, _ = self._cheapest(domain)
        return INFEASIBLE_PRICE if least >= INFEASIBLE_SLOT else least << self.weights.shift

    def cheap_nodes(self, domain: int, plenty: int, at_least: int = 0) -> tuple[int, ...]:
        """Return the cheapest nodes of a domain, as many as together have `plenty` times the needed capacity, and no
        fewer than `at_least`.
        """
        nodes = np.array(self.instance.tree.nodes(self.level, domain), dtype=np.int64)
        nodes = nodes[np.argsort(self.slots[nodes, 0], kind="stable")]
        nodes = nodes[self.slots[nodes, 0] < INFEASIBLE_SLOT]
        rooms = np.cumsum((self.slots[nodes] < INFEASIBLE_SLOT).sum(axis=1))
        enough = int(np.searchsorted(rooms, plenty * self.needed)) + 1
        return tuple(nodes[: max(enough, at_least)].tolist())

    def nodes_within(self, domain: int, most: int) -> list[int]:
        """Return the nodes of a domain that can be in a plan whose victims cost at most `most` (a price)."""
        least, dearest = self._cheapest(domain)
        nodes = np.array(self.instance.tree.nodes(self.level, domain), dtype=np.int64)
        first = self.slots[nodes, 0]
        within = min(most >> self.weights.shift, INFEASIBLE_SLOT - 1) - least + dearest
        found: list[int] = nodes[(first <= min(max(within, 0), INFEASIBLE_SLOT - 1))].tolist()
        return found

    def _cheapest(self, domain: int) -> tuple[int, int]:
        """Return two costs: the sum of the cheapest slots that the gang needs in a domain, and the most expensive one
        of these slots. A slot is one additional member on a node.

        Both are `INFEASIBLE_SLOT` if the domain has too few slots.
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
    """Return lower bounds on the price of victims for each node of an instance with evictions.

    `level`: one domain of this level must hold the gang; ROOT: the whole cluster. None if more than `MANY` members may
    fit on one node. Raises `OutOfTimeError`.
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
    """Return the position, node, priority, gang and requests of each useful victim, as arrays."""
    victims, useful = instance.problem.victims, np.array(instance.useful, dtype=np.int64)
    return _Columns(
        useful, victims.node[useful], victims.priority[useful], victims.gang[useful], victims.requests[useful]
    )


def _lexicographic_weights(instance: Instance, columns: _Columns) -> LexicographicWeights:
    """Return the weights of a price's digits. Each digit has enough bits for the largest value in a best plan."""
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
    """Group neighbouring digits into words of at most `_WORD` bits. `digits`: the bits of each digit. Each word keeps
    `_SHARE_BITS` bits for shares of a gang's price.
    """
    words = list[list[int]]()
    for bits in digits:
        if words and sum(words[-1]) + bits + _SHARE_BITS <= _WORD:
            words[-1].append(bits)
        else:
            words.append([bits])
    return words


def _largest(instance: Instance, columns: _Columns, amounts: Counts) -> int:
    """Return an upper bound on the sum of `amounts` over the victims of a best plan. `amounts`: one amount for each
    useful victim.

    Of the victims without a gang, a best plan evicts only those on a few nodes: at most as many nodes as there are
    pending members. All victims with a gang count, because a gang may be evicted whole.
    """
    alone = columns.gang < 0
    on = np.zeros(len(instance.problem.nodes), dtype=np.int64)
    np.add.at(on, columns.node[alone], amounts[alone])
    return int(np.sort(on)[::-1][: len(instance.pending)].sum() + amounts[~alone].sum())


@dataclass(frozen=True, slots=True)
class _Gangs:
    """For victims that their running gang cannot spare, because their eviction means that the gang is evicted whole:
    the values `shares`, `fixed` and `elsewhere` of `EvictionPrices`.
    """

    shares: dict[int, int]
    fixed: set[int]
    elsewhere: dict[int, tuple[int, ...]]


def _gangs(instance: Instance, level: int, columns: _Columns, weights: LexicographicWeights) -> _Gangs:
    """Return, for each victim that its running gang cannot spare, its share of the price of evicting that whole gang.

    If one such victim is evicted, so is the whole gang. In each domain of `level` by itself, the price is divided among
    the gang's victims there. So the shares of the victims in one domain never exceed the price.

    If some pod of such a gang may not be evicted, these victims can never be evicted (`_Gangs.fixed`).
    """
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
    """Return the victims of a running gang that are on nodes where the planned gang may run, one list per domain of
    `level`.
    """
    nodes, domains = instance.problem.victims.node, instance.tree.domains(level)
    inside: dict[int, list[int]] = {}
    for victim in gang_victims:
        if instance.usable[nodes[victim]]:
            inside.setdefault(int(domains[nodes[victim]]), []).append(victim)
    return [*inside.values()]


def _add_shares(
    found: _Gangs, weights: LexicographicWeights, own: dict[int, int], near: list[int], needed: frozenset[int]
) -> None:
    """Divide the price of a running gang that is evicted whole among its `needed` members in one domain, and record the
    shares in `found`.

    `near`: the gang's members in the domain. Members that are not needed pay their own price, because they may be
    evicted alone. `own`: the price of each member by itself.
    """
    paying = [victim for victim in near if victim in needed]
    if not paying:
        return
    alone = sum(own[victim] for victim in near if victim not in needed)
    found.shares.update(_divided(weights, sum(own.values()) + weights.broken - alone, paying))
    if len(near) < len(own):
        found.elsewhere[paying[0]] = tuple(victim for victim in own if victim not in near)


def _divided(weights: LexicographicWeights, price: int, near: list[int]) -> dict[int, int]:
    """Divide a gang's price among its members `near`, and return the share of each.

    Each part of the price (`LexicographicWeights.parts`) is divided separately. If a division leaves a remainder, the
    first members in `near` bear one unit more.
    """
    shares = dict.fromkeys(near, 0)
    for part, cut in zip(weights.parts(price), weights.cuts, strict=True):
        share, short = divmod(part, len(near))
        for place, victim in enumerate(near):
            shares[victim] += (share + (place < short)) << cut
    return shares


def _paid(columns: _Columns, weights: LexicographicWeights, gangs: _Gangs) -> Counts:
    """Return, by useful victim, a lower bound on its price in units of `1 << weights.shift`; `INFEASIBLE_SLOT` if the
    victim cannot be evicted.

    Prices are rounded down, so sums stay lower bounds.
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
