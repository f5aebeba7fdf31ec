"""The status of KAI's PodGroups: the phase, the counts of their pods, and the result of planning."""

import pytest

from gangs.assembling import GangWorkload, assemble
from gangs.kai.status import ended_status, group_status
from gangs.model import Gang, GangKey, Member, ObjectRef, PodSet
from gangs.object_statuses import GangObjectStatus
from kube.objects import Container, ObjectMeta, Pod, PodSpec, PodStatus, ResourceRequirements

NOW, EARLIER = "2026-01-01T00:00:00Z", "2025-01-01T00:00:00Z"
GPU = "nvidia.com/gpu"


def pod(name: str, phase: str = "Pending", on: str = "") -> Pod:
    """A pod of 2 GPUs."""
    container = Container(name="c", resources=ResourceRequirements(requests={GPU: "2"}))
    spec = PodSpec(containers=(container,), node_name=on)
    return Pod(metadata=ObjectMeta(name=name, namespace="ns"), spec=spec, status=PodStatus(phase=phase))


def gang(*pods: Pod, minimum: int = 2) -> Gang:
    """A gang of a PodGroup."""
    ref = ObjectRef("scheduling.run.ai/v2", "PodGroup", "ns", "g")
    members = tuple(Member(each, "main", None) for each in pods)
    sets = (PodSet("main", 2, minimum),)
    return assemble(GangKey("kai", "ns", "g"), GangWorkload(ref, members, sets, minimum, ""))


def told(placed: str, message: str, *, no_room: bool = False) -> GangObjectStatus:
    """The status of the Gang object, with this `Placed` condition."""
    condition = {"type": "Placed", "status": placed, "reason": "R", "message": message, "observedGeneration": 4}
    return GangObjectStatus(message, [{"type": "Complete", "status": "True"}, condition], no_room)


NOTHING = GangObjectStatus()
RUNS = pod("a", "Running", "n1")


@pytest.mark.parametrize(
    ("pods", "finished", "phase", "counts"),
    [
        ((), (), "Pending", (0, 0, 0, 0)),
        ((pod("a"), pod("b")), (), "Pending", (2, 0, 0, 0)),
        ((RUNS, pod("b", on="n2")), (), "Pending", (1, 1, 0, 0)),
        ((RUNS, RUNS), (), "Running", (0, 2, 0, 0)),
        ((RUNS,), (pod("b", "Succeeded"),), "Running", (0, 1, 1, 0)),
        ((), (pod("a", "Succeeded"), pod("b", "Succeeded")), "Succeeded", (0, 0, 2, 0)),
        ((), (pod("a", "Succeeded"), pod("b", "Failed")), "Failed", (0, 0, 1, 1)),
        ((pod("c"),), (pod("b", "Failed"),), "Pending", (1, 0, 0, 1)),
    ],
)
def test_the_phase_follows_from_the_pods(
    pods: tuple[Pod, ...], finished: tuple[Pod, ...], phase: str, counts: tuple[int, ...]
) -> None:
    status = group_status(gang(*pods), finished, NOTHING, {}, NOW)
    assert status["phase"] == phase
    assert tuple(status[name] for name in ("pending", "running", "succeeded", "failed")) == counts


def test_what_is_asked_for_and_what_has_nodes_is_summed_up() -> None:
    status = group_status(gang(RUNS, pod("b")), (), NOTHING, {}, NOW)
    assert status["resourcesStatus"]["requested"][GPU] == "4"
    assert status["resourcesStatus"]["allocated"][GPU] == "2"


def test_the_gangs_own_words_are_the_conditions() -> None:
    status = group_status(gang(RUNS), (), told("False", "waits for 1 more pod"), {}, NOW)
    assert status["conditions"] == [
        {
            "type": "Placed",
            "status": "False",
            "reason": "R",
            "message": "waits for 1 more pod",
            "lastTransitionTime": NOW,
        }
    ]
    assert status["schedulingConditions"] == []


def test_a_gang_without_room_is_unschedulable_until_it_has_some() -> None:
    first = group_status(gang(pod("a")), (), told("False", "no rack holds it", no_room=True), {}, EARLIER)
    (condition,) = first["schedulingConditions"]
    assert condition == {
        "type": "UnschedulableOnNodePool",
        "nodePool": "default",
        "status": "True",
        "reason": "Unschedulable",
        "message": "no rack holds it",
        "reasons": [{"reason": "Unschedulable", "message": "no rack holds it"}],
        "lastTransitionTime": EARLIER,
    }
    again = group_status(gang(pod("a")), (), told("False", "no rack holds it", no_room=True), first, NOW)
    assert again == first
    then = group_status(gang(pod("a")), (), told("False", "capacity is reserved"), first, NOW)
    (condition,) = then["schedulingConditions"]
    assert (condition["status"], condition["lastTransitionTime"]) == ("False", NOW)


def test_a_group_that_is_over_keeps_its_last_words() -> None:
    status = ended_status(
        [pod("a", "Succeeded")], {"phase": "Running", "running": 1, "conditions": [{"type": "Placed"}]}
    )
    assert status == {
        "phase": "Succeeded",
        "pending": 0,
        "running": 0,
        "succeeded": 1,
        "failed": 0,
        "conditions": [{"type": "Placed"}],
    }
