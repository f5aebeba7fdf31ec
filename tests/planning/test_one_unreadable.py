"""If a reader of Phalanx fails on one object, all other objects still get an answer."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from cluster.snapshot import Snapshot
from gangs.dialects.templates import as_admitted
from gangs.labelled_workloads import makers
from gangs.manifests import key_of, ref_of
from gangs.phalanx import annotated_workloads
from gangs.sources import Sources
from planning.doctor.checkup import check_up
from planning.dry_run import dry_run
from planning.files.documents import parse

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"allocatable": {"cpu": "8", "pods": "10"}},
}


def job(name: str) -> dict[str, Any]:
    """A Job of two pods that is a gang."""
    container = {"name": "c", "image": "b", "resources": {"requests": {"cpu": "1"}}}
    spec = {
        "parallelism": 2,
        "completions": 2,
        "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
    }
    metadata = {"name": name, "namespace": "default", "annotations": {"phalanx.dev/gang": "true"}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def failing(read: Callable[..., Any]) -> Callable[..., Any]:
    """Return a reader that raises an error for the object `odd` only."""

    def reader(manifest: Any, *more: Any, **further: Any) -> Any:
        if ref_of(manifest).name == "odd":
            raise KeyError("an error of ours")
        return read(manifest, *more, **further)

    return reader


@pytest.mark.parametrize("where", ["read", "labelled"])
def test_one_object_that_cannot_be_read_is_told_and_the_others_are_planned(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, name = {"read": (makers, "pods_of"), "labelled": (annotated_workloads, "template_labels")}[where]
    monkeypatch.setattr(module, name, failing(getattr(module, name)))
    objects = [NODE, job("even"), job("odd")]
    documents, mistakes = parse("\n---\n".join(map(json.dumps, objects)), "test")
    assert not mistakes
    run = dry_run(documents)
    told = {each.key.name: each.outcome.name for each in run.decisions}
    assert told["even"] == "PLACED", told
    assert any("an error of Phalanx itself" in str(each) for each in run.mistakes)


def test_the_doctor_looks_at_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(makers, "pods_of", failing(makers.pods_of))
    admitted = [as_admitted(job(name), Sources()) for name in ("even", "odd")]
    findings = check_up(Snapshot(), Sources(objects={key_of(each): each for each in admitted}))
    assert any("an error of Phalanx itself" in each.text for each in findings)
