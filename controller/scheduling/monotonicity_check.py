"""Whether a proven rejection still holds without replanning: it does if the cluster has only gained pods.

A gang that fits nowhere also fits nowhere beside more pods. The exceptions are checked, and then the gang is replanned.
Capacity may be free now or soon, and nodes may be new or changed. New pods may satisfy the gang's affinity or change
its topology spread. Quota may be free, and pods of lower priority may be evictable now.
"""

from collections.abc import Sequence
from typing import NamedTuple

from cluster.eligibility.host_ports import host_ports
from cluster.node_state import NodeState, Tenant
from cluster.snapshot import Snapshot
from gangs.model import Gang
from kube.objects import Pod
from kube.topology import Topology
from planning.decision import Decision, Outcome
from solver.plan import Proof


class Basis(NamedTuple):
    """The inputs of a rejection: the cluster with the plans that were found before it, and the topologies."""

    snapshot: Snapshot
    topologies: Sequence[Topology]


def is_monotone(decision: Decision) -> bool:
    """Return whether the decision is a proven rejection that more pods cannot change, unless they are evicted."""
    gang = decision.gang
    proven = decision.outcome is Outcome.UNPLACEABLE and decision.proof == Proof.INFEASIBLE.value
    return proven and gang is not None and not gang.queue and not any(_seeks_others(m.pod) for m in gang.members)


def _seeks_others(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    return bool(affinity is not None and affinity.pod_affinity) or bool(pod.spec.topology_spread_constraints)


class MonotonicityCheck:
    """Checks whether the present snapshot differs from earlier ones only by more pods. Each comparison is made once.

    Feasibility is monotone in the pods of the cluster: a gang that has no plan has none beside further pods either.

    :param snapshot: the present state of the cluster.
    """

    def __init__(self, snapshot: Snapshot, topologies: Sequence[Topology]) -> None:
        self.basis = Basis(snapshot, topologies)
        self._compared: dict[int, tuple[Basis, bool]] = {}

    def still_holds(self, decision: Decision, before: Basis) -> bool:
        """Return whether a rejection from the basis `before`, which passed `is_monotone`, still holds."""
        return decision.gang is not None and not self._might_evict(decision.gang) and self._is_fuller_than(before)

    def _might_evict(self, gang: Gang) -> bool:
        lowest = self.basis.snapshot.lowest_evictable
        if not gang.preempts or lowest is None:
            return False
        return lowest < max([gang.priority, *(member.pod.spec.priority or 0 for member in gang.members)])

    def _is_fuller_than(self, before: Basis) -> bool:
        known = self._compared.get(id(before.snapshot))
        if known is None:
            known = self._compared[id(before.snapshot)] = before, _has_only_more_pods(before, self.basis)
        return known[1]


def _has_only_more_pods(before: Basis, after: Basis) -> bool:
    """Return whether the cluster has changed only by more pods."""
    was, now = before.snapshot, after.snapshot
    return (
        len(was.nodes) == len(now.nodes)
        and was.leaving == now.leaving
        and list(before.topologies) == list(after.topologies)
        and was.namespaces == now.namespaces
        and was.volumes == now.volumes
        and was.priority_classes == now.priority_classes
        and all(a is b or _is_fuller_node(a, b) for a, b in zip(was.nodes, now.nodes, strict=True))
    )


def _is_fuller_node(before: NodeState, after: NodeState) -> bool:
    if before.allocatable != after.allocatable or before.node != after.node:
        return False
    there = {tenant.pod.metadata.uid: tenant for tenant in after.tenants}
    return all(_holds_as_much(each, there.get(each.pod.metadata.uid)) for each in before.tenants)


def _holds_as_much(before: Tenant, after: Tenant | None) -> bool:
    """Return whether a pod still exists and takes as much from others: requests, labels, ports and anti-affinity.

    Its binding changes none of them.
    """
    if after is None:
        return False
    if after.terminating > before.terminating:
        return False
    if after is before or after.pod is before.pod:
        return after.requests == before.requests
    was, now = before.pod, after.pod
    return (
        after.requests == before.requests
        and now.metadata.labels == was.metadata.labels
        and host_ports(now) == host_ports(was)
        and _anti_affinity(now) == _anti_affinity(was)
    )


def _anti_affinity(pod: Pod) -> object:
    return pod.spec.affinity.pod_anti_affinity if pod.spec.affinity is not None else None
