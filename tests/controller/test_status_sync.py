"""Which objects get a status, from which reporter, and where it is written."""

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from time import monotonic, sleep
from typing import Any

import pytest
from kubernetes.client import ApiClient, Configuration

from cluster.api.transport import Transport
from cluster.capturing import snapshot_of
from controller.cluster_view import ClusterView
from controller.status import status_sync
from controller.status.fair_turns import LEISURELY
from controller.status.status_sync import StatusSync, group_statuses, topology_statuses
from controller.writes.writer import Result, Writer, Written
from gangs.coexistence.ownership import CededToOthers, Neighbour
from gangs.incremental.gang_store import GangStore
from gangs.manifests import key_of
from gangs.model import GangKey, Manifest, ObjectRef
from gangs.object_statuses import ObjectStatus
from gangs.sources import Sources
from kube.objects import ObjectMeta, Pod
from kube.topology import Level, Topology

NOW = "2026-01-01T00:00:00Z"
NODES = (Level("node", ("kubernetes.io/hostname",)),)
NETWORK, OWN = Topology("default", "ClusterNetworkTopology", NODES), Topology("dc", "Topology", NODES)
OTHERS = Topology("dc", "Topology.kueue.x-k8s.io", NODES)

PATHS = [
    (ObjectStatus(ObjectRef("a/v1", "Thing", "ns", "x"), {}, "things"), "/apis/a/v1/namespaces/ns/things/x/status"),
    (ObjectStatus(ObjectRef("a/v1", "Thing", "", "x"), {}, "things"), "/apis/a/v1/things/x/status"),
    (
        ObjectStatus(ObjectRef("a/v1", "Thing", "ns", "x"), {}, "things", subresource=False),
        "/apis/a/v1/namespaces/ns/things/x",
    ),
]


@pytest.mark.parametrize(("status", "path"), PATHS)
def test_a_status_is_written_where_its_object_has_it(status: ObjectStatus, path: str) -> None:
    assert status.path == path


def group(api_version: str, name: str) -> dict[str, Any]:
    """A PodGroup of one system or another, with one pod that makes it a gang."""
    metadata = {"name": name, "namespace": "ns", "uid": name}
    return {"apiVersion": api_version, "kind": "PodGroup", "metadata": metadata, "spec": {"minMember": 1}}


def crowd(sizes: Mapping[str, int]) -> tuple[ClusterView, frozenset[GangKey]]:
    """Return so many PodGroups of Koordinator in each namespace, with a pod each, and their gangs."""
    groups, pods, keys = [], [], set()
    for namespace, size in sizes.items():
        for name in (f"g{number}" for number in range(size)):
            found = group("scheduling.sigs.k8s.io/v1alpha1", name)
            found["metadata"]["namespace"] = namespace
            groups.append(found)
            labels = {"pod-group.scheduling.sigs.k8s.io": name}
            pods.append(Pod(metadata=ObjectMeta(name=name, namespace=namespace, uid=namespace + name, labels=labels)))
            keys.add(GangKey("koordinator", namespace, name))
    sources = Sources(pods, {key_of(each): each for each in groups})
    kept = GangStore(sources)
    return ClusterView(sources, kept.reading(), [], (), snapshot_of([], pods), {}, kept=kept), frozenset(keys)


def picture(left: Mapping[str, Neighbour]) -> ClusterView:
    """A PodGroup of Koordinator and one of KAI with a pod each, a topology of each kind; `left`: to their systems."""
    groups = [group("scheduling.sigs.k8s.io/v1alpha1", "koord"), group("scheduling.run.ai/v2alpha2", "kai")]
    by_label, by_annotation = {"pod-group.scheduling.sigs.k8s.io": "koord"}, {"pod-group-name": "kai"}
    pods = [
        Pod(metadata=ObjectMeta(name="a", namespace="ns", uid="a", labels=by_label)),
        Pod(metadata=ObjectMeta(name="b", namespace="ns", uid="b", annotations=by_annotation)),
    ]
    sources = Sources(pods, {key_of(each): each for each in groups})
    kept = GangStore(sources)
    there = [NETWORK, OWN, OTHERS]
    return ClusterView(
        sources, kept.reading(), there, (), snapshot_of([], pods), {}, left=CededToOthers(left), kept=kept
    )


LEFT = [
    # dialects that are left to their own systems, whose groups and topologies are shown
    ((), {"koord", "kai"}, ["ClusterNetworkTopology", "Topology"]),
    (("koordinator",), {"kai"}, ["Topology"]),
    (("kai", "runai"), {"koord"}, ["ClusterNetworkTopology", "Topology"]),
]


@pytest.mark.parametrize(("left", "groups", "kinds"), LEFT)
def test_objects_of_a_system_that_runs_here_are_left_to_it(
    left: tuple[str, ...], groups: set[str], kinds: list[str]
) -> None:
    there = picture({name: Neighbour(name, name) for name in left})
    keys = {GangKey("koordinator", "ns", "koord"), GangKey("kai", "ns", "kai"), GangKey("kueue", "ns", "kai")}
    assert {each.ref.name for each in group_statuses(keys, there, NOW)} == groups
    assert [each.ref.kind for each in topology_statuses(there)] == kinds


class SlowWriter(Writer):
    """A slow writer that records its writes."""

    def __init__(self) -> None:
        super().__init__(Transport(ApiClient(Configuration())))
        self.written: list[str] = []

    def merge(self, path: str, _patch: Mapping[str, Any], _seen: Manifest) -> Written:
        """As if the API server answered after a while."""
        sleep(0.02)
        self.written.append(path)
        return Written(Result.DONE)


def test_one_namespaces_many_groups_keep_neither_the_round_nor_those_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(status_sync, "INTERVAL_SECONDS", 0.0)
    there, keys = crowd({"flood": 400, "small": 3})
    writer = SlowWriter()
    sync, began = StatusSync(writer), monotonic()
    sync.show(replace(there, concerned=keys))
    assert monotonic() - began < LEISURELY.seconds * 5, "a busy machine may take longer than the turn"
    assert len([each for each in writer.written if "/small/" in each]) == 3
    assert len(writer.written) < len(keys)
    assert sync.unfinished
    while sync.unfinished:
        sync.show(replace(there, concerned=frozenset()))
    assert len(writer.written) == len(set(writer.written)) == len(keys)


def test_room_that_has_changed_has_no_round_begin_before_trees_may_be_written_again() -> None:
    sync, there = StatusSync(Writer(Transport(ApiClient(Configuration()))), tree_seconds=1000.0), picture({})
    sync.show(there)
    assert (sync.unfinished, sync.due) == (False, inf)
    fuller = replace(there, snapshot=replace(there.snapshot, version="2"))
    sync.show(fuller)
    assert not sync.unfinished
    assert monotonic() + 900 < sync.due < inf
    sync.show(replace(fuller, topologies=[NETWORK]))
    assert sync.unfinished  # other topologies are shown at once
