"""The status of a Koordinator PodGroup."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import pytest
from gang_builders import POD_GROUP, gang, pod

from gangs.koordinator.dialect import KoordinatorDialect
from gangs.koordinator.status import pod_group_status
from gangs.model import Gang, GangKey, Member, ObjectRef, PodSet
from gangs.object_statuses import GangObjectStatus, StatusView
from gangs.sources import Sources
from kube.objects import OwnerReference, Pod

NOW, EARLIER = "2026-11-21T09:00:10Z", "2026-11-21T09:00:00Z"

GATED, HELD, BOUND = pod("p"), pod("p", planned="node-1"), pod("p", node="node-1")
RUNS = pod("p", node="node-1", phase="Running")
DONE, FAILED = pod("p", node="node-1", phase="Succeeded"), pod("p", node="node-1", phase="Failed")

PHASES = [
    # minimum, pods, phase, counts
    (2, [], "Pending", {}),
    (2, [GATED], "Pending", {}),
    (2, [GATED, GATED], "PreScheduling", {}),
    (2, [HELD, HELD], "Scheduling", {}),
    (2, [BOUND, HELD], "Scheduling", {"scheduled": 1}),
    (2, [BOUND], "Scheduling", {"scheduled": 1}),
    (2, [BOUND, BOUND], "Scheduled", {"scheduled": 2}),
    (2, [RUNS, BOUND], "Scheduled", {"scheduled": 2, "running": 1}),
    (2, [RUNS, RUNS, GATED], "Running", {"scheduled": 2, "running": 2}),
    (2, [RUNS, DONE], "Running", {"scheduled": 2, "running": 1, "succeeded": 1}),
    (2, [RUNS, FAILED], "Failed", {"scheduled": 2, "running": 1, "failed": 1}),
    (2, [DONE, DONE], "Finished", {"scheduled": 2, "succeeded": 2}),
]


@pytest.mark.parametrize(("minimum", "pods", "phase", "counts"), PHASES)
def test_phase_and_counts_follow_from_the_pods(
    minimum: int, pods: list[Pod], phase: str, counts: dict[str, int]
) -> None:
    status = pod_group_status(minimum, pods, now=NOW)
    assert status.pop("phase") == phase
    status.pop("scheduleStartTime", None)
    assert status == counts


def test_the_owners_of_the_first_pod_occupy_the_group() -> None:
    owners = (OwnerReference(name="job-b"), OwnerReference(name="job-a"))
    first = pod("p", owners=owners)
    status = pod_group_status(1, [first], now=NOW)
    assert status["occupiedBy"] == "default/job-a,default/job-b"
    assert pod_group_status(1, [BOUND], now=NOW, previous=status)["occupiedBy"] == status["occupiedBy"]


def test_scheduling_starts_once() -> None:
    assert "scheduleStartTime" not in pod_group_status(1, [GATED], now=EARLIER)
    started = pod_group_status(1, [HELD], now=EARLIER)
    assert pod_group_status(1, [RUNS], now=NOW, previous=started)["scheduleStartTime"] == EARLIER


def test_each_pod_group_of_a_gang_counts_its_own_pods() -> None:
    other = ObjectRef(POD_GROUP.api_version, "PodGroup", "default", "decode", "uid-decode")
    alone = ObjectRef("v1", "Pod", "default", "x-0", "uid-x")
    of = gang(
        groups=(POD_GROUP, other, alone),
        pod_sets=(PodSet("llm", 1, 1), PodSet("decode", 2, 2), PodSet("x", 1, 1)),
    )
    members = (Member(RUNS, "llm", 0), Member(GATED, "decode", 0), Member(GATED, "x", 0))
    whole = replace(of, members=members)
    statuses = list(KoordinatorDialect().group_statuses(whole.key, view(whole, {"decode": [DONE]})))
    assert [(each.ref.name, each.status["phase"]) for each in statuses] == [
        ("llm", "Running"),
        ("decode", "Scheduling"),
    ]
    assert statuses[0].path == "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/podgroups/llm"


def test_a_gang_that_is_gone_shows_nothing() -> None:
    assert not list(KoordinatorDialect().group_statuses(GangKey("koordinator", "default", "gone"), view()))


def view(of: Gang | None = None, ended: Mapping[str, Sequence[Pod]] = MappingProxyType({})) -> StatusView:
    """One gang, and by the group's name pods that have ended."""
    return StatusView(
        sources=Sources(),
        now=NOW,
        gangs=[of] if of is not None else [],
        gang=lambda key: of if of is not None and of.key == key else None,
        finished=lambda key: ended.get(key.name, ()),
        gang_object=lambda _: GangObjectStatus(),
    )
