"""The PodDisruptionBudgets with the evictions that they still allow after all planned evictions. Each evicted pod is
charged once to each budget that covers it.

The disruption controller's count (`status.disruptionsAllowed`) covers past evictions. When the API server accepts an
eviction, the API server decrements this count and records the pod in `status.disruptedPods` (policy/v1). No status
shows planned evictions. This module charges planned evictions: those planned on the same snapshot (`Snapshot.evicted`),
and those of plans in force (`Snapshot.leaving`).
"""

import math
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet

import numpy as np

from cluster.evictable_pods import EvictablePods
from cluster.node_state import Tenant
from cluster.selectors import selects
from cluster.snapshot import Snapshot
from kube.objects import PodDisruptionBudget
from solver.problem import DisruptionBudget


def budgets_of(candidates: EvictablePods, snapshot: Snapshot) -> tuple[DisruptionBudget, ...]:
    """Return the budgets that cover these candidates, as constraints for the solver with the remaining allowance.

    A candidate whose eviction has been charged to a budget already is not charged again.
    """
    numbers, spent_in = {name: number for number, name in enumerate(candidates.namespaces)}, _spent_in(snapshot)
    budgets = []
    for budget in snapshot.budgets:
        namespace, covered = budget.metadata.namespace, covering(budget)
        there = np.flatnonzero(candidates.within == numbers.get(namespace, -1)).tolist()
        under = [position for position in there if covered(candidates.tenants[position])]
        if snapshot.leaving or budget.status.disrupted_pods:
            under = [position for position in under if not _charged(budget, candidates.tenants[position], snapshot)]
        if under:
            spent = sum(covered(each) and not _noted(budget, each) for each in spent_in.get(namespace, ()))
            allowed = max(0, _allowed(budget, snapshot) - spent)
            budgets.append(DisruptionBudget(f"{namespace}/{budget.metadata.name}", frozenset(under), allowed))
    return tuple(budgets)


def overdrawn(gone: AbstractSet[str], snapshot: Snapshot) -> str:
    """Return a message about the first budget that does not allow the eviction of all pods in `gone`
    (`namespace/name`).

    The victims of other plans are charged first. The message is "" if every budget allows the evictions.
    """
    going = [each for state in snapshot.holding_any(gone) for each in state.tenants if each.pod.key in gone]
    if not going:
        return ""
    spent_in = _spent_in(snapshot)
    for budget in snapshot.budgets:
        namespace = budget.metadata.namespace
        covered = {each.pod.key for each in going if _takes(budget, each)}
        planned = covered | {each.pod.key for each in spent_in.get(namespace, ()) if _takes(budget, each)}
        allowed = max(0, _allowed(budget, snapshot)) if covered else 0
        if covered and len(planned) > allowed:
            name = f"{namespace}/{budget.metadata.name}"
            return f"PodDisruptionBudget {name} allows {allowed} more evictions, and {len(planned)} are planned"
    return ""


def _takes(budget: PodDisruptionBudget, tenant: Tenant) -> bool:
    """Whether an eviction of the pod would be charged to the budget, because it has not been charged yet."""
    return covers(budget, tenant) and not (tenant.pod.terminating or _noted(budget, tenant))


def by_namespace(budgets: Iterable[PodDisruptionBudget]) -> dict[str, list[PodDisruptionBudget]]:
    """Return the budgets grouped by namespace."""
    found: dict[str, list[PodDisruptionBudget]] = {}
    for budget in budgets:
        found.setdefault(budget.metadata.namespace, []).append(budget)
    return found


def covers(budget: PodDisruptionBudget, tenant: Tenant) -> bool:
    """Whether the budget selects the pod.

    An empty selector selects every pod of the namespace, an absent selector none (policy/v1).
    """
    same = budget.metadata.namespace == tenant.pod.metadata.namespace
    return same and selects(budget.spec.selector, tenant.pod.metadata.labels)


def covering(budget: PodDisruptionBudget) -> Callable[[Tenant], bool]:
    """Return a predicate like `covers` that is fast for many pods. It may be called only for pods in the budget's own
    namespace.
    """
    selector = budget.spec.selector
    if selector is None or selector.match_expressions or len(selector.match_labels) > 1:
        return lambda tenant: selects(selector, tenant.pod.metadata.labels)
    if not selector.match_labels:
        return lambda _: True
    ((key, value),) = selector.match_labels.items()
    return lambda tenant: tenant.pod.metadata.labels.get(key) == value


def _charged(budget: PodDisruptionBudget, tenant: Tenant, snapshot: Snapshot) -> bool:
    return (bool(snapshot.leaving) and tenant.pod.key in snapshot.leaving) or _noted(budget, tenant)


def _noted(budget: PodDisruptionBudget, tenant: Tenant) -> bool:
    """Whether the API server has already charged the pod's eviction to the budget (`status.disruptedPods`)."""
    return tenant.pod.metadata.name in budget.status.disrupted_pods


def _spent_in(snapshot: Snapshot) -> dict[str, list[Tenant]]:
    """Return, by namespace, the pods that plans evict and that are not terminating yet. A pod that several plans evict
    is returned once.
    """
    spent = {tenant.pod.key: tenant for tenant in snapshot.evicted}
    for state in snapshot.holding_any(snapshot.leaving):
        spent |= {each.pod.key: each for each in state.tenants if each.pod.key in snapshot.leaving}
    found: dict[str, list[Tenant]] = {}
    for tenant in spent.values():
        if not tenant.pod.terminating:
            found.setdefault(tenant.pod.metadata.namespace, []).append(tenant)
    return found


def _allowed(budget: PodDisruptionBudget, snapshot: Snapshot) -> int:
    """Return how many more pods may be evicted under the budget.

    This is the disruption controller's count if the status has one. Otherwise the pods are counted by the same rules. A
    percentage applies to the running pods that the budget covers and is rounded up, as in the controller, for
    `minAvailable` and for `maxUnavailable`. A pod that is terminating, or recorded as disrupted, is not healthy. A
    budget with neither of these two fields allows nothing: the controller expects no pod then (disruption.go,
    getExpectedPodCount).
    """
    counted = budget.status.disruptions_allowed
    if counted is not None:
        return max(0, counted)
    covers_it = covering(budget)
    running, departing = snapshot.running_by_namespace.get(budget.metadata.namespace, ((), ()))
    covered = [*filter(covers_it, running)]
    noted = [each for each in covered if _noted(budget, each)] if budget.status.disrupted_pods else []
    going = [each for each in departing if covers_it(each) and not _noted(budget, each)]
    healthy = len(covered) - len(noted) - len(going)
    if budget.spec.max_unavailable is None and budget.spec.min_available is None:
        return 0
    if budget.spec.max_unavailable is not None:
        wanted = len(covered) - _share(budget.spec.max_unavailable, len(covered))
    else:
        wanted = _share(budget.spec.min_available or 0, len(covered))
    return healthy - wanted


def _share(value: int | str, total: int) -> int:
    """Return the value of an IntOrString: the number itself, or a percentage of `total` rounded up."""
    if isinstance(value, str) and value.endswith("%"):
        return math.ceil(int(value.removesuffix("%")) * total / 100)
    return int(value)
