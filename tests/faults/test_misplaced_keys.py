"""Pod keys on a workload itself have no effect there, so admission and `solve` report them at once.

Without this report such keys would have no effect, and only the doctor would find them.
"""

import pytest
import yaml
from click.testing import CliRunner
from workloads_of_kinds import (
    FILES,
    GROUP,
    LEAST,
    LEVEL,
    POLICY,
    QUEUE,
    RUNAI,
    document,
    said,
    solve,
    workload,
)

from cli.main import group
from gangs.dialects.reviewing import review
from gangs.dialects.table import DIALECTS
from gangs.dialects.typos import typos_of
from gangs.manifests import key_of
from gangs.model import Advice, Fault
from gangs.phalanx.gang_annotations import WISHES
from gangs.sources import Sources
from kube.keys import WORKLOAD

TOGETHER = ("Job", "StatefulSet", "PyTorchJob")
BY_ITSELF = ("Deployment", "ReplicaSet", "Service")
UNREAD = ("MPIJob", "JobSet", "LeaderWorkerSet")


REACH = "does not reach the pods: write it at"
MISPLACED = {
    "kai-deployment-policy-on-metadata": [
        f"Deployment default/dpol: metadata.annotations[{POLICY}]: {REACH} spec.template.metadata.annotations[{POLICY}]"
    ],
    "kai-pytorchjob-group-on-metadata": [
        f"PyTorchJob default/kp: metadata.annotations[{key}]: {REACH} "
        f"spec.pytorchReplicaSpecs.*.template.metadata.annotations[{key}]"
        for key in ("scheduling.run.ai/pod-group", POLICY)
    ],
    "koordinator-keys-on-job-metadata": [
        f"Job default/jm: metadata.{at}: {REACH} spec.template.metadata.{at}"
        for at in (
            "labels[pod-group.scheduling.sigs.k8s.io]",
            "annotations[gang.scheduling.koordinator.sh/name]",
            "annotations[gang.scheduling.koordinator.sh/min-available]",
        )
    ],
}


@pytest.mark.parametrize("name", MISPLACED)
def test_keys_in_the_wrong_place_are_told_at_apply_and_by_solve(name: str) -> None:
    assert said(document(name)) == ([], MISPLACED[name])
    _, lines, status = solve("nodes.yaml", f"{name}.yaml")
    told = [line.removeprefix(f"error: {name}.yaml: ") for line in lines if line.startswith("error: ")]
    assert (told, status) == (MISPLACED[name], 2)


def test_a_knative_service_is_refused_with_what_to_write() -> None:
    refusal = (
        "Service default/kn: metadata.annotations[kai.scheduler/topology]: a Service cannot be made a gang by "
        "annotations "
        f"yet; write it on the pod template, with {LEAST}: <pods that must start together>"
    )
    assert said(document("runai-knative")) == ([refusal], [])
    assert solve("nodes.yaml", "runai-knative.yaml")[1:] == ([f"error: runai-knative.yaml: {refusal}"], 2)
    told = said(workload("Service", annotations={RUNAI: "rack", LEAST: "2"}))
    assert told == ([], [])


def test_a_core_service_beside_them_is_no_kind_that_was_meant() -> None:
    (file,) = (FILES / "runai-knative.yaml",)
    core = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "kn"}, "spec": {}}
    answer = CliRunner().invoke(group, ["solve", "-f", "-"], input=yaml.safe_dump(core), catch_exceptions=False)
    assert file.exists()
    assert "is left out" not in answer.stderr


QUEUED = {
    "ReplicaSet": "write the label on its pod template instead (each pod is then queued alone, as Kueue does)",
}


@pytest.mark.parametrize("kind", QUEUED)
def test_a_queue_on_a_workload_itself_is_refused_with_what_its_kind_needs(kind: str) -> None:
    manifest = workload(kind)
    manifest["metadata"]["labels"] = {QUEUE: "q"}
    (fault,) = said(manifest)[0]
    assert fault == f"{kind} default/w: metadata.labels[{QUEUE}]: a {kind} cannot be queued as a whole; {QUEUED[kind]}"
    both = workload(kind, {QUEUE: "q"})
    both["metadata"]["labels"] = {QUEUE: "q"}
    assert not any(f"metadata.labels[{QUEUE}]: a {kind} cannot" in each for each in said(both)[0])


@pytest.mark.parametrize("kind", ["Job", "CronJob", *TOGETHER, *BY_ITSELF, "MPIJob"])
def test_a_level_on_a_workload_itself_is_refused(kind: str) -> None:
    manifest = workload(kind)
    manifest["metadata"]["annotations"] = {LEVEL: "rack"}
    (fault,) = said(manifest)[0]
    assert fault.startswith(f"{kind} default/w: metadata.annotations[{LEVEL}]: does not reach the pods; ")


def test_a_cron_jobs_keys_are_led_to_its_jobs() -> None:
    manifest = workload("CronJob")
    manifest["metadata"] |= {"labels": {QUEUE: "q"}, "annotations": {"phalanx.dev/required": "rack"}}
    refused, warned = said(manifest)
    assert refused == []
    there = f"spec.jobTemplate.metadata.labels[{QUEUE}]"
    waits = 'metadata.annotations[phalanx.dev/required]: the gang waits for Topology with a level "rack"'
    assert warned == [
        f"CronJob default/w: {waits}",
        f"CronJob default/w: metadata.labels[{QUEUE}]: does not reach the Jobs: write it at {there}",
    ]
    manifest["metadata"]["annotations"] = {}
    manifest["spec"]["jobTemplate"]["metadata"] = {"labels": {QUEUE: "q"}}
    assert said(manifest) == ([], [])


def test_what_another_object_has_made_is_told_nothing() -> None:
    for kind in ("Deployment", "ReplicaSet", "StatefulSet"):
        manifest = workload(kind)
        manifest["metadata"] |= {
            "annotations": {RUNAI: "rack", POLICY: "x", LEVEL: "rack", "phalanx.dev/required": "rack"},
            "ownerReferences": [{"apiVersion": "example.com/v1", "kind": "Maker", "name": "m", "controller": True}],
        }
        assert said(manifest) == ([], [])


@pytest.mark.parametrize(
    "key", ["pod-group.scheduling.sigs.k8s.io", "phalanx.dev/gang", GROUP, "network-topology-job-name"]
)
@pytest.mark.parametrize("kind", ["Job", *TOGETHER[1:], *BY_ITSELF, *UNREAD])
def test_a_label_of_pods_on_a_workload_is_told_unless_its_pods_carry_it(kind: str, key: str) -> None:
    manifest = workload(kind)
    manifest["metadata"]["labels"] = {key: "g"}
    assert any(f"metadata.labels[{key}]: {REACH} spec." in each for each in said(manifest)[1])
    both = workload(kind, {key: "g"})
    both["metadata"]["labels"] = {key: "g"}
    assert not any(REACH in each for each in said(both)[1])


KEYS = sorted(
    {
        ("labels", "phalanx.dev/gang"),
        *(("annotations", key) for key in WISHES),
        *(("labels", key) for each in DIALECTS for key in each.pod_keys.labels if key != WORKLOAD),
        *(("annotations", key) for each in DIALECTS for key in each.pod_keys.annotations),
    }
)


@pytest.mark.parametrize("kind", ["Job", "CronJob", "StatefulSet", "Deployment", "PyTorchJob", "MPIJob", "JobSet"])
@pytest.mark.parametrize(("place", "key"), KEYS)
def test_every_key_that_comes_to_a_workload_later_is_answered(kind: str, place: str, key: str) -> None:
    manifest = workload(kind)
    manifest["metadata"] |= {"uid": "1", place: {key: "true" if key == "phalanx.dev/gang" else "4"}}
    sources = Sources(objects={key_of(manifest): manifest})
    faults, advice = review(manifest, sources, exists=True)
    told: list[Advice | Fault] = [*faults, *advice, *typos_of(manifest, sources, (*faults, *advice))]
    assert any(each.field in (f"metadata.{place}[{key}]", f"metadata.{place}") for each in told), told
