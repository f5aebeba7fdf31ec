"""Real operators that create the other pods when the leader is ready; the test decides when that is.

Racks r1: n0 … n3, r2: n4 … n6. A pod fills a node, so that a gang of four fits in r1 alone.
"""

from collections.abc import Iterator

import pytest
from leader_first import held, make_ready, number_of, placeholders, rival
from system import Object, Phalanx, priority_class, unschedulable
from test_real_operators import CASES, Case, manifest, nodes
from two_racks import apply_two_racks
from workload_operators import ROWS

from controlplane.control_plane import ControlPlane
from controlplane.operator_processes import Running, running
from controlplane.recording import bound
from controlplane.running.stages import NOT_READY

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

LEADERS = {
    "LeaderWorkerSet": ("leaderWorkerTemplate", "leaderTemplate"),
    "JobSet": ("replicatedJobs", 0, "template", "spec", "template"),
    "RayCluster": ("headGroupSpec", "template"),
}
"""The path to the template of the pod that starts first."""


@pytest.fixture(scope="module", params=("LeaderWorkerSet", "JobSet"))
def operated(request: pytest.FixtureRequest, control_plane: ControlPlane) -> Iterator[tuple[Case, Running]]:
    """A kind with its operator running."""
    (case,) = (each for each in CASES if each.kind == request.param)
    with running(control_plane, case.operator) as operator:
        yield case, operator


@pytest.fixture
def case(operated: tuple[Case, Running], phalanx: Phalanx) -> Case:
    """Seven nodes in two racks, and the operator's webhooks."""
    operated[1].register()
    apply_two_racks(phalanx, 7)
    return operated[0]


def in_order(case: Case, pods: int) -> Object:
    """Return a workload of so many pods, of which the first is not ready until the test makes it ready."""
    made = manifest(case, "ours", pods=pods)
    made["spec"] |= case.in_order
    template = made["spec"]
    for step in LEADERS[case.kind]:
        template = template[step]
    template["metadata"]["annotations"] = {**template["metadata"].get("annotations", {}), NOT_READY: "true"}
    return made


def await_leader(phalanx: Phalanx, gang: str) -> tuple[str, dict[str, str]]:
    """Wait until only the leader runs and capacity is reserved for the others; return its name and their nodes."""
    phalanx.wait(lambda: len(nodes(phalanx)) == 1, "the leader to run")
    phalanx.wait(lambda: phalanx.status(gang).get("reason") == "PodsToCome", "the gang to say so")
    (leader,) = nodes(phalanx)
    planned = {each["pod"]: each["node"] for each in phalanx.status(gang)["assignments"]}
    assert planned.pop(leader) == nodes(phalanx)[leader]
    phalanx.wait(lambda: held(phalanx) == planned, "room to be held for the others")
    return leader, planned


def workers(phalanx: Phalanx, leader: str, planned: dict[str, str]) -> dict[str, str]:
    """Return the nodes of the other pods by their planned names. Names of pods of Jobs have more letters."""
    found = {name: node for name, node in nodes(phalanx).items() if name != leader and not name.startswith("rival-")}
    return {name if name in planned else name.rpartition("-")[0]: node for name, node in found.items()}


def test_another_of_equal_priority_does_not_get_the_room_before_the_others_come(phalanx: Phalanx, case: Case) -> None:
    gang = ROWS[case.kind].gang
    told = f"gang default/{gang}: 4 pods fit in r1: n0..3, proven optimal"
    phalanx.apply_once_told(told, in_order(case, 4))
    leader, planned = await_leader(phalanx, gang)
    assert len(planned) == 3
    rivals = [f"rival-{number_of(node)}" for node in planned.values()]
    with phalanx.record() as recorder:
        phalanx.submit(*(rival(number_of(node)) for node in planned.values()))
        phalanx.wait(lambda: all(unschedulable(phalanx.pod(each)) for each in rivals), "the rivals to be turned away")
        assert list(nodes(phalanx)) == [leader]
        make_ready(phalanx, leader)
        phalanx.wait(lambda: len(nodes(phalanx)) == 4, "the others to run")
        events = recorder.events
    assert workers(phalanx, leader, planned) == planned
    assert not any(bound(event) for event in events if event.name in rivals)
    phalanx.wait(lambda: not placeholders(phalanx), "no placeholder to be left")
    phalanx.await_phase(gang, "Placed")


def test_one_of_higher_priority_gets_it_and_the_gang_is_told_and_planned_again(phalanx: Phalanx, case: Case) -> None:
    """Of r2 two nodes are planned, and a third one is free."""
    gang = ROWS[case.kind].gang
    phalanx.submit(priority_class("high", 1000))
    told = f"gang default/{gang}: 2 pods fit in r2: n4..5, proven optimal"
    phalanx.apply_once_told(told, in_order(case, 2))
    leader, planned = await_leader(phalanx, gang)
    ((worker, taken),) = planned.items()
    phalanx.submit(rival(number_of(taken), priorityClassName="high"))
    phalanx.await_bound([f"rival-{number_of(taken)}"])
    phalanx.wait(lambda: held(phalanx) == {worker: "n6"}, "room to be held elsewhere in the rack")
    assert gang in phalanx.cluster.kubectl("get", "events", "--field-selector", "reason=RoomLost")
    make_ready(phalanx, leader)
    phalanx.wait(lambda: workers(phalanx, leader, planned) == {worker: "n6"}, "the other to run there")
    phalanx.wait(lambda: not placeholders(phalanx), "no placeholder to be left")


@pytest.mark.parametrize("operated", ["RayCluster"], indirect=True)
def test_workers_of_a_ray_cluster_have_their_nodes_before_its_head_is_ready(phalanx: Phalanx, case: Case) -> None:
    """KubeRay creates all pods at once, and a container of each worker waits for the head. So nothing is reserved."""
    phalanx.apply_once_told("gang default/w: 4 pods fit in r1: n0..3, proven optimal", in_order(case, 4))
    phalanx.wait(lambda: len(nodes(phalanx)) == 4, "all pods to be bound")
    (head,) = (name for name in nodes(phalanx) if "-head-" in name)
    phalanx.wait(lambda: phalanx.pod(head)["status"]["phase"] == "Running", "the head to run")
    before = nodes(phalanx)
    assert set(before.values()) == {"n0", "n1", "n2", "n3"}
    phalanx.submit(*(rival(number) for number in range(4)))
    phalanx.wait(lambda: all(unschedulable(phalanx.pod(f"rival-{each}")) for each in range(4)), "rivals in vain")
    make_ready(phalanx, head)
    phalanx.await_phase("w", "Placed")
    assert nodes(phalanx) == before
    assert not placeholders(phalanx)
