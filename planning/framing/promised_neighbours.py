"""Pods that must not all go, because one that is yet to be bound was promised to be near one of them."""

from collections.abc import Collection, Iterator, Sequence

from cluster.eligibility.pod_affinity import Namespaces, Occupant, affinity_terms
from cluster.node_state import NodeState, Tenant
from cluster.snapshot import Snapshot
from solver.problem import DisruptionBudget

AFFINITY = "affinity of "
"""How the name of such a budget begins."""


def kept_near(
    tenants: Sequence[Tenant], snapshot: Snapshot, priority: int, own: Collection[str]
) -> tuple[DisruptionBudget, ...]:
    """A budget over candidates for each pod that is yet to be bound on its node and is near to them alone: who comes
    with the gang may come later than that pod. One that only holds a reservation of lower priority gives way, and those
    of the gang itself (`own`) are planned anew.
    """
    waiting = [
        (state, each)
        for state in snapshot.expecting
        for each in state.awaited
        if each.pod.key not in own and not (each.reserved and each.priority < priority)
    ]
    if not waiting or not tenants:
        return ()
    there = [(state, each) for state in snapshot.nodes for each in state.tenants if not each.terminating]
    positions = {tenant.pod.key: position for position, tenant in enumerate(tenants)}
    found = []
    for state, each in waiting:
        for key, near in _near_to(each, state, there, snapshot.namespaces):
            if near <= positions.keys():
                kept = frozenset(positions[pod] for pod in near)
                found.append(DisruptionBudget(f"{AFFINITY}{each.pod.key} ({key})", kept, len(kept) - 1))
    return tuple(found)


def _near_to(
    tenant: Tenant, state: NodeState, there: Sequence[Occupant], namespaces: Namespaces
) -> Iterator[tuple[str, set[str]]]:
    """By topology key, the pods that a pod's affinity is about in the domain of its node, if it needs one of them:
    where nobody else is meant anywhere, a pod that means itself is the first of its kind when all of them are gone.
    """
    terms = affinity_terms(tenant.pod)
    matching = [
        (where.node, other.pod.key)
        for where, other in there
        if other is not tenant and all(term.matches(other.pod, namespaces) for term in terms)
    ]
    itself = all(term.matches(tenant.pod, namespaces) for term in terms)
    for key in dict.fromkeys(term.topology_key for term in terms):
        value = state.node.metadata.labels.get(key)
        near = {pod for node, pod in matching if node.metadata.labels.get(key) == value}
        if near and not (itself and len(near) == len(matching)):
            yield key, near
