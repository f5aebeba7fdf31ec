"""A Job of Volcano is a gang by annotation; with a Job of Kubernetes it shares its kind and nothing else."""

from typing import Any

import pytest
from workload_operators import ROWS, Object, made, template

from gangs.dialects.reading import read_all
from gangs.dialects.templates import as_admitted
from gangs.manifests import key_of, pod_of
from gangs.sources import Sources
from kube.placeholders import role_of_seat

ROW = ROWS["Volcano's Job"]


def admitted(**more: Any) -> Object:
    """The Job as it is stored, with more in its spec."""
    manifest = ROW.manifest(gang="true")
    manifest["spec"] |= more
    return dict(as_admitted(manifest, Sources()))


def among(manifest: Object, *others: Object, pods: list[Object] | None = None) -> Sources:
    """Return sources with the Job, other objects, and pods."""
    return Sources([pod_of(each) for each in pods or ()], {key_of(each): each for each in (manifest, *others)})


def test_room_is_held_for_a_task_that_depends_on_another() -> None:
    manifest = admitted()
    manifest["spec"]["tasks"][1]["dependsOn"] = {"name": ["master"]}
    (gang,) = read_all(among(manifest, pods=list(ROW.pods(manifest))[:1])).gangs
    assert len(gang.members) == 4
    assert {role_of_seat(each.pod.metadata.uid) for each in gang.to_come} == {"worker"}


def test_each_task_has_its_own_minimum() -> None:
    manifest = admitted()
    manifest["spec"]["tasks"][1]["minAvailable"] = 2
    (gang,) = read_all(among(manifest)).gangs
    assert {each.name: each.min_count for each in gang.pod_sets} == {"master": 1, "worker": 2}


@pytest.mark.parametrize("phase", ["Completed", "Failed", "Aborted", "Terminated"])
def test_one_that_is_over_is_no_gang(phase: str) -> None:
    assert read_all(among({**admitted(), "status": {"state": {"phase": phase}}})).gangs == ()


def test_members_stand_in_the_order_of_their_index_in_the_task() -> None:
    manifest = admitted()
    (gang,) = read_all(among(manifest, pods=list(ROW.pods(manifest))[::-1])).gangs
    assert [each.pod.metadata.name for each in gang.members] == list(ROW.names)
    assert [each.index for each in gang.members] == [0, 0, 1, 2]


def test_its_pods_are_none_of_a_job_of_kubernetes_of_that_name() -> None:
    metadata = {"name": "w", "namespace": "default", "annotations": {"phalanx.dev/gang": "true"}}
    spec = {"parallelism": 2, "completions": 2, "template": template()}
    job: Any = as_admitted({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}, Sources())
    plain = ROW.manifest()
    strangers = [made(plain, job["spec"]["template"], f"w-{index}", {}) for index in range(2)]
    (gang,) = read_all(among(job, pods=strangers)).gangs
    assert (gang.source.api_version, len(gang.members)) == ("batch/v1", 0)


def test_two_jobs_of_one_name_are_told_that_they_would_be_one_gang() -> None:
    metadata = {"name": "w", "namespace": "default", "annotations": {"phalanx.dev/gang": "true"}}
    spec = {"parallelism": 2, "completions": 2, "template": template()}
    job: Any = as_admitted({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}, Sources())
    (fault,) = read_all(among(admitted(), job)).faults
    assert (fault.field, fault.remedy) == ("metadata.name", "rename one of the two")
