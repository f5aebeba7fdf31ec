"""Reports gangs whose requests contradict themselves. No `Gang` can be read from such a request, so it is not planned.

The webhook refuses most such requests. The others were created before the object that they contradict, or without the
webhook.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from controller.cluster_view import ClusterView
from controller.gang_status import invalid_status, status_patch
from controller.status.conditions import UNSCHEDULABLE, condition, differs
from controller.status.mirrors import GANG_KIND, GangObjects
from controller.telemetry import events
from controller.telemetry.recorder import Recorder
from controller.writes.writer import Writer, gang_path
from gangs.dialects.table import OWN
from gangs.findings import said_of
from gangs.mirrors import mirrored_key
from gangs.model import Fault, GangKey, Manifest, ObjectRef, Reading
from kube.keys import API_VERSION, GATE
from kube.objects import Pod
from timing.clock import SYSTEM_CLOCK, Clock, rfc3339


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A gang that could not be read, the pods that name it, and the faults."""

    key: GangKey
    pods: Sequence[Pod]
    faults: Sequence[Fault]

    @property
    def message(self) -> str:
        """All faults of the gang, as one line for a person."""
        return said_of(self.faults)


class InvalidGangReporter:
    """Reports the faults of unreadable gangs: in pod conditions, in statuses of Gang objects, and in events."""

    def __init__(self, writer: Writer, recorder: Recorder, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._writer = writer
        self._clock = clock
        self._recorder = recorder
        self._reading: Reading | None = None
        self._unreadable: list[Unreadable] = []
        self.unfinished = False
        """Whether a write was sent in the last call, so that the next reconcile has to check its result."""

    def tell(self, cluster_view: ClusterView) -> list[GangKey]:
        """Write the conditions and statuses of unreadable gangs if they changed. Return the keys of all these gangs."""
        same = cluster_view.reading is self._reading
        if not same:
            self._reading, self._unreadable = cluster_view.reading, list(unreadable(cluster_view))
        keys = [each.key for each in self._unreadable]
        if not same or self.unfinished or not cluster_view.concerned.isdisjoint(keys):
            objects = GangObjects(cluster_view.sources.catalog)
            sent = [self._tell(each, objects) for each in self._unreadable]
            self.unfinished = any(sent)
        return keys

    def _tell(self, each: Unreadable, objects: GangObjects) -> bool:
        """Write the conditions and statuses of one gang, and clear its nominations. Return whether a write was sent."""
        wanted = condition(UNSCHEDULABLE, f"gang {each.key}: {each.message}")
        gated = [pod for pod in each.pods if pod.gated_by(GATE)]
        held = [pod for pod in gated if pod.status.nominated_node_name]
        written = self._writer.all(partial(self._writer.clear, pod) for pod in held)
        outdated = [pod for pod in gated if pod not in held and differs(pod, wanted)]
        written += self._writer.all(partial(self._writer.condition, pod, wanted) for pod in outdated)
        return any([bool(written), *(self._write(each, manifest) for manifest in _objects_of(each.key, objects))])

    def _write(self, each: Unreadable, manifest: Manifest) -> bool:
        """Write the status Invalid to a Gang object if it differs. Return whether a write was sent."""
        meta, before = manifest["metadata"], manifest.get("status")
        wanted = invalid_status(
            each.faults, now=rfc3339(self._clock.wall()), previous=before, generation=meta.get("generation")
        )
        patch = status_patch(before, wanted)
        path = f"{gang_path(meta['namespace'], meta['name'])}/status"
        if patch and self._writer.merge(path, {"status": patch}, manifest).done:
            ref = ObjectRef(API_VERSION, GANG_KIND, meta["namespace"], meta["name"], meta.get("uid", ""))
            self._recorder.record(ref, events.GANG_INVALID, each.message)
        return bool(patch)


def unreadable(cluster_view: ClusterView) -> Iterator[Unreadable]:
    """Yield the gangs that pods or users' Gang objects define and that could not be read, each with its faults.

    An unreadable gang without a fault of its own is left out.
    """
    kept = cluster_view.kept
    by_object: defaultdict[tuple[bool, str, str], list[Fault]] = defaultdict(list)
    for fault in dict.fromkeys(each for name in kept.faulty() for each in kept.faults_of(name)):
        by_object[fault.object.kind == "Pod", fault.object.namespace, fault.object.name].append(fault)
    for key in sorted(cluster_view.unreadable | _own_objects(cluster_view)):
        pods = kept.pods.named(key)
        faults = list(by_object.get((False, key.namespace, key.name), ()))
        for name in sorted({pod.metadata.name for pod in pods}):
            faults += by_object.get((True, key.namespace, name), ())
        if faults:
            yield Unreadable(key, pods, faults)


def _own_objects(cluster_view: ClusterView) -> set[GangKey]:
    """Return the gangs whose Gang object a user has created and that could not be read. Mirrors are left out."""
    objects = GangObjects(cluster_view.sources.catalog)
    found = set()
    for key in cluster_view.kept.faulty():
        own = objects.at((key.namespace, key.name)) if key.dialect == OWN else None
        if own is not None and mirrored_key(own) is None and cluster_view.kept.gang(key) is None:
            found.add(key)
    return found


def _objects_of(key: GangKey, objects: GangObjects) -> Iterator[Manifest]:
    """Yield the Gang object by which a user asked for the gang, and the gang's mirrors."""
    own = objects.at((key.namespace, key.name)) if key.dialect == OWN else None
    if own is not None and mirrored_key(own) is None:
        yield own
    for place in objects.mirroring(key):
        if (mirror := objects.at(place)) is not None:
            yield mirror
