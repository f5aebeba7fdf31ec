"""The running pods of an instance in tables: where they are, what they weigh, who is in whose way.

What a victim costs is weighed in one number: a pod of a higher priority more than all below it, a gang that goes whole
its members, in shares where several of them stand where members may come.
"""

from collections import Counter
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from solver.capacity import Counts
from solver.instance import Instance

Weights = NDArray[np.float64]
"""By node or victim, what it costs."""

_LARGEST_WEIGHT = 1e200
_STEP = 1e4
"""How much more a pod counts than one of the next lower priority, unless there are too many priorities for that."""


class RunningPods:
    """Worked out when first asked for; nothing changes."""

    def __init__(self, instance: Instance) -> None:
        self.instance, self.problem = instance, instance.problem

    @cached_property
    def in_the_way(self) -> dict[int, dict[int, frozenset[int]]]:
        """By shape and node, who must go before a member may come."""
        found: dict[int, dict[int, frozenset[int]]] = {}
        for rule in self.problem.conflicts:
            for shape in rule.shapes:
                by_node = found.setdefault(shape, {})
                for node in rule.nodes:
                    by_node[node] = by_node.get(node, frozenset()) | rule.victims
        return found

    @cached_property
    def relied_on(self) -> frozenset[int]:
        """Those that a member may want to be near, and nobody else."""
        return frozenset[int]().union(*(rule.victims for rule in self.problem.affinities))

    @cached_property
    def useful(self) -> Counts:
        """Those whose going can help."""
        return np.array(self.instance.useful, dtype=np.int64)

    @cached_property
    def node(self) -> list[int]:
        """By victim, its node."""
        nodes: list[int] = self.problem.victims.node.tolist()
        return nodes

    @cached_property
    def gang(self) -> list[int]:
        """By victim, its gang; -1: none."""
        gangs: list[int] = self.problem.victims.gang.tolist()
        return gangs

    @cached_property
    def held(self) -> Counts:
        """By victim, what it asks for."""
        return self.problem.victims.requests

    @cached_property
    def holds(self) -> list[list[int]]:
        """The same as lists."""
        held: list[list[int]] = self.held.tolist()
        return held

    @cached_property
    def own(self) -> list[float]:
        """What each victim weighs by itself: its priority, then a little more the more it holds."""
        # ranks: victims, the place of each one's priority among all that there are, the lowest being 0. The weight is
        # step ** rank, so that `step` pods of one priority weigh as much as one of the next; lexicographic as long as
        # fewer go. Beside it the share of what is held (between 0 and 1), for the last digit.
        priorities, ranks = np.unique(self.problem.victims.priority, return_inverse=True)
        step = min(_STEP, _LARGEST_WEIGHT ** (1 / max(1, len(priorities))))
        held = self.held[:, self.instance.scarce].astype(np.float64)
        more = held / max(1.0, float(held.sum()))
        weights: list[float] = (step ** ranks.astype(np.float64) * (1 + more)).tolist()
        return weights

    @cached_property
    def on_node(self) -> dict[int, list[int]]:
        """The victims of each node where members may come."""
        found: dict[int, list[int]] = {}
        for victim in self.instance.useful:
            found.setdefault(self.node[victim], []).append(victim)
        return found

    @cached_property
    def members(self) -> dict[int, list[int]]:
        """The victims of each gang."""
        found: dict[int, list[int]] = {}
        for victim, gang in enumerate(self.gang):
            if gang >= 0:
                found.setdefault(gang, []).append(victim)
        return found

    @cached_property
    def rest_of_gang(self) -> dict[int, tuple[float, int]]:
        """What those of each gang weigh who may go and have not gone, and how many they are."""
        return {gang: (sum(map(self.own.__getitem__, members)), len(members)) for gang, members in self.members.items()}

    @cached_property
    def near(self) -> Counter[int]:
        """Of each gang, how many stand where members may come."""
        usable = self.instance.usable.tolist()
        return Counter(self.gang[victim] for victim in self.instance.useful if usable[self.node[victim]])

    @cached_property
    def budgets_of(self) -> dict[int, list[int]]:
        """By victim, the disruption budgets that it is under."""
        found: dict[int, list[int]] = {}
        for place, budget in enumerate(self.problem.budgets):
            for victim in budget.victims:
                found.setdefault(victim, []).append(place)
        return found

    @cached_property
    def lightest(self) -> Weights:
        """By node, the least that a victim weighs there."""
        found = np.full(len(self.problem.nodes), np.inf)
        np.minimum.at(found, self.problem.victims.node[self.useful], self.shares[self.useful])
        return found

    @cached_property
    def heaviest(self) -> Weights:
        """By node, what all victims weigh there."""
        found = np.zeros(len(self.problem.nodes))
        np.add.at(found, self.problem.victims.node[self.useful], self.shares[self.useful])
        return found

    @cached_property
    def shares(self) -> Weights:
        """What each victim costs where nobody has gone and all members of its gang are of use."""
        found = np.array(self.own)
        for gang, (weight, count) in self.rest_of_gang.items():
            members = self.members[gang]
            if self.problem.victim_gangs[gang].cannot_spare(members[0]):
                found[members] = weight / max(1, min(count, self.near[gang]))
        return found

    @cached_property
    def largest(self) -> Counts:
        """By node and resource, the most that a victim holds there."""
        found = np.zeros_like(self.problem.nodes.free)
        np.maximum.at(found, self.problem.victims.node[self.useful], self.held[self.useful])
        return found

    @cached_property
    def freeable(self) -> Counts:
        """By node and resource, what all victims there hold that may go at all."""
        found = np.zeros_like(self.problem.nodes.free)
        forbidden = {v for budget in self.problem.budgets if budget.allowed <= 0 for v in budget.victims}
        may_go = np.array([v for v in self.instance.useful if v not in forbidden], dtype=np.int64)
        np.add.at(found, self.problem.victims.node[may_go], self.held[may_go])
        return found
