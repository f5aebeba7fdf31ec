"""Who may be evicted for a gang, in which gangs they run, and what the disruption budgets still allow."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from cluster.selectors import selects
from cluster.snapshot import Snapshot, Tenant
from gangs.model import Gang, GangKey
from kube.objects import PodDisruptionBudget
from solver.nodes import Amounts
from solver.problem import NO_VICTIMS, Budget, VictimGang, VictimTable


@dataclass(frozen=True, slots=True)
class RunningGang:
    """The gang of a running pod, and how many of its members must still run for it to be of use."""

    key: GangKey
    minimum: int


RunningGangs = Mapping[str, RunningGang]
"""By the pod's `namespace/name`, its identity within one snapshot."""


@dataclass(frozen=True, slots=True)
class Victims:
    """The candidates with what protects them; all positions refer to `victims`, which is parallel to `tenants`."""

    tenants: tuple[Tenant, ...] = ()
    victims: VictimTable = NO_VICTIMS
    gangs: tuple[VictimGang, ...] = ()
    budgets: tuple[Budget, ...] = ()


def running_gangs(gangs: Iterable[Gang]) -> dict[str, RunningGang]:
    """Who belongs to which gang, for every member that has a node."""
    return {
        member.pod.key: RunningGang(gang.key, gang.still_needed)
        for gang in gangs
        for member in gang.members
        if member.pod.bound
    }


def candidates(snapshot: Snapshot, priority: int, useful: Iterable[str], running: RunningGangs) -> list[Tenant]:
    """The pods that may be evicted for a gang of that priority, in the order of the snapshot: of lower priority,
    running, not protected.

    Only those on `useful` nodes (by name: the gang could be placed there) count, and wherever they run their
    siblings, because a gang that is broken goes as a whole. A pod under two disruption budgets is none: the
    Eviction API refuses those (Kubernetes documentation, "Specifying a Disruption Budget for your Application").
    """
    wanted = set(useful)
    budgets = _by_namespace(snapshot.budgets)
    evictable = [
        tenant
        for tenant in _evictable(snapshot, priority)
        if sum(_covers(each, tenant) for each in budgets.get(tenant.pod.metadata.namespace, ())) <= 1
    ]
    gangs = {running[tenant.pod.key].key for tenant in evictable if tenant.node in wanted and tenant.pod.key in running}
    return [tenant for tenant in evictable if tenant.node in wanted or _gang_of(tenant, running) in gangs]


def victims_of(
    tenants: Sequence[Tenant],
    snapshot: Snapshot,
    running: RunningGangs,
    positions: Mapping[str, int],
    requests: Amounts,
) -> Victims:
    """The candidates in the solver's words. `positions` of the nodes by name; `requests`: a row for each candidate, in
    the problem's units.
    """
    if not tenants:
        return Victims()
    gangs = [_gang_of(tenant, running) for tenant in tenants]
    known = sorted({key for key in gangs if key is not None})
    order: dict[GangKey | None, int] = {None: -1, **{key: position for position, key in enumerate(known)}}
    victims = VictimTable(
        tuple([tenant.pod.key for tenant in tenants]),
        node=np.array([positions[tenant.node] for tenant in tenants], dtype=np.int64),
        priority=np.array([tenant.priority for tenant in tenants], dtype=np.int64),
        requests=requests,
        gang=np.array([order[key] for key in gangs], dtype=np.int64),
        started=np.array([_seconds(tenant.pod.status.start_time) for tenant in tenants], dtype=np.int64),
    )
    return Victims(tuple(tenants), victims, _victim_gangs(known, snapshot, running), _budgets(tenants, snapshot))


def _evictable(snapshot: Snapshot, priority: int) -> Iterable[Tenant]:
    for state in snapshot.nodes:
        for tenant in state.evictable:
            if tenant.priority < priority:
                yield tenant


def _gang_of(tenant: Tenant, running: RunningGangs) -> GangKey | None:
    found = running.get(tenant.pod.key)
    return None if found is None else found.key


def _victim_gangs(keys: Sequence[GangKey], snapshot: Snapshot, running: RunningGangs) -> tuple[VictimGang, ...]:
    if not keys:
        return ()
    counts = Counter(
        key
        for state in snapshot.nodes
        for tenant in state.tenants
        if not (tenant.reserved or tenant.terminating) and (key := _gang_of(tenant, running)) is not None
    )
    minimums = {each.key: each.minimum for each in running.values()}
    return tuple(VictimGang(str(key), counts[key], minimums[key]) for key in keys)


def _budgets(tenants: Sequence[Tenant], snapshot: Snapshot) -> tuple[Budget, ...]:
    candidates_in: dict[str, list[int]] = {}
    for position, tenant in enumerate(tenants):
        candidates_in.setdefault(tenant.pod.metadata.namespace, []).append(position)
    running_in = _running_in(snapshot) if any(_uncounted(budget) for budget in snapshot.budgets) else {}
    budgets = []
    for budget in snapshot.budgets:
        namespace = budget.metadata.namespace
        near = candidates_in.get(namespace, ())
        under = frozenset(position for position in near if _covers(budget, tenants[position]))
        if under:
            allowed = _allowed(budget, running_in.get(namespace, ()))
            budgets.append(Budget(f"{namespace}/{budget.metadata.name}", under, allowed))
    return tuple(budgets)


def _running_in(snapshot: Snapshot) -> dict[str, list[Tenant]]:
    """The running pods by namespace."""
    found: dict[str, list[Tenant]] = {}
    for state in snapshot.nodes:
        for tenant in state.tenants:
            if not tenant.reserved:
                found.setdefault(tenant.pod.metadata.namespace, []).append(tenant)
    return found


def _by_namespace(budgets: Iterable[PodDisruptionBudget]) -> dict[str, list[PodDisruptionBudget]]:
    found: dict[str, list[PodDisruptionBudget]] = {}
    for budget in budgets:
        found.setdefault(budget.metadata.namespace, []).append(budget)
    return found


def _covers(budget: PodDisruptionBudget, tenant: Tenant) -> bool:
    """An empty selector covers the whole namespace, an absent one nothing (policy/v1)."""
    same = budget.metadata.namespace == tenant.pod.metadata.namespace
    return same and selects(budget.spec.selector, tenant.pod.metadata.labels)


def _uncounted(budget: PodDisruptionBudget) -> bool:
    """Whether the disruption controller has not seen the budget yet."""
    return budget.status.disruptions_allowed is None


def _allowed(budget: PodDisruptionBudget, running: Iterable[Tenant]) -> int:
    """How many more pods may go: what the disruption controller has counted, else counted here as it would.

    Shares are taken of the running pods (`running`: those of its namespace) that the budget covers and rounded up, as
    the controller does for both fields. Pods that are on their way out are not healthy.
    """
    counted = budget.status.disruptions_allowed
    if counted is not None:
        return max(0, counted)
    covered = [tenant for tenant in running if _covers(budget, tenant)]
    healthy = sum(not tenant.terminating for tenant in covered)
    if budget.spec.max_unavailable is not None:
        wanted = len(covered) - _share(budget.spec.max_unavailable, len(covered))
    else:
        wanted = _share(budget.spec.min_available or 0, len(covered))
    return max(0, healthy - wanted)


def _share(value: int | str, total: int) -> int:
    """An IntOrString: a number, or a percentage of `total` rounded up."""
    if isinstance(value, str) and value.endswith("%"):
        return math.ceil(int(value.removesuffix("%")) * total / 100)
    return int(value)


def _seconds(time: str | None) -> int:
    """An RFC 3339 time as seconds since the epoch; 0 where it is unknown: such a pod counts as the oldest."""
    return int(datetime.fromisoformat(time).timestamp()) if time else 0
