"""The pods that may be evicted for a gang, with their own gangs and the remaining disruption budgets."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np

from cluster.evictable_pods import EvictablePods
from cluster.node_state import NodeState, Tenant
from cluster.snapshot import Snapshot
from planning.framing.disruption_budgets import budgets_of, by_namespace, covers
from planning.framing.running_gangs import RunningGangs, victim_gangs
from solver.nodes import ResourceMatrix
from solver.problem import NO_VICTIMS, DisruptionBudget, IntColumn, VictimGang, VictimTable


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods that may be evicted, and the gangs and disruption budgets that protect them.

    `tenants` has an entry for each entry of `victims`, in the same order. The positions in `gangs` and `budgets` are
    positions in `victims`.
    """

    tenants: tuple[Tenant, ...] = ()
    victims: VictimTable = NO_VICTIMS
    gangs: tuple[VictimGang, ...] = ()
    budgets: tuple[DisruptionBudget, ...] = ()


class Evictable:
    """Predicate of the pods that may be evicted for a gang of the given priority: they run, have a lower priority and
    are not protected from eviction.

    A pod under two disruption budgets is not evictable: the Eviction API rejects its eviction (Kubernetes
    documentation, "Specifying a Disruption Budget for your Application").
    """

    def __init__(self, snapshot: Snapshot, priority: int) -> None:
        self._priority = priority
        self._budgets = by_namespace(snapshot.budgets)
        self._alone = all(len(each) <= 1 for each in self._budgets.values())

    def __call__(self, tenant: Tenant) -> bool:
        """Whether the pod may be evicted for the gang."""
        stays = tenant.protected or tenant.reserved or tenant.pod.terminating
        return not stays and self.among_evictable(tenant)

    def among_evictable(self, tenant: Tenant) -> bool:
        """Whether a pod of `NodeState.evictable` may be evicted for the gang. Only its priority and budgets are
        checked.
        """
        return tenant.priority < self._priority and (self._alone or len(self._over(tenant)) <= 1)

    def all_of(self, snapshot: Snapshot) -> EvictablePods:
        """Return all pods of the snapshot that may be evicted for the gang."""
        lowest = snapshot.lowest_evictable
        if lowest is None or lowest >= self._priority:
            return EvictablePods()
        found = snapshot.evictable.only(snapshot.evictable.priority < self._priority)
        if self._alone:
            return found
        return found.only(np.array([self.among_evictable(each) for each in found.tenants]))

    def _over(self, tenant: Tenant) -> list[str]:
        """Return the disruption budgets that cover the pod, each as `namespace/name`."""
        namespace = tenant.pod.metadata.namespace
        there = self._budgets.get(namespace, ())
        return [f"{namespace}/{each.metadata.name}" for each in there if covers(each, tenant)]

    def overruled(self, nodes: Iterable[NodeState]) -> dict[str, frozenset[str]]:
        """Return, by node, the disruption budgets that make a pod of lower priority not evictable, because two or more
        budgets cover it.

        If only one budget covered such a pod, it could be evicted.
        """
        if self._alone:
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
    useful: Sequence[int],
    running: RunningGangs,
    concerned: Collection[str] = frozenset(),
) -> EvictablePods:
    """Return the pods that may be evicted for a gang of that priority (`Evictable`), in the order of the snapshot.

    Candidates are the pods on `useful` nodes (positions of nodes on which the gang could be placed) and the pods in
    `concerned` (`namespace/name`: their eviction affects the gang's rules). Members of the same gangs on any node are
    candidates, too, because a gang below its minimum is evicted as a whole.
    """
    found = Evictable(snapshot, priority).all_of(snapshot)
    if not found.tenants:
        return found
    inside = np.zeros(len(snapshot.nodes), dtype=np.bool_)
    inside[useful] = True
    near = inside[found.node]
    if near.all():
        return found
    if concerned:
        near |= np.array([key in concerned for key in found.keys])
    members = [*map(running.get, found.keys)]
    distinct = {id(each): each for each in members if each is not None}
    gangs = {distinct[one].key for one in {*map(id, compress(members, near.tolist()))} & distinct.keys()}
    broken = {one for one, each in distinct.items() if each.key in gangs}
    return found.only(near | np.array([one in broken for one in map(id, members)]))


def victims_of(
    evictable: EvictablePods,
    snapshot: Snapshot,
    running: RunningGangs,
    positions: IntColumn,
    requests: ResourceMatrix,
) -> Victims:
    """Return the candidates as the solver's victims.

    `positions`: the position in the problem of each node of the snapshot. `requests`: a row for each candidate, in the
    problem's units. A candidate that a plan in force already evicts is not charged to its gang or budget again.
    """
    keys, tenants, leaving = evictable.keys, evictable.tenants, snapshot.leaving
    if not tenants:
        return Victims()
    members = [*map(running.get, keys)]
    if leaving:
        members = [None if key in leaving else each for key, each in zip(keys, members, strict=True)]
    gangs, victim_gang_entries = victim_gangs(members, snapshot, running)
    victims = VictimTable(
        keys,
        node=positions[evictable.node],
        priority=evictable.priority,
        requests=requests,
        gang=gangs,
        started=evictable.started,
    )
    return Victims(tenants, victims, victim_gang_entries, budgets_of(evictable, snapshot))
