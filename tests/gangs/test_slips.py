"""Misspelt keys on pods and templates that were meant to ask for a gang, and similar keys that are correct."""

import json
from typing import Any

import pytest
from written import sources

from gangs.dialects.reading import read_all
from gangs.dialects.table import DIALECTS
from gangs.dialects.typos import typos

GROUP = "pod-group.scheduling.sigs.k8s.io"
UNKNOWN = "is not known, so that it asks for nothing"


def told(kind: str, metadata: dict[str, Any]) -> list[str]:
    """Return the messages about a pod with this metadata, or about a workload whose pod template has it."""
    named = {"name": "a", "namespace": "default"}
    if kind == "Pod":
        written = {"apiVersion": "v1", "kind": "Pod", "metadata": {**named, **metadata}}
    else:
        api_version = "batch/v1" if kind == "Job" else "apps/v1"
        written = {
            "apiVersion": api_version,
            "kind": kind,
            "metadata": named,
            "spec": {"template": {"metadata": metadata}},
        }
    standing = sources(json.dumps(written))
    return [str(each) for each in typos(standing, read_all(standing).advice)]


@pytest.mark.parametrize(
    ("place", "key", "value", "said"),
    [
        ("labels", "phalanx.dev/gnag", "llm", f"{UNKNOWN}: phalanx.dev/gang is"),
        ("labels", "phalnx.dev/gang", "llm", f"{UNKNOWN}: phalanx.dev/gang is"),
        ("labels", "phalanx.dev/gang", "", "is empty, so that it asks for nothing: name the gang"),
        ("annotations", GROUP, "llm", "asks for nothing there: write it at metadata.labels"),
        ("annotations", "scheduling.run.ai/pod-grop", "llm", f"{UNKNOWN}: scheduling.run.ai/pod-group is"),
    ],
    ids=["a misspelt label", "a misspelt prefix", "an empty label", "the wrong place", "a misspelt annotation"],
)
def test_a_slip_is_told(place: str, key: str, value: str, said: str) -> None:
    metadata = {place: {key: value}}
    assert told("Pod", metadata) == [f"Pod default/a: metadata.{place}[{key}]: {said}"]
    template = said.replace("metadata.", "spec.template.metadata.")
    assert told("StatefulSet", metadata) == [
        f"StatefulSet default/a: spec.template.metadata.{place}[{key}]: {template}"
    ]


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda each: each.name)
def test_a_key_in_its_place_is_no_slip(dialect: Any) -> None:
    for place in ("labels", "annotations"):
        for key in getattr(dialect.pod_keys, place):
            assert not told("Pod", {place: {key: "x"}}), key


@pytest.mark.parametrize(
    "labels",
    [
        {"app.kubernetes.io/name": "a", "app": "a", "job-name": "a", "controller-uid": "a"},
        {"pod-group.scheduling.sigs.k8s.io/min-available": "2", "kueue.x-k8s.io/pod-group-pod-index": "0"},
        {"topology.kubernetes.io/zone": "a", "kai.scheduler/queue": "a", "kueue.x-k8s.io/priority-class": "a"},
    ],
)
def test_other_keys_mean_what_they_say(labels: dict[str, str]) -> None:
    assert not told("Pod", {"labels": labels, "annotations": labels})
    assert not told("Job", {"labels": labels, "annotations": labels})


def test_nothing_is_told_twice() -> None:
    assert not told("Job", {"annotations": {"phalanx.dev/gang": "true"}})


def test_a_pod_that_runs_is_left_alone() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"phalanx.dev/gnag": "x"}}}
    assert not typos(sources(json.dumps({**pod, "spec": {"nodeName": "n"}})), ())
