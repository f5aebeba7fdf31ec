"""The controller's metrics of capacity, namespaces and queues, from a cluster view.

rack r0: n0 has 8 GPUs free; n1 runs 2 of team-a, 2 terminate, 2 are reserved      rack r1: n2 is cordoned; n3 runs 8
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from manual_clock import ManualClock
from node_manifests import node_manifest
from prometheus_client import CollectorRegistry

from cluster.capturing import snapshot_of
from cluster.devices.claims import DeviceObjects, devices_of
from cluster.node_state import NodeState
from cluster.snapshot import Snapshot
from cluster.topology.capacity import CapacityReader, Startable
from controller.gang_status import Phase
from controller.telemetry import cluster_metrics
from controller.telemetry.cluster_metrics import KEPT_SECONDS, ClusterMetrics, WaitingGang
from controller.telemetry.metrics import GangSample, Metrics, size_class
from gangs.model import Gang, GangKey, Member, ObjectRef, PodSet
from gangs.quota_model import Account, ClusterQueue, FlavorQuotas, Quota, ResourceGroup
from kube.devices import DeviceClass, ResourceClaim, ResourceSlice
from kube.keys import GATE
from kube.objects import Node, Pod, SchedulingGate
from kube.topology import HOSTNAME_LABEL, Level, Topology

GPU = "nvidia.com/gpu"
LEVELS = Level("rack", ("example.com/rack",)), Level("node", (HOSTNAME_LABEL,))
TOPOLOGY = Topology("datacenter", "Topology", LEVELS)


def node(name: str, rack: str, *, cordoned: bool = False, gpus: int = 8) -> Node:
    """A node of 8 cpu."""
    manifest = node_manifest(name, {"example.com/rack": rack}) | {"spec": {"unschedulable": cordoned}}
    manifest["status"]["allocatable"][GPU] = str(gpus)
    return msgspec.convert(manifest, Node)


def pod(
    name: str, gpus: int, namespace: str = "team-a", *, on: str = "", nominated: str = "", ends: bool = False
) -> Pod:
    """A pod of GPUs that is bound to a node, or nominated to one."""
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    if ends:
        metadata["deletionTimestamp"] = "2026-11-21T11:55:00Z"
    spec: dict[str, Any] = {"containers": [{"name": "main", "resources": {"requests": {GPU: str(gpus)}}}]}
    if on:
        spec["nodeName"] = on
    status = {"nominatedNodeName": nominated} if nominated else {}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Pod)


NODES = [node("n0", "r0"), node("n1", "r0"), node("n2", "r1", cordoned=True), node("n3", "r1")]
PODS = [
    pod("runs", 2, on="n1"),
    pod("leaves", 2, on="n1", ends=True),
    pod("comes", 2, nominated="n1"),
    pod("full", 8, "team-b", on="n3"),
]


def snapshot() -> Snapshot:
    """The cluster of the module's docstring."""
    return snapshot_of(NODES, PODS)


class Scraped:
    """A collector and its samples."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.metrics = ClusterMetrics(clock=self.clock)
        self.registry = CollectorRegistry()
        self.registry.register(self.metrics)

    def value(self, name: str, **labels: str) -> float | None:
        """One sample of a scrape; None if there is none."""
        return self.registry.get_sample_value(name, labels)

    def labels(self, name: str) -> list[Mapping[str, str]]:
        """The labels of all samples of a metric."""
        return [each.labels for family in self.registry.collect() for each in family.samples if each.name == name]


@pytest.fixture
def scraped() -> Scraped:
    """No view has been seen."""
    return Scraped()


def test_capacity_is_split_by_state(scraped: Scraped) -> None:
    scraped.metrics.see(snapshot(), [TOPOLOGY], [])
    found = {
        state: scraped.value("phalanx_capacity", resource=GPU, state=state)
        for state in ("free", "used", "reserved", "terminating", "closed")
    }
    assert found == {"free": 10, "used": 10, "reserved": 2, "terminating": 2, "closed": 8}
    assert scraped.value("phalanx_capacity", resource="cpu", state="free") == 24


def test_each_level_has_its_largest_start_and_its_fragmentation(scraped: Scraped) -> None:
    scraped.metrics.see(snapshot(), [TOPOLOGY], [])

    def pods(level: str, size: str) -> float | None:
        labels = {"topology": "datacenter", "level": level, "resource": GPU, "size": size}
        return scraped.value("phalanx_startable_pods", **labels)

    def scattered(level: str) -> float | None:
        return scraped.value("phalanx_fragmented_capacity_ratio", topology="datacenter", level=level, resource=GPU)

    assert [pods(level, "1") for level in ("cluster", "rack", "node")] == [10, 10, 8]
    assert [pods(level, "8") for level in ("cluster", "rack", "node")] == [1, 1, 1]
    assert pods("rack", "4") == 2
    assert [scattered(level) for level in ("cluster", "rack", "node")] == [1, 1, 0.2]


def test_an_empty_cluster_is_not_fragmented(scraped: Scraped) -> None:
    scraped.metrics.see(snapshot_of(NODES, []), [TOPOLOGY], [])
    assert {
        scraped.value("phalanx_fragmented_capacity_ratio", topology="datacenter", level=level, resource=GPU)
        for level in ("cluster", "rack", "node")
    } == {0}


def test_without_accelerators_the_sizes_are_cores() -> None:
    figures = CapacityReader().read(snapshot_of([node("n0", "r0", gpus=0)], []), [TOPOLOGY])
    assert [(each.size, each.pods) for each in figures.startable if each.level == "rack"] == [
        (1000, 8),
        (2000, 4),
        (4000, 2),
        (8000, 1),
    ]


def test_namespaces_have_what_they_use(scraped: Scraped, monkeypatch: pytest.MonkeyPatch) -> None:
    scraped.metrics.see(snapshot(), [], [])
    assert scraped.value("phalanx_namespace_used", namespace="team-a", resource=GPU) == 2
    monkeypatch.setattr(cluster_metrics, "MOST_NAMESPACES", 1)
    scraped.metrics.see(snapshot(), [], [])
    scraped.clock.now += KEPT_SECONDS
    used = scraped.labels("phalanx_namespace_used")
    assert [each["namespace"] for each in used] == ["_other", "team-b"]


def test_figures_are_computed_for_a_new_view_once_in_a_while(scraped: Scraped) -> None:
    def free() -> float | None:
        return scraped.value("phalanx_capacity", resource=GPU, state="free")

    assert free() is None
    scraped.metrics.see(snapshot(), [], [])
    assert free() == 10
    scraped.metrics.see(snapshot_of(NODES, []), [], [])
    scraped.clock.now += KEPT_SECONDS - 1
    assert free() == 10
    scraped.clock.now += 1
    assert free() == 24
    scraped.metrics.forget()
    assert free() is None


def test_only_changed_nodes_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, before, read = CapacityReader(), snapshot(), list[str]()
    first = reader.read(before, [TOPOLOGY])
    original = NodeState.room_beside

    def counted(state: NodeState, *arguments: Any) -> Any:
        read.append(state.name)
        return original(state, *arguments)

    monkeypatch.setattr(NodeState, "room_beside", counted)
    assert reader.read(before, [TOPOLOGY]) == first
    assert read == []
    changed = NodeState(before.nodes[0].node, before.nodes[0].allocatable)
    reader.read(before.with_states([changed]), [TOPOLOGY])
    assert set(read) == {"n0"}


def queued(name: str, queue: ClusterQueue, *pods: Pod) -> Gang:
    """A gang of the pods, charged to the queue."""
    key = GangKey("kueue", "team-a", name)
    members = tuple(Member(each, "main", None) for each in pods)
    account = Account(queue, cohort=(queue,), used=("any",))
    sets = (PodSet("main", len(pods), len(pods)),)
    source = ObjectRef("batch/v1", "Job", "team-a", name)
    return Gang(
        key=key,
        source=source,
        members=members,
        pod_sets=sets,
        expected=len(pods),
        min_member=len(pods),
        queue=queue.name,
        account=account,
    )


def test_queues_have_their_quota_and_their_gangs(scraped: Scraped) -> None:
    group = ResourceGroup((GPU,), (FlavorQuotas("any", (Quota(GPU, "4"),)),))
    queue = ClusterQueue("research", groups=(group,))
    gangs = [queued("runs", queue, PODS[0]), queued("waits", queue, pod("gated", 4))]
    scraped.metrics.see(snapshot(), [], gangs)
    labels = {"queue": "research", "flavor": "any", "resource": GPU}
    figures = {
        each: scraped.value("phalanx_queue_quota", **labels, figure=each)
        for each in ("nominal", "used", "borrowed", "lent", "free")
    }
    assert figures == {"nominal": 4, "used": 2, "borrowed": 0, "lent": 0, "free": 2}
    assert scraped.value("phalanx_queue_gangs", queue="research", state="using") == 1


def sample(name: str, phase: Phase, created: str = "2026-11-21T12:00:00Z", **status: Any) -> GangSample:
    """The state of a gang of team-a."""
    return GangSample(GangKey("kueue", "team-a", name), phase, created, status)


def test_gangs_are_counted_by_namespace_and_the_oldest_wait_by_reason() -> None:
    clock = ManualClock()
    metrics = Metrics(clock=clock)
    lost = [{"type": "Placed", "status": "False", "lastTransitionTime": clock.wall().isoformat()}]
    at = [clock.wall().isoformat()]
    clock.now += 100
    with metrics.leading():
        old = sample("old", Phase.WAITING, at[0], reason="QuotaExhausted")
        evicted = sample("evicted", Phase.WAITING, "2020-01-01T00:00:00Z", reason="NoRoom", conditions=lost)
        metrics.stand([old, sample("runs", Phase.PLACED), evicted])

        def value(name: str, **labels: str) -> float | None:
            return metrics.registry.get_sample_value(name, {"namespace": "team-a", **labels})

        assert value("phalanx_namespace_gangs", phase="Waiting") == 2
        assert value("phalanx_namespace_gangs", phase="Placed") == 1
        assert value("phalanx_gang_oldest_wait_seconds", reason="QuotaExhausted") == 100
        assert value("phalanx_gang_oldest_wait_seconds", reason="NoRoom") == 100
        metrics.stand([replace(old, phase=Phase.PLACED)], gone=[evicted.key])
        assert value("phalanx_namespace_gangs", phase="Waiting") is None
        assert value("phalanx_gang_oldest_wait_seconds", reason="NoRoom") is None
    assert (
        metrics.registry.get_sample_value("phalanx_namespace_gangs", {"namespace": "team-a", "phase": "Placed"}) is None
    )


def test_further_namespaces_share_a_series(scraped: Scraped, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_metrics, "MOST_NAMESPACES", 1)
    waits = [WaitingGang(name, "NoRoom", scraped.clock.wall()) for name in ("a", "b", "c")]
    scraped.metrics.stand({("a", Phase.WAITING): 2, ("b", Phase.WAITING): 1, ("c", Phase.WAITING): 1}, waits)
    assert scraped.value("phalanx_namespace_gangs", namespace="a", phase="Waiting") == 2
    assert scraped.value("phalanx_namespace_gangs", namespace="_other", phase="Waiting") == 2
    oldest = scraped.labels("phalanx_gang_oldest_wait_seconds")
    assert [each["namespace"] for each in oldest] == ["_other", "a"]


@pytest.mark.parametrize(
    ("pods", "name"), [(1, "1"), (2, "2-8"), (8, "2-8"), (9, "9-64"), (512, "65-512"), (513, "513-")]
)
def test_waits_are_counted_by_the_size_of_the_gang(pods: int, name: str) -> None:
    assert size_class(pods) == name
    clock = ManualClock()
    metrics = Metrics(clock=clock)
    created = clock.wall().isoformat()
    with metrics.leading():
        metrics.stand([])
        clock.now += 60
        metrics.stand([sample("llm", Phase.PLACED, created, members={"expected": pods})])
    assert metrics.registry.get_sample_value("phalanx_gang_wait_seconds_sum", {"size": name}) == 60


def test_the_number_of_series_does_not_depend_on_nodes_and_pods() -> None:
    many = [node(f"n{at}", f"r{at // 8}") for at in range(64)]
    pods = [pod(f"p{at}", 1, on=f"n{at}") for at in range(64)]
    figures = CapacityReader().read(snapshot_of(many, pods), [TOPOLOGY])
    assert len(figures.startable) == 3 * 4
    assert Startable("datacenter", "rack", GPU, 8, 0) in figures.startable
    assert figures.used_by == {("team-a", GPU): 64}


def test_devices_of_a_class_are_free_held_or_used(scraped: Scraped) -> None:
    """n0 has seven devices, of which claims share three. A gated member's claim has a device, a running pod's another.
    Each of them has a share of a device, and both share a third one. The class `odd` fails.
    """
    manifest = {
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "n0",
            "pool": {"name": "n0", "generation": 1, "resourceSliceCount": 1},
            "devices": [
                *({"name": f"gpu-{number}"} for number in range(4)),
                *({"name": f"shared-{number}", "allowMultipleAllocations": True} for number in range(3)),
            ],
        }
    }

    def claim(name: str, device: str, *shared: str) -> ResourceClaim:
        results = [{"request": "gpu", "driver": "gpu.example.com", "pool": "n0", "device": device}]
        results += [{**results[0], "device": each, "shareID": name} for each in shared]
        status = {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": name, "uid": name}],
        }
        return msgspec.convert({"metadata": {"name": name, "namespace": "team-a"}, "status": status}, ResourceClaim)

    def device_class(name: str, expression: str) -> DeviceClass:
        spec = {"selectors": [{"cel": {"expression": expression}}]}
        return msgspec.convert({"metadata": {"name": name}, "spec": spec}, DeviceClass)

    objects = DeviceObjects(
        [msgspec.convert(manifest, ResourceSlice)],
        [
            device_class("gpu", "device.driver == 'gpu.example.com'"),
            device_class("none", "false"),
            device_class("odd", "device.attributes['gpu.example.com'].model == 'x'"),
        ],
        [claim("llm-0", "gpu-0", "shared-0", "shared-2"), claim("runs", "gpu-1", "shared-1", "shared-2")],
    )
    gated = pod("llm-0", 0)
    gated = msgspec.structs.replace(
        gated, spec=msgspec.structs.replace(gated.spec, scheduling_gates=(SchedulingGate(name=GATE),))
    )
    gang = Gang(
        key=GangKey("phalanx", "team-a", "llm"),
        source=ObjectRef("phalanx.dev/v1alpha1", "Gang", "team-a", "llm"),
        members=(Member(gated, "main", None),),
        pod_sets=(PodSet("main", 1, 1),),
        expected=1,
        min_member=1,
    )
    scraped.metrics.see(replace(snapshot(), devices=devices_of(objects)), [], [gang])
    found = {
        (labels["device_class"], labels["state"]): scraped.value("phalanx_devices", **labels)
        for labels in scraped.labels("phalanx_devices")
    }
    assert found == {
        ("gpu", "free"): 2,
        ("gpu", "held"): 2,
        ("gpu", "used"): 3,
        ("none", "free"): 0,
        ("none", "held"): 0,
        ("none", "used"): 0,
    }


@pytest.mark.parametrize(
    ("status", "lacks"),
    [
        ({"reason": "ResourceClaims"}, True),
        ({"reason": "ClaimsMissing"}, True),
        ({"reason": "DevicesLeaving"}, True),
        ({"reason": "NoRoom"}, False),
        ({"reason": "NoRoom", "explanation": {"nearest": [{"devices": [{"free": 3, "needed": 4}]}]}}, True),
        ({"reason": "NoRoom", "explanation": {"nearest": [{"devices": [{"free": 4, "needed": 4}]}]}}, False),
        ({"reason": "NoRoom", "explanation": {"nearest": [{}]}}, False),
    ],
)
def test_gangs_that_wait_for_devices_are_counted_by_reason(
    scraped: Scraped, status: dict[str, Any], *, lacks: bool
) -> None:
    assert cluster_metrics.lacks_devices(status) is lacks
    since = scraped.clock.wall()
    scraped.metrics.stand(
        {}, [WaitingGang("a", "NoRoom", since, lacks_devices=lacks), WaitingGang("a", "NoRoom", since)]
    )
    assert scraped.value("phalanx_gangs_waiting_for_devices", reason="NoRoom") == (1 if lacks else None)
