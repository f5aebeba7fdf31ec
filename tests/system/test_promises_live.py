"""The four promises that a fault injection once found broken, each at its instant, on real components.

`tests/simulation/test_promises.py` shows the same in logical time, at many more instants.

rack r0   n0 n1 n2 n3      a member takes a whole node
rack r1   n4 n5 n6 n7
"""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
from system import Object, Phalanx, node, numbered, pod, priority_class
from test_killed_releases import Candidates, Doom, candidates, gang, held_back, over

from cluster.departure import OVERDUE
from controlplane.recording import WatchEvent, bound

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

PODS = "/api/v1/namespaces/default/pods"
GANGS = "/apis/phalanx.dev/v1alpha1/namespaces/default/gangs"
SCHEDULER = "kube-scheduler"
_NOW = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}


@pytest.fixture(name="racks")
def two_racks(phalanx: Phalanx) -> Phalanx:
    """Two racks of four nodes, and three priorities."""
    phalanx.cluster.add_nodes(node(f"n{number}", f"r{number // 4}", "block") for number in range(8))
    phalanx.submit(priority_class("low", 10), priority_class("middle", 100), priority_class("high", 1000))
    return phalanx


def create(phalanx: Phalanx, name: str, size: int, priority: str = "middle") -> list[str]:
    """Create a gang of so many pods, each of which takes a whole node; return their names."""
    manifest, members = gang(name, size)
    for member in members:
        member["spec"]["priorityClassName"] = priority
    phalanx.cluster.create(GANGS, [manifest])
    phalanx.cluster.create(PODS, members)
    return numbered(name, size)


def on(name: str, where: str, priority: str) -> Object:
    """A pod of no gang that takes all of this node."""
    return pod(name, priorityClassName=priority, nodeSelector={"kubernetes.io/hostname": where})


@pytest.mark.parametrize("priority", ["high", "middle"])
def test_no_gang_is_released_while_its_capacity_is_given_to_another(racks: Phalanx, priority: str) -> None:
    """The scheduler stands still, so the probe of the first gang is answered only when the second gang has a plan."""
    racks.cluster.program(SCHEDULER).freeze()
    try:
        first = create(racks, "first", 8)
        racks.await_phase("first", "Nominated")
        second = create(racks, "second", 8, priority)
        winner = "second" if priority == "high" else "first"
        expected = "Nominated" if priority == "high" else "Waiting"
        racks.await_phase("second", expected)
    finally:
        racks.cluster.program(SCHEDULER).thaw()
    racks.await_phase(winner, "Placed")
    loser = second if winner == "first" else first
    assert set(racks.nodes_of(loser).values()) == {""}


def wipe_status(phalanx: Phalanx, name: str) -> None:
    """Take the whole status of a Gang away."""
    phalanx.cluster.kubectl("patch", "gang", name, "--subresource=status", "--type=merge", "-p", '{"status": null}')


def recreate(phalanx: Phalanx, name: str) -> None:
    """Delete a Gang, and create it again without a status."""
    spec = phalanx.gang(name)["spec"]
    manifest, _ = gang(name, 1)
    phalanx.cluster.request("DELETE", f"{GANGS}/{name}", _NOW)
    phalanx.cluster.create(GANGS, [{**manifest, "spec": spec}])


def take_the_capacity(phalanx: Phalanx, reserved: Mapping[str, str]) -> None:
    """Pods of higher priority take the nodes that are reserved for the members that are gated still."""
    phalanx.cluster.create(PODS, [on(f"taker-{name}", where, "high") for name, where in reserved.items() if where])


@pytest.mark.parametrize("wipe", [wipe_status, recreate])
def test_withdrawal_does_not_depend_on_the_status(
    racks: Phalanx, tmp_path: Path, wipe: Callable[[Phalanx, str], None]
) -> None:
    def act(reserved: Mapping[str, str]) -> None:
        take_the_capacity(racks, reserved)
        wipe(racks, "torn")

    assert not whole_after_a_half_release(racks, tmp_path, act)


def test_a_member_deleted_without_a_leader_does_not_leave_the_others_in_part(racks: Phalanx, tmp_path: Path) -> None:
    def act(reserved: Mapping[str, str]) -> None:
        take_the_capacity(racks, reserved)
        for name in reserved:
            racks.cluster.request("DELETE", f"{PODS}/{name}", _NOW)

    assert not whole_after_a_half_release(racks, tmp_path, act)


def whole_after_a_half_release(phalanx: Phalanx, folder: Path, act: Callable[[Mapping[str, str]], None]) -> bool:
    """Kill the leader when it has released two of six members, and act; return whether the gang becomes whole.

    `act` gets the members that are gated still, with the nodes that are reserved for them.
    """
    names = numbered("torn", 6)
    with candidates(phalanx, folder) as (doom, waiting), phalanx.record(PODS) as pods:
        reserved = half_release(phalanx, doom, waiting, lambda: held_back(pods.events, names))
        act(reserved)
        _, _, whole = over(pods, names)
    return whole


def half_release(
    phalanx: Phalanx, doom: Doom, waiting: Candidates, gated: Callable[[], Mapping[str, str]]
) -> Mapping[str, str]:
    """Create the gang `torn`, and wait until its leader has died at its third release."""
    doom.arm(waiting.leading(), 2, before=True)
    create(phalanx, "torn", 6)
    phalanx.wait(lambda: bool(doom.killed_at), "the leader to be killed")
    return gated()


def terminating_for_long(phalanx: Phalanx, name: str) -> None:
    """Delete the pod, which a finalizer then keeps beyond its grace period."""
    patch = json.dumps({"metadata": {"finalizers": ["test.phalanx.dev/stuck"]}})
    phalanx.cluster.kubectl("patch", "pod", name, "--type=merge", "-p", patch)
    phalanx.cluster.kubectl("delete", "pod", name, "--wait=false")


def let_end(phalanx: Phalanx, name: str) -> None:
    """Let the pod end."""
    phalanx.cluster.kubectl("patch", "pod", name, "--type=merge", "-p", '{"metadata": {"finalizers": null}}')


def test_a_pod_that_does_not_end_holds_up_no_gang_that_fits_elsewhere(racks: Phalanx) -> None:
    """Rack r0 is the tightest domain, if its terminating pod counts as gone. Rack r1 has one node more."""
    racks.cluster.add_nodes([node("n8", "r1", "block")])
    racks.submit(on("old", "n0", "low"))
    racks.await_bound(["old"])
    terminating_for_long(racks, "old")
    try:
        members = create(racks, "g", 4)
        racks.await_phase("g", "Placed")
        assert set(racks.nodes_of(members).values()) <= {"n4", "n5", "n6", "n7", "n8"}
    finally:
        let_end(racks, "old")


def test_no_pod_is_evicted_for_a_plan_that_waits_for_an_overdue_pod(racks: Phalanx) -> None:
    """The gang needs all eight nodes: a terminating pod has one, a pod of low priority another."""
    racks.submit(on("old", "n0", "low"), on("low", "n1", "low"))
    racks.await_bound(["old", "low"])
    terminating_for_long(racks, "old")

    def evicted(events: list[WatchEvent]) -> bool:
        return any(each.name == "low" and each.object["metadata"].get("deletionTimestamp") for each in events)

    with racks.record(PODS) as pods:
        racks.wait(lambda: overdue(racks, "old"), "the terminating pod to be overdue")
        members = create(racks, "g", 8)
        racks.wait(lambda: "old" in str(racks.status("g").get("message", "")), "the message to name the pod")
        assert not evicted(pods.events)
        let_end(racks, "old")
        pods.wait_for(evicted)
        racks.await_phase("g", "Placed")
        assert {each.name for each in pods.events if bound(each)} >= set(members)


def overdue(phalanx: Phalanx, name: str) -> bool:
    """Whether the pod's grace period ended so long ago that a plan counts the pod as running."""
    end = datetime.fromisoformat(phalanx.pod(name)["metadata"]["deletionTimestamp"])
    return datetime.now(UTC) - end > OVERDUE
