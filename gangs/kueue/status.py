"""The statuses of Kueue's queues: waiting and running gangs, the use of each flavor, and whether a queue is active.

A gang with nominated, released or bound members has its quota reserved, in Kueue's terms. A gang whose members are
released is admitted. All numbers are counted from the cluster each time, so they are correct after a restart.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gangs.held_nodes import held_node, holding
from gangs.kueue import NAME, keys, queues, standing
from gangs.kueue.standing import Standing
from gangs.manifests import ref_of
from gangs.model import Gang, GangKey, Manifest
from gangs.object_statuses import ObjectStatus, QuotaUse, Status, StatusView
from gangs.quota_model import ResourceGroup
from gangs.sources import Sources
from kube.conditions import kept_conditions
from kube.quantities import amount, written


@dataclass(frozen=True, slots=True)
class _InQueue:
    """The gangs of one queue by state, the quota use of gangs with reserved quota, and that of admitted gangs."""

    pending: Sequence[Gang]
    reserving: Sequence[Gang]
    admitted: Sequence[Gang]
    reserved: QuotaUse
    used: QuotaUse

    @property
    def counts(self) -> Status:
        """The numbers of gangs that wait, have quota reserved (admitted gangs included), and are admitted."""
        return {
            "pendingWorkloads": len(self.pending),
            "reservingWorkloads": len(self.reserving),
            "admittedWorkloads": len(self.admitted),
        }


def queue_statuses(view: StatusView, used: Mapping[GangKey, QuotaUse]) -> Iterator[ObjectStatus]:
    """The status of every ClusterQueue and LocalQueue."""
    by_queue: defaultdict[tuple[str, str], list[Gang]] = defaultdict(list)
    for gang in view.gangs:
        if gang.queue and gang.queue_dialect == NAME:
            by_queue[gang.key.namespace, gang.queue].append(gang)
    leads = _clusters_of(view.sources)
    for manifest in view.sources.of_kind(keys.GROUP, keys.LOCAL_QUEUE):
        ref = ref_of(manifest)
        gangs = _in_queue(by_queue[ref.namespace, ref.name], used)
        above = view.sources.get(keys.GROUP, keys.CLUSTER_QUEUE, "", leads.get((ref.namespace, ref.name), ""))
        state = standing.of_local_queue(manifest, view.sources)
        yield ObjectStatus(ref, _status(manifest, above, gangs, state, view.now, borrowed=False), keys.LOCAL_QUEUES)
    for manifest in view.sources.of_kind(keys.GROUP, keys.CLUSTER_QUEUE):
        ref = ref_of(manifest)
        gangs = _in_queue(
            [each for queue, above in leads.items() if above == ref.name for each in by_queue[queue]], used
        )
        state = standing.of_cluster_queue(manifest, view.sources)
        yield ObjectStatus(ref, _status(manifest, manifest, gangs, state, view.now, borrowed=True), keys.CLUSTER_QUEUES)


def _clusters_of(sources: Sources) -> Mapping[tuple[str, str], str]:
    """The ClusterQueue that each LocalQueue leads to, by namespace and name."""
    found = {}
    for manifest in sources.of_kind(keys.GROUP, keys.LOCAL_QUEUE):
        spec = queues.valid(manifest, queues.LocalQueueSpec)
        if spec is not None:
            ref = ref_of(manifest)
            found[ref.namespace, ref.name] = spec.cluster_queue
    return found


def _in_queue(gangs: Sequence[Gang], used: Mapping[GangKey, QuotaUse]) -> _InQueue:
    reserving = [gang for gang in gangs if any(holding(member.pod) for member in gang.members)]
    admitted = [gang for gang in reserving if any(held_node(member.pod) for member in gang.members)]
    held = {gang.key for gang in reserving}
    pending = [gang for gang in gangs if gang.key not in held]
    return _InQueue(pending, reserving, admitted, _together(reserving, used), _together(admitted, used))


def _together(gangs: Iterable[Gang], used: Mapping[GangKey, QuotaUse]) -> QuotaUse:
    total: Counter[tuple[str, str, str]] = Counter()
    for gang in gangs:
        total.update(used.get(gang.key, {}))
    return total


def _status(
    manifest: Manifest, above: Manifest | None, gangs: _InQueue, state: Standing, now: str, *, borrowed: bool
) -> Status:
    """Return the status of one queue.

    `above`: its ClusterQueue, which may be the queue itself. `borrowed`: whether the status reports borrowed quota.
    """
    active = {
        "type": "Active",
        "status": "True" if state.active else "False",
        "reason": state.reason,
        "message": state.message,
    }
    before = (manifest.get("status") or {}).get("conditions") or ()
    generation = manifest["metadata"].get("generation")
    return {
        **gangs.counts,
        "conditions": kept_conditions([active], before, now, generation),
        "flavorsReservation": list(_flavors(above, gangs.reserved, borrowed=borrowed)),
        "flavorsUsage": list(_flavors(above, gangs.used, borrowed=borrowed)),
    }


def _flavors(above: Manifest | None, usage: QuotaUse, *, borrowed: bool) -> Iterator[Status]:
    """Every flavor of the ClusterQueue in its order, with what is used of each resource."""
    spec = queues.valid(above, queues.ClusterQueueSpec)
    if above is None or spec is None:
        return
    queue = queues.queue_of(above, spec)
    for group in queue.groups:
        yield from _group(queue.name, group, usage, borrowed=borrowed)


def _group(queue: str, group: ResourceGroup, usage: QuotaUse, *, borrowed: bool) -> Iterator[Status]:
    for flavor in group.flavors:
        resources = []
        for quota in flavor.quotas:
            used = usage.get((queue, flavor.flavor, quota.resource), 0)
            entry = {"name": quota.resource, "total": written(quota.resource, used)}
            if borrowed:
                over = max(0, used - amount(quota.resource, quota.nominal))
                entry["borrowed"] = written(quota.resource, over)
            resources.append(entry)
        yield {"name": flavor.flavor, "resources": resources}
