"""What disruption budgets still allow, when all that plans have spent is charged: each pod once, whoever evicts it.

The disruption controller's count (`status.disruptionsAllowed`) holds what has been evicted up to then; the API server
takes a pod off it and notes it in `status.disruptedPods` when it accepts an eviction (policy/v1). What plans mean to
evict is in no status: evictions planned on the same picture (`Snapshot.evicted`), and those of plans in force
(`Snapshot.leaving`).
"""

import math
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from cluster.selectors import selects
from cluster.snapshot import Snapshot, Tenant
from kube.objects import PodDisruptionBudget
from solver.problem import DisruptionBudget


def budgets_of(tenants: Sequence[Tenant], snapshot: Snapshot) -> tuple[DisruptionBudget, ...]:
    """The budgets over these candidates in the solver's words, with what is left of them. A candidate that has been
    charged already costs nothing more.
    """
    candidates_in: dict[str, list[int]] = {}
    for position, tenant in enumerate(tenants):
        candidates_in.setdefault(tenant.pod.metadata.namespace, []).append(position)
    relevant = [each for each in snapshot.budgets if each.metadata.namespace in candidates_in]
    running_in = _running_in(snapshot) if any(map(_uncounted, relevant)) else {}
    spent_in = _spent_in(snapshot)
    budgets = []
    for budget in relevant:
        namespace = budget.metadata.namespace
        under = frozenset(
            position
            for position in candidates_in[namespace]
            if covers(budget, tenants[position]) and not _charged(budget, tenants[position], snapshot)
        )
        if under:
            spent = sum(covers(budget, each) and not _noted(budget, each) for each in spent_in.get(namespace, ()))
            allowed = max(0, _allowed(budget, running_in.get(namespace, ())) - spent)
            budgets.append(DisruptionBudget(f"{namespace}/{budget.metadata.name}", under, allowed))
    return tuple(budgets)


def overdrawn(gone: AbstractSet[str], snapshot: Snapshot) -> str:
    """Which budget does not allow that all these pods (`namespace/name`) go beside those that other plans evict; ""
    where all do.
    """
    going = [each for state in snapshot.nodes if state.marks & gone for each in state.tenants if each.pod.key in gone]
    if not going:
        return ""
    running_in = _running_in(snapshot) if any(map(_uncounted, snapshot.budgets)) else {}
    spent_in = _spent_in(snapshot)
    for budget in snapshot.budgets:
        namespace = budget.metadata.namespace
        covered = {each.pod.key for each in going if _takes(budget, each)}
        planned = covered | {each.pod.key for each in spent_in.get(namespace, ()) if _takes(budget, each)}
        allowed = max(0, _allowed(budget, running_in.get(namespace, ()))) if covered else 0
        if covered and len(planned) > allowed:
            name = f"{namespace}/{budget.metadata.name}"
            return f"PodDisruptionBudget {name} allows {allowed} more evictions, and {len(planned)} are planned"
    return ""


def _takes(budget: PodDisruptionBudget, tenant: Tenant) -> bool:
    """Whether evicting the pod would take from the budget what has not been taken yet."""
    return covers(budget, tenant) and not (tenant.terminating or _noted(budget, tenant))


def by_namespace(budgets: Iterable[PodDisruptionBudget]) -> dict[str, list[PodDisruptionBudget]]:
    """The budgets of each namespace."""
    found: dict[str, list[PodDisruptionBudget]] = {}
    for budget in budgets:
        found.setdefault(budget.metadata.namespace, []).append(budget)
    return found


def covers(budget: PodDisruptionBudget, tenant: Tenant) -> bool:
    """An empty selector covers the whole namespace, an absent one nothing (policy/v1)."""
    same = budget.metadata.namespace == tenant.pod.metadata.namespace
    return same and selects(budget.spec.selector, tenant.pod.metadata.labels)


def _charged(budget: PodDisruptionBudget, tenant: Tenant, snapshot: Snapshot) -> bool:
    return tenant.pod.key in snapshot.leaving or _noted(budget, tenant)


def _noted(budget: PodDisruptionBudget, tenant: Tenant) -> bool:
    """Whether the API server has taken the pod off the budget already."""
    return tenant.pod.metadata.name in budget.status.disrupted_pods


def _spent_in(snapshot: Snapshot) -> dict[str, list[Tenant]]:
    """By namespace the pods that plans evict and that are not on their way out yet, each once."""
    spent = {tenant.pod.key: tenant for tenant in snapshot.evicted}
    if snapshot.leaving:
        for state in snapshot.nodes:
            if not state.marks.isdisjoint(snapshot.leaving):
                spent |= {each.pod.key: each for each in state.tenants if each.pod.key in snapshot.leaving}
    found: dict[str, list[Tenant]] = {}
    for tenant in spent.values():
        if not tenant.terminating:
            found.setdefault(tenant.pod.metadata.namespace, []).append(tenant)
    return found


def _running_in(snapshot: Snapshot) -> dict[str, list[Tenant]]:
    """The pods by namespace that ran when the picture was taken."""
    found: dict[str, list[Tenant]] = {}
    everybody = (tenant for state in snapshot.nodes for tenant in state.tenants if not tenant.reserved)
    for tenant in (*everybody, *snapshot.evicted):
        found.setdefault(tenant.pod.metadata.namespace, []).append(tenant)
    return found


def _uncounted(budget: PodDisruptionBudget) -> bool:
    """Whether the disruption controller has not seen the budget yet."""
    return budget.status.disruptions_allowed is None


def _allowed(budget: PodDisruptionBudget, running: Iterable[Tenant]) -> int:
    """How many more pods may go: what the disruption controller has counted, else counted here as it would.

    Shares are taken of the running pods (`running`: those of its namespace) that the budget covers and rounded up, as
    the controller does for both fields. Pods that are on their way out, or as good as evicted, are not healthy.
    A budget of neither field allows nothing: the controller expects no pod then (disruption.go, getExpectedPodCount).
    """
    counted = budget.status.disruptions_allowed
    if counted is not None:
        return max(0, counted)
    covered = [tenant for tenant in running if covers(budget, tenant)]
    healthy = sum(not (tenant.terminating or _noted(budget, tenant)) for tenant in covered)
    if budget.spec.max_unavailable is None and budget.spec.min_available is None:
        return 0
    if budget.spec.max_unavailable is not None:
        wanted = len(covered) - _share(budget.spec.max_unavailable, len(covered))
    else:
        wanted = _share(budget.spec.min_available or 0, len(covered))
    return healthy - wanted


def _share(value: int | str, total: int) -> int:
    """An IntOrString: a number, or a percentage of `total` rounded up."""
    if isinstance(value, str) and value.endswith("%"):
        return math.ceil(int(value.removesuffix("%")) * total / 100)
    return int(value)
