"""The goals of a finished plan, counted from where its members are and who is evicted."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from solver import objective
from solver.bounds.eviction_closure import gangs_broken
from solver.capacity import needed_members
from solver.instance import Instance, Seat
from solver.objective import Criterion
from solver.plan import Goal
from solver.tree import ROOT

Nodes = tuple[tuple[int | None, ...], ...]
Parts = dict[str, int]


@dataclass(frozen=True, slots=True)
class Reached:
    """The value of a stage in the plan, and the least that is still possible as far as proven."""

    goal: str
    part: str
    value: int
    bound: int


def goals_of(
    instance: Instance, nodes: Nodes, victims: Sequence[int], reached: Iterable[Reached] = ()
) -> tuple[Goal, ...]:
    """The goals in the contract's order. What is not among `reached` counts as proven."""
    gaps = {(each.goal, each.part): each.value - each.bound for each in reached}
    score, levels = Score(instance, nodes, victims), instance.problem.levels
    rows = ((each, level) for each in objective.CRITERIA for level in (range(len(levels)) if each.by_level else (0,)))
    return tuple(_goal(each, each.named(levels[level]), PARTS[each.name](score, level), gaps) for each, level in rows)


Gaps = Mapping[tuple[str, str], int]
"""By goal and part, the difference of what the search has reached and what is still possible as far as it knows: it
leaves out what is the same in every plan.
"""


def _goal(of: Criterion, name: str, parts: Parts, gaps: Gaps) -> Goal:
    """A goal that shows the sum of its parts, or the first of them."""
    first, value = next(iter(parts.items()), ("", 0))
    gap = gaps.get((name, first), 0)
    if of.summed:
        value, gap = sum(parts.values()), sum(each for (goal, _), each in gaps.items() if goal == name)
    bound = value + gap if of.more_is_better else max(0, value - gap)
    return Goal(name, value, bound, parts if len(parts) > 1 else {})


class Score:
    """A plan taken apart: for every goal its parts."""

    def __init__(self, instance: Instance, nodes: Nodes, victims: Sequence[int]) -> None:
        self.instance, self.evictions = instance, tuple(victims)
        self.gone = instance.problem.victims.at(self.evictions)
        self.seats = {
            Seat(pod_set, rank): node
            for pod_set, row in enumerate(nodes)
            for rank, node in enumerate(row)
            if node is not None
        }
        self.fresh = {seat: node for seat, node in self.seats.items() if instance.member(seat).node is None}
        self.used: Counter[int] = Counter()
        self._touched: dict[tuple[int, int | None], list[int]] = {}
        for seat, node in self.fresh.items():
            self.used[node] += instance.request(seat)

    def victims(self) -> Parts:
        """Victims by priority, the highest first."""
        counts = Counter(victim.priority for victim in self.gone)
        return {f"priority {priority}": counts[priority] for priority in sorted(counts, reverse=True)}

    def gangs_broken(self) -> Parts:
        """Gangs of which fewer than their minimum remain."""
        return {"": len(gangs_broken(self.instance.problem, self.evictions))}

    def evicted(self) -> Parts:
        """What the victims held of the scarcest resource."""
        return {"": sum(victim.requests[self.instance.scarce] for victim in self.gone)}

    def extras(self) -> Parts:
        """Members beyond the minimum. The search counts those that are missing."""
        return {"missing": len(self.seats) - needed_members(self.instance.problem)}

    def compactness(self, level: int) -> Parts:
        """Domains of the gang, and summed over its sets where there are several."""
        parts = {"gang": len(self._domains(level))}
        filled = sorted({seat.pod_set for seat in self.seats})
        if len(filled) > 1:
            parts["sets"] = sum(len(self._domains(level, pod_set)) for pod_set in filled)
        return parts

    def preferences(self) -> Parts:
        """The weight of the preferences that the new members' nodes fulfil."""
        shapes = self.instance.problem.shapes
        had = (shapes[self.instance.member(seat).shape].preferences.get(node, 0) for seat, node in self.fresh.items())
        return {"": sum(had)}

    def waste(self) -> Parts:
        """Room left, as contract section 4 asks for it: (a), (b) outward, (c) downward, (d) downward."""
        names = self.instance.problem.levels
        narrowest = max((level for level in range(ROOT, len(names)) if len(self._domains(level)) <= 1), default=ROOT)
        parts = {"a": self._left(narrowest)}
        for level in range(narrowest - 1, ROOT - 1, -1):
            parts[f"b/{names[level] if level > ROOT else 'cluster'}"] = self._left(level)
        for level in range(narrowest + 1, len(names)):
            parts[f"c/{names[level]}"] = self._left(level)
        for level in range(narrowest + 1, len(names)):
            parts[f"d/{names[level]}"] = sum(room > 0 for room in self._rooms(level))
        return parts

    def ranks(self) -> Parts:
        """By level, the placed neighbours by rank that lie in different domains."""
        placed = sorted(self.seats)
        nodes = np.array([self.seats[seat] for seat in placed], dtype=np.int64)
        pod_sets = np.array([seat.pod_set for seat in placed], dtype=np.int64)
        mates, names = pod_sets[1:] == pod_sets[:-1], self.instance.problem.levels
        of_level = (self.instance.tree.domains(level)[nodes] for level in range(len(names)))
        return {
            name: int(np.count_nonzero(mates & (domains[1:] != domains[:-1])))
            for name, domains in zip(names, of_level, strict=True)
        }

    def terminating(self) -> Parts:
        """Room used that pods on their way out still hold."""
        instance, scarce = self.instance, self.instance.scarce
        freed: Counter[int] = Counter()
        for victim in self.gone:
            freed[victim.node] += victim.requests[scarce]
        waits = 0
        for node, used in self.used.items():
            each = instance.problem.nodes[node]
            now = each.free[scarce] - each.terminating[scarce] + freed[node]
            waits += max(0, used - max(0, now))
        return {"terminating": waits}

    def _domains(self, level: int, pod_set: int | None = None) -> list[int]:
        """The domains of a level that the gang, or one of its sets, is in."""
        if (level, pod_set) not in self._touched:
            of_node = self.instance.tree.domains(level)
            nodes = [node for seat, node in self.seats.items() if pod_set in (None, seat.pod_set)]
            self._touched[level, pod_set] = np.unique(of_node[nodes]).tolist()
        return self._touched[level, pod_set]

    def _left(self, level: int) -> int:
        return sum(self._rooms(level))

    def _rooms(self, level: int) -> list[int]:
        """What is left of each touched domain."""
        left = {domain: self.instance.domain_potential(level, domain) for domain in self._domains(level)}
        for node, amount in self.used.items():
            left[self.instance.tree.domain(level, node)] -= amount
        return [*left.values()]


PARTS: dict[str, Callable[[Score, int], Parts]] = {
    "victims": lambda score, _: score.victims(),
    "gangsBroken": lambda score, _: score.gangs_broken(),
    "evicted": lambda score, _: score.evicted(),
    "extras": lambda score, _: score.extras(),
    "compactness": lambda score, level: score.compactness(level),
    "preferences": lambda score, _: score.preferences(),
    "waste": lambda score, _: score.waste(),
    "ranks": lambda score, _: score.ranks(),
    "ties": lambda score, _: score.terminating(),
}
"""How each goal is counted, on a level where it has one: its parts in their order."""
