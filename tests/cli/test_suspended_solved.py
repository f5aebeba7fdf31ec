"""`phalanx solve -f` of workloads written suspended for their queue: planned, as the webhook lets them start."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from contract_report import report_of

from cli.main import group
from gangs.kueue.keys import QUEUE_NAME
from gangs.workloads.kind_table import WORKLOADS
from kube.keys import CREATED_SUSPENDED

FOLDER = Path(__file__).parents[2] / "examples" / "workloads"
FIELDS = {kind.lower(): row.suspended_at for (group, kind), row in WORKLOADS.items() if group != "batch.volcano.sh"}
KINDS = sorted(path.stem for path in FOLDER.glob("*.yaml") if FIELDS.get(path.stem) and path.stem != "trainjob")
NOTHING_MADE = ("appwrapper", "rayjob")
"""Kinds whose child workload, the gang, is created only when they are resumed."""
every_kind = pytest.mark.parametrize("kind", KINDS)
every_other_kind = pytest.mark.parametrize("kind", [each for each in KINDS if each not in NOTHING_MADE])


def suspended(kind: str, **metadata: Any) -> dict[str, Any]:
    """Return the example of the kind, suspended and in a queue."""
    found: dict[str, Any] = yaml.safe_load((FOLDER / f"{kind}.yaml").read_text())
    found["metadata"] = {"name": found["metadata"]["name"], "labels": {QUEUE_NAME: "q"}, **metadata}
    *way, last = FIELDS[kind].split(".")
    part = found
    for step in way:
        part = part.setdefault(step, {})
    part[last] = True
    return found


def solved(folder: Path, manifest: dict[str, Any]) -> Any:
    """The only gang of the answer, planned on the examples' cluster."""
    file = folder / "workload.yaml"
    file.write_text(yaml.safe_dump(manifest))
    arguments = ["solve", "-f", str(FOLDER / "cluster.yaml"), "-f", str(file), "-o", "json"]
    (gang,) = report_of(CliRunner().invoke(group, arguments, catch_exceptions=False).stdout).gangs
    return gang


def test_every_kind_with_such_a_field_is_tried() -> None:
    assert {"job", "jobset", "pytorchjob", "mpijob", "raycluster", "rayjob"} <= set(KINDS)


@every_kind
def test_it_is_planned(tmp_path: Path, kind: str) -> None:
    gang = solved(tmp_path, suspended(kind))
    assert (gang.dialect, gang.outcome, gang.placed) == ("kueue", "Placed", 4)


@every_other_kind
def test_one_of_no_queue_waits(tmp_path: Path, kind: str) -> None:
    gang = solved(tmp_path, suspended(kind, labels={}, annotations={"phalanx.dev/gang": "true"}))
    assert (gang.outcome, gang.placed) == ("Waiting", 0)
    assert f"to be resumed (it is suspended by {FIELDS[kind]})" in gang.message


@every_other_kind
def test_one_that_its_user_has_suspended_waits(tmp_path: Path, kind: str) -> None:
    gang = solved(tmp_path, suspended(kind, uid="u", annotations={CREATED_SUSPENDED: "true"}))
    assert (gang.outcome, gang.placed) == ("Waiting", 0)
    assert f"to be resumed (it is suspended by {FIELDS[kind]})" in gang.message


@pytest.mark.parametrize("kind", NOTHING_MADE)
def test_of_one_of_no_queue_of_which_nothing_is_made_nothing_is_planned(tmp_path: Path, kind: str) -> None:
    """Such a workload has no pods while it is suspended, so `solve` must not report it as Placed."""
    file = tmp_path / "workload.yaml"
    file.write_text(yaml.safe_dump(suspended(kind, labels={}, annotations={"phalanx.dev/gang": "true"})))
    arguments = ["solve", "-f", str(FOLDER / "cluster.yaml"), "-f", str(file), "-o", "json"]
    answer = CliRunner().invoke(group, arguments, catch_exceptions=False)
    assert report_of(answer.stdout).gangs == []
    assert "spec.suspend: suspends the " in answer.stderr
    assert ": nothing is made of it before that is lifted, and nothing of it is planned\n" in answer.stderr
