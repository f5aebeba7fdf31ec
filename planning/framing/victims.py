"""Who may be evicted for a gang, in which gangs they run, and what the disruption budgets still allow."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from cluster.snapshot import NodeState, Snapshot, Tenant
from gangs.model import GangKey
from planning.framing.disruption_budgets import budgets_of, by_namespace, covers
from planning.framing.running_gangs import RunningGangs, victim_gangs
from solver.nodes import Amounts
from solver.problem import NO_VICTIMS, DisruptionBudget, VictimGang, VictimTable


@dataclass(frozen=True, slots=True)
class Victims:
    """The candidates with what protects them; all positions refer to `victims`, which is parallel to `tenants`."""

    tenants: tuple[Tenant, ...] = ()
    victims: VictimTable = NO_VICTIMS
    gangs: tuple[VictimGang, ...] = ()
    budgets: tuple[DisruptionBudget, ...] = ()


class Evictable:
    """The pods that may be evicted for a gang of a priority: of lower priority, running, not protected.

    A pod under two disruption budgets is none: the Eviction API refuses those (Kubernetes documentation, "Specifying a
    Disruption DisruptionBudget for your Application").
    """

    def __init__(self, snapshot: Snapshot, priority: int) -> None:
        self._priority = priority
        self._budgets = by_namespace(snapshot.budgets)

    def __call__(self, tenant: Tenant) -> bool:
        """Whether a pod is one of them."""
        stays = tenant.protected or tenant.reserved or tenant.terminating
        return not stays and self.among_evictable(tenant)

    def among_evictable(self, tenant: Tenant) -> bool:
        """The same of a pod that is known to be `NodeState.evictable`."""
        return tenant.priority < self._priority and len(self._over(tenant)) <= 1

    def _over(self, tenant: Tenant) -> list[str]:
        """The budgets over a pod, as `namespace/name`."""
        namespace = tenant.pod.metadata.namespace
        there = self._budgets.get(namespace, ())
        return [f"{namespace}/{each.metadata.name}" for each in there if covers(each, tenant)]

    def overruled(self, nodes: Iterable[NodeState]) -> dict[str, frozenset[str]]:
        """By node, the budgets over pods that could be evicted there if each were under one of them alone."""
        if all(len(each) <= 1 for each in self._budgets.values()):
            return {}
        found: dict[str, frozenset[str]] = {}
        for state in nodes:
            lower = (each for each in state.evictable if each.priority < self._priority)
            names = [name for budgets in map(self._over, lower) if len(budgets) > 1 for name in budgets]
            if names:
                found[state.name] = frozenset(names)
        return found


def candidates(
    snapshot: Snapshot,
    priority: int,
    useful: Iterable[str],
    running: RunningGangs,
    concerned: Collection[str] = frozenset(),
) -> list[Tenant]:
    """The pods that may be evicted for a gang of that priority (`Evictable`), in the order of the snapshot.

    Only those on `useful` nodes (by name: the gang could be placed there) count, those that are `concerned` (by
    `namespace/name`: they are in its way there), and wherever they run their siblings, because a gang that is broken
    goes as a whole.
    """
    wanted, may_go = set(useful), Evictable(snapshot, priority).among_evictable
    evictable = [tenant for state in snapshot.nodes for tenant in state.evictable if may_go(tenant)]

    def near(tenant: Tenant) -> bool:
        return tenant.node in wanted or (bool(concerned) and tenant.pod.key in concerned)

    gangs = {running[tenant.pod.key].key for tenant in evictable if near(tenant) and tenant.pod.key in running}
    return [tenant for tenant in evictable if near(tenant) or _gang_of(tenant, running) in gangs]


def victims_of(
    tenants: Sequence[Tenant],
    snapshot: Snapshot,
    running: RunningGangs,
    positions: Mapping[str, int],
    requests: Amounts,
) -> Victims:
    """The candidates in the solver's words. `positions` of the nodes by name; `requests`: a row for each candidate, in
    the problem's units. One that goes in any case, for a plan in force, takes nothing from its gang or budget any more.
    """
    if not tenants:
        return Victims()
    gangs = [None if tenant.pod.key in snapshot.leaving else _gang_of(tenant, running) for tenant in tenants]
    known, in_words = victim_gangs(tenants, gangs, snapshot, running)
    order: dict[GangKey | None, int] = {None: -1, **{key: position for position, key in enumerate(known)}}
    victims = VictimTable(
        tuple([tenant.pod.key for tenant in tenants]),
        node=np.array([positions[tenant.node] for tenant in tenants], dtype=np.int64),
        priority=np.array([tenant.priority for tenant in tenants], dtype=np.int64),
        requests=requests,
        gang=np.array([order[key] for key in gangs], dtype=np.int64),
        started=np.array([_seconds(tenant.pod.status.start_time) for tenant in tenants], dtype=np.int64),
    )
    return Victims(tuple(tenants), victims, in_words, budgets_of(tenants, snapshot))


def _gang_of(tenant: Tenant, running: RunningGangs) -> GangKey | None:
    found = running.get(tenant.pod.key)
    return None if found is None else found.key


def _seconds(time: str | None) -> int:
    """An RFC 3339 time as seconds since the epoch; 0 where it is unknown: such a pod counts as the oldest."""
    return int(datetime.fromisoformat(time).timestamp()) if time else 0
