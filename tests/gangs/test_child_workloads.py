"""Workloads whose child workload is the gang: one annotation on the workload is enough.

The rules come from the operators' sources. KubeRay v1.6 copies the annotations of a RayJob or RayService to the
RayCluster. Trainer v2.1 writes `spec.annotations` of a TrainJob on its JobSet. The CronJob controller writes the
annotations of its `jobTemplate` on its Jobs. AppWrapper v1 creates its components unchanged.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from workload_operators import ROWS, Object, owned, template

from cli.main import group
from gangs.dialects.expanding import expanded, unforeseen
from gangs.dialects.reading import read_all
from gangs.dialects.reviewing import review
from gangs.dialects.templates import as_admitted, as_made, fields_for_child
from gangs.dialects.typos import typos_of
from gangs.manifests import key_of, pod_of
from gangs.sources import Sources
from gangs.workloads.kind_table import WORKLOADS
from webhook.admission.object_reviews import propagated
from webhook.admission.reviews import Admitted, Refused

RACK = {"phalanx.dev/required": "rack"}


def _job() -> Object:
    return {"parallelism": 4, "completions": 4, "completionMode": "Indexed", "template": template()}


def _cron_job(manifest: Object) -> Object:
    written = manifest["spec"]["jobTemplate"]
    metadata = {**written.get("metadata", {}), "name": "w-29000000"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": written["spec"]}


def _ray(at: str) -> Callable[[Object], Object]:
    def cluster(manifest: Object) -> Object:
        metadata = {"name": "w-x7k2p", "annotations": manifest["metadata"]["annotations"]}
        return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata, "spec": manifest["spec"][at]}

    return cluster


def _train_job(manifest: Object) -> Object:
    """Return the JobSet that the Trainer creates from a runtime with a driver and three nodes."""
    metadata = {"name": "w", "annotations": manifest["spec"].get("annotations", {})}
    spec = ROWS["JobSet"].spec()
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": spec}


def _wrapped(manifest: Object) -> Object:
    found: Object = manifest["spec"]["components"][1]["template"]
    return found


def _components() -> Object:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {}}
    job = {**ROWS["PyTorchJob"].manifest(), "metadata": {"name": "inner"}}
    return {"components": [{"template": service}, {"template": job}]}


@dataclass(frozen=True, slots=True)
class Maker:
    """A kind. `made`: what its operator makes of a manifest; `sets`: the pods of each role of the gang."""

    api_version: str
    spec: Callable[[], Object]
    made: Callable[[Object], Object]
    sets: dict[str, int]
    at: str
    """The path where admission writes the annotations; empty if the operator copies the workload's annotations."""
    foreseen: str
    """The gang of the dry run; empty if another object describes the child workload."""


KINDS = {
    "CronJob": Maker(
        "batch/v1",
        lambda: {"schedule": "0 0 * * *", "jobTemplate": {"spec": _job()}},
        _cron_job,
        {"main": 4},
        "spec.jobTemplate.metadata.annotations",
        "w-",
    ),
    "RayJob": Maker(
        "ray.io/v1",
        lambda: {"entrypoint": "x", "rayClusterSpec": ROWS["RayCluster"].spec()},
        _ray("rayClusterSpec"),
        {"head": 1, "gpu": 3},
        "",
        "w-",
    ),
    "RayService": Maker(
        "ray.io/v1",
        lambda: {"rayClusterConfig": ROWS["RayCluster"].spec()},
        _ray("rayClusterConfig"),
        {"head": 1, "gpu": 3},
        "",
        "w-",
    ),
    "TrainJob": Maker(
        "trainer.kubeflow.org/v1alpha1",
        lambda: {"runtimeRef": {"name": "torch"}},
        _train_job,
        {"driver": 1, "nodes": 3},
        "spec.annotations",
        "",
    ),
    "AppWrapper": Maker(
        "workload.codeflare.dev/v1beta2",
        _components,
        _wrapped,
        {"master": 1, "worker": 3},
        "spec.components[1].template.metadata.annotations",
        "inner",
    ),
}

every_kind = pytest.mark.parametrize("kind", KINDS)


def workload(kind: str, annotations: Object | None = None) -> Object:
    """A workload that asks for a rack, unless other annotations are given."""
    metadata = {"name": "w", "namespace": "default", "annotations": dict(RACK if annotations is None else annotations)}
    return {"apiVersion": KINDS[kind].api_version, "kind": kind, "metadata": metadata, "spec": KINDS[kind].spec()}


def admitted(manifest: Object, old: Object | None = None) -> Object:
    """The workload as admission has it stored."""
    found = deepcopy(manifest)
    for way, value in fields_for_child(manifest, old, Sources()):
        part: Any = found
        for step in way[:-1]:
            part = part[int(step)] if isinstance(part, list) else part.setdefault(step, {})
        if value is None:
            del part[way[-1]]
        else:
            part[way[-1]] = value
    return found


def made(kind: str, manifest: Object) -> Object:
    """Return the child workload that the operator creates for the workload, as stored after admission."""
    found = deepcopy(KINDS[kind].made(manifest))
    found["metadata"] |= {"namespace": "default", "uid": "made", "ownerReferences": [owned(manifest)]}
    return dict(as_admitted(found, Sources()))


def said(manifest: Object) -> tuple[list[str], list[str]]:
    """Return the faults for which admission refuses the workload, and the warnings about it."""
    faults, advice = review(manifest, Sources())
    told = [*advice, *typos_of(manifest, Sources(), (*faults, *advice))]
    return [str(each) for each in faults], [str(each) for each in told]


def test_every_kind_that_hands_down_has_its_row() -> None:
    assert set(KINDS) == {kind for (_, kind), row in WORKLOADS.items() if row.child}


@every_kind
def test_what_is_made_of_it_is_one_gang_that_asks_for_what_the_workload_says(kind: str) -> None:
    child = made(kind, admitted(workload(kind)))
    (gang,) = read_all(Sources(objects={key_of(child): child})).gangs
    assert (gang.key.name, gang.source.kind, gang.required) == (child["metadata"]["name"], child["kind"], "rack")
    assert {each.name: each.count for each in gang.pod_sets} == KINDS[kind].sets
    assert gang.min_member == 4


@every_kind
def test_the_dry_run_plans_what_will_be_made(kind: str) -> None:
    manifest = workload(kind)
    gangs = read_all(expanded(Sources(objects={key_of(manifest): manifest}))[0]).gangs
    if not KINDS[kind].foreseen:
        assert not gangs
        faults, (told,) = said(manifest)
        assert (faults, told.partition(": its pods are not planned before they exist")[0]) == (
            [],
            f"{kind} default/w: kind",
        )
        return
    (gang,) = gangs
    assert (gang.key.name, gang.required, len(gang.members)) == (KINDS[kind].foreseen, "rack", 4)
    assert {each.name: each.count for each in gang.pod_sets} == KINDS[kind].sets
    waits = 'metadata.annotations[phalanx.dev/required]: the gang waits for Topology with a level "rack"'
    assert said(manifest) == ([], [f"{kind} default/w: {waits}"])
    assert not any("--" in member.pod.metadata.name for member in gang.members)


@every_kind
def test_one_that_asks_for_nothing_is_left_alone(kind: str) -> None:
    manifest = workload(kind, {})
    assert (said(manifest), list(fields_for_child(manifest, None, Sources()))) == (([], []), [])
    assert as_made(manifest, Sources()) is manifest


@pytest.mark.parametrize("kind", [kind for kind in KINDS if KINDS[kind].at])
def test_admission_writes_down_what_it_says_and_takes_back_what_it_says_no_longer(kind: str) -> None:
    first = admitted(workload(kind))
    changed = {**first, "metadata": {**first["metadata"], "annotations": {"phalanx.dev/preferred": "rack"}}}
    again = admitted(changed, first)
    assert [[*each] for each in annotations_of(kind, first, again)] == [
        ["phalanx.dev/required"],
        ["phalanx.dev/preferred"],
    ]
    assert next(iter(fields_for_child(again, again, Sources())))[1] == "rack"
    answer = propagated(changed, first, Sources())
    assert isinstance(answer, Admitted)
    assert {each["op"] for each in answer.patch} == {"add", "remove"}


def annotations_of(kind: str, *manifests: Object) -> list[Object]:
    """Return the annotations that the workloads of these manifests propagate to their child workloads."""
    found = []
    for part in manifests:
        where: Any = part
        for step in KINDS[kind].at.replace("[1]", ".1").split("."):
            where = where[int(step)] if isinstance(where, list) else where[step]
        found.append(where)
    return found


@pytest.mark.parametrize("wrong", ["NaN", 1, ["x"]])
@pytest.mark.parametrize(
    ("kind", "field"),
    [
        ("TrainJob", "spec"),
        ("TrainJob", "spec.annotations"),
        ("CronJob", "spec.jobTemplate.metadata"),
        ("CronJob", "spec.jobTemplate.metadata.annotations"),
    ],
)
def test_what_is_no_mapping_on_the_way_is_named(kind: str, field: str, wrong: Any) -> None:
    manifest = workload(kind)
    *way, last = field.split(".")
    part = manifest
    for step in way:
        part = part.setdefault(step, {})
    part[last] = wrong
    decision = propagated(manifest, None, Sources())
    assert isinstance(decision, Refused)
    assert f"{field}: " in decision.message
    assert "mapping" in decision.message


def test_what_its_user_wrote_there_himself_is_kept_unless_it_says_otherwise() -> None:
    manifest = workload("CronJob")
    manifest["spec"]["jobTemplate"]["metadata"] = {"annotations": {**RACK, "phalanx.dev/min-member": "3", "a": "b"}}
    assert admitted(manifest) == manifest
    (gang,) = read_all(expanded(Sources(objects={key_of(manifest): manifest}))[0]).gangs
    assert gang.min_member == 3
    manifest["metadata"]["annotations"] = {"phalanx.dev/required": "row"}
    refusal = (
        'CronJob default/w: spec.jobTemplate.metadata.annotations[phalanx.dev/required]: is "rack", but the CronJob '
        'itself says "row"; remove one of the two'
    )
    assert said(manifest)[0] == [refusal]
    assert propagated(manifest, None, Sources()) == Refused(refusal)
    labelled = deepcopy(manifest)
    labelled["metadata"]["labels"] = {"a": "b"}
    assert propagated(labelled, manifest, Sources()) == Admitted()  # it contradicted itself before
    before = deepcopy(manifest)
    del before["metadata"]["annotations"]
    assert propagated(manifest, before, Sources()) == Refused(refusal)
    manifest["metadata"] |= {"deletionTimestamp": "2026-11-23T09:00:00Z", "finalizers": []}
    assert propagated(manifest, None, Sources()) == Admitted()


WRONG: dict[str, tuple[Callable[[Object], None], str]] = {
    "CronJob": (
        lambda spec: spec["jobTemplate"]["spec"].update(parallelism=-1),
        "spec.jobTemplate.spec.parallelism: -1 is less than 0; write a number from 0 up",
    ),
    "RayJob": (
        lambda spec: spec["rayClusterSpec"]["workerGroupSpecs"][0].update(replicas="x"),
        "spec.rayClusterSpec.workerGroupSpecs[0].replicas: expected `int`, got `str`; correct the value",
    ),
    "RayService": (
        lambda spec: spec.pop("rayClusterConfig"),
        (
            "spec.rayClusterConfig: is missing: it says what RayCluster is made, which is the gang; "
            "write it, or annotate the RayCluster that this RayService uses"
        ),
    ),
    "AppWrapper": (
        lambda spec: spec["components"].append(spec["components"][1]),
        (
            "spec.components: holds 2 workloads that can be gangs, and what it says itself is for one; write one "
            "workload in it, or make a Gang object and label the pod templates phalanx.dev/gang: <its name>"
        ),
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_wrong_with_what_will_be_made_is_told_of_the_workload(kind: str) -> None:
    change, refusal = WRONG[kind]
    manifest = workload(kind)
    change(manifest["spec"])
    (fault,) = said(manifest)[0]
    assert fault == f"{kind} default/w: {refusal}"
    answer = CliRunner().invoke(group, ["solve", "-f", "-"], input=yaml.safe_dump(manifest), catch_exceptions=False)
    errors = [line for line in answer.stderr.splitlines() if line.startswith("error: ")]
    assert (len(errors), answer.exit_code) == (1, 2), answer.stderr


@pytest.mark.parametrize("kind", [kind for kind in KINDS if KINDS[kind].foreseen])
def test_a_minimum_that_it_cannot_have_is_refused_where_it_is_written(kind: str) -> None:
    (fault,) = said(workload(kind, {"phalanx.dev/min-member": "5"}))[0]
    assert fault.startswith(
        f"{kind} default/w: metadata.annotations[phalanx.dev/min-member]: 5 is more than the 4 pods "
    )


@pytest.mark.parametrize("kind", ["CronJob", "RayJob"])
def test_a_gang_object_of_its_name_is_no_rival(kind: str) -> None:
    own = {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", "metadata": {"name": "w", "namespace": "default"}}
    sources = Sources(objects={key_of(own): {**own, "spec": {"minMember": 1}}})
    assert review(workload(kind), sources)[0] == []


def test_a_wrapped_ray_job_is_a_gang_as_its_cluster() -> None:
    manifest = workload("AppWrapper")
    manifest["spec"]["components"] = [{"template": {**workload("RayJob", {}), "metadata": {"name": "inner"}}}]
    (gang,) = read_all(expanded(Sources(objects={key_of(manifest): manifest}))[0]).gangs
    assert (gang.key.name, gang.source.kind, gang.required, len(gang.members)) == ("inner-", "RayCluster", "rack", 4)
    manifest["spec"]["components"][0]["template"]["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["replicas"] = -1
    at = "spec.components[0].template.spec.rayClusterSpec.workerGroupSpecs[0].replicas"
    assert said(manifest)[0][0].startswith(f"AppWrapper default/w: {at}: -1 is less than 0")


def test_wishes_on_a_template_are_told_where_to_write_them() -> None:
    manifest = workload("RayJob", {})
    manifest["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["metadata"] = {"annotations": dict(RACK)}
    assert said(manifest) == (
        [],
        [
            (
                "RayJob default/w: spec.rayClusterSpec.headGroupSpec.template.metadata.annotations"
                "[phalanx.dev/required]: asks for nothing there: write it on the RayJob itself"
            )
        ],
    )


def test_a_job_with_a_generated_name_is_planned_with_its_pods() -> None:
    """The name does not exist yet. The expected pods must be found without it; otherwise the gang waits for 4 pods."""
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"generateName": "w-", "annotations": RACK}}
    job |= {"spec": _job()}
    (gang,) = read_all(expanded(Sources(objects={key_of(job): job}))[0]).gangs
    assert [member.pod.metadata.name for member in gang.members] == ["w-0", "w-1", "w-2", "w-3"]


def test_an_mpi_job_of_the_training_operator_makes_its_launcher_itself() -> None:
    manifest: Any = {**ROWS["MPIJob"].manifest(gang="true"), "apiVersion": "kubeflow.org/v1"}
    manifest = as_admitted(manifest, Sources())
    pods = []
    for role, index in (("launcher", ""), ("worker", "0"), ("worker", "1"), ("worker", "2")):
        labels = {"training.kubeflow.org/replica-type": role, "phalanx.dev/workload": "MPIJob"}
        labels |= {"training.kubeflow.org/replica-index": index} if index else {}
        name = f"w-{role}-{index}".rstrip("-")
        metadata = {"name": name, "namespace": "default", "labels": labels, "ownerReferences": [owned(manifest)]}
        pods.append(pod_of({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template()["spec"]}))
    (gang,) = read_all(Sources(pods, {key_of(manifest): manifest})).gangs
    assert ({each.name: each.count for each in gang.pod_sets}, len(gang.members)) == ({"launcher": 1, "worker": 3}, 4)
    assert gang.suffice(gang.members)


def test_two_that_will_have_names_with_the_same_beginning_are_two_gangs() -> None:
    manifests = [workload("CronJob"), workload("RayJob")]
    job = {
        **as_made(manifests[0], Sources()),
        "metadata": {**as_made(manifests[0], Sources())["metadata"], "annotations": dict(RACK)},
    }
    gangs = read_all(expanded(Sources(objects={key_of(each): each for each in (*manifests, job)}))[0]).gangs
    assert [(gang.key.name, gang.source.kind, len(gang.members)) for gang in gangs] == [
        ("w-", "Job", 4),
        ("w-2-", "Job", 4),
        ("w-3-", "RayCluster", 4),
    ]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if KINDS[kind].at])
def test_one_that_was_made_without_phalanx_is_told_so_and_one_that_was_admitted_is_not(kind: str) -> None:
    manifest = workload(kind)
    manifest["metadata"]["uid"] = "u"
    late = f"{kind} default/w: metadata.annotations: came too late: the {kind} was made or changed without Phalanx, "
    assert any(each.startswith(late) for each in said(manifest)[1])
    assert not any(each.startswith(late) for each in said(admitted(manifest))[1])


QUEUE = {"labels": {"kueue.x-k8s.io/queue-name": "q"}}
KAI = {"annotations": {"kai.scheduler/topology": "net", "kai.scheduler/topology-required-placement": "rack"}}


@pytest.mark.parametrize("metadata", [QUEUE, KAI], ids=["a queue's name", "annotations of Run:ai's"])
def test_a_cron_job_whose_jobs_ask_themselves_is_planned_before_they_are_made(metadata: Object) -> None:
    manifest = workload("CronJob")
    del manifest["metadata"]["annotations"]
    manifest["spec"]["jobTemplate"]["metadata"] = metadata
    inner = manifest["spec"]["jobTemplate"]["spec"]["template"]["metadata"]
    inner["annotations"] = {"kueue.x-k8s.io/podset-required-topology": "rack"} if metadata is QUEUE else {}
    sources = Sources(objects={key_of(manifest): manifest})
    (gang,) = read_all(expanded(sources)[0]).gangs
    assert len(gang.members) == 4
    assert list(unforeseen(sources, ())) == []


def test_a_cron_job_whose_pods_name_a_group_is_not() -> None:
    """Others may be in it."""
    manifest = workload("CronJob")
    del manifest["metadata"]["annotations"]
    inner = manifest["spec"]["jobTemplate"]["spec"]["template"]["metadata"]
    inner["labels"] = {**inner.get("labels", {}), "phalanx.dev/gang": "shared"}
    sources = Sources(objects={key_of(manifest): manifest})
    assert [gang.members for gang in read_all(expanded(sources)[0]).gangs if gang.members] == []
    (advice,) = unforeseen(sources, ())
    assert "are not planned before they exist" in advice.text
