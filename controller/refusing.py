"""Gangs whose requests contradict themselves: they cannot be read, so nothing is planned, and everybody is told why.

Admission refuses most of them; what remains came before its other half existed, or was made without the webhook.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from controller import events
from controller.conditions import UNSCHEDULABLE, condition, differs
from controller.events import Recorder
from controller.mirrors import GANG_KIND, mirrored_key
from controller.picture import Picture
from controller.statuses import invalid_status, status_patch
from controller.times import now
from controller.writes import Writer, gang_path
from gangs.dialects import dialect_of
from gangs.model import Fault, GangKey, Manifest, ObjectRef
from gangs.phalanx import NAME
from kube.keys import API_VERSION, GATE
from kube.objects import Pod


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A gang that pods name, the pods, and what is wrong."""

    key: GangKey
    pods: Sequence[Pod]
    faults: Sequence[Fault]

    @property
    def message(self) -> str:
        """All that is wrong, in one line."""
        return "; ".join(map(str, self.faults))


class Refuser:
    """Tells the pods, the Gang object and its readers."""

    def __init__(self, writer: Writer, recorder: Recorder) -> None:
        self._writer = writer
        self._recorder = recorder

    def tell(self, picture: Picture) -> list[GangKey]:
        """Bring conditions and statuses of unreadable gangs up to date. Returns which they are."""
        told_of = []
        for each in unreadable(picture):
            told_of.append(each.key)
            told = condition(UNSCHEDULABLE, f"gang {each.key}: {each.message}")
            gated = [pod for pod in each.pods if pod.gated_by(GATE)]
            held = [pod for pod in gated if pod.status.nominated_node_name]
            self._writer.all(partial(self._writer.clear, pod) for pod in held)
            told_anew = [pod for pod in gated if pod not in held and differs(pod, told)]
            self._writer.all(partial(self._writer.condition, pod, told) for pod in told_anew)
            for manifest in _objects_of(each.key, picture):
                self._write(each, manifest)
        return told_of

    def _write(self, each: Unreadable, manifest: Manifest) -> None:
        meta, before = manifest["metadata"], manifest.get("status")
        wanted = invalid_status(each.faults, now=now(), previous=before, generation=meta.get("generation"))
        patch = status_patch(before, wanted)
        path = f"{gang_path(meta['namespace'], meta['name'])}/status"
        if patch and self._writer.merge(path, {"status": patch}).done:
            ref = ObjectRef(API_VERSION, GANG_KIND, meta["namespace"], meta["name"], meta.get("uid", ""))
            self._recorder.record(ref, events.GANG_INVALID, each.message)


def unreadable(picture: Picture) -> Iterator[Unreadable]:
    """The gangs that pods or Gang objects name and that could not be read, each with its own faults."""
    pods: dict[GangKey, list[Pod]] = {}
    for pod in picture.sources.pods:
        claim = dialect_of(pod, picture.left)
        if claim is not None and claim[1] in picture.unreadable:
            pods.setdefault(claim[1], []).append(pod)
    for key in sorted(picture.unreadable | _own_objects(picture)):
        names = {pod.metadata.name for pod in pods.get(key, ())}
        faults = [each for each in picture.reading.faults if _concerns(each.object, key, names)]
        if faults:
            yield Unreadable(key, pods.get(key, ()), faults)


def _own_objects(picture: Picture) -> set[GangKey]:
    """Gang objects of users from which no gang could be read."""
    own = {GangKey(NAME, *name) for name, manifest in picture.gang_objects.items() if mirrored_key(manifest) is None}
    return own - {gang.key for gang in picture.reading.gangs}


def _concerns(ref: ObjectRef, key: GangKey, pods: set[str]) -> bool:
    if ref.namespace != key.namespace:
        return False
    return ref.name in pods if ref.kind == "Pod" else ref.name == key.name


def _objects_of(key: GangKey, picture: Picture) -> Iterator[Manifest]:
    for (namespace, name), manifest in picture.gang_objects.items():
        mirrored = mirrored_key(manifest)
        own = mirrored is None and (key.namespace, key.name) == (namespace, name)
        if mirrored == key or own:
            yield manifest
