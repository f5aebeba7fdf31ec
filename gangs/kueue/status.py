"""The statuses of Kueue's queues: numbers of waiting and running gangs, the use of each flavor, and `Active`.

In Kueue's terms, a gang with nominated, released or bound members has its quota reserved, and a gang with released or
bound members is admitted. All numbers are counted from the cluster each time, so they are correct after a restart.
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
    """The gangs of one queue by state, and their use of quota.

    `pending`: gangs without reserved quota. `reserving`: gangs with reserved quota, the admitted ones included.
    `reserved`, `used`: the quota use of the gangs in `reserving` and in `admitted`.
    """

    pending: Sequence[Gang]
    reserving: Sequence[Gang]
    admitted: Sequence[Gang]
    reserved: QuotaUse
    used: QuotaUse

    @property
    def counts(self) -> Status:
        """The status fields with the numbers of gangs by state."""
        return {
            "pendingWorkloads": len(self.pending),
            "reservingWorkloads": len(self.reserving),
            "admittedWorkloads": len(self.admitted),
        }


def queue_statuses(view: StatusView, used: Mapping[GangKey, QuotaUse]) -> Iterator[ObjectStatus]:
    """Yield the status of every LocalQueue and ClusterQueue.

    :param used: for each gang in a queue, the quota that its bound and nominated members use.
    """
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
    """Return, by namespace and name of each LocalQueue, the name of its ClusterQueue."""
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

    :param above: the ClusterQueue of the LocalQueue `manifest`; `manifest` itself if it is a ClusterQueue.
    :param state: whether the queue admits gangs.
    :param borrowed: whether the status reports borrowed quota.
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
    """Yield the status entry of each flavor of a ClusterQueue, in its order: the used amount of each resource."""
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
