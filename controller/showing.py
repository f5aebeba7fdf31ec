"""Shows on the objects of topologies, groups and queues what there is: domains, counts of pods, use of quotas."""

from collections import defaultdict
from collections.abc import Iterator
from time import monotonic
from typing import Any

from controller.kai_groups import ended_status, kai_group_status
from controller.mirrors import mirrored_key
from controller.picture import Picture
from controller.podgroups import pod_group_statuses
from controller.queues import queue_statuses
from controller.statuses import status_patch
from controller.times import now
from controller.topologies import topology_statuses
from controller.writes import Writer
from gangs.dialects import dialect_of
from gangs.kai import NAME as KAI
from gangs.kai.keys import GROUP as KAI_GROUP
from gangs.kai.keys import POD_GROUP_KIND as KAI_KIND
from gangs.koordinator import NAME as KOORDINATOR
from gangs.koordinator.keys import TOPOLOGY_KIND
from gangs.manifests import group_of, ref_of
from gangs.model import GangKey, Manifest, ObjectRef
from gangs.phalanx.topologies import KIND
from kube.objects import Pod

INTERVAL_SECONDS = 1.0
"""Trees are not shown more often than this: free room changes with every pod."""

_PLURALS = {KIND: "topologies", TOPOLOGY_KIND: "clusternetworktopologies"}

_Change = tuple[str, dict[str, Any]]
"""Path and patch."""


class Shower:
    """Writes what has changed since it last looked."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._due = 0.0

    def show(self, picture: Picture) -> None:
        """Bring the statuses of topologies, PodGroups and queues up to date."""
        if monotonic() < self._due:
            return
        self._due = monotonic() + INTERVAL_SECONDS
        for path, patch in (*_trees(picture), *_pod_groups(picture), *_kai_groups(picture), *_queues(picture)):
            self._writer.merge(path, patch)


def _trees(picture: Picture) -> Iterator[_Change]:
    shown = [each for each in picture.topologies if not (each.kind == TOPOLOGY_KIND and KOORDINATOR in picture.left.to)]
    for ref, status in topology_statuses(shown, picture.snapshot).items():
        yield from _change(ref, status, picture, f"{_PLURALS[ref.kind]}/{ref.name}/status")


def _pod_groups(picture: Picture) -> Iterator[_Change]:
    ended = _ended(picture)
    for gang in picture.reading.gangs:
        if gang.key.dialect in picture.left.to:
            continue  # whose system runs here writes these itself
        finished = {ref: ended[GangKey(gang.key.dialect, ref.namespace, ref.name)] for ref in gang.groups}
        previous = {ref: (_object(ref, picture) or {}).get("status") or {} for ref in gang.groups}
        for ref, status in pod_group_statuses(gang, previous, now=now(), finished=finished).items():
            yield from _change(ref, status, picture, f"namespaces/{ref.namespace}/podgroups/{ref.name}")


def _kai_groups(picture: Picture) -> Iterator[_Change]:
    groups = list(picture.sources.of_kind(KAI_GROUP, KAI_KIND))
    if not groups or KAI in picture.left.to:
        return
    ended = _ended(picture)
    told = {mirrored_key(each): each.get("status") or {} for each in picture.gang_objects.values()}
    gangs = {gang.key: gang for gang in picture.reading.gangs}
    for manifest in groups:
        ref, previous = ref_of(manifest), manifest.get("status") or {}
        key = GangKey(KAI, ref.namespace, ref.name)
        if key in gangs:
            status = kai_group_status(gangs[key], ended[key], told.get(key, {}), previous, now())
        elif ended[key]:
            status = ended_status(ended[key], previous)
        else:
            continue
        yield from _change(ref, status, picture, f"namespaces/{ref.namespace}/podgroups/{ref.name}/status")


def _queues(picture: Picture) -> Iterator[_Change]:
    for ref, status in queue_statuses(picture, now()).items():
        within = f"namespaces/{ref.namespace}/" if ref.namespace else ""
        yield from _change(ref, status, picture, f"{within}{ref.kind.lower()}s/{ref.name}/status")


def _ended(picture: Picture) -> defaultdict[GangKey, list[Pod]]:
    """Pods that have finished and still exist, by the gang that they name."""
    ended: defaultdict[GangKey, list[Pod]] = defaultdict(list)
    for pod in picture.sources.pods:
        if pod.finished and not pod.terminating and (claim := dialect_of(pod)) is not None:
            ended[claim[1]].append(pod)
    return ended


def _change(ref: ObjectRef, status: dict[str, Any], picture: Picture, path: str) -> Iterator[_Change]:
    """What has to be written to the object, nothing where it is gone or says so already."""
    manifest = _object(ref, picture)
    patch = status_patch(manifest.get("status"), status) if manifest is not None else {}
    if patch:
        yield f"/apis/{ref.api_version}/{path}", {"status": patch}


def _object(ref: ObjectRef, picture: Picture) -> Manifest | None:
    return picture.sources.get(group_of(ref.api_version), ref.kind, ref.namespace, ref.name)
