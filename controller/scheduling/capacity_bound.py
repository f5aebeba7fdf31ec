"""Capacity bound: whether a gang could fit on the nodes at all, by counting alone, before it is planned.

Planning a gang that fits nowhere takes 50 ms with 5,000 nodes. With 2,000 pods it takes a tenth of a second or more.
Counting reaches the same rejection with a few sums, so gangs that may fit do not wait for the planning of such gangs.
"""

from collections.abc import Sequence
from typing import Self

import numpy as np

from cluster.node_state import Amounts, NodeState
from cluster.snapshot import Snapshot
from cluster.topology.tree import DomainTree, domains
from controller.scheduling.demand import DemandClass, MinimumDemand, Need, Requests
from controller.scheduling.eligibility_cache import EligibilityCache, Integers
from kube.topology import Topology

MOST_COUNTED = 256
"""The most different needs that are counted node by node in one snapshot. Further needs are compared with sums only."""
_HUGE = 2**62
"""The cap on amounts of a resource, in its smallest unit, so that they fit into int64. Larger amounts are cut to it."""
_MANY = 2**31
"""More pods than any node holds. The kubelet's default limit is 110."""
_ROUNDING = 1e-6
"""The allowance for rounding, as a share of a floating-point sum.

Adding n numbers has an error of at most n * 2**-53 of the sum, so the allowance covers any number of nodes.
"""


class CapacityBound:
    """An upper bound on the capacity that a snapshot's nodes offer to a plan. A gang above it is infeasible.

    The cost of an update to a new snapshot is proportional to the number of changed nodes.
    """

    def __init__(self) -> None:
        self._snapshot = Snapshot()
        self._topologies: list[Topology] = []
        """The topologies of the last call of `update`. The list object is kept while its content is equal."""
        self._eligibility = EligibilityCache()
        self._bounds: dict[int, _PriorityBound] = {}
        """The upper bounds by priority of the gang that needs capacity."""
        self._most: dict[tuple[Requests, int, Topology | None, str | None], int] = {}
        """The most pods that fit into one domain of this snapshot, over all domains of a level.

        By the pods' requests, their priority, the topology and the level.
        """
        self._chosen: dict[tuple[Need, int, Topology | None], bool] = {}
        """Whether some domain of this snapshot holds the needed pods, counting only nodes that the pods may use.

        By need, priority and topology.
        """
        self._verdicts: dict[tuple[DemandClass, int], bool] = {}
        """The results of `may_hold` in this snapshot, by demand class and `id` of the topology.

        Hundreds of gangs may be in the same demand class.
        """
        self._numbers: dict[tuple[Topology, str | None], tuple[DomainTree, Integers]] = {}
        """By topology and level: the domain tree, and the number of each node's domain in it (`_domains`)."""

    @property
    def checks(self) -> int:
        """How many times the bound has checked so far whether a pod may run on a node. The number measures the cost of
        the bound.
        """
        return self._eligibility.checks

    def update(self, snapshot: Snapshot, topologies: Sequence[Topology]) -> Self:
        """Base the bound on this snapshot and these topologies from now on. Return the object itself."""
        if self._topologies != (there := list(topologies)):
            self._topologies, self._verdicts = there, {}
        if self._snapshot is snapshot:
            return self
        self._snapshot = snapshot
        self._eligibility.update(snapshot)
        self._bounds = {priority: bound for priority, bound in self._bounds.items() if bound.asked}
        for bound in self._bounds.values():
            bound.update(snapshot)
        self._most, self._chosen, self._verdicts = {}, {}, {}
        if len(self._numbers) > MOST_COUNTED:
            self._numbers = {}
        return self

    def may_hold(self, demand: MinimumDemand) -> bool:
        """Return whether the gang may fit. False proves that no plan exists for it."""
        if not demand.demand_class.needs:
            return True
        topology = demand.topology(self._topologies) if self._topologies else None
        within = topology if isinstance(topology, Topology) else None
        mark = demand.demand_class, id(within)
        if mark not in self._verdicts:
            self._verdicts[mark] = self._may_hold(demand.demand_class, within)
        return self._verdicts[mark]

    def _may_hold(self, demand_class: DemandClass, within: Topology | None) -> bool:
        bound = self._at(demand_class.priority)
        if any(bound.total(name) < amount for name, amount in demand_class.amounts):
            return False
        return all(self._may_fit(each, demand_class.priority, within) for each in demand_class.needs)

    def _may_fit(self, need: Need, priority: int, topology: Topology | None) -> bool:
        """Return whether some domain may hold the needed pods, if each of them had the smallest requests of all.

        True if `MOST_COUNTED` other needs have been counted in this snapshot already.
        """
        counted, chosen = (need.requests, priority, topology, need.level), (need, priority, topology)
        if counted not in self._most and len(self._most) < MOST_COUNTED:
            fit, domain = self._fitting(need, priority, topology)
            self._most[counted] = int(np.bincount(domain[domain >= 0], weights=fit[domain >= 0], minlength=1).max())
        if self._most.get(counted, need.pods) < need.pods:
            return False
        if chosen not in self._chosen and len(self._chosen) < MOST_COUNTED:
            fit, domain = self._fitting(need, priority, topology)
            nodes = self._eligibility.allowed_nodes(
                need.eligibility_classes, _enough(fit, domain, np.flatnonzero(domain >= 0), need.pods)
            )
            self._chosen[chosen] = bool(_enough(fit, domain, nodes, need.pods).size)
        return self._chosen.get(chosen, True)

    def _fitting(self, need: Need, priority: int, topology: Topology | None) -> tuple[Integers, Integers]:
        """Return two arrays over the nodes: how many of the needed pods each node could hold, and its domain's number.

        The number is -1 for a node outside the topology, and for a node that could hold none of the pods. For example,
        ([4, 0, 8], [0, -1, 0]): nodes 0 and 2 of one domain could hold 4 and 8 pods.
        """
        fit = self._at(priority).fitting(need.requests)
        return fit, np.where(fit > 0, self._domains(topology, need.level), -1)

    def _domains(self, topology: Topology | None, level: str | None) -> Integers:
        """Return, for each node, the number of its domain at this level; -1 for a node outside the topology.

        Without a topology or a level, all nodes are in one domain.
        """
        if topology is None:
            return np.zeros(len(self._snapshot.nodes), dtype=np.int64)
        tree = domains(topology, self._snapshot.node_objects)
        known = self._numbers.get((topology, level))
        if known is None or known[0] is not tree:
            known = self._numbers[topology, level] = tree, _numbers(tree, level, self._snapshot)
        return known[1]

    def _at(self, priority: int) -> "_PriorityBound":
        """Return the upper bound for gangs of this priority.

        The capacity of pods that are leaving or have lower priority counts as free, because the gang may get it.
        Capacity that is reserved at the same priority counts as free, too, because it may be reserved for the gang.
        """
        bound = self._bounds.get(priority)
        if bound is None:
            bound = self._bounds[priority] = _PriorityBound(priority)
            bound.update(self._snapshot)
        bound.asked = True
        return bound


class _PriorityBound:
    """An upper bound on the capacity that each node offers to gangs of one priority.

    `asked`: whether some gang has been checked against the bound since the last call of `update`. If none has, the
    bound is dropped.
    """

    def __init__(self, priority: int) -> None:
        self.asked = False
        self._priority = priority
        self._leaving = frozenset[str]()
        self._states: Sequence[NodeState] = ()
        self._by_node: list[Amounts] = []
        self._columns: dict[str, Integers] = {}
        self._totals: dict[str, float] = {}
        self._offered: frozenset[str] | None = None
        """The resources that at least one node has. None until they are first needed."""

    def update(self, snapshot: Snapshot) -> None:
        """Switch to this snapshot, recomputing the changed nodes only."""
        self.asked = False
        states, before = snapshot.nodes, self._states
        if len(states) != len(before) or snapshot.leaving != self._leaving:
            self._by_node = [_offer(state, self._priority, snapshot.leaving) for state in states]
            self._columns = {}
        else:
            for at in [at for at, (new, old) in enumerate(zip(states, before, strict=True)) if new is not old]:
                self._by_node[at] = _offer(states[at], self._priority, snapshot.leaving)
                for name, column in self._columns.items():
                    column[at] = _within_bounds(self._by_node[at].get(name, 0))
        self._states, self._leaving, self._totals, self._offered = states, snapshot.leaving, {}, None

    def total(self, name: str) -> float:
        """Return the amount of a resource on all nodes together, rounded up."""
        if name not in self._totals:
            self._totals[name] = float(self._column(name).sum(dtype=np.float64)) * (1 + _ROUNDING)
        return self._totals[name]

    def fitting(self, requests: Requests) -> Integers:
        """Return, for each node, how many pods with these requests it could hold; at most `_MANY`."""
        fit = np.full(len(self._by_node), _MANY, dtype=np.int64)
        for name, amount in requests:
            np.minimum(fit, self._column(name) // min(amount, _HUGE), out=fit)
        return fit

    def _column(self, name: str) -> Integers:
        """Return how much of one resource each node offers, in its base unit, by the node's position in the snapshot.

        A resource that no node has is not cached, because users can invent any number of such names.
        """
        if name not in self._columns:
            if self._offered is None:
                self._offered = frozenset[str]().union(*self._by_node)
            if name not in self._offered:
                return np.zeros(len(self._by_node), dtype=np.int64)
            if len(self._columns) >= MOST_COUNTED:
                self._columns = {}
            amounts = (_within_bounds(each.get(name, 0)) for each in self._by_node)
            self._columns[name] = np.fromiter(amounts, dtype=np.int64, count=len(self._by_node))
        return self._columns[name]


def _within_bounds(amount: int) -> int:
    return min(max(amount, 0), _HUGE - 1)


def _enough(fit: Integers, domain: Integers, nodes: Integers, pods: int) -> Integers:
    """Return those of `nodes` whose domain holds at least `pods` pods. Only the nodes in `nodes` count.

    :param fit: by node, how many of the pods it could hold.
    :param domain: by node, the number of its domain.
    :param nodes: positions of nodes.
    """
    if not nodes.size:
        return nodes
    sums = np.bincount(domain[nodes], weights=np.minimum(fit[nodes], pods))
    return nodes[sums[domain[nodes]] >= pods]


def _numbers(tree: DomainTree, level: str | None, snapshot: Snapshot) -> Integers:
    found = tree.topology.find(level) if level is not None else None
    depth = 0 if found is None else found + 1
    numbers: dict[tuple[str, ...], int] = {}
    by_node = np.full(len(snapshot.nodes), -1, dtype=np.int64)
    for at, state in enumerate(snapshot.nodes):
        if (above := tree.path_of.get(state.name)) is not None:
            by_node[at] = numbers.setdefault((*above, state.name)[:depth], len(numbers))
    return by_node


def _offer(state: NodeState, priority: int, leaving: frozenset[str]) -> Amounts:
    lowest = state.lowest_evictable
    stays = state.marks.isdisjoint(leaving)
    if stays and not state.reserving and (lowest is None or lowest >= priority):
        return state.room[0]
    return state.room_beside(
        each
        for each in state.tenants
        if (each.priority > priority or (each.priority == priority and not each.reserved))
        and (stays or each.pod.key not in leaving)
    )[0]
