"""The state of the nodes while the greedy method places members: free capacity and evicted pods, with undo.

Victims are chosen node by node. Victims that free the most capacity for their weight come first
(`solver.heuristics.running_pods`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from solver.capacity import PLENTY, Counts, fitting
from solver.heuristics.running_pods import RunningPods, Weights
from solver.instance import Instance

_TRIES = 3
"""How often the victims of one node are chosen anew if a disruption budget or a running gang forbids the evictions."""


class EvictionCost(NamedTuple):
    """The cost of placing more members on a node, which may need evictions.

    `weight`: the summed weight of the victims. `members`: how many members fit once the victims are evicted.
    """

    weight: float
    victims: tuple[int, ...] = ()
    members: int = 1

    @property
    def each(self) -> float:
        """The weight of the victims per member: their summed weight divided by the number of members that fit."""
        return self.weight / self.members


FREE = EvictionCost(0.0)
"""The cost of a member that needs no eviction."""


class RemainingRoom:
    """The nodes of an instance while members are placed: `free` amounts, and the victims evicted so far (`gone`).

    `evicting` False: no further pods are evicted. `weight`: the summed weight of all evicted victims.
    """

    def __init__(self, instance: Instance, pods: RunningPods, *, evicting: bool) -> None:
        problem = instance.problem
        self._pods, self._rest_of_gang = pods, dict(pods.rest_of_gang)
        self.instance, self.problem, self.evicting = instance, problem, evicting
        self.free: Counts = problem.nodes.free.copy()
        self.weight = 0.0
        self.gone: set[int] = set()
        self._requests = [np.array(shape.requests, dtype=np.int64) for shape in problem.shapes]
        self._asked = [
            [(each, need) for each, need in enumerate(shape.requests) if need > 0] for shape in problem.shapes
        ]
        self._log: list[tuple[int, int, Counts | None, EvictionCost]] = []
        self._left_of_gang = Counter({place: gang.running for place, gang in enumerate(problem.victim_gangs)})
        self._left_in_budget = {place: budget.allowed for place, budget in enumerate(problem.budgets)}

    def mark(self) -> int:
        """Return a number for the present state. A later call of `back_to` with this number restores the state."""
        return len(self._log)

    def back_to(self, mark: int) -> None:
        """Undo all changes since `mark` was returned by the method `mark`."""
        while len(self._log) > mark:
            node, _, taken, eviction_cost = self._log.pop()
            if taken is not None:
                self.free[node] += taken
            self._moved(eviction_cost.victims, -1)
            self.weight -= eviction_cost.weight

    def take(self, node: int, shape: int, count: int) -> None:
        """Place `count` members of a shape on a node."""
        taken = count * self._requests[shape]
        self.free[node] -= taken
        self._log.append((node, shape, taken, FREE))

    def evict(self, eviction_cost: EvictionCost) -> None:
        """Evict the victims of `eviction_cost`. Their requests become free, and their weight is added to the attribute
        `weight`.
        """
        self._moved(eviction_cost.victims, 1)
        self.weight += eviction_cost.weight
        self._log.append((-1, -1, None, eviction_cost))

    def fits(self, node: int, shape: int) -> int:
        """Return how many more members of a shape fit on a node without further evictions."""
        free: list[int] = self.free[node].tolist()
        return min((max(0, free[each]) // need for each, need in self._asked[shape]), default=PLENTY)

    def at_least(self, shape: int, nodes: Counts) -> Weights:
        """Return, for each of `nodes`, an estimate of the least weight of the victims for one more member of the shape;
        infinite if no member can run there.

        If a victim frees enough for several members, each of these members bears a share of its weight.
        """
        # request: resources; free, missing, most, freeable: nodes x resources; all others: nodes. This estimates the
        # cost of one member. The number of victims is as if each were the largest, and each weighs as the lightest. If
        # the member needs all that can be freed, all victims count. The cost is shared by as many members as the
        # largest victim frees capacity for.
        request, free = self._requests[shape], self.free[nodes]
        missing = np.where(request > 0, np.maximum(request - free, 0), 0)
        fine = ~missing.any(axis=1)
        if not self.evicting:
            found = np.where(fine, 0.0, np.inf)
        else:
            most, lightest, freeable = self._pods.largest[nodes], self._pods.lightest[nodes], self._pods.freeable[nodes]
            victims = np.ceil(missing / np.maximum(most, 1)).max(axis=1)
            enough = (missing <= freeable).all(axis=1)
            everybody = (missing == freeable).any(axis=1, where=missing > 0)
            least = np.where(everybody, self._pods.heaviest[nodes], np.maximum(victims, 1) * lightest)
            freed = np.where(missing > 0, most // np.maximum(request, 1), PLENTY).min(axis=1)
            members = np.clip(freed, 1, self.instance.capacity[shape][nodes] + 1)
            found = np.where(fine, 0.0, np.where(enough, least / members, np.inf))
        bounds: Weights = np.where(self.instance.capacity[shape][nodes] > 0, found, np.inf)
        if shape not in self._pods.conflicting:
            return bounds
        for place in np.flatnonzero(np.isin(nodes, list(self._pods.conflicting.get(shape, ())))).tolist():
            bounds[place] = max(bounds[place], self._least_eviction_cost(int(nodes[place]), shape))
        return bounds

    def room(self, shape: int, nodes: Counts) -> Counts:
        """Return, for each of `nodes`, how many more members of a shape fit without further evictions."""
        found: Counts = np.minimum(
            fitting(self.free[nodes], self._requests[shape]), self.instance.capacity[shape][nodes]
        )
        if shape not in self._pods.conflicting:
            return found
        for place in np.flatnonzero(np.isin(nodes, list(self._pods.conflicting.get(shape, ())))).tolist():
            if self._must_go(int(nodes[place]), shape):
                found[place] = 0
        return found

    def eviction_cost(self, node: int, shape: int, wanted: int) -> EvictionCost | None:
        """Return the victims and the cost of placing more members of a shape on a node; None if no member can run
        there.

        `wanted`: how many members still need a node. If a whole running gang must be evicted, its cost is
        shared between the members that the node can then hold, at most `wanted` of them.
        """
        free, forced = self.free[node].tolist(), self._must_go(node, shape)
        for victim in forced:
            if self._pods.node[victim] == node:
                free = [amount + held for amount, held in zip(free, self._pods.holds[victim], strict=True)]
        missing = {each: need - free[each] for each, need in self._asked[shape] if need > free[each]}
        if not missing and not forced:
            return FREE
        if not self.evicting:
            return None
        kept = set(forced)
        for _ in range(_TRIES):
            more = self._chosen(node, missing, dict(self._asked[shape]), kept, wanted)
            if more is None:
                return None
            chosen = [*forced, *more]
            forbidden = self._forbidden(chosen)
            if forbidden.intersection(forced):
                return None
            if not forbidden:
                going = self._with_gangs(chosen) or ()
                freed = [self._pods.holds[victim] for victim in chosen if self._pods.node[victim] == node]
                room = (
                    (int(self.free[node, each]) + sum(held[each] for held in freed)) // need
                    for each, need in self._asked[shape]
                )
                members = max(1, min((wanted, *room)))
                return EvictionCost(
                    sum(self._price(victim, wanted) for victim in chosen), tuple(sorted(going)), members
                )
            kept |= forbidden
        return None

    def spare(self) -> None:
        """Undo each eviction without which all placed members still fit. Victims of the largest weight come first.

        If a running gang was evicted whole, its evictions are undone together. Call this only after all members are
        placed, because it cannot be reverted.
        """
        gone_gangs: dict[int, list[int]] = {}
        lone: list[int] = []
        conflicting = {
            victim for node, shape, _, _ in self._log for victim in self._pods.conflicting.get(shape, {}).get(node, ())
        }
        for victim in self.gone:
            gang = self._pods.gang[victim]
            if gang >= 0 and not self._left_of_gang[gang]:
                gone_gangs.setdefault(gang, []).append(victim)
            else:
                lone.append(victim)
        parts = [*([victim] for victim in lone), *gone_gangs.values()]
        for part in sorted(parts, key=lambda each: (-sum(map(self._pods.own.__getitem__, each)), each)):
            if conflicting.isdisjoint(part) and self._all_fit(part):
                self._moved(part, -1)

    def _must_go(self, node: int, shape: int) -> list[int]:
        """Return the pods, on any node, that must still be evicted before a member of the shape may run on `node`,
        because they conflict with the member.
        """
        blocking = self._pods.conflicting.get(shape, {}).get(node)
        return sorted(blocking - self.gone) if blocking else []

    def _least_eviction_cost(self, node: int, shape: int) -> float:
        """Return the smallest weight of a pod that must still be evicted before a member of the shape may run on the
        node. 0 if no pod must be evicted.
        """
        return min((self._price(victim, 1) for victim in self._must_go(node, shape)), default=0.0)

    def _all_fit(self, victims: Sequence[int]) -> bool:
        """Return whether all evicted victims in `victims` fit on their former nodes again, beside the members that were
        placed on these nodes.
        """
        held: dict[int, Counts] = {}
        for victim in victims:
            node = self._pods.node[victim]
            held[node] = held[node] + self._pods.held[victim] if node in held else self._pods.held[victim]
        return all((amounts <= np.maximum(self.free[node], 0)).all() for node, amounts in held.items())

    def _chosen(
        self, node: int, missing: Mapping[int, int], asked: Mapping[int, int], kept: set[int], wanted: int
    ) -> list[int] | None:
        """Return victims of a node that together free the amounts `missing` (by resource). The victims with the least
        weight for what they free come first. None if the victims hold too little.

        `asked`: by resource, the request of one member. `kept`: victims that are not chosen, because they are chosen
        already or may not be evicted. `wanted`: the number of members that need a node; capacity for more members is no
        gain.
        """
        # Greedy covering by price per gain. The gain is the capacity in members (Chvatal, A greedy heuristic for the
        # set-covering problem, 1979). Then victims that are not needed are removed again, the most expensive first.
        candidates = []
        for victim in self._pods.on_node.get(node, ()):
            if victim in self.gone or victim in kept:
                continue
            held = self._pods.holds[victim]
            gain = sum(min(wanted, held[each] / asked[each]) for each in missing if held[each] > 0)
            if gain and (price := self._price(victim, wanted)) < np.inf:
                candidates.append((price / gain, price, victim))
        left, chosen = dict(missing), list[tuple[float, int]]()
        for _, price, victim in sorted(candidates):
            held = self._pods.holds[victim]
            if any(amount > 0 and held[each] > 0 for each, amount in left.items()):
                left = {each: amount - held[each] for each, amount in left.items()}
                chosen.append((price, victim))
        if any(amount > 0 for amount in left.values()):
            return None
        for price, victim in sorted(chosen, reverse=True):
            held = self._pods.holds[victim]
            if len(chosen) > 1 and all(held[each] + amount <= 0 for each, amount in left.items()):
                left = {each: amount + held[each] for each, amount in left.items()}
                chosen.remove((price, victim))
        return [victim for _, victim in chosen]

    def _forbidden(self, chosen: Sequence[int]) -> set[int]:
        """Return some of the victims `chosen` that cannot be evicted together with the rest of `chosen`; empty if all
        can be evicted.

        The eviction is forbidden by a disruption budget, or because it breaks a gang with pods that may not be evicted.
        """
        going = self._with_gangs(chosen)
        if going is None:
            return {victim for victim in chosen if self._with_gangs([victim]) is None} or {chosen[-1]}
        spent = Counter(budget for victim in going for budget in self._pods.budgets_of.get(victim, ()))
        short = {budget for budget, count in spent.items() if count > self._left_in_budget[budget]}
        if not short:
            return set()
        under = [each for each in chosen if short.intersection(self._budgets_with(each))]
        return {under[-1]} if under else {chosen[-1]}

    def _budgets_with(self, victim: int) -> set[int]:
        """Return the disruption budgets that are charged if a victim is evicted: those that cover the victim, or
        another victim that must be evicted with it.
        """
        return {budget for each in self._with_gangs([victim]) or () for budget in self._pods.budgets_of.get(each, ())}

    def _with_gangs(self, chosen: Iterable[int]) -> set[int] | None:
        """Return the victims `chosen` and all victims that must be evicted with them, because a broken gang is evicted
        whole. None if a gang would be broken that has pods that may not be evicted.
        """
        going = set(chosen)
        cut: dict[int, set[int]] = {}
        for victim in going:
            if self._pods.gang[victim] >= 0:
                cut.setdefault(self._pods.gang[victim], set()).add(victim)
        for gang, members in cut.items():
            if self._falls_short(gang, members):
                rest = [victim for victim in self._pods.members[gang] if victim not in self.gone]
                if len(rest) < self._left_of_gang[gang]:
                    return None
                going.update(rest)
        return going

    def _falls_short(self, gang: int, more: set[int]) -> bool:
        """Return whether the running gang is broken if the victims `more` are evicted in addition to the victims
        evicted so far.
        """
        running = self.problem.victim_gangs[gang]
        count = running.running - self._left_of_gang[gang] + len(more)
        if not running.sets:
            return running.falls_short(frozenset(), count)
        return running.falls_short(more.union(each for each in self._pods.members[gang] if each in self.gone), count)

    def _price(self, victim: int, wanted: int) -> float:
        """Return the weight that the eviction of a victim costs. If the eviction breaks a gang, this is a share of the
        weight of the whole gang.

        Infinite if the victim cannot be evicted, or if a member may have affinity to it. `wanted`: how many members
        still need a node; the gang's weight is divided by at most this number.
        """
        if victim in self._pods.affinity_targets or any(
            self._left_in_budget[budget] <= 0 for budget in self._pods.budgets_of.get(victim, ())
        ):
            return np.inf
        gang = self._pods.gang[victim]
        if gang < 0 or not self._falls_short(gang, {victim}):
            return self._pods.own[victim]
        weight, rest = self._rest_of_gang[gang]
        if rest < self._left_of_gang[gang]:
            return np.inf
        return weight / max(1, min(rest, wanted, self._pods.near[gang]))

    def _moved(self, victims: Iterable[int], sign: int) -> None:
        """Mark the victims as evicted (`sign` 1), or as running again (`sign` -1), and change the free amounts
        accordingly.
        """
        for victim in victims:
            self.free[self._pods.node[victim]] += sign * self._pods.held[victim]
            if (gang := self._pods.gang[victim]) >= 0:
                self._left_of_gang[gang] -= sign
                weight, rest = self._rest_of_gang[gang]
                self._rest_of_gang[gang] = weight - sign * self._pods.own[victim], rest - sign
            for budget in self._pods.budgets_of.get(victim, ()):
                self._left_in_budget[budget] -= sign
        (self.gone.update if sign > 0 else self.gone.difference_update)(victims)
