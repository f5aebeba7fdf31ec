"""Nodes and pods as a snapshot: reserved capacity by node, and the capacity that is left."""

from typing import Any

import pytest
from cluster_objects import apart, asking, node, pod

from cluster.capturing import Capture, snapshot_of
from cluster.node_state import Tenant, room
from cluster.snapshot import Snapshot
from kube.objects import ObjectMeta, Pod, PodDisruptionBudget, PriorityClass

GATED = [{"name": "phalanx.dev/gang"}]
LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
PLANNED = {"annotations": {"phalanx.dev/planned-node": "n"}}


def let_go(to: str = "n") -> dict[str, Any]:
    """Metadata after a release."""
    return {"annotations": {"phalanx.dev/planned-node": to, "phalanx.dev/released": "2026-01-01T00:00:00Z"}}


def pinned(to: str = "n") -> dict[str, Any]:
    """The pin that a release leaves."""
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [to]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def nominated(to: str = "n") -> dict[str, Any]:
    return {"nominatedNodeName": to}


def tenants(snapshot: Snapshot) -> list[Tenant]:
    return [tenant for state in snapshot.nodes for tenant in state.tenants]


@pytest.mark.parametrize(
    ("what", "spec", "holds"),
    [
        ("bound", {"nodeName": "n"}, "held"),
        ("running", {"nodeName": "n", "status": {"phase": "Running"}}, "held"),
        ("terminating", {"nodeName": "n", "metadata": LEAVING}, "held"),
        ("succeeded", {"nodeName": "n", "status": {"phase": "Succeeded"}}, "nothing"),
        ("failed", {"nodeName": "n", "status": {"phase": "Failed"}}, "nothing"),
        ("pending", {}, "nothing"),
        ("gated", {"schedulingGates": GATED}, "nothing"),
        ("gated and nominated", {"schedulingGates": GATED, "status": nominated()}, "reserved"),
        ("gated and planned", {"schedulingGates": GATED, "status": nominated(), "metadata": PLANNED}, "reserved"),
        ("nominated by the stock scheduler", {"status": nominated()}, "reserved"),
        ("released", {"status": nominated(), "metadata": PLANNED}, "held"),
        ("released without its nomination", {"metadata": let_go(), **pinned()}, "held"),
        ("the same, to a node that is not there", {"metadata": let_go("m"), **pinned("m")}, "nothing"),
        ("the same, on its way out", {"metadata": {**let_go(), **LEAVING}, **pinned()}, "nothing"),
        ("gated again", {"metadata": let_go(), **pinned(), "schedulingGates": GATED}, "nothing"),
        ("only annotated with a node", {"metadata": PLANNED}, "nothing"),
        ("annotated, and its own choice of nodes", {"metadata": PLANNED, **pinned()}, "nothing"),
        ("annotated as if released", {"metadata": let_go()}, "nothing"),
        ("annotated with a node that it rules out", {"metadata": let_go(), **pinned("m")}, "nothing"),
        ("nominated and deleted", {"schedulingGates": GATED, "status": nominated(), "metadata": LEAVING}, "nothing"),
        ("bound to a node that is not there", {"nodeName": "m"}, "nothing"),
        ("nominated to a node that is not there", {"status": nominated("m")}, "nothing"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_who_holds_room(what: str, spec: dict[str, Any], holds: str) -> None:
    found = tenants(snapshot_of([node("n")], [pod(**spec)]))
    assert [("reserved" if each.reserved else "held") for each in found] == ([holds] if holds != "nothing" else []), (
        what
    )


def owned(kind: str) -> dict[str, Any]:
    return {"ownerReferences": [{"kind": kind, "name": "owner", "controller": True}]}


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({}, ""),
        (owned("Job"), ""),
        (owned("DaemonSet"), "DaemonSet pod"),
        (owned("Node"), "mirror pod"),
        ({"annotations": {"kubernetes.io/config.mirror": "x"}}, "mirror pod"),
        ({"labels": {"keep": "me"}}, "asked to be kept"),
    ],
)
def test_pods_that_may_never_be_victims_say_why(metadata: dict[str, Any], reason: str) -> None:
    def protected(each: Pod) -> str:
        return "asked to be kept" if "keep" in each.metadata.labels else ""

    [tenant] = tenants(snapshot_of([node("n")], [pod(nodeName="n", metadata=metadata)], protected=protected))
    assert tenant.protected == reason


def test_who_is_protected_may_change() -> None:
    capture = Capture()
    capture.put_node(node("n"))
    capture.put_pod(pod(nodeName="n", metadata={"labels": {"keep": "me"}}))

    def protected(each: Pod) -> str:
        return "asked to be kept" if "keep" in each.metadata.labels else ""

    assert [each.protected for each in tenants(capture.snapshot())] == [""]
    assert capture.protect(protected)
    assert [each.protected for each in tenants(capture.snapshot())] == ["asked to be kept"]
    assert not capture.protect(protected)


CLASSES = [
    PriorityClass(metadata=ObjectMeta(name="high"), value=1000),
    PriorityClass(metadata=ObjectMeta(name="usual"), value=7, global_default=True),
]


@pytest.mark.parametrize(
    ("spec", "classes", "priority"),
    [
        ({"priority": 5, "priorityClassName": "high"}, CLASSES, 5),
        ({"priorityClassName": "high"}, CLASSES, 1000),
        ({"priorityClassName": "system-node-critical"}, [], 2000001000),
        ({"priorityClassName": "system-cluster-critical"}, [], 2000000000),
        ({"priorityClassName": "unknown"}, CLASSES, 0),
        ({}, CLASSES, 7),
        ({}, [], 0),
        ({"priority": 0}, CLASSES, 0),
    ],
)
def test_a_priority_is_the_pods_own_or_its_classs(
    spec: dict[str, Any], classes: list[PriorityClass], priority: int
) -> None:
    [tenant] = tenants(snapshot_of([node("n")], [pod(nodeName="n", **spec)], priority_classes=classes))
    assert tenant.priority == priority


#   n: 10 cpu ┌────────────┬──────────┬─────────────┬──────────────┐
#             │ bound 3    │ leaving 2│ reserved 1  │ reserved 1   │
#             │            │          │ priority 5  │ priority 9   │
#             └────────────┴──────────┴─────────────┴──────────────┘
TEN = node("n", allocatable={"cpu": "10", "pods": 5})
PODS = [
    pod("bound", nodeName="n", containers=asking(cpu=3)),
    pod("leaving", nodeName="n", containers=asking(cpu=2), metadata=LEAVING),
    pod("five", priority=5, schedulingGates=GATED, containers=asking(cpu=1), status=nominated()),
    pod("nine", priority=9, schedulingGates=GATED, containers=asking(cpu=1), status=nominated()),
]


@pytest.mark.parametrize(
    ("priority", "ignoring", "free", "terminating"),
    [
        (0, set(), {"cpu": 5000, "pods": 2}, {"cpu": 2000, "pods": 1}),
        (5, set(), {"cpu": 5000, "pods": 2}, {"cpu": 2000, "pods": 1}),
        (6, set(), {"cpu": 6000, "pods": 3}, {"cpu": 2000, "pods": 1}),
        (10, set(), {"cpu": 7000, "pods": 4}, {"cpu": 2000, "pods": 1}),
        (0, {"default/nine"}, {"cpu": 6000, "pods": 3}, {"cpu": 2000, "pods": 1}),
        (0, {"default/bound", "default/leaving"}, {"cpu": 8000, "pods": 3}, {}),
    ],
)
def test_room_is_what_is_left_for_a_priority(
    priority: int, ignoring: set[str], free: dict[str, int], terminating: dict[str, int]
) -> None:
    [state] = snapshot_of([TEN], PODS).nodes
    assert room(state, priority=priority, ignoring=ignoring) == (free, terminating)


def test_room_may_be_negative_and_names_what_the_node_does_not_offer() -> None:
    greedy = pod(nodeName="n", containers=asking(cpu=12, gpu=1))
    [state] = snapshot_of([TEN], [greedy]).nodes
    assert room(state, priority=0)[0] == {"cpu": -2000, "gpu": -1, "pods": 4}


def test_pods_without_uid_are_not_mistaken_for_one_another() -> None:
    [state] = snapshot_of([TEN], PODS).nodes
    assert room(state, priority=0, ignoring={""})[0]["cpu"] == 5000


def test_a_node_that_does_not_say_takes_110_pods() -> None:
    [state] = snapshot_of([node("n", allocatable={"cpu": 1})], []).nodes
    assert state.allocatable == {"cpu": 1000, "pods": 110}


def test_nodes_come_in_natural_order_and_tenants_by_name() -> None:
    snapshot = snapshot_of([node("n10"), node("n2")], [pod(name, nodeName="n2") for name in "ba"])
    assert [state.name for state in snapshot.nodes] == ["n2", "n10"]
    assert [tenant.pod.metadata.name for tenant in snapshot.nodes[0].tenants] == ["a", "b"]


@pytest.mark.parametrize(
    ("nodes", "pods", "message"),
    [
        ([node("n", allocatable={"cpu": "much"})], [], r"Node n: 'much' is not a quantity"),
        ([], [pod("p", nodeName="n", containers=asking(cpu="much"))], r"Pod default/p: 'much' is not a quantity"),
    ],
)
def test_what_cannot_be_read_is_named(nodes: list[Any], pods: list[Pod], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        snapshot_of(nodes, pods)


def test_a_capture_kept_up_to_date_is_the_same_as_one_made_at_once() -> None:
    capture = Capture()
    capture.put_node(node("old"))
    capture.put_pod(pod("moved", nodeName="old"))
    capture.put_pod(pod("gone", nodeName="n"))
    capture.put_pod(PODS[0])
    capture.snapshot()
    capture.put_node(TEN)
    capture.drop_pod("default/gone")
    capture.put_pod(pod("moved", nodeName="n"))
    capture.drop_node("old")
    assert capture.snapshot() == snapshot_of([TEN], [pod("moved", nodeName="n"), PODS[0]])


def test_a_node_that_comes_back_finds_its_pods() -> None:
    capture = Capture()
    capture.put_pod(PODS[0])
    assert tenants(capture.snapshot()) == []
    for _ in range(2):
        capture.put_node(TEN)
        assert [each.pod.metadata.name for each in tenants(capture.snapshot())] == ["bound"]
        capture.drop_node("n")
        assert capture.snapshot().nodes == ()


def test_what_did_not_change_is_the_same_object_in_the_next_snapshot() -> None:
    capture = Capture()
    capture.put_node(node("a"))
    capture.put_node(node("b"))
    before = capture.snapshot()
    capture.put_pod(pod(nodeName="b"))
    after = capture.snapshot()
    assert after.nodes[0] is before.nodes[0]
    assert after.nodes[1] is not before.nodes[1]


def test_what_follows_from_a_node_is_of_the_node_as_it_is_now() -> None:
    capture = Capture()
    capture.put_node(TEN)
    [before] = capture.snapshot().nodes
    assert (before.open, before.evictable, room(before, priority=0)[0]["pods"]) == (True, (), 5)
    capture.put_pod(pod("late", nodeName="n", affinity=apart("a", "zone")))
    capture.put_node(node("n", allocatable={"pods": 3}, unschedulable=True))
    [state] = capture.snapshot().nodes
    assert (state.open, room(state, priority=0)[0]["pods"]) == (False, 2)
    assert state.evictable == state.keeping_off == state.tenants
    assert state.marks == {"default/late"}
    capture.protect(lambda _: "why")
    [state] = capture.snapshot().nodes
    assert state.evictable == ()


def test_classes_that_come_later_set_the_priority_of_pods_from_files() -> None:
    capture = Capture()
    capture.put_node(TEN)
    capture.put_pod(pod(nodeName="n", priorityClassName="high"))
    assert [each.priority for each in tenants(capture.snapshot())] == [0]
    capture.set_priority_classes(CLASSES)
    assert [each.priority for each in tenants(capture.snapshot())] == [1000]


def test_classes_and_budgets_are_part_of_the_snapshot() -> None:
    budgets = [PodDisruptionBudget(metadata=ObjectMeta(name=name, namespace="default")) for name in "ba"]
    snapshot = snapshot_of([], [], priority_classes=CLASSES, budgets=budgets, namespaces={"default": {"a": "b"}})
    assert set(snapshot.priority_classes) == {"high", "usual"}
    assert [each.metadata.name for each in snapshot.budgets] == ["a", "b"]
    assert snapshot.namespaces == {"default": {"a": "b"}}
