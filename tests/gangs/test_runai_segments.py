"""Segments of Run:ai: workers by fours, say, in one rack each, of a gang in one zone.

zone ── rack ── node      PyTorchJob w: Master 1, Worker 4      segments of 2: workers 0 and 1, workers 2 and 3
"""

from typing import Any

import pytest
from test_other_systems_on_workloads import KEY, around, faults, gang_of, stored
from workload_operators import ROWS, Object

from gangs.dialects.reviewing import review
from gangs.model import SliceRule

SEGMENTS = {f"{KEY}segment-size": "2", f"{KEY}segment-topology-required-placement": "rack"}
ZONE = {f"{KEY}topology": "network", f"{KEY}topology-required-placement": "zone"}
AT = "PyTorchJob default/w: spec.pytorchReplicaSpecs.Worker.template.metadata.annotations"


def training(on: str = "Worker", said: dict[str, str] | None = None) -> Object:
    """Return a PyTorchJob of four workers in one zone, with annotations on the template of the role `on`."""
    manifest = ROWS["PyTorchJob"].manifest()
    manifest["metadata"]["annotations"] = dict(ZONE)
    manifest["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = 4
    template = manifest["spec"]["pytorchReplicaSpecs"][on]["template"]
    template.setdefault("metadata", {})["annotations"] = dict(SEGMENTS if said is None else said)
    return manifest


def groups(of_leaders: bool = False) -> Object:  # noqa: FBT001, FBT002 -- one word in a table
    """A LeaderWorkerSet of four pods a group; their leader may have a template of its own."""
    manifest = ROWS["LeaderWorkerSet"].manifest()
    manifest["metadata"]["annotations"] = dict(ZONE)
    templates = manifest["spec"]["leaderWorkerTemplate"]
    if not of_leaders:
        templates.pop("leaderTemplate", None)
    templates["workerTemplate"].setdefault("metadata", {})["annotations"] = dict(SEGMENTS)
    return manifest


def test_workers_are_slices_of_their_set() -> None:
    manifest = training()
    assert faults(manifest) == []
    gang = gang_of(ROWS["PyTorchJob"], stored(manifest))
    assert {each.name: (each.count, each.slices) for each in gang.pod_sets} == {
        "master": (1, ()),
        "worker": (4, (SliceRule("rack", 2),)),
    }
    assert gang.required == "zone"
    assert [each.pod.metadata.name for each in gang.members if each.pod_set == "worker"] == [
        f"w-worker-{number}" for number in range(4)
    ]


def test_a_group_of_a_leader_worker_set_is_divided_with_its_leader() -> None:
    manifest = groups()
    assert faults(manifest) == []
    (pod_set,) = gang_of(ROWS["LeaderWorkerSet"], stored(manifest)).pod_sets
    assert (pod_set.count, pod_set.slices) == (4, (SliceRule("rack", 2),))


def test_a_leader_with_a_template_of_its_own_is_in_no_segment() -> None:
    (fault,) = faults(groups(of_leaders=True))
    assert "segment-size]: counts the leader, too, which has a template of its own; leave" in fault


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ({"segment-size": "3"}, "[kai.scheduler/segment-size]: 3 does not divide the 4 pods of the template; write"),
        ({"segment-size": "none"}, '[kai.scheduler/segment-size]: "none" is not a whole number from 1 up; write'),
        ({"segment-size": "0"}, '[kai.scheduler/segment-size]: "0" is not a whole number from 1 up; write'),
        (
            {"segment-size": None},
            "[kai.scheduler/segment-topology-required-placement]: asks for nothing without kai.scheduler/segment-size",
        ),
        (
            {"segment-topology-required-placement": None},
            "[kai.scheduler/segment-size]: asks for nothing without kai.scheduler/segment-topology-required-placement",
        ),
        ({"segment-topology-required-placement": ""}, "[kai.scheduler/segment-topology-required-placement]: is empty"),
        ({"segment-topology-required-placement": "row"}, "[kai.scheduler/segment-topology-required-placement]: "),
    ],
)
def test_what_is_wrong_with_segments_is_told(said: dict[str, Any], fault: str) -> None:
    words = {**SEGMENTS, **{f"{KEY}{key}": text for key, text in said.items()}}
    found = faults(training(said={key: text for key, text in words.items() if text is not None}))
    assert len(found) == 1, found
    assert found[0].startswith(AT + fault), found


def test_a_level_that_is_only_preferred_is_told_of() -> None:
    preferred = {**SEGMENTS, f"{KEY}segment-topology-preferred-placement": "rack"}
    refused, told = review(training(said=preferred), around())
    assert refused == []
    assert any("segment-topology-preferred-placement]: is not honoured" in str(each) for each in told)


@pytest.mark.parametrize("kind", ["PyTorchJob", "TFJob", "JobSet"])
def test_segments_of_other_pods_are_refused(kind: str) -> None:
    if kind == "PyTorchJob":
        (found,) = faults(training(on="Master"))[:1]
    else:
        manifest = ROWS[kind].manifest()
        manifest["metadata"]["annotations"] = ZONE | SEGMENTS
        found = faults(manifest)[0]
    assert "has no meaning here: it divides the workers of PyTorchJobs and LeaderWorkerSets" in found
