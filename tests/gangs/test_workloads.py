"""How many pods a Job runs, and which ones it has not made yet."""

from typing import Any

import pytest
from written import documents, pod

from gangs.manifests import MalformedError
from gangs.workloads.jobs import indexes, job_of, missing_pods


def job(spec: str, *, status: str = "{}", **metadata: Any) -> dict[str, Any]:
    (manifest,) = documents(f"""
        apiVersion: batch/v1
        kind: Job
        metadata: {{name: train, namespace: default}}
        spec: {spec}
        status: {status}
    """)
    manifest["metadata"] |= metadata
    return manifest


SIZES = {
    "one pod by default": ("{}", "{}", 1, 1),
    "parallelism pods at a time": ("{parallelism: 4}", "{}", 4, 4),
    "no more than completions": ("{parallelism: 4, completions: 3}", "{}", 3, 3),
    "parallelism of many completions": ("{parallelism: 4, completions: 9}", "{}", 4, 4),
    "fewer near the end": ("{parallelism: 4, completions: 9}", "{succeeded: 7}", 4, 2),
    "none when all have succeeded": ("{parallelism: 4, completions: 4}", "{succeeded: 4}", 4, 0),
    "none when it has failed": ("{parallelism: 4}", '{conditions: [{type: Failed, status: "True"}]}', 4, 0),
    "nulls are as good as nothing": ("{parallelism: null, completions: null}", "{succeeded: null}", 1, 1),
}


@pytest.mark.parametrize(("spec", "status", "size", "expected"), SIZES.values(), ids=SIZES)
def test_a_job_runs(spec: str, status: str, size: int, expected: int) -> None:
    read = job_of(job(spec, status=status))
    assert (read.size, read.expected) == (size, expected)


def mine(name: str, *, index: str | None = None, phase: str = "Running", uid: str = "") -> Any:
    labels = {"batch.kubernetes.io/job-completion-index": index} if index else {}
    owner = {"kind": "Job", "name": "train", "uid": uid, "controller": True}
    return pod(name, labels=labels, owner=owner, status={"phase": phase})


MISSING = {
    "all of them at the start": ("{parallelism: 3}", "{}", [], ["train-0", "train-1", "train-2"]),
    "those whose names are free": (
        "{parallelism: 3}",
        "{}",
        [mine("train-1"), pod("train-0")],
        ["train-0", "train-2"],
    ),
    "none that would be one too many": ("{parallelism: 2}", "{}", [mine("train-x"), mine("train-y")], []),
    "a new one for each that failed": ("{parallelism: 2}", "{}", [mine("a"), mine("b", phase="Failed")], ["train-0"]),
    "the lowest free indices": (
        "{parallelism: 3, completions: 6, completionMode: Indexed}",
        '{succeeded: 2, completedIndexes: "0,2"}',
        [mine("train-1-abc", index="1")],
        ["train-3", "train-4"],
    ),
    "none while it is suspended": ("{parallelism: 3, suspend: true}", "{}", [], []),
    "none of another Job that had the same name": (
        "{parallelism: 1}",
        "{}",
        [mine("train-old", uid="old")],
        ["train-0"],
    ),
}


@pytest.mark.parametrize(("spec", "status", "existing", "names"), MISSING.values(), ids=MISSING)
def test_a_job_still_makes(spec: str, status: str, existing: list[Any], names: list[str]) -> None:
    pods = missing_pods(job(spec, status=status, uid="new"), existing)
    assert [each.metadata.name for each in pods] == names


def test_a_made_pod_has_the_template_the_job_labels_and_its_owner() -> None:
    template = (
        "{metadata: {labels: {app: x}, annotations: {note: y}}, spec: {priorityClassName: high, nodeSelector: {a: b}}}"
    )
    manifest = job(f"{{completions: 2, parallelism: 2, completionMode: Indexed, template: {template}}}", uid="u")
    first, _ = missing_pods(manifest, [])
    meta = first.metadata
    assert meta.labels == {
        "app": "x",
        "job-name": "train",
        "batch.kubernetes.io/job-name": "train",
        "controller-uid": "u",
        "batch.kubernetes.io/controller-uid": "u",
        "batch.kubernetes.io/job-completion-index": "0",
    }
    assert meta.annotations == {"note": "y", "batch.kubernetes.io/job-completion-index": "0"}
    assert [(each.kind, each.name, each.uid, each.controller) for each in meta.owner_references] == [
        ("Job", "train", "u", True)
    ]
    assert (first.spec.priority_class_name, first.spec.node_selector) == ("high", {"a": "b"})


def test_pods_of_a_job_with_a_generated_name_are_numbered_from_its_beginning() -> None:
    manifest = job("{parallelism: 2}")
    manifest["metadata"] = {"generateName": "train-", "namespace": "default"}
    assert [each.metadata.name for each in missing_pods(manifest, [])] == ["train-0", "train-1"]


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ("{parallelism: many}", "Job default/train: spec.parallelism: expected `int`, got `str`; correct the value"),
        (
            "{template: {spec: {nodeSelector: {a: 1}}}}",
            "Job default/train: spec.template.spec.nodeSelector[a]: expected `str`, got `int`; put it in quotes",
        ),
    ],
)
def test_a_malformed_job_is_named_with_its_field(spec: str, fault: str) -> None:
    with pytest.raises(MalformedError) as caught:
        missing_pods(job(spec), [])
    assert str(caught.value.fault) == fault


def test_a_job_of_more_pods_than_can_be_planned_is_refused_before_any_is_made() -> None:
    with pytest.raises(MalformedError, match=r"spec.parallelism: 2000000000 pods at a time are more than can be"):
        missing_pods(job("{parallelism: 2000000000}"), [])


def test_a_job_of_very_many_completions_makes_only_the_next_ones() -> None:
    manifest = job("{parallelism: 2, completions: 2000000000, completionMode: Indexed}")
    assert [each.metadata.name for each in missing_pods(manifest, [])] == ["train-0", "train-1"]


def test_completed_indexes_are_numbers_and_ranges() -> None:
    assert indexes("1,3-5,9") == [range(1, 2), range(3, 6), range(9, 10)]
