"""All or none, whatever happens between plan and release, on the real scheduler."""

from typing import Any

import pytest
from system import (
    Phalanx,
    all_bound,
    node,
    numbered,
    pod,
    pod_group,
    priority_class,
    scheduled_message,
    unschedulable,
)

from controlplane.recording import bound

pytestmark = pytest.mark.controlplane

MUST_SPINE = ("SpineLayer", "MustGather")


def members(stem: str, count: int, **spec: Any) -> list[dict[str, object]]:
    """Pods of the gang `stem`."""
    return [pod(name, stem, **spec) for name in numbered(stem, count)]


@pytest.mark.long
def test_a_gang_one_pod_short_waits_and_starts_when_the_pod_comes(phalanx: Phalanx) -> None:
    phalanx.guide_nodes()
    *first, last = members("short", 4)
    phalanx.submit(pod_group("short", 4, MUST_SPINE), *first)
    waits = "waits for 1 more pod: 3 of 4 exist"
    phalanx.wait(lambda: phalanx.status("short").get("message") == waits, "the gang's message")
    assert phalanx.status("short")["phase"] == "Waiting"
    phalanx.wait(lambda: "3 of 4" in scheduled_message(phalanx.pod("short-0")), "the pod's own message")
    assert not any(phalanx.nodes_of(numbered("short", 3)).values())
    assert all(each["spec"]["schedulingGates"] for each in phalanx.pods())
    phalanx.submit(last)
    assert set(phalanx.await_bound(numbered("short", 4)).values()) == {f"node-{i}" for i in (5, 6, 7, 8)}


@pytest.mark.long
def test_a_gang_that_fits_nowhere_says_where_how_many_fit_and_starts_when_room_appears(phalanx: Phalanx) -> None:
    phalanx.guide_nodes()
    phalanx.submit(*(pod(f"busy-{i}", nodeName=f"node-{i}") for i in (0, 1, 5)))
    phalanx.submit(pod_group("big", 4, MUST_SPINE), *members("big", 4))
    status = phalanx.await_phase("big", "Unplaceable")
    near = {tuple(each["path"]): each["fits"] for each in status["explanation"]["nearest"]}
    assert near == {("spine-0",): 3, ("spine-1",): 3, ("spine-2",): 3}
    assert status["proof"] == "Infeasible"
    expected = "SpineLayer/spine-0: 3;topology topologyNode SpineLayer/spine-1: 3"
    phalanx.wait(lambda: expected in scheduled_message(phalanx.pod("big-0")), "the pod's own message")
    assert not any(phalanx.nodes_of(numbered("big", 4)).values())
    phalanx.cluster.kubectl("delete", "pod", "busy-5", "--force", "--grace-period=0")
    assert set(phalanx.await_bound(numbered("big", 4)).values()) == {f"node-{i}" for i in (5, 6, 7, 8)}


def test_of_two_gangs_that_only_fit_one_after_the_other_never_both_start_half(phalanx: Phalanx) -> None:
    phalanx.cluster.add_nodes(node(f"node-{i}", "spine-0", "block-0") for i in range(4))
    phalanx.submit(topology())
    with phalanx.record() as recorder:
        phalanx.submit(
            pod_group("one", 3, MUST_SPINE), pod_group("two", 3, MUST_SPINE), *members("one", 3), *members("two", 3)
        )
        recorder.wait_for(lambda seen: any(all_bound(numbered(gang, 3))(seen) for gang in ("one", "two")))
        running, waiting = ("one", "two") if all(phalanx.nodes_of(numbered("one", 3)).values()) else ("two", "one")
        phalanx.await_phase(waiting, "Unplaceable")
        assert not any(bound(event) for event in recorder.events if event.name.startswith(f"{waiting}-"))
        phalanx.cluster.kubectl("delete", "pod", *numbered(running, 3), "--wait=false")
        recorder.wait_for(all_bound(numbered(waiting, 3)))


@pytest.mark.long
def test_a_pod_of_equal_priority_cannot_take_the_room_that_is_held(phalanx: Phalanx) -> None:
    phalanx.guide_nodes()
    phalanx.submit(priority_class("high", 100_000), priority_class("low-priority", 1000))
    phalanx.submit(*(pod(f"low-{i}", nodeName=f"node-{i}", priorityClassName="low-priority") for i in (0, 1, 5)))
    phalanx.wait(lambda: all(p["status"]["phase"] == "Running" for p in phalanx.pods()), "the low-priority pods")
    with phalanx.record() as recorder:
        with phalanx.slow_to_end("low-5"):
            phalanx.submit(pod_group("held", 4, MUST_SPINE), *members("held", 4, priorityClassName="high"))
            held = set(numbered("held", 4))
            phalanx.wait(lambda: held <= phalanx.reserved().keys(), "the capacity to be reserved")
            rivals = {f"rival-{i}": {"kubernetes.io/hostname": f"node-{i}"} for i in (6, 7, 8)}
            phalanx.submit(*(pod(name, priorityClassName="high", nodeSelector=pin) for name, pin in rivals.items()))
            phalanx.wait(lambda: all(map(unschedulable, map(phalanx.pod, rivals))), "the rivals to be turned away")
        recorder.wait_for(all_bound(numbered("held", 4)))
        assert not any(bound(event) for event in recorder.events if event.name.startswith("rival-"))


def test_a_pod_of_higher_priority_takes_the_room_and_nothing_has_been_let_go(phalanx: Phalanx) -> None:
    phalanx.guide_nodes()
    phalanx.submit(priority_class("high", 100_000), priority_class("highest", 1_000_000))
    phalanx.submit(priority_class("low-priority", 1000))
    low = [pod(f"low-{i}", nodeName=f"node-{i}", priorityClassName="low-priority") for i in (0, 1, 5)]
    phalanx.submit(*low)
    phalanx.wait(lambda: all(p["status"]["phase"] == "Running" for p in phalanx.pods()), "the low-priority pods")
    with phalanx.record() as recorder:
        with phalanx.slow_to_end("low-5"):
            phalanx.submit(pod_group("held", 4, MUST_SPINE), *members("held", 4, priorityClassName="high"))
            phalanx.wait(lambda: "node-6" in phalanx.reserved().values(), "the capacity to be reserved")
            pin = {"kubernetes.io/hostname": "node-6"}
            phalanx.submit(pod("intruder", priorityClassName="highest", nodeSelector=pin))
            recorder.wait_for(all_bound(["intruder"]))
            before = [e for e in recorder.events if e.name.startswith("held-")]
            assert all(e.object["spec"].get("schedulingGates") for e in before)
        events = recorder.wait_for(all_bound(numbered("held", 4)))
    placed = {event.name: bound(event) for event in events if bound(event)}
    assert placed["intruder"] == "node-6"
    assert len({placed[name] for name in numbered("held", 4)} & {f"node-{i}" for i in range(5)}) == 4
    lost = phalanx.cluster.kubectl("get", "events", "--field-selector", "reason=RoomLost")
    assert "held" in lost


@pytest.mark.long
def test_a_replacement_is_placed_beside_its_siblings(phalanx: Phalanx) -> None:
    phalanx.guide_nodes()
    phalanx.submit(pod_group("team", 4, MUST_SPINE), *members("team", 4))
    first = phalanx.await_bound(numbered("team", 4))
    phalanx.cluster.kubectl("delete", "pod", "team-2", "--force", "--grace-period=0")
    phalanx.await_phase("team", "Waiting")
    phalanx.submit(pod("team-2", "team"))
    assert phalanx.await_bound(numbered("team", 4)) == first


@pytest.mark.long
def test_a_budget_that_forbids_an_eviction_leaves_everything_as_it_was(phalanx: Phalanx) -> None:
    phalanx.cluster.add_nodes(node(f"node-{i}", "spine-0", "block-0") for i in range(2))
    phalanx.submit(topology(), priority_class("high", 100_000))
    guarded = pod("guarded", nodeName="node-0")
    guarded["metadata"]["labels"] = {"app": "guarded"}
    phalanx.submit(guarded, budget("guard", "guarded", 1))
    phalanx.wait(lambda: phalanx.pod("guarded")["status"]["phase"] == "Running", "the guarded pod")
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/guard"
    phalanx.wait(
        lambda: phalanx.cluster.request("GET", budgets).get("status", {}).get("currentHealthy") == 1, "the budget"
    )
    phalanx.submit(pod_group("rude", 2, MUST_SPINE), *members("rude", 2, priorityClassName="high"))
    phalanx.await_phase("rude", "Unplaceable")
    assert "deletionTimestamp" not in phalanx.pod("guarded")["metadata"]
    phalanx.cluster.kubectl("delete", "pdb", "guard")
    phalanx.await_bound(numbered("rude", 2))


def budget(name: str, app: str, minimum: int) -> dict[str, object]:
    """A disruption budget over the pods of an app."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minAvailable": minimum, "selector": {"matchLabels": {"app": app}}},
    }


def topology() -> dict[str, object]:
    """The guide's topology object."""
    spine, block = "network.topology.nvidia.com/spine", "network.topology.nvidia.com/block"
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "ClusterNetworkTopology",
        "metadata": {"name": "default"},
        "spec": {
            "networkTopologySpec": [
                {"labelKey": [spine], "topologyLayer": "SpineLayer"},
                {"labelKey": [block], "parentTopologyLayer": "SpineLayer", "topologyLayer": "BlockLayer"},
                {"parentTopologyLayer": "BlockLayer", "topologyLayer": "NodeTopologyLayer"},
            ]
        },
    }
