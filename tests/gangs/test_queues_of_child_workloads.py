"""A queue's name on workloads that create a child workload: Kueue queues a TrainJob and an AppWrapper as a whole.

TrainJob w   label q  ──► its spec.labels                          ──► JobSet w is in q
AppWrapper w label q  ──► metadata.labels of its inner workload    ──► the inner workload is in q
"""

from typing import Any

import pytest
from workload_operators import ROWS, Object, template

from gangs.dialects.expanding import expanded
from gangs.dialects.reading import read_all
from gangs.dialects.reviewing import review
from gangs.dialects.templates import fields_for_child
from gangs.manifests import MalformedError, key_of
from gangs.sources import Sources

QUEUE = "kueue.x-k8s.io/queue-name"
HELD = ["Job", "JobSet", "PyTorchJob", "RayCluster", "StatefulSet", "MPIJob", "LeaderWorkerSet"]
"""Kinds that an AppWrapper may hold."""


def train_job(**spec: Any) -> Object:
    metadata = {"name": "w", "namespace": "default", "labels": {QUEUE: "q"}}
    spec = {"runtimeRef": {"name": "torch"}, **spec}
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": metadata, "spec": spec}


def runtime() -> Object:
    template = {"metadata": {}, "spec": ROWS["JobSet"].spec()}
    kind = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime"}
    return {**kind, "metadata": {"name": "torch"}, "spec": {"template": template}}


def app_wrapper(*held: Object) -> Object:
    metadata = {"name": "w", "namespace": "default", "labels": {QUEUE: "q"}}
    spec = {"components": [{"template": each} for each in held]}
    return {"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper", "metadata": metadata, "spec": spec}


def inner(kind: str) -> Object:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "spec": {"parallelism": 4, "completions": 4, "template": template()},
    }
    return {**(job if kind == "Job" else ROWS[kind].manifest()), "metadata": {"name": "inner"}}


def said(manifest: Object, *around: Object) -> tuple[list[str], list[str]]:
    """Return the faults for which admission refuses the workload, and the warnings about it."""
    faults, advice = review(manifest, Sources(objects={key_of(each): each for each in around}))
    return [str(each) for each in faults], [str(each) for each in advice]


@pytest.mark.parametrize("kind", HELD)
def test_what_an_app_wrapper_holds_is_in_its_queue(kind: str) -> None:
    """Admission must not refuse an AppWrapper for the queue of its inner workload."""
    manifest = app_wrapper(inner(kind))
    assert said(manifest) == ([], [])
    way = ("spec", "components", "0", "template", "metadata", "labels", QUEUE)
    assert list(fields_for_child(manifest, None, Sources())) == [(way, "q")]
    (gang,) = read_all(expanded(Sources(objects={key_of(manifest): manifest}))[0]).gangs
    assert (gang.key.dialect, gang.key.name.partition("-")[0], gang.queue) == ("kueue", "inner", "q")
    assert len(gang.members) == 4


def test_what_a_train_job_has_made_is_in_its_queue() -> None:
    """Admission accepts the queue label on the TrainJob itself, and copies it to `spec.labels`."""
    manifest = train_job()
    assert list(fields_for_child(manifest, None, Sources())) == [(("spec", "labels", QUEUE), "q")]
    (told,) = said(manifest)[1]
    assert "what they are stands in ClusterTrainingRuntime torch, which is not known here" in told
    assert said(manifest, runtime()) == ([], [])
    objects = {key_of(each): each for each in (manifest, runtime())}
    (gang,) = read_all(expanded(Sources(objects=objects))[0]).gangs
    assert (gang.key.name, gang.source.kind, gang.queue, len(gang.members)) == ("w", "JobSet", "q", 4)


def test_a_queue_that_is_changed_or_taken_back_is_so_below() -> None:
    old = train_job(labels={QUEUE: "q"})
    other = train_job(labels={QUEUE: "q"})
    other["metadata"]["labels"] = {QUEUE: "other"}
    assert list(fields_for_child(other, old, Sources())) == [(("spec", "labels", QUEUE), "other")]
    other["metadata"]["labels"] = {}
    assert list(fields_for_child(other, old, Sources())) == [(("spec", "labels", QUEUE), None)]
    del old["metadata"]["labels"]
    assert list(fields_for_child(other, old, Sources())) == [], "what was written there by its user stays"


def test_two_queues_are_refused_with_both() -> None:
    with pytest.raises(MalformedError) as refused:
        list(fields_for_child(train_job(labels={QUEUE: "other"}), None, Sources()))
    assert str(refused.value.fault) == (
        f'TrainJob default/w: spec.labels[{QUEUE}]: is "other", but the TrainJob itself says "q"; remove one of the two'
    )


def test_a_queue_that_came_too_late_is_told() -> None:
    manifest = train_job()
    manifest["metadata"]["uid"] = "u"
    assert any("metadata.labels: came too late: the TrainJob was made" in each for each in said(manifest, runtime())[1])
    manifest["spec"]["labels"] = {QUEUE: "q"}
    assert said(manifest, runtime()) == ([], [])


def test_in_the_annotation_that_kueue_had_before_it_reaches_nothing() -> None:
    manifest = train_job()
    manifest["metadata"] |= {"labels": {}, "annotations": {QUEUE: "q"}}
    (fault,) = said(manifest)[0]
    assert fault == (
        f"TrainJob default/w: metadata.annotations[{QUEUE}]: does not reach what is made of the TrainJob; "
        "write it as a label"
    )


def test_an_app_wrapper_that_holds_several_workloads_is_refused() -> None:
    (fault,) = said(app_wrapper(inner("Job"), inner("JobSet")))[0]
    assert "spec.components: holds 2 workloads that can be gangs, and what it says itself is for one; " in fault


def test_what_cannot_be_queued_is_told_where_it_stands() -> None:
    (fault,) = said(app_wrapper(inner("ReplicaSet")))[0]
    at = f"AppWrapper default/w: metadata.labels[{QUEUE}]: a ReplicaSet cannot be queued as a whole; "
    assert fault.startswith(at)


@pytest.mark.parametrize("kind", ["TrainJob", "AppWrapper"])
def test_a_queue_beside_our_own_annotations_is_refused(kind: str) -> None:
    manifest = train_job() if kind == "TrainJob" else app_wrapper(inner("Job"))
    manifest["metadata"]["annotations"] = {"phalanx.dev/required": "rack"}
    assert any("keep one of the two ways of asking" in each for each in said(manifest, runtime())[0])
