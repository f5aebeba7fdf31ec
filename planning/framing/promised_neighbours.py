"""Protects pods beside which an unbound, planned pod must run: a plan may not evict all pods that satisfy the affinity
of the planned pod.

The protection is a disruption budget in the solver's problem. No object in the cluster exists for it.
"""

from collections.abc import Collection, Iterator, Sequence

from cluster.eligibility.pod_affinity import Namespaces, Occupant, affinity_terms
from cluster.node_state import NodeState, Tenant
from cluster.snapshot import Snapshot
from solver.problem import DisruptionBudget

AFFINITY = "affinity of "
"""Prefix of the names of these budgets."""


def kept_near(
    tenants: Sequence[Tenant], snapshot: Snapshot, priority: int, own: Collection[str]
) -> tuple[DisruptionBudget, ...]:
    """Return a disruption budget for each planned, unbound pod whose affinity only candidates for eviction satisfy on
    its node.

    The budget lets at least one of these candidates stay. `tenants`: the candidates. `own`: the planned gang's members;
    they get no budget, because they are planned again, and they do not count as neighbours, because they may be bound
    later. A pod with only a reservation of lower priority gets no budget either, because the planned gang may take its
    capacity.
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
    """Yield each topology key of the pod's affinity, with the pods that satisfy the affinity in the node's domain of
    this key.

    `there`: the pods of the cluster that may satisfy the affinity. A key is left out if the affinity selects the pod
    itself, and no pod outside the domain. If all selected pods of the domain are evicted, no selected pod is left, and
    the scheduler lets the pod start as the first one.
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
