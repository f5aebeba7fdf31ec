"""Objects of known kinds, their defaults, and one clear line for each mistake."""

from typing import Any

import pytest
import scenes

from planning.files.objects import read_objects


def mistakes(*manifests: scenes.Manifest) -> list[str]:
    """Return the messages that a user would see."""
    return [str(each) for each in read_objects(scenes.documents(manifests)).mistakes]


def pod_with(**spec: Any) -> scenes.Manifest:
    """A pod with a name and this spec."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}


def job_with(**spec: Any) -> scenes.Manifest:
    """A Job whose pods have this spec."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"template": {"spec": spec}},
    }


@pytest.mark.parametrize(
    ("manifest", "lines"),
    [
        ({"kind": "Pod", "metadata": {"name": "a"}}, ["test.yaml: Pod a: apiVersion: is missing"]),
        ({"apiVersion": "v1", "metadata": {"name": "a"}}, ["test.yaml: object a: kind: is missing"]),
        (
            {"apiVersion": 1, "kind": "Pod"},
            [
                "test.yaml: Pod (no name): apiVersion: expected a text, got a number",
                "test.yaml: Pod (no name): metadata.name: is missing",
            ],
        ),
        (
            {"apiVersion": "v1", "kind": "Pod", "metadata": []},
            ["test.yaml: Pod (no name): metadata: expected an object, got a list"],
        ),
        (
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 5}},
            ["test.yaml: Pod 5: metadata.name: expected a text, got a number"],
        ),
        (
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "a", "labels": {"app": "x", "phalanx.dev/gang": True}},
            },
            ["test.yaml: Pod default/a: metadata.labels[phalanx.dev/gang]: expected str, got bool; put it in quotes"],
        ),
        (
            pod_with(priority="high"),
            ["test.yaml: Pod default/a: spec.priority: expected int | null, got str; correct the value"],
        ),
        (
            pod_with(containers=[{}, {"resources": []}]),
            ["test.yaml: Pod default/a: spec.containers[1].resources: expected object, got array; correct the value"],
        ),
        (
            pod_with(containers=[{"resources": {"requests": {"cpu": "8 cores"}, "limits": {"memory": "-1"}}}]),
            [
                "test.yaml: Pod default/a: spec.containers[0].resources.requests.cpu: '8 cores' is not a quantity",
                "test.yaml: Pod default/a: spec.containers[0].resources.limits.memory: '-1' is negative",
            ],
        ),
        (
            pod_with(initContainers=[{"resources": {"requests": {"cpu": "x"}}}], overhead={"cpu": "y"}),
            [
                "test.yaml: Pod default/a: spec.overhead.cpu: 'y' is not a quantity",
                "test.yaml: Pod default/a: spec.initContainers[0].resources.requests.cpu: 'x' is not a quantity",
            ],
        ),
        (
            job_with(containers=[{"resources": {"limits": {"g": "x", "cpu": -1}}}]),
            [
                "test.yaml: Job default/j: spec.template.spec.containers[0].resources.limits.g: 'x' is not a quantity",
                "test.yaml: Job default/j: spec.template.spec.containers[0].resources.limits.cpu: '-1' is negative",
            ],
        ),
        (
            scenes.node("n", allocatable={"cpu": "8", "memory": "32G1"}),
            ["test.yaml: Node n: status.allocatable.memory: '32G1' is not a quantity"],
        ),
    ],
)
def test_every_mistake_has_file_object_field_and_problem(manifest: scenes.Manifest, lines: list[str]) -> None:
    assert mistakes(manifest) == lines


def test_an_object_that_is_given_twice_counts_once() -> None:
    assert mistakes(scenes.pod("a"), scenes.pod("a")) == [
        "test.yaml: Pod default/a: is given twice, first in test.yaml"
    ]


def test_namespaced_objects_live_in_default_and_others_nowhere() -> None:
    stray = scenes.node("n")
    stray["metadata"]["namespace"] = "x"
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}}
    group = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "g"}}
    objects = read_objects(scenes.documents(stray, pod_with(), claim, group, scenes.topology()))
    assert sorted(objects.origins) == [
        ("", "Node", "", "n"),
        ("", "PersistentVolumeClaim", "default", "c"),
        ("", "Pod", "default", "a"),
        ("phalanx.dev", "Topology", "", "net"),
        ("scheduling.sigs.k8s.io", "PodGroup", "default", "g"),
    ]


def test_pods_to_be_named_by_the_api_server_get_numbers() -> None:
    nameless = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "w-"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    objects = read_objects(scenes.documents(nameless, nameless))
    assert [pod.key for pod in objects.pods()] == ["default/w-0", "default/w-1"]


def test_kinds_that_nobody_reads_are_counted_and_nothing_else() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": 7}
    objects = read_objects(scenes.documents(service, {**service, "apiVersion": "apps/v1"}))
    assert objects.ignored == {"Service": 2}
    assert not objects.mistakes


@pytest.mark.parametrize(
    ("api_version", "kind", "line"),
    [
        ("batch/v1", "job", 'kind: "job" is left out; write Job'),
        ("batch", "Job", 'apiVersion: "batch" is left out: Job is read of batch/v1 and batch.volcano.sh/v1alpha1'),
        ("apps/v1", "pod", 'apiVersion: "apps/v1" is left out: Pod is read of v1'),
        ("phalanx.io/v1", "Gang", 'apiVersion: "phalanx.io/v1" is left out: Gang is read of phalanx.dev/v1alpha1'),
        ("v1", "Service", ""),
    ],
)
def test_a_kind_of_another_group_or_spelling_is_left_out_with_a_warning(api_version: str, kind: str, line: str) -> None:
    manifest = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}}
    run = scenes.solved(scenes.nodes(), manifest)
    assert [str(each) for each in run.warnings] == ([f"test.yaml: {kind} a: {line}"] if line else [])
    assert (run.mistakes, run.notes) == ((), (f"ignored: 1 {kind}",))


def test_a_cluster_without_nodes_is_told() -> None:
    run = scenes.solved(scenes.topology(), scenes.gang(minMember=1, required="spine"), scenes.members(1))
    said = "there is no Node, so nothing can be placed: give the nodes, too, or name a cluster"
    assert [str(each) for each in run.warnings] == [said]
