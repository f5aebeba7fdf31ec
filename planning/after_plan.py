"""The snapshot after a plan has been carried out, so that gangs that are planned later see the remaining capacity."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from cluster.devices.allocation import ClaimAllocation
from cluster.node_state import NodeState, Tenant
from cluster.snapshot import Snapshot
from kube.requests import pod_requests
from planning.decision import Assignment, Decision


def after(decision: Decision, snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with a reservation for each newly placed member on its node, and without the plan's
    victims.
    """
    return after_all((decision,), snapshot)


def after_all(decisions: Sequence[Decision], snapshot: Snapshot) -> Snapshot:
    """Return the snapshot as it is after the plans of all these decisions, in any order, have been carried out."""
    new = [each for decision in decisions for each in decision.assignments if not each.held]
    evictions = [each for decision in decisions for each in decision.evictions]
    if not new and not evictions:
        return snapshot
    arriving: dict[str, list[Tenant]] = {}
    for each in new:
        arriving.setdefault(each.node, []).append(_tenant(each))
    evicted = {f"{each.namespace}/{each.name}" for each in evictions}
    leaving = evicted | {each.member.pod.key for each in new}
    # Only nodes whose pods change are rebuilt. Each eviction names its victim's node. A new member may have an older
    # reservation, and every node with a reservation is in `expecting`.
    concerned = {each.node for each in evictions} | arriving.keys()
    concerned |= {state.name for state in snapshot.expecting if not state.marks.isdisjoint(leaving)}
    places = sorted(snapshot.positions[name] for name in concerned if name in snapshot.positions)
    states = [snapshot.nodes[place] for place in places]
    return snapshot.with_states(
        [_changed(state, arriving, leaving) for state in states],
        evicted_for={**snapshot.evicted_for, **_causes(decisions)} if evictions else snapshot.evicted_for,
        evicted=(*snapshot.evicted, *_leaving(states, evicted)),
        devices=None if snapshot.devices is None else snapshot.devices.with_planned(_devices(new)),
    )


def _devices(assignments: Iterable[Assignment]) -> Iterator[ClaimAllocation]:
    return (allocation for each in assignments for allocation in each.devices)


def _causes(decisions: Sequence[Decision]) -> dict[str, str]:
    return {f"{each.namespace}/{each.name}": str(decision.key) for decision in decisions for each in decision.evictions}


def _leaving(states: Iterable[NodeState], keys: set[str]) -> Iterator[Tenant]:
    """Yield the pods on these nodes that plans evict, so that disruption budgets can be charged for them.

    `keys`: the victims, as `namespace/name`.
    """
    for state in states:
        if not state.marks.isdisjoint(keys):
            yield from (tenant for tenant in state.tenants if tenant.pod.key in keys)


def _tenant(assignment: Assignment) -> Tenant:
    pod = assignment.member.pod
    return Tenant(
        pod=pod, node=assignment.node, requests=pod_requests(pod), priority=pod.spec.priority or 0, reserved=True
    )


def _changed(state: NodeState, arriving: dict[str, list[Tenant]], leaving: set[str]) -> NodeState:
    """Return the node's state after the plan, with the pods in `arriving` and without the pods in `leaving`.

    `arriving`: the reservations of new members, by node name. `leaving`: `namespace/name` of the victims, and of the
    newly placed members: an older reservation of such a member would otherwise count in addition to the new one.
    """
    stay = tuple(tenant for tenant in state.tenants if tenant.pod.key not in leaving)
    come = tuple(arriving.get(state.name, ()))
    if not come and len(stay) == len(state.tenants):
        return state
    return replace(state, tenants=stay + come)
