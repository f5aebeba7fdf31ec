"""Shows on the objects of topologies, groups and queues what there is: domains, counts of pods, use of quotas."""

from collections.abc import Iterable, Iterator
from time import monotonic
from typing import Any

from controller.cluster_view import Picture
from controller.gang_status import status_patch
from controller.status.kai_groups import ended_status, kai_group_status
from controller.status.koordinator_groups import pod_group_statuses
from controller.status.kueue_queues import queue_statuses
from controller.status.mirrors import GangObjects
from controller.status.topologies import topology_statuses
from controller.times import now
from controller.writes.writer import Writer
from gangs.kai import NAME as KAI
from gangs.kai.keys import GROUP as KAI_GROUP
from gangs.kai.keys import POD_GROUP_KIND as KAI_KIND
from gangs.koordinator import NAME as KOORDINATOR
from gangs.koordinator.keys import TOPOLOGY_KIND
from gangs.kueue import NAME as KUEUE
from gangs.kueue.keys import GROUP as KUEUE_GROUP
from gangs.manifests import group_of, ref_of
from gangs.model import GangKey, Manifest, ObjectRef
from gangs.phalanx.topologies import KIND
from kube.topology import Topology

INTERVAL_SECONDS = 1.0
"""Groups and queues are not shown more often than this."""
TREE_SECONDS = 30.0
"""Trees neither: free room changes with every pod, and a status of 500 domains is 100 KB."""

_PLURALS = {KIND: "topologies", TOPOLOGY_KIND: "clusternetworktopologies"}

_Change = tuple[str, dict[str, Any], Manifest]
"""Path, patch, and the object as it was seen."""


class Shower:
    """Writes what has changed since it last looked."""

    def __init__(self, writer: Writer, tree_seconds: float = TREE_SECONDS) -> None:
        self._writer = writer
        self._tree_seconds = tree_seconds
        self._due = 0.0
        self._trees_due = 0.0
        self._trees_of: tuple[str, list[Topology]] | None = None
        """What trees were last made of: the snapshot's version, and the topologies. None: not written as they were."""
        self._stale: set[GangKey] = set()
        """Gangs whose groups may have to show something else."""
        self._queues_stale = True
        self.unfinished = False
        """Whether something is left to be shown in a later round."""

    def show(self, picture: Picture) -> None:
        """Bring the statuses of topologies, PodGroups and queues up to date."""
        self._stale |= picture.concerned
        self._queues_stale |= _concerns_queues(picture)
        if monotonic() >= self._due:
            self._due = monotonic() + INTERVAL_SECONDS
            self._show_groups(picture)
            self._show_trees(picture)
        trees = picture.snapshot.version, list(picture.topologies)
        self.unfinished = bool(self._stale) or self._queues_stale or trees != self._trees_of

    def _show_groups(self, picture: Picture) -> None:
        keys, self._stale = self._stale, set()
        if not self._write([*_pod_groups(keys, picture), *_kai_groups(keys, picture)]):
            self._stale |= keys
        if self._queues_stale:
            self._queues_stale = not self._write(_queues(picture))

    def _show_trees(self, picture: Picture) -> None:
        made_of = picture.snapshot.version, list(picture.topologies)
        if made_of == self._trees_of:
            return
        if self._trees_of is None or monotonic() >= self._trees_due or self._trees_of[1] != made_of[1]:
            self._trees_due = monotonic() + self._tree_seconds
            self._trees_of = made_of if self._write(_trees(picture)) else None

    def _write(self, changes: Iterable[_Change]) -> bool:
        """Whether all could be written."""
        failed = [change for change in changes if not self._writer.merge(*change).done]
        return not failed


def _concerns_queues(picture: Picture) -> bool:
    """Whether a gang or an object of Kueue's has changed."""
    gangs = any(key.dialect == KUEUE for key in picture.concerned)
    return gangs or any(key[0] == KUEUE_GROUP for key in picture.objects)


def _trees(picture: Picture) -> Iterator[_Change]:
    shown = [each for each in picture.topologies if not (each.kind == TOPOLOGY_KIND and KOORDINATOR in picture.left.to)]
    for ref, status in topology_statuses(shown, picture.snapshot).items():
        yield from _change(ref, status, picture, f"{_PLURALS[ref.kind]}/{ref.name}/status")


def _pod_groups(keys: Iterable[GangKey], picture: Picture) -> Iterator[_Change]:
    for key in keys:
        gang = picture.kept.gang(key)
        if gang is None or key.dialect in picture.left.to:
            continue  # whose system runs here writes these itself
        finished = {
            ref: picture.kept.pods.finished(GangKey(key.dialect, ref.namespace, ref.name)) for ref in gang.groups
        }
        previous = {ref: (_object(ref, picture) or {}).get("status") or {} for ref in gang.groups}
        for ref, status in pod_group_statuses(gang, previous, now=now(), finished=finished).items():
            yield from _change(ref, status, picture, f"namespaces/{ref.namespace}/podgroups/{ref.name}")


def _kai_groups(keys: Iterable[GangKey], picture: Picture) -> Iterator[_Change]:
    if KAI in picture.left.to:
        return
    objects = GangObjects(picture.sources.catalog)
    for key in keys:
        if key.dialect != KAI:
            continue
        manifest = picture.sources.get(KAI_GROUP, KAI_KIND, key.namespace, key.name)
        gang, ended = picture.kept.gang(key), picture.kept.pods.finished(key)
        if manifest is None or (gang is None and not ended):
            continue
        ref, previous = ref_of(manifest), manifest.get("status") or {}
        if gang is None:
            status = ended_status(ended, previous)
        else:
            mirrors = (objects.at(place) for place in objects.mirroring(key))
            told = next((each.get("status") or {} for each in mirrors if each is not None), {})
            status = kai_group_status(gang, ended, told, previous, now())
        yield from _change(ref, status, picture, f"namespaces/{ref.namespace}/podgroups/{ref.name}/status")


def _queues(picture: Picture) -> Iterator[_Change]:
    for ref, status in queue_statuses(picture, now()).items():
        within = f"namespaces/{ref.namespace}/" if ref.namespace else ""
        yield from _change(ref, status, picture, f"{within}{ref.kind.lower()}s/{ref.name}/status")


def _change(ref: ObjectRef, status: dict[str, Any], picture: Picture, path: str) -> Iterator[_Change]:
    """What has to be written to the object, nothing where it is gone or says so already."""
    manifest = _object(ref, picture)
    patch = status_patch(manifest.get("status"), status) if manifest is not None else {}
    if manifest is not None and patch:
        yield f"/apis/{ref.api_version}/{path}", {"status": patch}, manifest


def _object(ref: ObjectRef, picture: Picture) -> Manifest | None:
    return picture.sources.get(group_of(ref.api_version), ref.kind, ref.namespace, ref.name)
