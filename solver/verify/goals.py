"""The goal values of a plan, counted again from its nodes and victims.

Written from docs/decisions/0002 alone; it shares no code with the model that made the plan.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solver.nodes import NodeLayout, Path
from solver.plan import GoalParts
from solver.problem import Member
from solver.verify.plan_view import PlanView

_Positions = NDArray[np.int64]


class Count(NamedTuple):
    """A goal by its name, its value and the values of its parts. `more_is_better`: the value is a gain."""

    name: str
    value: int
    parts: GoalParts
    more_is_better: bool = False


def recounted(view: PlanView) -> Iterator[Count]:
    """Yield all goals with their values, in the order of decision 2."""
    recount = Recount(view)
    return (goal for count in IN_ORDER for goal in count(recount))


class Recount:
    """Counts the goals of one plan. Its attributes are values that several goals need.

    `scarce`: the position of the scarcest resource. `potentials`: by node, how much of the scarcest resource the gang
    could use there. `used`: by node, how much of it newly placed members use. `sets`: the placed members of each set
    that has placed members.
    """

    def __init__(self, view: PlanView) -> None:
        self.view, self.problem = view, view.problem
        pending = [member for each in self.problem.sets for member in each.members if member.node is None]
        self.scarce = self._scarcest(pending)
        self.used: Counter[int] = Counter()
        for each in view.placed:
            if each.new:
                self.used[each.node] += view.asks(each)[self.scarce]
        self.sets = [members for members in view.of_set if members]
        self.potentials = self._potentials({member.shape for member in pending})

    def price(self) -> Iterator[Count]:
        """Yield goal 1: victims, broken gangs, and the evicted amount of the scarcest resource."""
        tiers = self._victims()
        yield Count("victims", sum(tiers.values()), tiers)
        yield Count("gangsBroken", self._broken(), {})
        yield Count("evicted", sum(victim.requests[self.scarce] for victim in self.view.evicted), {})

    def extras(self) -> Iterator[Count]:
        """Yield goal 2: the number of members placed beyond the minimum."""
        least = max(self.problem.minimum, sum(pod_set.minimum for pod_set in self.problem.sets))
        yield Count("extras", len(self.view.placed) - least, {}, more_is_better=True)

    def compactness(self) -> Iterator[Count]:
        """Yield goal 3, compactness: the number of domains, level by level."""
        for level, name in enumerate(self.problem.levels):
            spread = self._spread(level)
            yield Count(f"compactness/{name}", spread["gang"], spread)

    def preferences(self) -> Iterator[Count]:
        """Yield goal 3, preferences: the weight of the node preferences that are fulfilled."""
        yield Count("preferences", self._preferences(), {}, more_is_better=True)

    def terminating(self) -> Iterator[Count]:
        """Yield goal 3, terminating: the used capacity that terminating pods still hold."""
        yield Count("terminating", self._terminating(), {})

    def waste(self) -> Iterator[Count]:
        """Yield goal 4, waste: the free capacity that remains."""
        waste = self._waste()
        yield Count("waste", waste["a"], waste)

    def ranks(self) -> Iterator[Count]:
        """Yield goal 5, ranks: by level, pairs of members with consecutive ranks in different domains."""
        crossings = {name: self._crossings(level) for level, name in enumerate(self.problem.levels)}
        yield Count("ranks", crossings[self.problem.levels[0]], crossings)

    def ties(self) -> Iterator[Count]:
        """Yield goal 6, ties, with the value 0. Start times and node names decide this goal, and no number is reported
        for it.
        """
        yield Count("ties", 0, {})

    def _scarcest(self, pending: list[Member]) -> int:
        best, share = 0, Fraction(0)
        counts = Counter(member.shape for member in pending)
        everything = np.maximum(self.problem.nodes.free, 0).sum(axis=0).tolist()
        for resource, free in enumerate(everything):
            asked = sum(count * self.problem.shapes[shape].requests[resource] for shape, count in counts.items())
            if not asked:
                continue
            if not free:
                return resource
            if Fraction(asked, free) > share:
                best, share = resource, Fraction(asked, free)
        return best

    def _potentials(self, shapes: set[int]) -> _Positions:
        """Return, by node, how much of the scarcest resource members of these shapes could use.

        If the plan evicts, the capacity that all victims on a node hold counts as well. If the plan evicts no pod,
        nodes that members may use only after an eviction count as 0.
        """
        free = self.problem.nodes.free[:, self.scarce].copy()
        if self.view.evicted:
            victims = self.problem.victims
            np.add.at(free, victims.node, victims.requests[:, self.scarce])
        could = np.zeros_like(free)
        for shape in shapes:
            usable = self._usable(shape)
            could[usable] = np.maximum(free[usable], 0)
        return could

    def _usable(self, shape: int) -> _Positions:
        usable = self.problem.shapes[shape].positions
        if self.view.evicted:
            return usable
        barred = {node for rule in self.problem.conflicts if shape in rule.shapes for node in rule.nodes}
        for spread in self.problem.spreads:
            if shape in spread.shapes and not spread.counted:
                fewest = 0 if spread.from_zero else min(spread.counts.values(), default=0)
                crowded = {name for name, pods in spread.counts.items() if pods > fewest + spread.skew}
                barred |= {node for node, name in enumerate(spread.group) if name in crowded}
        return usable[~np.isin(usable, list(barred))] if barred else usable

    def _victims(self) -> GoalParts:
        priorities = sorted((victim.priority for victim in self.view.evicted), reverse=True)
        return {f"priority {priority}": priorities.count(priority) for priority in dict.fromkeys(priorities)}

    def _broken(self) -> int:
        gone = Counter(victim.gang for victim in self.view.evicted)
        evicted = set(self.view.plan.victims)
        return sum(
            bool(gone[position])
            and (
                gang.running - gone[position] < gang.minimum
                or any(part.running - len(part.victims & evicted) < part.minimum for part in gang.sets)
            )
            for position, gang in enumerate(self.problem.victim_gangs)
        )

    def _spread(self, level: int) -> GoalParts:
        spread = {"gang": len(self.view.domains(level, self.view.placed))}
        if len(self.sets) > 1:
            spread["sets"] = sum(len(self.view.domains(level, members)) for members in self.sets)
        return spread

    def _preferences(self) -> int:
        shapes = self.problem.shapes
        return sum(shapes[each.member.shape].preferences.get(each.node, 0) for each in self.view.placed if each.new)

    def _waste(self) -> GoalParts:
        levels, depth = self.problem.levels, len(self.problem.levels)
        narrowest = -1
        while narrowest + 1 < depth and len(self.view.domains(narrowest + 1, self.view.placed)) <= 1:
            narrowest += 1
        left = {level: self._left(level) for level in range(-1, depth)}
        parts = {"a": sum(left[narrowest])}
        parts |= {
            f"b/{levels[level] if level >= 0 else 'cluster'}": sum(left[level])
            for level in range(narrowest - 1, -2, -1)
        }
        below = range(narrowest + 1, depth)
        parts |= {f"c/{levels[level]}": sum(left[level]) for level in below}
        return parts | {f"d/{levels[level]}": sum(room > 0 for room in left[level]) for level in below}

    def _left(self, level: int) -> list[int]:
        """Return the free capacity that remains in each touched domain of `level` (-1: the cluster). Empty if no member
        is placed.
        """
        if not self.view.placed:
            return []
        if level < 0:
            return [int(self.potentials.sum()) - self.used.total()]
        nodes = {each.node for each in self.view.placed}
        if level == len(self.problem.levels) - 1:
            return [int(self.potentials[node]) - self.used[node] for node in nodes]
        inside = _inside(self.problem.nodes.layout)
        left = {path: int(self.potentials[inside[path]].sum()) for path in {self.view.path(level, n) for n in nodes}}
        for node, amount in self.used.items():
            left[self.view.path(level, node)] -= amount
        return [*left.values()]

    def _crossings(self, level: int) -> int:
        rows = [[self.view.path(level, each.node) for each in members] for members in self.sets]
        return sum(one != other for row in rows for one, other in pairwise(row))

    def _terminating(self) -> int:
        nodes, waits = self.problem.nodes, 0
        for node, used in self.used.items():
            now = int(nodes.free[node, self.scarce]) - int(nodes.terminating[node, self.scarce])
            freed = sum(requests[self.scarce] for requests in self.view.leaving.get(node, ()))
            waits += max(used - max(now + freed, 0), 0)
        return waits


IN_ORDER: list[Callable[[Recount], Iterator[Count]]] = [
    Recount.price,
    Recount.extras,
    Recount.compactness,
    Recount.preferences,
    Recount.terminating,
    Recount.waste,
    Recount.ranks,
    Recount.ties,
]
"""The goals in the order of decision 2, each with the method that counts it. The order is written here a second time,
so that the check does not depend on `solver.objective`.
"""


@lru_cache(maxsize=4)
def _inside(layout: NodeLayout) -> Mapping[Path, _Positions]:
    """Return, by path of a domain above the node, the positions of its nodes."""
    found: dict[Path, list[int]] = {}
    for node, path in enumerate(layout.paths):
        for depth in range(1, len(path) + 1):
            found.setdefault(path[:depth], []).append(node)
    return {path: np.array(nodes, dtype=np.int64) for path, nodes in found.items()}
