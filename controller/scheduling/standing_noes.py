"""Whether a proven no still is one: where the cluster has only become fuller, it is, and nobody has to plan again.

A gang that fits nowhere fits nowhere beside more pods. What might help it nevertheless is looked at, and it is asked
again then: room that came free or is about to, a node that is new or has changed, pods that it wants to be near or that
shift its topology spread, quota, and pods of lower priority, whose eviction may be possible now.
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
    """What a no was given on: the cluster, with the plans that were found before it, and how its nodes lie."""

    snapshot: Snapshot
    topologies: Sequence[Topology]


def may_stand(decision: Decision) -> bool:
    """Whether more pods in the cluster cannot make a yes of this answer, but by being evicted."""
    gang = decision.gang
    proven = decision.outcome is Outcome.UNPLACEABLE and decision.proof == Proof.INFEASIBLE.value
    return proven and gang is not None and not gang.queue and not any(_seeks_others(m.pod) for m in gang.members)


def _seeks_others(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    return bool(affinity is not None and affinity.pod_affinity) or bool(pod.spec.topology_spread_constraints)


class Fuller:
    """One picture of the cluster, compared with those before it; each of them once.

    :param snapshot: as the cluster is now.
    """

    def __init__(self, snapshot: Snapshot, topologies: Sequence[Topology]) -> None:
        self.basis = Basis(snapshot, topologies)
        self._compared: dict[int, tuple[Basis, bool]] = {}

    def leaves(self, decision: Decision, before: Basis) -> bool:
        """Whether the no of `may_stand` that was given on `before` is one now."""
        return decision.gang is not None and not self._might_evict(decision.gang) and self._is_fuller_than(before)

    def _might_evict(self, gang: Gang) -> bool:
        lowest = self.basis.snapshot.lowest_evictable
        if not gang.preempts or lowest is None:
            return False
        return lowest < max([gang.priority, *(member.pod.spec.priority or 0 for member in gang.members)])

    def _is_fuller_than(self, before: Basis) -> bool:
        known = self._compared.get(id(before.snapshot))
        if known is None:
            known = self._compared[id(before.snapshot)] = before, _only_fuller(before, self.basis)
        return known[1]


def _only_fuller(before: Basis, after: Basis) -> bool:
    """Whether nothing but more pods is new."""
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
    """Whether a pod is there still and keeps others off as it did; its binding changes neither."""
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
