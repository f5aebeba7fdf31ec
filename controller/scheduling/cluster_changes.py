"""Determines how the cluster has changed since a gang was rejected, and which changes can cure the rejection.

kube-scheduler's counterpart are queueing hints: a plugin that rejects a pod names the events that can make the pod
schedulable. Here there is one hint for a whole rejection, because planning checks all rules at once.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from cluster.devices.claims import Devices
from cluster.devices.extended_resources import provided_by_classes
from cluster.eligibility.host_ports import host_ports
from cluster.node_state import NodeState, Tenant
from cluster.snapshot import Snapshot
from controller.cluster_view import ClusterView
from gangs.model import Gang
from kube.devices import ResourceClaim
from kube.objects import Pod
from kube.topology import Topology
from planning.decision import Decision, Outcome
from solver.plan import Proof


class Cure(Enum):
    """The kind of event after which a rejected gang may have a plan."""

    TIME = "Time"
    """The end of its pause only, because its planning failed or its plan could not be carried out."""
    ANY_CHANGE = "AnyChange"
    """Any change of the inputs of its planning (`Basis`)."""
    MORE_THAN_NEW_PODS = "MoreThanNewPods"
    """Any change except further pods: a gang that fits nowhere also fits nowhere beside further pods.

    Examples: capacity is free now or soon, nodes or topologies are new, pods of lower priority are evictable now, or
    devices are new or free.
    """


class Basis(NamedTuple):
    """The inputs of planning a gang besides its request: the topologies, and the snapshot with the plans found before.

    `version`: two bases with equal versions were read from the same state of the cluster. Plans that were found
    meanwhile do not change the version.
    """

    snapshot: Snapshot
    topologies: Sequence[Topology]
    version: object = ""


def basis_of(cluster_view: ClusterView) -> Basis:
    """Return the inputs of planning on this cluster view."""
    snapshot, topologies = cluster_view.snapshot, cluster_view.topologies
    again = tuple((key, gang.made_again) for key, gang in cluster_view.made_again.items())
    version = snapshot.version, snapshot.leaving, tuple(topologies), cluster_view.terms, again
    return Basis(snapshot, topologies, version)


def cure_of(decision: Decision) -> Cure:
    """Return which changes of the cluster can cure this rejection.

    Further pods can cure it if the gang has pod affinity, topology spread or a queue with a quota, or if the rejection
    is not proven. They can cure no other rejection.
    """
    gang = decision.gang
    proven = decision.outcome is Outcome.UNPLACEABLE and decision.proof == Proof.INFEASIBLE.value
    if not proven or gang is None or gang.queue or any(_seeks_others(member.pod) for member in gang.members):
        return Cure.ANY_CHANGE
    return Cure.MORE_THAN_NEW_PODS


def _seeks_others(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    return bool(affinity is not None and affinity.pod_affinity) or bool(pod.spec.topology_spread_constraints)


class ClusterChanges:
    """Compares the present inputs of planning (`basis`) with earlier ones. Each comparison is made once."""

    def __init__(self, basis: Basis) -> None:
        self.basis = basis
        self._compared: dict[int, tuple[Basis, bool]] = {}
        self._compared_devices: dict[int, tuple[Basis, bool]] = {}

    def are_none(self, before: Basis) -> bool:
        """Return whether no input of planning has changed since `before`."""
        return before.version == self.basis.version

    def are_only_new_pods(self, before: Basis, gang: Gang) -> bool:
        """Return whether further pods are the only change of the inputs since `before`, and the gang could evict no pod
        at all. A proven rejection of the gang then still holds.
        """
        if self._might_evict(gang) or not self._is_fuller_than(before):
            return False
        return not any(self._has_claims(member.pod) for member in gang.members) or self._has_fewer_devices(before)

    def _has_claims(self, pod: Pod) -> bool:
        """Return whether the pod has claims, or will have one for an extended resource when it is created."""
        snapshot = self.basis.snapshot
        if pod.spec.resource_claims or not snapshot.device_classes:
            return bool(pod.spec.resource_claims)
        return bool(provided_by_classes(pod.spec, snapshot.device_classes, snapshot.allocatable_resources))

    def _has_fewer_devices(self, before: Basis) -> bool:
        known = self._compared_devices.get(id(before.snapshot))
        if known is None:
            fewer = _has_only_more_claims(before.snapshot.devices, self.basis.snapshot.devices)
            known = self._compared_devices[id(before.snapshot)] = before, fewer
        return known[1]

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
    """Return whether the only change of the cluster is that it has more pods. Then no node has more free capacity."""
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


def _has_only_more_claims(was: Devices | None, now: Devices | None) -> bool:
    """Return whether the only change of the devices is that more of them are taken. Then no device has become free.

    The inventory is the same object in memory as long as no slice and no DeviceTaintRule of other clients changes.
    """
    if was is None or now is None:
        return was is now
    same = was.inventory is now.inventory and was.classes == now.classes and was.templates == now.templates
    if not same or not all(each in now.planned for each in was.planned):
        return False
    return all(_frees_nothing(claim, now.claims.get(key)) for key, claim in was.claims.items())


def _frees_nothing(before: ResourceClaim, after: ResourceClaim | None) -> bool:
    """Return whether the change of a claim frees no devices and lowers no demand for devices.

    A claim with devices must still have the same devices. A claim without devices must be gone (`after` is None) or
    have the same spec. A user may delete a claim that asks for too much, and create another one of the same name.
    """
    if after is before or before.status.allocation is None:
        return after is before or after is None or after.spec == before.spec
    return after is not None and after.status.allocation == before.status.allocation


def _is_fuller_node(before: NodeState, after: NodeState) -> bool:
    if before.allocatable != after.allocatable or before.node != after.node:
        return False
    there = {tenant.pod.metadata.uid: tenant for tenant in after.tenants}
    return all(_holds_as_much(each, there.get(each.pod.metadata.uid)) for each in before.tenants)


def _holds_as_much(before: Tenant, after: Tenant | None) -> bool:
    """Return whether a pod still exists and restricts other pods as before.

    Its requests, labels, host ports and anti-affinity must be equal, and it must not have begun to terminate. A pod
    that was bound in between is equal in all of them.
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
