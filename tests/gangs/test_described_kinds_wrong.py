"""Faults of objects of user-defined kinds and of their WorkloadKinds are reported; large objects cost little."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from function_calls import function_calls
from hypothesis import given, settings
from hypothesis import strategies as st
from workload_operators import NAME, Object, described, made, template, training_run

from gangs.dialects.reading import read_all
from gangs.dialects.reviewing import review
from gangs.dialects.table import all_kinds
from gangs.dialects.templates import as_admitted
from gangs.incremental.dependencies import equal_as_read
from gangs.incremental.gang_store import GangStore
from gangs.manifests import MalformedError, key_of, pod_of
from gangs.sources import Sources
from gangs.workload_kinds import user_defined_rows
from gangs.workloads.kind_table import ROW
from gangs.workloads.pod_templates import MOST, ended, shared_name, templates
from gangs.workloads.user_defined_kinds import NOT_ASKED, with_row

pytestmark = pytest.mark.repetitive

MANIFESTS = Path(__file__).parents[2] / "manifests"


def kind_of(**more: Any) -> Object:
    """The WorkloadKind with other fields."""
    found = described()
    found["spec"] |= more
    return found


def among(manifest: Object, kind: Object) -> Sources:
    """A workload, not admitted yet, beside what describes its kind."""
    alone = Sources(objects={key_of(kind): kind})
    return Sources(objects={key_of(kind): kind, key_of(manifest): with_row(manifest, user_defined_rows(alone))})


def refusal(manifest: Object, kind: Object) -> str:
    """Why the workload does not come in."""
    sources = among(manifest, kind)
    with pytest.raises(MalformedError) as caught:
        as_admitted(sources.objects[key_of(manifest)], sources)
    return str(caught.value.fault)


@pytest.mark.parametrize("name", ["two words", "x" * 64, "-x", "über"])
def test_a_role_that_is_no_value_of_a_label_is_refused(name: str) -> None:
    manifest = training_run().manifest(gang="true")
    manifest["spec"]["roles"][1]["name"] = name
    assert refusal(manifest, described()) == (
        f'TrainingRun default/w: spec.roles[1]: "{name}" is the pod set of its pods, and a label with it would not be '
        "valid; call it by up to 63 letters, digits, - . and _ with a letter or digit at both ends"
    )


def test_a_pod_set_that_was_written_on_a_template_is_held_to_the_same() -> None:
    manifest = training_run().manifest(gang="true")
    marked = {"phalanx.dev/workload": "TrainingRun.ml.example.com", "phalanx.dev/pod-set": "a b"}
    manifest["spec"]["roles"][0]["pods"]["metadata"]["labels"] = marked
    assert 'spec.roles[0]: "a b" is the pod set' in refusal(manifest, described())


@pytest.mark.parametrize(("value", "over"), [(True, True), ("true", True), (False, False), ("True", False), (3, False)])
def test_a_field_that_says_that_it_is_over_may_be_a_boolean(value: object, over: object) -> None:
    kind = kind_of(ended=[{"field": "status.done", "values": ["true"]}])
    manifest = {**training_run().manifest(gang="true"), "status": {"done": value}}
    found = among(manifest, kind)
    assert ended(found.objects[key_of(manifest)]) is over


def counts(manifest: Object) -> list[tuple[int, int | None]]:
    """Pods and minimum of each template."""
    found = among(manifest, described()).objects[key_of(manifest)]
    return [(each.count, each.least) for each in templates(found)]


def test_a_minimum_of_replicas_that_nobody_wrote_is_their_number() -> None:
    manifest = training_run().manifest(gang="true")
    worker = manifest["spec"]["roles"][1]
    del worker["count"]
    worker["atLeast"] = 2
    assert counts(manifest) == [(1, None), (2, 2)]
    worker["count"] = 0
    assert counts(manifest) == [(1, None), (0, 0)]


def test_a_minimum_above_the_replicas_is_told() -> None:
    manifest = training_run().manifest(gang="true")
    manifest["spec"]["roles"][1]["atLeast"] = 5
    with pytest.raises(MalformedError) as caught:
        counts(manifest)
    assert str(caught.value.fault) == (
        "TrainingRun default/w: spec.roles[1].atLeast: 5 is more than the 3 replicas; lower it to 3 or raise the "
        "replicas"
    )


UNSENT = {group: {"group": group} for group in NOT_ASKED} | {
    "a resource of the table": {"group": "ray.io", "kind": "Cluster", "resource": "rayclusters"},
    "a number": {"podTemplates": [{"path": "spec.roles.0.pods"}]},
    "a number in a field": {"minMember": "spec.0"},
}


@pytest.mark.parametrize("more", UNSENT.values(), ids=UNSENT)
def test_what_nobody_would_ask_us_about_or_that_stands_nowhere_is_refused(more: Object) -> None:
    wrong = kind_of(**more)
    wrong["metadata"]["name"] = f"{wrong['spec']['resource']}.{wrong['spec']['group']}"
    faults, _ = review(wrong, Sources())
    assert len(faults) == 1
    assert user_defined_rows(Sources(objects={key_of(wrong): wrong})) == {}


def test_the_webhook_is_not_asked_about_exactly_these_groups() -> None:
    (text,) = [
        each["matchConditions"]
        for document in yaml.safe_load_all((MANIFESTS / "webhook" / "mutating.yaml").read_text())
        for each in document["webhooks"]
        if each["name"] == "described-workloads.phalanx.dev"
    ]
    said = {each["name"]: each["expression"] for each in text}
    groups = said["asks-to-be-a-gang"].partition("in [")[2].partition("]")[0]
    assert {each.strip(" '\n") for each in groups.split(",")} == set(NOT_ASKED)
    definition = yaml.safe_load((MANIFESTS / "crds" / "phalanx" / "workloadkinds.yaml").read_text())
    spec = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    (rule,) = spec["group"]["x-kubernetes-validations"]
    groups = rule["rule"].partition("in [")[2].partition("]")[0]
    assert {each.strip(" '\n") for each in groups.split(",")} == set(NOT_ASKED)


def of_job(group: str, **labels: str) -> Object:
    """A pod of a Job of an API group."""
    job = {"apiVersion": f"{group}/v1", "kind": "Job", "metadata": {"name": NAME, "uid": group}}
    return made(job, {**template(), "metadata": {}}, f"w-{group[:7]}", labels)


def test_a_job_of_volcano_and_one_of_the_core_are_two_though_they_have_one_name() -> None:
    manifest: Object = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": NAME, "namespace": "default", "annotations": {"phalanx.dev/gang": "true"}},
        "spec": {"parallelism": 1, "completions": 1, "template": {**template(), "metadata": {}}},
    }
    job = as_admitted(manifest, Sources())
    mark = {"phalanx.dev/workload": "Job"}
    core, volcano = (pod_of(of_job(group, **mark)) for group in ("batch", "batch.volcano.sh"))
    sources = Sources([core, volcano], {key_of(job): job})
    reading = read_all(sources)
    (found,) = reading.gangs
    assert [each.pod.metadata.name for each in found.members] == ["w-batch"]
    assert GangStore(sources).reading().gangs == reading.gangs
    assert (shared_name(core), shared_name(volcano)) == (NAME, "")


def large(entries: int) -> Object:
    """A workload of so many templates."""
    manifest = training_run().manifest(gang="true")
    pods: Object = {"metadata": {}, "spec": {"containers": []}}
    manifest["spec"] = {"roles": [{"name": f"r{index}", "pods": pods} for index in range(entries)]}
    return manifest


def test_a_workload_of_thousands_of_templates_is_refused_at_once() -> None:
    many, more = large(2_000), large(20_000)
    assert refusal(more, described()) == (
        f"TrainingRun default/w: spec.roles: has more than {MOST} pod templates; make several workloads of it"
    )
    cost = function_calls(lambda: refusal(many, described()))
    assert function_calls(lambda: refusal(more, described())) < 1.1 * cost
    reading = read_all(among(large(20_000), described()))
    assert [each.field for each in reading.faults] == ["spec.roles"]
    assert len(templates(among(large(MOST), described()).objects[key_of(large(MOST))])) == MOST


def read(manifest: Object, kind: Object) -> Any:
    """Return the part of an object that the cache keeps."""
    (teaching,) = [each for each in all_kinds() if each.user_defined is not None]
    assert teaching.user_defined is not None
    (found,) = teaching.user_defined([kind])
    assert found.as_read is not None
    return found.as_read(manifest)


def test_of_an_object_only_what_is_read_is_kept() -> None:
    manifest = training_run().manifest(gang="true")
    manifest["metadata"] |= {"uid": "u", "annotations": {**manifest["metadata"]["annotations"], "notes": "x" * 100_000}}
    manifest["spec"] |= {"script": "x" * 100_000, "together": 3, "paused": True, "suspend": False}
    manifest["spec"]["roles"][0]["pods"]["spec"]["containers"][0]["env"] = [{"name": "A", "value": "x" * 100_000}]
    manifest["spec"]["roles"][0]["files"] = ["x" * 100_000]
    manifest["status"] = {
        "phase": "Running",
        "history": ["x" * 100_000],
        "conditions": [{"type": "Failed", "status": "False", "message": "x" * 100_000}],
    }
    found = read(manifest, described())
    kept = {key: each for key, each in found.items() if key != ROW}
    assert len(repr(kept)) < 2_000
    assert kept["spec"]["roles"][0]["name"] == "chief"
    assert kept["status"] == {"phase": "Running", "conditions": [{"type": "Failed", "status": "False"}]}
    assert (kept["spec"]["together"], kept["spec"]["paused"], kept["spec"]["suspend"]) == (3, True, False)


@pytest.mark.parametrize(
    "wrong", [{"roles": "none"}, {"roles": [{"pods": 1}]}, {"roles": [{"count": {}}]}, 3, None, []]
)
def test_what_is_kept_is_read_as_the_whole_is(wrong: Any) -> None:
    for spec in (training_run().spec(), wrong):
        manifest = {**training_run().manifest(gang="true"), "spec": deepcopy(spec)}
        kind = described()
        whole = among(manifest, kind)
        admitted: Any = as_admitted(whole.objects[key_of(manifest)], whole)
        cut = read({key: each for key, each in admitted.items() if key != ROW}, kind)
        readings = [read_all(Sources(objects={key_of(kind): kind, key_of(each): each})) for each in (admitted, cut)]
        assert readings[0] == readings[1]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["roles", "name", "count", "atLeast", "pods", "metadata", "labels", "annotations", "spec"])
            | st.sampled_from(["phase", "conditions", "type", "status", "containers", "together", "suspend", "", "*"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


def as_whole(manifest: Object, kind: Object) -> None:
    """Check that the cached part of an object gives the reading of the whole object and can be compared by version."""
    whole = among(manifest, kind)
    cut = read(manifest, kind)
    kept = Sources(objects={key_of(kind): kind, key_of(cut): cut})
    assert ended(cut) == ended(whole.objects[key_of(manifest)])
    assert read_all(kept) == read_all(whole)
    before = read(training_run().manifest(gang="true"), kind)
    equal_as_read(key_of(cut)[:2], before, cut)
    assert equal_as_read(key_of(cut)[:2], cut, deepcopy(cut))


@pytest.mark.parametrize("status", ["Running", ["Running"], 3, True, 0.5, None, {"conditions": "none"}])
def test_a_status_may_be_anything(status: Any) -> None:
    """A definition may leave it open (x-kubernetes-preserve-unknown-fields)."""
    as_whole({**training_run().manifest(gang="true"), "status": status}, described())


@settings(max_examples=50, deadline=None)
@given(spec=ANYTHING, status=ANYTHING)
def test_of_an_object_of_any_shape_is_kept_what_is_read(spec: Any, status: Any) -> None:
    as_whole({**training_run().manifest(gang="true"), "spec": spec, "status": status}, described())


def test_a_status_that_is_one_word_is_heard_of_when_it_changes() -> None:
    kind = kind_of(ended=[{"field": "status", "values": ["Done"]}])
    runs, done = (read({**training_run().manifest(gang="true"), "status": each}, kind) for each in ("Runs", "Done"))
    assert (ended(runs), ended(done)) == (False, True)
    assert not equal_as_read(key_of(done)[:2], runs, done)


def test_objects_in_namespaces_of_kubernetes_are_not_looked_at() -> None:
    (selector,) = [
        each["namespaceSelector"]["matchExpressions"]
        for document in yaml.safe_load_all((MANIFESTS / "webhook" / "mutating.yaml").read_text())
        for each in document["webhooks"]
        if each["name"] == "described-workloads.phalanx.dev"
    ]
    left_out = {"kube-system", "kube-node-lease", "kube-public", "phalanx-system"}
    assert [(each["operator"], set(each["values"])) for each in selector] == [("NotIn", left_out)]
