"""The reference answer for tiny problems: every plan is tried. Written from the contract's section 4 and
docs/decisions/0002; shares nothing with the solver but the problem's dataclasses.

Goals filter: of all feasible plans those that are best by the first goal are kept, of these those that are best by
the second, and so on, until one is left.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, groupby
from typing import Any

from kube.names import natural_key
from solver.problem import Problem, Shape

Place = tuple[int, int]
"""A member: position of its set, and its rank there."""


@dataclass(frozen=True)
class Try:
    """One feasible plan: the node of every placed member (pinned ones too) and the victims."""

    where: dict[Place, int]
    victims: tuple[int, ...]

    def nodes(self, problem: Problem) -> tuple[tuple[int | None, ...], ...]:
        """The plan as the solver states it."""
        return tuple(
            tuple(self.where.get((position, rank)) for rank in range(len(pod_set.members)))
            for position, pod_set in enumerate(problem.sets)
        )


Score = Callable[[Try], Any]
"""What a plan scores at a goal; smaller is better."""


class BruteForce:
    """All there is to know about one small problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.levels = range(len(problem.levels))
        self.new = [
            (position, rank)
            for position, pod_set in enumerate(problem.sets)
            for rank, member in enumerate(pod_set.members)
            if member.node is None
        ]
        self.bound = {
            (position, rank): member.node
            for position, pod_set in enumerate(problem.sets)
            for rank, member in enumerate(pod_set.members)
            if member.node is not None
        }
        self.scarce = self._scarcest()
        self.usable = {node for place in self.new for node in self.shape(place).nodes}
        names = sorted(range(len(problem.nodes)), key=lambda node: natural_key(problem.nodes[node].name))
        self.by_name = {node: order for order, node in enumerate(names)}
        keys = sorted(range(len(problem.victims)), key=lambda victim: natural_key(problem.victims[victim].key))
        self.by_key = {victim: order for order, victim in enumerate(keys)}

    def best(self, *, without: Iterable[str] = ()) -> Try | None:
        """The best plan, or None where there is no plan. `without`: names of goals that are not looked at."""
        ignored = set(without)
        left = self._cheapest(ignored)
        if not left:
            return None
        for _, score in self._scores(bool(left[0].victims), ignored):
            if len(left) == 1:
                break
            left = _least(left, score)
        return left[0]

    def deciding(self) -> set[str]:
        """The goals without which another plan would have been chosen."""
        best = self.best()
        named = [name for name, _ in self._goal_one()] + [name for name, _ in self._later()]
        return {name for name in dict.fromkeys(named) if self.best(without=[name]) != best}

    def score(self, plan: Try) -> dict[str, list[Any]]:
        """What a plan scores at each goal, part by part."""
        found: dict[str, list[Any]] = {}
        for name, goal in self._goal_one():
            found.setdefault(name, []).append(goal(plan.victims))
        for name, goal in self._scores(bool(plan.victims), set()):
            found.setdefault(name, []).append(goal(plan))
        return found

    def shape(self, place: Place) -> Shape:
        """What a member asks for."""
        return self.problem.shapes[self.problem.sets[place[0]].members[place[1]].shape]

    # --- what is feasible -------------------------------------------------------------------------------------

    def _cheapest(self, ignored: set[str]) -> list[Try]:
        """All plans whose victims cost least (goal 1)."""
        costs = [cost for name, cost in self._goal_one() if name not in ignored]

        def price(victims: tuple[int, ...]) -> list[Any]:
            return [cost(victims) for cost in costs]

        choices = sorted(self._victim_choices(), key=price)
        for _, equals in groupby(choices, key=price):
            found = [Try(where, victims) for victims in equals for where in self._placements(victims)]
            if found:
                return found
        return []

    def _victim_choices(self) -> Iterator[tuple[int, ...]]:
        everyone = range(len(self.problem.victims))
        for count in range(len(everyone) + 1):
            yield from (some for some in combinations(everyone, count) if self._may_go(some))

    def _may_go(self, victims: tuple[int, ...]) -> bool:
        """Budgets hold; a running gang keeps its minimum or goes as a whole."""
        if any(len(budget.victims.intersection(victims)) > budget.allowed for budget in self.problem.budgets):
            return False
        going = Counter(self.problem.victims[victim].gang for victim in victims)
        return all(
            gang.running - going[position] >= gang.minimum or going[position] in (0, gang.running)
            for position, gang in enumerate(self.problem.victim_gangs)
        )

    def _placements(self, victims: tuple[int, ...]) -> Iterator[dict[Place, int]]:
        room = [list(node.free) for node in self.problem.nodes]
        for victim in victims:
            going = self.problem.victims[victim]
            room[going.node] = [a + b for a, b in zip(room[going.node], going.requests, strict=True)]
        yield from self._seatings(0, room, dict(self.bound))

    def _seatings(self, at: int, room: list[list[int]], where: dict[Place, int]) -> Iterator[dict[Place, int]]:
        if at == len(self.new):
            if self._holds(where):
                yield dict(where)
            return
        place = self.new[at]
        asked = self.shape(place).requests
        for node in self.shape(place).nodes:
            free = room[node]
            if all(need == 0 or need <= left for need, left in zip(asked, free, strict=True)):
                room[node] = [left - need for need, left in zip(asked, free, strict=True)]
                where[place] = node
                yield from self._seatings(at + 1, room, where)
                del where[place]
                room[node] = free
        yield from self._seatings(at + 1, room, where)

    def _holds(self, where: dict[Place, int]) -> bool:
        """Whether every hard rule but room holds."""
        problem = self.problem
        if len(where) < problem.minimum or len(self._domains(where, problem.required)) > 1:
            return False
        for position, pod_set in enumerate(problem.sets):
            mine = {place: node for place, node in where.items() if place[0] == position}
            if len(mine) < pod_set.minimum or len(self._domains(mine, pod_set.required)) > 1:
                return False
            for rule in pod_set.slices:
                for first in range(0, len(pod_set.members), rule.size):
                    one = {place: node for place, node in mine.items() if first <= place[1] < first + rule.size}
                    if len(self._domains(one, rule.level)) > 1:
                        return False
            for multiple in pod_set.multiples:
                if any(count % multiple.of for count in self._counts(mine, multiple.level).values()):
                    return False
            for cap in pod_set.caps:
                if any(count > cap.count for count in self._counts(mine, cap.level).values()):
                    return False
        for together in problem.together:
            some = {place: node for place, node in where.items() if place[0] in together.pod_sets}
            if len(self._domains(some, together.level)) > 1:
                return False
        for exclusion in problem.exclusions:
            groups = Counter(exclusion.group[node] for place, node in where.items() if place[0] in exclusion.pod_sets)
            if any(count > exclusion.count for group, count in groups.items() if group is not None):
                return False
        return True

    # --- goals ------------------------------------------------------------------------------------------------

    def _goal_one(self) -> list[tuple[str, Callable[[tuple[int, ...]], int]]]:
        """Goal 1: victims per priority from the highest down, gangs broken, how much is evicted."""
        pods = self.problem.victims

        def of_priority(priority: int) -> Callable[[tuple[int, ...]], int]:
            return lambda victims: sum(pods[victim].priority == priority for victim in victims)

        def broken(victims: tuple[int, ...]) -> int:
            going = Counter(pods[victim].gang for victim in victims)
            return sum(
                going[position] > 0 and gang.running - going[position] < gang.minimum
                for position, gang in enumerate(self.problem.victim_gangs)
            )

        def amount(victims: tuple[int, ...]) -> int:
            return sum(pods[victim].requests[self.scarce] for victim in victims)

        priorities = sorted({victim.priority for victim in pods}, reverse=True)
        return [("victims", of_priority(each)) for each in priorities] + [("gangsBroken", broken), ("evicted", amount)]

    def _scores(self, evicting: bool, ignored: set[str]) -> list[tuple[str, Score]]:  # noqa: FBT001 - a fact, no switch
        self._evicting = evicting
        self.__dict__.pop("_potential", None)
        return [(name, score) for name, score in self._later() if name not in ignored]

    def _later(self) -> list[tuple[str, Score]]:
        """Goals 2 to 6."""
        goals: list[tuple[str, Score]] = [("extras", lambda plan: -len(plan.where)), ("lowestRanks", self._pattern)]
        for level in self.levels:
            goals.append((f"compactness/{self.problem.levels[level]}", self._spread(level)))
        goals += [
            ("preferences", self._disliked),
            ("waste", self._waste),
            ("ranks", self._crossings),
            ("terminating", self._waits),
            ("startedLast", lambda plan: [-self.problem.victims[v].started for v in self._oldest_first(plan)]),
            ("names", lambda plan: [self.by_name[plan.where[place]] for place in sorted(plan.where)]),
            ("victimKeys", lambda plan: sorted(self.by_key[victim] for victim in plan.victims)),
        ]
        return goals

    def _pattern(self, plan: Try) -> list[bool]:
        return [place not in plan.where for place in sorted([*self.new, *self.bound])]

    def _spread(self, level: int) -> Score:
        def score(plan: Try) -> tuple[int, int]:
            of_sets = {(place[0], self._domain(node, level)) for place, node in plan.where.items()}
            return len({domain for _, domain in of_sets}), len(of_sets)

        return score

    def _disliked(self, plan: Try) -> int:
        return -sum(self.shape(place).preferences.get(plan.where[place], 0) for place in self.new if place in plan.where)

    def _waste(self, plan: Try) -> list[int]:
        """Room left (a) in the narrowest domain that holds all, (b) in its parents, (c) below it in the touched
        domains, (d) the number of these with room left.
        """
        left = {node: amount for node, amount in self._potential.items()}
        for place in self.new:
            if place in plan.where:
                left[plan.where[place]] -= self.shape(place).requests[self.scarce]

        def rest(level: int, domain: Any) -> int:
            return sum(amount for node, amount in left.items() if self._domain(node, level) == domain)

        touched = [self._domains(plan.where, level) for level in self.levels]
        home = max([-1, *(level for level in self.levels if len(touched[level]) == 1)])
        outward = [rest(level, next(iter(touched[level]))) for level in range(home, -1, -1)]
        below = [level for level in self.levels if level > home]
        summed = [sum(rest(level, domain) for domain in touched[level]) for level in below]
        holes = [sum(rest(level, domain) > 0 for domain in touched[level]) for level in below]
        return [*(outward or [sum(left.values())]), *summed, *holes]

    @cached_property
    def _potential(self) -> dict[int, int]:
        """What the gang could take of the scarcest resource, per node that it could use at all."""
        room = {node: self.problem.nodes[node].free[self.scarce] for node in sorted(self.usable)}
        for victim in self.problem.victims if self._evicting else ():
            if victim.node in room:
                room[victim.node] += victim.requests[self.scarce]
        return {node: max(0, amount) for node, amount in room.items()}

    def _crossings(self, plan: Try) -> list[int]:
        order = sorted(plan.where)
        pairs = [(a, b) for a, b in zip(order, order[1:], strict=False) if a[0] == b[0]]
        return [
            sum(self._domain(plan.where[a], level) != self._domain(plan.where[b], level) for a, b in pairs)
            for level in self.levels
        ]

    def _waits(self, plan: Try) -> int:
        """How much of the scarcest resource is only there once pods on their way out have gone."""
        used: Counter[int] = Counter()
        for place in self.new:
            if place in plan.where:
                used[plan.where[place]] += self.shape(place).requests[self.scarce]
        now = {
            node: self.problem.nodes[node].free[self.scarce] - self.problem.nodes[node].terminating[self.scarce]
            for node in used
        }
        for victim in plan.victims:
            if (node := self.problem.victims[victim].node) in now:
                now[node] += self.problem.victims[victim].requests[self.scarce]
        return sum(max(0, amount - max(0, now[node])) for node, amount in used.items())

    def _oldest_first(self, plan: Try) -> list[int]:
        return sorted(plan.victims, key=lambda victim: self.problem.victims[victim].started)

    def _scarcest(self) -> int:
        shares = []
        for resource in range(len(self.problem.resources)):
            asked = sum(self.shape(place).requests[resource] for place in self.new)
            free = sum(max(0, node.free[resource]) for node in self.problem.nodes)
            shares.append((1, Fraction(0)) if asked and not free else (0, Fraction(asked, free or 1)))
        return shares.index(max(shares))

    # --- domains ----------------------------------------------------------------------------------------------

    def _domain(self, node: int, level: int) -> tuple[str, ...]:
        whole = (*self.problem.nodes[node].path, self.problem.nodes[node].name)
        return whole[: level + 1]

    def _domains(self, where: dict[Place, int], level: int | None) -> set[tuple[str, ...]]:
        return set() if level is None else {self._domain(node, level) for node in where.values()}

    def _counts(self, where: dict[Place, int], level: int) -> Counter[tuple[str, ...]]:
        return Counter(self._domain(node, level) for node in where.values())


def _least(plans: Sequence[Try], score: Score) -> list[Try]:
    scored = [(score(plan), plan) for plan in plans]
    least = min(value for value, _ in scored)
    return [plan for value, plan in scored if value == least]
