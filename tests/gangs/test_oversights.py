"""Common oversights in workloads that ask to be a gang, and the messages about them."""

from typing import Any

import pytest
from workload_operators import ROWS, Object, described, template, training_run

from gangs.dialects.expanding import expanded
from gangs.dialects.oversights import oversights
from gangs.dialects.reviewing import review
from gangs.dialects.templates import as_admitted
from gangs.dialects.typos import typos_of
from gangs.dialects.unknown_kinds import asking_in_vain
from gangs.manifests import key_of
from gangs.sources import Sources
from gangs.workloads.user_defined_kinds import rows_of, with_row

RACK = {"phalanx.dev/required": "rack"}


def asking(kind: str, **spec: Any) -> Any:
    """Return a workload of one of the kinds in `ROWS` with Phalanx's annotation. `spec`: more fields of its spec."""
    found = ROWS[kind].manifest()
    found["metadata"]["annotations"] = dict(RACK)
    return {**found, "spec": {**found["spec"], **spec}}


def told(manifest: Object, *around: Object) -> list[str]:
    """Return all messages about the workload, and check that no message occurs twice.

    The message that it waits for a Topology is left out: these tests have none.
    """
    sources = Sources(objects={key_of(each): each for each in around})
    faults, advice = review(manifest, sources)
    found = [str(each) for each in (*faults, *advice, *typos_of(manifest, sources, (*faults, *advice)))]
    assert len(found) == len(set(found))
    return [each for each in found if "waits for Topology" not in each]


@pytest.mark.parametrize("kind", ROWS)
def test_nothing_is_told_of_what_is_written_as_it_should_be(kind: str) -> None:
    assert list(oversights(asking(kind))) == []


@pytest.mark.parametrize("kind", ["StatefulSet", "Deployment", "LeaderWorkerSet"])
def test_one_without_pods_is_a_gang_later(kind: str) -> None:
    """The message must not be "the input asks for no gang": the workload is a gang as soon as it creates pods."""
    text = f"{kind} default/w: spec: the {kind} makes no pods as it is written: it is a gang once it does"
    assert text in told(asking(kind, replicas=0))
    plain = asking(kind, replicas=0)
    plain["metadata"]["annotations"] = {}
    assert told(plain) == []


@pytest.mark.parametrize(
    ("place", "key", "value"),
    [
        ("annotations", "phalanx.dev/required", "rack"),
        ("labels", "kueue.x-k8s.io/queue-name", "q"),
        ("annotations", "kai.scheduler/topology-required-placement", "rack"),
    ],
)
def test_keys_of_a_job_sets_jobs_make_a_gang_of_each(place: str, key: str, value: str) -> None:
    """The message must name the reason: with such keys each Job becomes a gang of its own."""
    manifest: Any = ROWS["JobSet"].manifest()
    manifest["spec"]["replicatedJobs"][1]["template"]["metadata"] = {place: {key: value}}
    at = f"JobSet default/w: spec.replicatedJobs[1].template.metadata.{place}[{key}]"
    assert told(manifest) == [f"{at}: makes a gang of each Job: for one of all its pods let the JobSet itself ask"]


@pytest.mark.parametrize(
    ("own", "key", "read"),
    [
        ("phalanx.dev/required", "phalanx.dev/required", False),
        ("phalanx.dev/required", "kai.scheduler/topology-required-placement", False),
        ("kai.scheduler/topology-required-placement", "kai.scheduler/topology-required-placement", True),
    ],
)
def test_keys_of_the_jobs_of_a_job_set_that_is_a_gang_are_read_or_told(own: str, key: str, *, read: bool) -> None:
    """Here the whole JobSet is one gang, so no message may claim that each Job is one."""
    manifest: Any = ROWS["JobSet"].manifest()
    manifest["metadata"]["annotations"] = {own: "rack"}
    manifest["spec"]["replicatedJobs"][1]["template"]["metadata"] = {"annotations": {key: "rack"}}
    at = f"JobSet default/w: spec.replicatedJobs[1].template.metadata.annotations[{key}]"
    about_it = [each for each in told(manifest) if each.startswith(at)]
    assert about_it == ([] if read else [f"{at}: is not read: the JobSet itself asks to be a gang"])


def test_a_role_of_an_mpi_job_that_says_no_number_has_no_pods() -> None:
    """Otherwise a gang of the launcher alone would be planned without a message."""
    manifest = asking("MPIJob")
    worker = manifest["spec"]["mpiReplicaSpecs"]["Worker"]
    worker["replica"] = worker.pop("replicas")
    at = "MPIJob default/w: spec.mpiReplicaSpecs.Worker.replicas"
    assert told(manifest) == [f"{at}: is missing, so that no worker is made: write it"]


def test_a_role_that_no_operator_knows_is_told_with_those_that_it_does() -> None:
    manifest = asking("MPIJob")
    specs = manifest["spec"]["mpiReplicaSpecs"]
    specs["Workers"] = specs.pop("Worker")
    at = "MPIJob default/w: spec.mpiReplicaSpecs.Workers"
    text = "is no replica type of MPIJobs: no pod is made of it, and the gang would wait for them"
    assert told(manifest) == [f"{at}: {text}; write Launcher or Worker"]
    specs["worker"] = specs.pop("Workers")
    assert told(manifest) == []


EXCLUSIVE = {
    "JobSet": "alpha.jobset.sigs.k8s.io/exclusive-topology",
    "LeaderWorkerSet": "leaderworkerset.sigs.k8s.io/exclusive-topology",
}


@pytest.mark.parametrize("kind", EXCLUSIVE)
def test_domains_that_the_operator_keeps_apart_are_told(kind: str) -> None:
    manifest = asking(kind)
    manifest["metadata"]["annotations"][EXCLUSIVE[kind]] = "rack"
    at = f"{kind} default/w: metadata.annotations[{EXCLUSIVE[kind]}]"
    assert any(each.startswith(f"{at}: is kept by the operator, on the pods that it makes") for each in told(manifest))


def test_volcanos_job_says_which_scheduler_its_pods_have() -> None:
    task = {"name": "t", "replicas": 2, "template": template()}
    metadata = {"name": "w", "namespace": "default", "annotations": dict(RACK)}
    manifest: Any = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata}
    for scheduler, words in ((None, 1), ("volcano", 1), ("default-scheduler", 0)):
        manifest["spec"] = {"tasks": [task], **({"schedulerName": scheduler} if scheduler else {})}
        found = [each for each in told(manifest) if "spec.schedulerName: is volcano where nothing else" in each]
        assert len(found) == words


def run(version: str = "v1", annotations: Object | None = None) -> Any:
    """A workload of a kind that a WorkloadKind describes."""
    manifest = {**training_run().manifest(), "apiVersion": f"ml.example.com/{version}"}
    manifest["metadata"]["annotations"] = dict(RACK if annotations is None else annotations)
    return with_row(manifest, rows_of([described()]))


def test_a_path_of_a_described_kind_that_leads_nowhere_is_told() -> None:
    """Otherwise one pod would be planned instead of three."""
    manifest = run()
    assert told(manifest) == []
    worker = manifest["spec"]["roles"][1]
    worker["replicas"] = worker.pop("count")
    text = "is missing, so that the pods of worker are counted as 1: write it, or correct the path in WorkloadKind "
    assert told(manifest) == [f"TrainingRun default/w: spec.roles[1].count: {text}trainingruns.ml.example.com"]


def test_another_version_than_those_that_are_read_is_named() -> None:
    """The message names the unread version, because other versions of the kind can be gangs."""
    at = "metadata.annotations[phalanx.dev/required]"
    assert told(run("v2")) == [
        f"TrainingRun default/w: {at}: is not read in version v2 of TrainingRun; write the version as v1"
    ]
    manifest = {**asking("JobSet"), "apiVersion": "jobset.x-k8s.io/v1beta1"}
    assert told(manifest) == [
        f"JobSet default/w: {at}: is not read in version v1beta1 of JobSet; write the version as v1alpha2"
    ]


def test_run_ais_keys_on_a_described_kind_are_led_to_ours() -> None:
    (fault,) = told(run(annotations={"kai.scheduler/topology-required-placement": "rack"}))
    assert "is not read on a TrainingRun, which WorkloadKind trainingruns.ml.example.com describes; write " in fault


def test_roles_that_run_ais_keys_leave_out_are_told() -> None:
    manifest: Any = ROWS["PyTorchJob"].manifest()
    worker = manifest["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]
    keys = {"kai.scheduler/topology": "network", "kai.scheduler/topology-required-placement": "rack"}
    worker["metadata"] = {"annotations": keys}
    at = "PyTorchJob default/w: spec.pytorchReplicaSpecs.Master.template.metadata"
    assert f"{at}: names no level: its pods start by themselves, without the gang w" in told(manifest)
    sources = Sources(objects={key_of(manifest): manifest})
    assert len(expanded(sources)[0].pods) == 3


@pytest.mark.parametrize("key", ["kueue.x-k8s.io/job-min-parallelism", "kueue.x-k8s.io/elastic-job"])
def test_what_kueue_has_on_jobs_alone_is_told_on_others(key: str) -> None:
    manifest: Any = ROWS["PyTorchJob"].manifest()
    manifest["metadata"] |= {"labels": {"kueue.x-k8s.io/queue-name": "q"}, "annotations": {key: "2"}}
    manifest = as_admitted(manifest, Sources())
    assert f"PyTorchJob default/w: metadata.annotations[{key}]: is ignored: Kueue has it on Jobs alone" in told(
        manifest
    )


def test_a_kind_that_nobody_may_describe_is_led_to_what_it_makes() -> None:
    """The remedy must not be a WorkloadKind, because a WorkloadKind is refused for the API groups of Kubernetes."""
    metadata = {"name": "w", "namespace": "default", "annotations": dict(RACK)}
    for group, remedy in (("sparkoperator.k8s.io", "write it on what that makes"), ("ml.example.com", "WorkloadKind")):
        manifest = {"apiVersion": f"{group}/v1", "kind": "ScheduledRun", "metadata": metadata, "spec": {}}
        advice = asking_in_vain(manifest)
        assert advice is not None
        assert remedy in advice.text
