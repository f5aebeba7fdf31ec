"""The Koordinator guide's examples, applied as its document has them.

ClusterTopologyLayer
├── spine-0: block-0 (node-0, node-1, node-2), block-1 (node-3, node-4)
├── spine-1: block-2 (node-5, node-6), block-3 (node-7, node-8)
└── spine-2: block-4 (node-9, node-10, node-11)
"""

import pytest
from system import GUIDE, Phalanx, all_bound, numbered, scheduled_message

from controlplane.recording import WatchEvent, bound

pytestmark = pytest.mark.controlplane

TRAINING = numbered("training-pod", 4)
HIGH_PRIORITY = numbered("hp-training-pod", 4)
IN_INDEX_ORDER = ["node-5", "node-6", "node-7", "node-8"]

NO_ROOM = (
    "no candidate topology nodes can accommodate job, desiredOfferSlot: 4, "
    "topology topologyNode SpineLayer/spine-0: 3;topology topologyNode SpineLayer/spine-1: 3;"
    "topology topologyNode SpineLayer/spine-2: 3"
)
TERMINATING = "not eligible due to terminating pod on the nominated node."
FIRST_MEMBER = f"0/12 nodes are available: {NO_ROOM}. preemption: {TERMINATING}."
OTHERS = (
    'GangGroup "default/high-priority-training" gets rejected due to member Pod "default/hp-training-pod-0" is '
    f'unschedulable with reason "{NO_ROOM}", alreadyWaitForBound: 0. preemption: preemption already attempted by '
    f"default/hp-training-pod-0 with message {TERMINATING}."
)


def entry(layer: str, name: str, nodes: int, child: str, children: list[str], parent: tuple[str, str] | None) -> object:
    """One entry of the document's status."""
    found: dict[str, object] = {"childTopologyLayer": child, "nodeNum": nodes}
    found["topologyInfo"] = {"topologyLayer": layer, "topologyName": name}
    if children:
        found["childTopologyNames"] = children
    if parent:
        found["parentTopologyInfo"] = {"topologyLayer": parent[0], "topologyName": parent[1]}
    return found


ROOT = ("ClusterTopologyLayer", "")
STATUS = [
    entry(*ROOT, 12, "SpineLayer", ["spine-0", "spine-1", "spine-2"], None),
    entry("SpineLayer", "spine-0", 5, "BlockLayer", ["block-0", "block-1"], ROOT),
    entry("BlockLayer", "block-0", 3, "NodeTopologyLayer", [], ("SpineLayer", "spine-0")),
    entry("BlockLayer", "block-1", 2, "NodeTopologyLayer", [], ("SpineLayer", "spine-0")),
    entry("SpineLayer", "spine-1", 4, "BlockLayer", ["block-2", "block-3"], ROOT),
    entry("BlockLayer", "block-2", 2, "NodeTopologyLayer", [], ("SpineLayer", "spine-1")),
    entry("BlockLayer", "block-3", 2, "NodeTopologyLayer", [], ("SpineLayer", "spine-1")),
    entry("SpineLayer", "spine-2", 3, "BlockLayer", ["block-4"], ROOT),
    entry("BlockLayer", "block-4", 3, "NodeTopologyLayer", [], ("SpineLayer", "spine-2")),
]


@pytest.mark.long
def test_the_topology_shows_the_documents_status_entry_for_entry(phalanx: Phalanx) -> None:
    phalanx.guide_nodes()
    path = "/apis/scheduling.koordinator.sh/v1alpha1/clusternetworktopologies/default"

    def shown() -> object:
        return (phalanx.cluster.request("GET", path).get("status") or {}).get("detailStatus")

    phalanx.wait(lambda: shown() == STATUS, "the topology's status")


@pytest.mark.long
def test_example_1_lands_in_the_spine_that_fits_exactly_in_index_order(phalanx: Phalanx) -> None:
    phalanx.guide_nodes()
    with phalanx.record() as recorder:
        phalanx.apply_files(GUIDE / "topology-demo-job.yaml")
        events = recorder.wait_for(all_bound(TRAINING))
    assert [nodes_seen(events, name) for name in TRAINING] == [[node] for node in IN_INDEX_ORDER]
    for name in TRAINING:
        held_before_release(events, name)
    assert phalanx.await_phase("topology-demo-job", "Placed")["proof"] == "Optimal"


@pytest.mark.long
def test_example_2_evicts_one_pod_and_holds_the_room_while_it_terminates(phalanx: Phalanx) -> None:
    phalanx.guide_nodes()
    phalanx.apply_files(GUIDE / "priorityclasses.yaml", GUIDE / "low-priority-pods.yaml")
    low = [f"low-priority-pod-{index}" for index in (0, 1, 5)]
    phalanx.wait(lambda: all(p["status"]["phase"] == "Running" for p in phalanx.pods()), "the low-priority pods")
    with phalanx.record() as recorder:
        phalanx.apply_files(GUIDE / "high-priority-training.yaml")
        events = recorder.wait_for(all_bound(HIGH_PRIORITY))
    assert evicted(events, low) == ["low-priority-pod-5"]
    assert [nodes_seen(events, name) for name in HIGH_PRIORITY] == [[node] for node in IN_INDEX_ORDER]
    between = while_terminating(events, "low-priority-pod-5")
    for name, node in zip(HIGH_PRIORITY, IN_INDEX_ORDER, strict=True):
        last = last_before(events, name, between)
        assert last.object["status"].get("nominatedNodeName") == (None if phalanx.forgets else node)
        assert last.object["spec"]["schedulingGates"]
        assert scheduled_message(last.object) == (FIRST_MEMBER if name == HIGH_PRIORITY[0] else OTHERS)
        reason = next(c["reason"] for c in last.object["status"]["conditions"] if c["type"] == "PodScheduled")
        assert reason == "Unschedulable"
    gone = next(i for i, e in enumerate(events) if e.type == "DELETED" and e.name == "low-priority-pod-5")
    assert not any(bound(event) for event in events[:gone] if event.name in HIGH_PRIORITY)
    preempted = phalanx.cluster.kubectl("get", "events", "--field-selector", "reason=Preempted", "-o", "wide")
    assert "low-priority-pod-5" in preempted
    assert "high-priority-training" in preempted


def nodes_seen(events: list[WatchEvent], name: str) -> list[str]:
    """Every node that the pod was ever seen on, in order."""
    return list(dict.fromkeys(bound(event) for event in events if event.name == name and bound(event)))


def held_before_release(events: list[WatchEvent], name: str) -> None:
    """Check that the pod was nominated while it was gated, and released only after that."""
    own = [event for event in events if event.name == name]
    held = next(i for i, e in enumerate(own) if e.object["status"].get("nominatedNodeName"))
    released = next(i for i, e in enumerate(own) if not e.object["spec"].get("schedulingGates"))
    assert held < released
    assert own[held].object["spec"]["schedulingGates"] == [{"name": "phalanx.dev/gang"}]


def evicted(events: list[WatchEvent], names: list[str]) -> list[str]:
    """Which of the pods were deleted."""
    return sorted({e.name for e in events if e.name in names and e.object["metadata"].get("deletionTimestamp")})


def while_terminating(events: list[WatchEvent], name: str) -> int:
    """Position of the last event before the pod is gone."""
    return next(i for i, e in enumerate(events) if e.type == "DELETED" and e.name == name)


def last_before(events: list[WatchEvent], name: str, position: int) -> WatchEvent:
    """The pod's last event before that position."""
    return [event for event in events[:position] if event.name == name][-1]
