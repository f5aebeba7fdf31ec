"""What Kueue's users look for on their queues: gangs that wait and run, use of each flavor, whether a queue is open.

A gang that holds room (nominated, released or bound members) has its quota reserved, as Kueue calls it; once its
members are let go it is admitted. Everything is counted anew from the cluster: it is right after any restart.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cluster.quantities import amount, written
from controller.cluster_view import Picture
from controller.gang_status import kept_conditions
from gangs.kueue import NAME, keys, queues, standing
from gangs.kueue.standing import Standing
from gangs.manifests import ref_of
from gangs.model import Gang, Manifest, ObjectRef
from gangs.queues import ResourceGroup
from planning.framing.stranded import held_node
from planning.quota.usage import Usage, holding, usage_of

Status = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Books:
    """The gangs of one queue by how far they are, and what those use that hold room and those that are let go."""

    pending: Sequence[Gang]
    reserving: Sequence[Gang]
    admitted: Sequence[Gang]
    reserved: Usage
    used: Usage

    @property
    def counts(self) -> Status:
        """How many gangs wait, hold room, and are let go (these hold room as well)."""
        return {
            "pendingWorkloads": len(self.pending),
            "reservingWorkloads": len(self.reserving),
            "admittedWorkloads": len(self.admitted),
        }


def queue_statuses(picture: Picture, now: str) -> Mapping[ObjectRef, Status]:
    """The status of every ClusterQueue and LocalQueue; none where these are left to Kueue itself.

    :param now: RFC 3339, for conditions that change.
    """
    if NAME in picture.left.to:
        return {}
    gangs = [gang for gang in picture.reading.gangs if gang.key.dialect == NAME and gang.queue]
    usage, found = usage_of(gangs, picture.snapshot), dict[ObjectRef, Status]()
    leads = _clusters_of(picture)
    by_queue: defaultdict[tuple[str, str], list[Gang]] = defaultdict(list)
    for gang in gangs:
        by_queue[gang.key.namespace, gang.queue or ""].append(gang)
    for manifest in picture.sources.of_kind(keys.GROUP, keys.LOCAL_QUEUE):
        ref = ref_of(manifest)
        mine = by_queue[ref.namespace, ref.name]
        above = picture.sources.get(keys.GROUP, keys.CLUSTER_QUEUE, "", leads.get((ref.namespace, ref.name), ""))
        state = standing.of_local_queue(manifest, picture.sources)
        found[ref] = _status(manifest, above, _books(mine, usage), state, now, borrowed=False)
    for manifest in picture.sources.of_kind(keys.GROUP, keys.CLUSTER_QUEUE):
        ref = ref_of(manifest)
        mine = [gang for queue, above in leads.items() if above == ref.name for gang in by_queue[queue]]
        state = standing.of_cluster_queue(manifest, picture.sources)
        found[ref] = _status(manifest, manifest, _books(mine, usage), state, now, borrowed=True)
    return found


def _clusters_of(picture: Picture) -> Mapping[tuple[str, str], str]:
    """The ClusterQueue that each LocalQueue leads to, by namespace and name."""
    found = {}
    for manifest in picture.sources.of_kind(keys.GROUP, keys.LOCAL_QUEUE):
        spec = queues.valid(manifest, queues.LocalQueueSpec)
        if spec is not None:
            ref = ref_of(manifest)
            found[ref.namespace, ref.name] = spec.cluster_queue
    return found


def _books(gangs: Sequence[Gang], usage: Usage) -> _Books:
    reserving = [gang for gang in gangs if any(holding(member.pod) for member in gang.members)]
    admitted = [gang for gang in reserving if any(held_node(member.pod) for member in gang.members)]
    held = {gang.key for gang in reserving}
    pending = [gang for gang in gangs if gang.key not in held]
    return _Books(pending, reserving, admitted, _of(reserving, usage), _of(admitted, usage))


def _of(gangs: Iterable[Gang], usage: Usage) -> Usage:
    return Usage({gang.key: usage.by_gang.get(gang.key, {}) for gang in gangs})


def _status(
    manifest: Manifest, above: Manifest | None, books: _Books, state: Standing, now: str, *, borrowed: bool
) -> Status:
    """The status of one queue. `above`: its ClusterQueue, which may be itself. `borrowed`: whether to tell what is."""
    active = {
        "type": "Active",
        "status": "True" if state.active else "False",
        "reason": state.reason,
        "message": state.message,
    }
    before = (manifest.get("status") or {}).get("conditions") or ()
    generation = manifest["metadata"].get("generation")
    return {
        **books.counts,
        "conditions": kept_conditions([active], before, now, generation),
        "flavorsReservation": list(_flavors(above, books.reserved, borrowed=borrowed)),
        "flavorsUsage": list(_flavors(above, books.used, borrowed=borrowed)),
    }


def _flavors(above: Manifest | None, usage: Usage, *, borrowed: bool) -> Iterator[Status]:
    """Every flavor of the ClusterQueue in its order, with what is used of each resource."""
    spec = queues.valid(above, queues.ClusterQueueSpec)
    if above is None or spec is None:
        return
    queue = queues.queue_of(above, spec)
    for group in queue.groups:
        yield from _group(queue.name, group, usage, borrowed=borrowed)


def _group(queue: str, group: ResourceGroup, usage: Usage, *, borrowed: bool) -> Iterator[Status]:
    for flavor in group.flavors:
        resources = []
        for quota in flavor.quotas:
            used = usage.of(queue, flavor.flavor, quota.resource)
            entry = {"name": quota.resource, "total": written(quota.resource, used)}
            if borrowed:
                over = max(0, used - amount(quota.resource, quota.nominal))
                entry["borrowed"] = written(quota.resource, over)
            resources.append(entry)
        yield {"name": flavor.flavor, "resources": resources}
