"""Room and running pods while members are seated one after the other: what is left, who has gone, and the way back.

Victims are chosen node by node: those that free the most for what they cost (`solver.heuristics.running_pods`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from solver.capacity import PLENTY, Counts, fitting
from solver.heuristics.running_pods import RunningPods, Weights
from solver.instance import Instance

_TRIES = 3
"""How often victims of one node are chosen anew where rules about evictions forbid them together."""


class Toll(NamedTuple):
    """What more members on a node cost: the weight of those who go, who they are, and for how many members there is
    room then.
    """

    weight: float
    victims: tuple[int, ...] = ()
    members: int = 1

    @property
    def each(self) -> float:
        """What one of these members costs."""
        return self.weight / self.members


FREE = Toll(0.0)


class RemainingRoom:
    """The nodes of an instance as they are now. `evicting` False: nobody else goes. `weight`: of all who have gone."""

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
        self._log: list[tuple[int, int, Counts | None, Toll]] = []
        self._left_of_gang = Counter({place: gang.running for place, gang in enumerate(problem.victim_gangs)})
        self._left_in_budget = {place: budget.allowed for place, budget in enumerate(problem.budgets)}

    def mark(self) -> int:
        """A point to come back to."""
        return len(self._log)

    def back_to(self, mark: int) -> None:
        """Undo all since then."""
        while len(self._log) > mark:
            node, _, taken, toll = self._log.pop()
            if taken is not None:
                self.free[node] += taken
            self._moved(toll.victims, -1)
            self.weight -= toll.weight

    def take(self, node: int, shape: int, count: int) -> None:
        """Seat so many members of a shape."""
        taken = count * self._requests[shape]
        self.free[node] -= taken
        self._log.append((node, shape, taken, FREE))

    def evict(self, toll: Toll) -> None:
        """Let them go."""
        self._moved(toll.victims, 1)
        self.weight += toll.weight
        self._log.append((-1, -1, None, toll))

    def fits(self, node: int, shape: int) -> int:
        """How many more members of a shape have room without further evictions."""
        free: list[int] = self.free[node].tolist()
        return min((max(0, free[each]) // need for each, need in self._asked[shape]), default=PLENTY)

    def at_least(self, shape: int, nodes: Counts) -> Weights:
        """What one member costs about at least on each of these nodes, where those who go make room for several."""
        # request: resources; free, missing, most, freeable: nodes x resources; all others: nodes. An estimate for one
        # member: as many go as the largest of them would do, each as light as the lightest, or all where no less is
        # enough; and what they free is shared by as many members as the largest one makes room for.
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
        if shape not in self._pods.in_the_way:
            return bounds
        for place in np.flatnonzero(np.isin(nodes, list(self._pods.in_the_way.get(shape, ())))).tolist():
            bounds[place] = max(bounds[place], self._least_toll(int(nodes[place]), shape))
        return bounds

    def room(self, shape: int, nodes: Counts) -> Counts:
        """For how many members each of these nodes has room without further evictions."""
        found: Counts = np.minimum(
            fitting(self.free[nodes], self._requests[shape]), self.instance.capacity[shape][nodes]
        )
        if shape not in self._pods.in_the_way:
            return found
        for place in np.flatnonzero(np.isin(nodes, list(self._pods.in_the_way.get(shape, ())))).tolist():
            if self._to_go(int(nodes[place]), shape):
                found[place] = 0
        return found

    def toll(self, node: int, shape: int, wanted: int) -> Toll | None:
        """What one more member costs on a node; None where it has no place. `wanted`: for how many members room is
        sought at all: a gang that goes whole is of use for no more.
        """
        free, forced = self.free[node].tolist(), self._to_go(node, shape)
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
                return Toll(sum(self._price(victim, wanted) for victim in chosen), tuple(sorted(going)), members)
            kept |= forbidden
        return None

    def spare(self) -> None:
        """Let those stay who go in vain, the dearest first. Expects that all are seated; there is no way back."""
        gone_gangs: dict[int, list[int]] = {}
        lone: list[int] = []
        in_the_way = {
            victim for node, shape, _, _ in self._log for victim in self._pods.in_the_way.get(shape, {}).get(node, ())
        }
        for victim in self.gone:
            gang = self._pods.gang[victim]
            if gang >= 0 and not self._left_of_gang[gang]:
                gone_gangs.setdefault(gang, []).append(victim)
            else:
                lone.append(victim)
        parts = [*([victim] for victim in lone), *gone_gangs.values()]
        for part in sorted(parts, key=lambda each: (-sum(map(self._pods.own.__getitem__, each)), each)):
            if in_the_way.isdisjoint(part) and self._all_fit(part):
                self._moved(part, -1)

    def _to_go(self, node: int, shape: int) -> list[int]:
        """Those who must go from anywhere before a member may come to a node."""
        blocking = self._pods.in_the_way.get(shape, {}).get(node)
        return sorted(blocking - self.gone) if blocking else []

    def _least_toll(self, node: int, shape: int) -> float:
        return min((self._price(victim, 1) for victim in self._to_go(node, shape)), default=0.0)

    def _all_fit(self, victims: Sequence[int]) -> bool:
        """Whether there is room for all of them where they are."""
        held: dict[int, Counts] = {}
        for victim in victims:
            node = self._pods.node[victim]
            held[node] = held[node] + self._pods.held[victim] if node in held else self._pods.held[victim]
        return all((amounts <= np.maximum(self.free[node], 0)).all() for node, amounts in held.items())

    def _chosen(
        self, node: int, missing: Mapping[int, int], asked: Mapping[int, int], kept: set[int], wanted: int
    ) -> list[int] | None:
        """Victims of a node who free what is missing, those first that free the most for what they cost, as long as so
        many members are wanted. `asked`: by one of them.
        """
        # Greedy covering: by price for gain, gain being the room in members (Chvatal, A greedy heuristic for the
        # set-covering problem, 1979); then back, the dearest first, whoever is not needed any more stays.
        offers = []
        for victim in self._pods.on_node.get(node, ()):
            if victim in self.gone or victim in kept:
                continue
            held = self._pods.holds[victim]
            gain = sum(min(wanted, held[each] / asked[each]) for each in missing if held[each] > 0)
            if gain and (price := self._price(victim, wanted)) < np.inf:
                offers.append((price / gain, price, victim))
        left, chosen = dict(missing), list[tuple[float, int]]()
        for _, price, victim in sorted(offers):
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
        """Those who cannot go together with the others: by a budget, or because part of their gang may not."""
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
        """The budgets of a victim and of those that go with it."""
        return {budget for each in self._with_gangs([victim]) or () for budget in self._pods.budgets_of.get(each, ())}

    def _with_gangs(self, chosen: Iterable[int]) -> set[int] | None:
        """They and who goes with them: a gang that is cut below its minimum goes whole. None where it cannot."""
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
        """Whether a gang is broken where more of its members go."""
        running = self.problem.victim_gangs[gang]
        count = running.running - self._left_of_gang[gang] + len(more)
        if not running.sets:
            return running.falls_short(frozenset(), count)
        return running.falls_short(more.union(each for each in self._pods.members[gang] if each in self.gone), count)

    def _price(self, victim: int, wanted: int) -> float:
        """What a victim costs; infinite where it can certainly not go, or a member may want to be near it."""
        if victim in self._pods.relied_on or any(
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
        """Take them away (1) or back (-1)."""
        for victim in victims:
            self.free[self._pods.node[victim]] += sign * self._pods.held[victim]
            if (gang := self._pods.gang[victim]) >= 0:
                self._left_of_gang[gang] -= sign
                weight, rest = self._rest_of_gang[gang]
                self._rest_of_gang[gang] = weight - sign * self._pods.own[victim], rest - sign
            for budget in self._pods.budgets_of.get(victim, ()):
                self._left_in_budget[budget] -= sign
        (self.gone.update if sign > 0 else self.gone.difference_update)(victims)
