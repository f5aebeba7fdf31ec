"""A TrainJob is planned before its JobSet exists: its expected pods are read from the runtime that it names.

The JobSets that are expected are those of Trainer 2.1; in `tests/system/test_train_jobs.py` the Trainer makes them.
"""

from copy import deepcopy
from typing import Any

import pytest

from gangs.dialects.expanding import expanded
from gangs.dialects.reading import read_all
from gangs.dialects.reviewing import review
from gangs.manifests import MalformedError, key_of
from gangs.model import Gang
from gangs.sources import Sources
from gangs.workloads.train_jobs import job_set_of, runtime_of

Object = dict[str, Any]

STEP = "trainer.kubeflow.org/trainjob-ancestor-step"


def job(name: str, step: str = "", container: str = "node", **spec: object) -> Object:
    """A replicated job of a runtime; its container asks for one cpu."""
    pods = {"spec": {"containers": [{"name": container, "image": "b", "resources": {"requests": {"cpu": "1"}}}]}}
    labels = {"metadata": {"labels": {STEP: step}}} if step else {}
    return {"name": name, "template": {**labels, "spec": {"template": pods, **spec}}}


def runtime(*jobs: Object, policy: Object | None = None, kind: str = "ClusterTrainingRuntime") -> Object:
    """A runtime, of one replicated job that trains unless others are given."""
    spec = {"template": {"spec": {"replicatedJobs": list(jobs or [job("node", "trainer")])}}}
    where = {} if kind == "ClusterTrainingRuntime" else {"namespace": "default"}
    metadata = {"name": "torch", **where}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": kind,
        "metadata": metadata,
        "spec": {"mlPolicy": policy, **spec} if policy is not None else spec,
    }


def train_job(**spec: object) -> Object:
    """A TrainJob that asks for one rack."""
    annotations = {"phalanx.dev/gang": "true", "phalanx.dev/required": "rack"}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "w", "namespace": "default", "annotations": annotations},
        "spec": {"runtimeRef": {"name": "torch"}, **spec},
    }


def gang_of(*objects: Object) -> Gang:
    """The gang of a dry run of these."""
    (found,) = read_all(expanded(Sources(objects={key_of(each): each for each in objects}))[0]).gangs
    return found


def told(manifest: Object, *others: Object) -> tuple[list[str], list[str]]:
    """Faults and advice at its admission."""
    faults, advice = review(manifest, Sources(objects={key_of(each): each for each in others}))
    return [str(each) for each in faults], [str(each) for each in advice]


TORCH, MPI = {"numNodes": 2, "torch": {}}, {"numNodes": 1, "mpi": {"mpiImplementation": "OpenMPI"}}
LAUNCHED = {"numNodes": 1, "mpi": {"mpiImplementation": "OpenMPI", "runLauncherAsNode": True}}
WITH_LAUNCHER = (job("launcher", "trainer"), job("node"))
COUNTS: dict[str, tuple[Object, Object, dict[str, int]]] = {
    "what the TrainJob says": (runtime(policy=TORCH), {"trainer": {"numNodes": 4}}, {"node": 4}),
    "what the runtime says": (runtime(policy=TORCH), {}, {"node": 2}),
    "one where nobody says": (runtime(policy={"torch": {}}), {}, {"node": 1}),
    "one by a policy that says nothing": (runtime(job("node", "trainer", parallelism=3), policy={}), {}, {"node": 1}),
    "its parallelism without a policy": (runtime(job("node", "trainer", parallelism=3)), {}, {"node": 3}),
    "one without either": (runtime(), {}, {"node": 1}),
    "MPI's nodes beside their launcher": (
        runtime(*WITH_LAUNCHER, policy=MPI),
        {"trainer": {"numNodes": 4}},
        {"launcher": 1, "node": 4},
    ),
    "a launcher that trains is a node": (
        runtime(*WITH_LAUNCHER, policy=LAUNCHED),
        {"trainer": {"numNodes": 4}},
        {"launcher": 1, "node": 3},
    ),
    "steps before it are one Job each": (
        runtime(job("data", "dataset-initializer", "dataset-initializer"), job("node", "trainer"), policy=TORCH),
        {"trainer": {"numNodes": 3}},
        {"data": 1, "node": 3},
    ),
}


@pytest.mark.parametrize("case", COUNTS)
def test_its_pods_are_counted_as_the_trainer_does(case: str) -> None:
    of, spec, sets = COUNTS[case]
    gang = gang_of(of, train_job(**spec))
    assert (gang.key.name, {each.name: each.count for each in gang.pod_sets}) == ("w", sets)
    assert gang.min_member == sum(sets.values())


@pytest.mark.parametrize(
    ("jobs", "policy", "asking"),
    [((), TORCH, {"node"}), (WITH_LAUNCHER, MPI, {"launcher"}), (WITH_LAUNCHER, LAUNCHED, {"launcher", "node"})],
    ids=["torch", "MPI", "a launcher that trains"],
)
def test_the_container_that_trains_asks_for_what_the_train_job_says(
    jobs: tuple[Object, ...], policy: Object, asking: set[str]
) -> None:
    limits = {"nvidia.com/gpu": "8"}
    made = job_set_of(train_job(trainer={"resourcesPerNode": {"limits": limits}}), runtime(*jobs, policy=policy))
    asked = {
        each["name"]
        for each in made["spec"]["replicatedJobs"]
        if each["template"]["spec"]["template"]["spec"]["containers"][0]["resources"] == {"limits": limits}
    }
    assert asked == asking


def test_what_it_says_of_its_pods_places_goes_before_what_the_runtime_says() -> None:
    of = runtime(policy=TORCH)
    pods = of["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    pods["spec"] |= {"nodeSelector": {"pool": "a", "zone": "z"}, "tolerations": [{"key": "old"}]}
    said = {"nodeSelector": {"pool": "b"}, "tolerations": [{"key": "new"}], "serviceAccountName": "s"}
    override = {"targetJobs": [{"name": "node"}], "metadata": {"labels": {"team": "a"}}, "spec": said}
    elsewhere = {"targetJobs": [{"name": "other"}], "spec": {"nodeSelector": {"pool": "c"}}}
    before = deepcopy(of)
    made = job_set_of(train_job(podTemplateOverrides=[override, elsewhere]), of)
    template = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    assert template["metadata"] == {"labels": {"team": "a"}}
    assert template["spec"]["nodeSelector"] == {"pool": "b", "zone": "z"}
    assert template["spec"]["tolerations"] == [{"key": "new"}]
    assert "serviceAccountName" not in template["spec"], "it decides nothing about the place"
    assert of == before


def test_its_job_set_has_the_labels_and_annotations_of_both() -> None:
    of = runtime(policy=TORCH)
    of["spec"]["template"]["metadata"] = {"labels": {"a": "1", "b": "1"}, "annotations": {"c": "1"}}
    made = job_set_of(train_job(labels={"b": "2"}, annotations={"d": "2"}, suspend=True), of)
    assert made["metadata"] == {
        "name": "w",
        "namespace": "default",
        "labels": {"a": "1", "b": "2"},
        "annotations": {"c": "1", "d": "2"},
    }
    assert made["spec"]["suspend"] is True


QUEUED = {"labels": {"kueue.x-k8s.io/queue-name": "q"}, "suspend": True}
TOPOLOGY = {"kai.scheduler/topology": "net", "kai.scheduler/topology-required-placement": "rack"}


@pytest.mark.parametrize(("dialect", "annotations", "spec"), [("runai", TOPOLOGY, {}), ("kueue", {}, QUEUED)])
def test_other_systems_keys_are_planned_too(dialect: str, annotations: Object, spec: Object) -> None:
    wanted = train_job(trainer={"numNodes": 3}, **spec)
    wanted["metadata"]["annotations"] = annotations
    gang = gang_of(runtime(policy=TORCH), wanted)
    assert (gang.key.dialect, gang.key.name, len(gang.members)) == (dialect, "w", 3)


NAMESPACED = {"runtimeRef": {"name": "torch", "kind": "TrainingRuntime"}}


def test_a_runtime_of_its_own_namespace_is_meant_where_it_says_so() -> None:
    assert runtime_of(train_job())[1:] == ("ClusterTrainingRuntime", "", "torch")
    assert runtime_of(train_job(**NAMESPACED))[1:] == ("TrainingRuntime", "default", "torch")
    gang = gang_of(runtime(policy=TORCH, kind="TrainingRuntime"), train_job(**NAMESPACED))
    assert len(gang.members) == 2


@pytest.mark.parametrize(
    ("others", "spec", "where"),
    [
        ((), {}, "ClusterTrainingRuntime torch"),
        ((), NAMESPACED, "TrainingRuntime torch"),
        ((runtime(policy=TORCH),), NAMESPACED, "TrainingRuntime torch"),
    ],
    ids=["the cluster's", "the namespace's", "another of that name"],
)
def test_a_runtime_that_is_not_there_is_told(others: tuple[Object, ...], spec: Object, where: str) -> None:
    wanted = train_job(**spec)
    faults, advice = told(wanted, *others)
    assert faults == []
    (sentence,) = advice
    assert f"what they are stands in {where}, which is not known here" in sentence
    assert not read_all(expanded(Sources(objects={key_of(wanted): wanted}))[0]).gangs


MALFORMED: dict[str, tuple[Object, list[object] | None, str]] = {
    "the trainer": ({"trainer": 3}, None, "spec.trainer: is not a mapping; write a mapping"),
    "an override": (
        {"podTemplateOverrides": "x"},
        None,
        "spec.podTemplateOverrides: is not a list of mappings; write a list of mappings",
    ),
    "the runtime's jobs": (
        {},
        ["x"],
        (
            "spec.runtimeRef: ClusterTrainingRuntime torch: spec.template.spec.replicatedJobs is not a list of "
            "mappings; write a list of mappings there"
        ),
    ),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_what_is_malformed_is_named_once(case: str) -> None:
    spec, jobs, said = MALFORMED[case]
    of = runtime(policy=TORCH)
    if jobs is not None:
        of["spec"]["template"]["spec"]["replicatedJobs"] = jobs
    with pytest.raises(MalformedError) as caught:
        job_set_of(train_job(**spec), of)
    assert str(caught.value.fault) == f"TrainJob default/w: {said}"
    assert told(train_job(**spec), of)[0] == [f"TrainJob default/w: {said}"]


def test_what_is_wrong_with_its_job_set_is_told_where_it_names_its_runtime() -> None:
    of = runtime(policy={"numNodes": -2, "torch": {}})
    faults, _ = told(train_job(), of)
    assert len(faults) == 1
    assert faults[0].startswith("TrainJob default/w: spec.runtimeRef: "), faults


def test_a_fault_of_the_runtime_is_reported_where_the_wrapped_train_job_names_the_runtime() -> None:
    wrapped, rival = train_job(), job("node", "trainer")
    rival["template"]["spec"]["template"]["metadata"] = {"labels": {"phalanx.dev/gang": "other"}}
    metadata, inner = wrapped["metadata"], {**wrapped, "metadata": {"name": "inner"}}
    wrapper = {"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper", "metadata": metadata}
    wrapper["spec"] = {"components": [{"template": inner}]}
    described = runtime(rival)
    faults, _ = review(wrapper, Sources(objects={key_of(described): described}))
    assert {fault.field for fault in faults} == {"spec.components[0].template.spec.runtimeRef"}
