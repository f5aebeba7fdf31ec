"""Checks whether a plan still fits the present snapshot, by counting the capacity of its nodes again.

A present nomination proves nothing: it stays when a pod of higher priority takes its capacity. So the capacity is
counted again from bound pods, terminating pods, and other nominations of equal or higher priority.
"""

from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from functools import cached_property

from cluster.eligibility.nodes import Eligibility
from cluster.eligibility.pod_affinity import AFFINITY, SPREAD, Neighbourhood, Occupant
from cluster.node_state import NodeState, Tenant, named_among, room
from cluster.snapshot import Snapshot
from kube.objects import Pod
from planning.framing.shapes import scheduling_key, watched_labels
from planning.scheduler_rules.binding_order import BindingOrder


def lost_room(
    planned: Iterable[tuple[Pod, str]],
    snapshot: Snapshot,
    *,
    priority: int,
    gone: Collection[str] = (),
    count_terminating: bool = False,
) -> str:
    """Return why the planned pods do not fit on their nodes any more; "" if they all still fit.

    Requests, node rules, host ports, pod affinity and topology spread are checked.

    :param planned: the members that still need their capacity, each with its node.
    :param priority: the gang's priority. Nominations of lower priority reserve nothing against it.
    :param gone: UIDs of pods that count as gone (victims that are still to be evicted).
    :param count_terminating: whether the capacity of terminating pods counts as free. It counts as free while the plan
        waits for its victims. It must not count as free when members are released.
    """
    members = list(planned)
    needed = _requests_by_node(members, snapshot)
    states = {name: state for name in needed if (state := snapshot.state(name)) is not None}
    # Members are ignored by UID and by name, because a snapshot shows a placeholder under the name of its expected pod.
    ignoring = {mark for pod, _ in members for mark in (pod.metadata.uid, pod.key)} | set(gone)
    for name, requests in needed.items():
        state = states.get(name)
        if state is None:
            return f"node {name} is gone"
        free, terminating = room(state, priority=priority, ignoring=ignoring)
        for resource, amount in requests.items():
            available = free.get(resource, 0) - (0 if count_terminating else terminating.get(resource, 0))
            if amount > available:
                return f"node {name} has no room left for {resource}"
    beside_the_others = _Together(members, snapshot, ignoring)
    alike, watched = dict[tuple[int | None, bytes], Eligibility](), watched_labels(snapshot)
    pods = [pod for pod, _ in members]
    for pod, node in members:
        mark = pod.spec.priority, scheduling_key(pod, watched)
        if mark not in alike:
            alike[mark] = Eligibility(pod, snapshot, ignoring=ignoring, until_gone=not count_terminating, members=pods)
        reason = alike[mark].exclusion(states[node])
        if reason == AFFINITY:
            reason = beside_the_others.affinity(pod, states[node])
        if reason:
            return f"node {node}: {reason}"
    return _unbindable(members, snapshot, priority, ignoring)


def _unbindable(members: Sequence[tuple[Pod, str]], snapshot: Snapshot, priority: int, gone: Container[str]) -> str:
    """Return why topology spread keeps the scheduler from binding the members one after the other; "" if it can.

    "" as well if no member has topology spread constraints.
    """
    if not any(pod.spec.topology_spread_constraints for pod, _ in members):
        return ""
    binding = BindingOrder(members, snapshot, priority=priority, gone=gone)
    return "" if binding.spread_holds() and binding.order() is not None else SPREAD


class _Together:
    """The cluster as it will be when all members run on their planned nodes, for checks of pod affinity."""

    def __init__(self, members: Sequence[tuple[Pod, str]], snapshot: Snapshot, ignoring: Container[str]) -> None:
        self._members, self._snapshot, self._ignoring = members, snapshot, ignoring

    def affinity(self, pod: Pod, state: NodeState) -> str:
        """Return why the pod's inter-pod affinity does not hold on the node; "" if it holds.

        The other members count as running on their planned nodes, because the scheduler binds a pod with affinity only
        after the pods that it needs near it.
        """
        others = [each for each in self._there if each[1].pod is not pod]
        return (
            AFFINITY if Neighbourhood(pod, others, self._snapshot.namespaces).exclusion(state.node) == AFFINITY else ""
        )

    @cached_property
    def _there(self) -> list[Occupant]:
        stay = [
            (state, tenant)
            for state in self._snapshot.nodes
            for tenant in state.tenants
            if not tenant.terminating and not named_among(tenant.pod, self._ignoring)
        ]
        there = ((self._snapshot.state(node), Tenant(pod, node, {}, 0)) for pod, node in self._members)
        return stay + [(state, tenant) for state, tenant in there if state is not None]


def _requests_by_node(members: Iterable[tuple[Pod, str]], snapshot: Snapshot) -> Mapping[str, Mapping[str, int]]:
    needed: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for pod, node in members:
        for resource, amount in snapshot.node_requests(pod).items():
            needed[node][resource] += amount
    return needed
