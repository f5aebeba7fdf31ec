"""Tables of an instance's running pods: where they are, what their eviction costs, and which of them conflict with
members.

The cost of evicting a victim is one number, its weight. A pod of a higher priority weighs more than many pods of lower
priorities. A gang that is evicted whole weighs as much as its members together. If several members of the gang are on
nodes where the planned gang may run, each of these members bears a share of the gang's weight.
"""

from collections import Counter
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from solver.capacity import Counts
from solver.instance import Instance

Weights = NDArray[np.float64]
"""Weights by node or by victim: the cost of evictions, as one number each."""

_LARGEST_WEIGHT = 1e200
"""The largest weight of one pod. Sums over all pods then stay far below the largest float, 1.8e308."""
_STEP = 1e4
"""The weight of a pod divided by the weight of a pod of the next lower priority. The ratio is smaller if there are so
many priorities that weights would exceed `_LARGEST_WEIGHT`.
"""


class RunningPods:
    """Tables of the running pods of an instance. They never change, and each table is computed at its first use."""

    def __init__(self, instance: Instance) -> None:
        self.instance, self.problem = instance, instance.problem

    @cached_property
    def conflicting(self) -> dict[int, dict[int, frozenset[int]]]:
        """By shape and node, the victims that must be evicted before a member of the shape may run there."""
        found: dict[int, dict[int, frozenset[int]]] = {}
        for rule in self.problem.conflicts:
            for shape in rule.shapes:
                by_node = found.setdefault(shape, {})
                for node in rule.nodes:
                    by_node[node] = by_node.get(node, frozenset()) | rule.victims
        return found

    @cached_property
    def affinity_targets(self) -> frozenset[int]:
        """The victims that a member may have pod affinity to. They are never evicted by the greedy method."""
        return frozenset[int]().union(*(rule.victims for rule in self.problem.affinities))

    @cached_property
    def useful(self) -> Counts:
        """The positions of the victims whose eviction can help."""
        return np.array(self.instance.useful, dtype=np.int64)

    @cached_property
    def node(self) -> list[int]:
        """The node of each victim, by position of the victim."""
        nodes: list[int] = self.problem.victims.node.tolist()
        return nodes

    @cached_property
    def gang(self) -> list[int]:
        """By position of a victim, its running gang; -1 if the victim is in no gang."""
        gangs: list[int] = self.problem.victims.gang.tolist()
        return gangs

    @cached_property
    def held(self) -> Counts:
        """The requests of the victims: victims x resources."""
        return self.problem.victims.requests

    @cached_property
    def holds(self) -> list[list[int]]:
        """The requests of the victims as lists: `holds[victim][resource]`. Single reads of lists are faster than those
        of `held`.
        """
        held: list[list[int]] = self.held.tolist()
        return held

    @cached_property
    def own(self) -> list[float]:
        """By victim, the weight of its own eviction: mainly its priority, and then its share of the scarcest resource.
        The weight of its gang is not included.
        """
        # ranks: by victim, the place of its priority among all priorities, the lowest being 0. The weight is step **
        # rank, so `step` pods of one priority weigh as much as one of the next higher one. The order is lexicographic
        # as long as fewer pods are evicted. The share of the held amount (between 0 and 1) decides at equal priority.
        priorities, ranks = np.unique(self.problem.victims.priority, return_inverse=True)
        step = min(_STEP, _LARGEST_WEIGHT ** (1 / max(1, len(priorities))))
        held = self.held[:, self.instance.scarce].astype(np.float64)
        more = held / max(1.0, float(held.sum()))
        weights: list[float] = (step ** ranks.astype(np.float64) * (1 + more)).tolist()
        return weights

    @cached_property
    def on_node(self) -> dict[int, list[int]]:
        """By node, its useful victims (whose eviction can help the gang). Nodes without useful victims have no
        entry.
        """
        found: dict[int, list[int]] = {}
        for victim in self.instance.useful:
            found.setdefault(self.node[victim], []).append(victim)
        return found

    @cached_property
    def members(self) -> dict[int, list[int]]:
        """By running gang, all of its victims."""
        found: dict[int, list[int]] = {}
        for victim, gang in enumerate(self.gang):
            if gang >= 0:
                found.setdefault(gang, []).append(victim)
        return found

    @cached_property
    def rest_of_gang(self) -> dict[int, tuple[float, int]]:
        """By running gang, the summed weight and the number of all its victims, before any of them is evicted."""
        return {gang: (sum(map(self.own.__getitem__, members)), len(members)) for gang, members in self.members.items()}

    @cached_property
    def near(self) -> Counter[int]:
        """By running gang, how many of its victims are on nodes where members may run."""
        usable = self.instance.usable.tolist()
        return Counter(self.gang[victim] for victim in self.instance.useful if usable[self.node[victim]])

    @cached_property
    def budgets_of(self) -> dict[int, list[int]]:
        """By victim, the positions of the disruption budgets that cover it. Victims without a budget have no entry."""
        found: dict[int, list[int]] = {}
        for place, budget in enumerate(self.problem.budgets):
            for victim in budget.victims:
                found.setdefault(victim, []).append(place)
        return found

    @cached_property
    def lightest(self) -> Weights:
        """By node, the smallest weight of a useful victim; infinite if the node has no useful victim."""
        found = np.full(len(self.problem.nodes), np.inf)
        np.minimum.at(found, self.problem.victims.node[self.useful], self.shares[self.useful])
        return found

    @cached_property
    def heaviest(self) -> Weights:
        """By node, the summed weight of its useful victims."""
        found = np.zeros(len(self.problem.nodes))
        np.add.at(found, self.problem.victims.node[self.useful], self.shares[self.useful])
        return found

    @cached_property
    def shares(self) -> Weights:
        """By victim, the cost of its eviction, as long as no pod is evicted. It is the victim's weight or, if its gang
        cannot spare a member, a share of the gang's weight.

        The gang's weight is divided by the number of its members on nodes where members may run.
        """
        found = np.array(self.own)
        for gang, (weight, count) in self.rest_of_gang.items():
            members = self.members[gang]
            if self.problem.victim_gangs[gang].cannot_spare(members[0]):
                found[members] = weight / max(1, min(count, self.near[gang]))
        return found

    @cached_property
    def largest(self) -> Counts:
        """Nodes x resources: the largest request of a useful victim on the node."""
        found = np.zeros_like(self.problem.nodes.free)
        np.maximum.at(found, self.problem.victims.node[self.useful], self.held[self.useful])
        return found

    @cached_property
    def freeable(self) -> Counts:
        """Nodes x resources: the summed requests of useful victims, without those under a disruption budget that allows
        no eviction.
        """
        found = np.zeros_like(self.problem.nodes.free)
        forbidden = {v for budget in self.problem.budgets if budget.allowed <= 0 for v in budget.victims}
        may_go = np.array([v for v in self.instance.useful if v not in forbidden], dtype=np.int64)
        np.add.at(found, self.problem.victims.node[may_go], self.held[may_go])
        return found
