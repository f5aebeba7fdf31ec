"""Every file of `examples/workloads`, planned beside its cluster."""

from collections import Counter
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from contract_report import report_of

from cli.main import group
from controlplane.scenarios import files_of, read, scenarios
from gangs.manifests import group_of
from gangs.workloads.kind_table import WORKLOADS

FOLDER = Path(__file__).parents[2] / "examples" / "workloads"
CLUSTER = FOLDER / "cluster.yaml"
FILES = {path.stem: path for path in sorted(FOLDER.glob("*.yaml")) if path != CLUSTER}
NOT_PLAYED = {"sparkapplication", "appwrapper", "volcanojob"}
LATER = "trainjob"
"""The example whose child workload is described in another object, its runtime."""


def test_every_kind_that_takes_the_annotations_has_an_example() -> None:
    objects = [yaml.safe_load(path.read_text()) for path in FILES.values()]
    shown = {(group_of(each["apiVersion"]), each["kind"]) for each in objects}
    assert shown == {at for at, row in WORKLOADS.items() if row.by_annotation or row.child}


def test_every_example_is_played_once_but_those_whose_operator_cannot_be_had() -> None:
    """The operators of Spark, AppWrapper and Volcano have no Go module that could be pinned (docs/decisions/0033)."""
    of_these = [found for path in scenarios() if files_of(path, found := read(path)) == FOLDER]
    applied = [name for each in of_these for act in each.acts for name in act.apply]
    played = Counter(name.removesuffix(".yaml") for name in applied if name.removesuffix(".yaml") in FILES)
    assert played == Counter(FILES.keys() - NOT_PLAYED)


@pytest.mark.parametrize("name", sorted(FILES.keys() - {LATER}))
def test_its_pods_fill_a_rack_in_the_order_of_their_ranks(name: str) -> None:
    arguments = ["solve", "-f", str(CLUSTER), "-f", str(FILES[name]), "-o", "json"]
    answer = CliRunner().invoke(group, arguments, catch_exceptions=False)
    assert (answer.exit_code, answer.stderr) == (0, "")
    gangs = report_of(answer.stdout).gangs
    assert {(each.outcome, each.proof) for each in gangs} == {("Placed", "Optimal")}
    nodes = [each.node for gang in gangs for each in gang.assignments]
    assert sorted(nodes) == [f"r1-{number}" for number in range(1, 5)]
    assert nodes == sorted(nodes)


RUNTIME = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: torch-distributed}
spec:
  mlPolicy: {numNodes: 1, torch: {numProcPerNode: auto}}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: node, image: b}]}}}
"""
"""A runtime like the Trainer's own runtime of this name."""


def test_what_is_described_elsewhere_is_planned_beside_it(tmp_path: Path) -> None:
    runtime = tmp_path / "runtime.yaml"
    runtime.write_text(RUNTIME)
    arguments = ["solve", "-f", str(CLUSTER), "-f", str(FILES[LATER]), "-f", str(runtime), "-o", "json"]
    answer = CliRunner().invoke(group, arguments, catch_exceptions=False)
    assert (answer.exit_code, answer.stderr) == (0, "")
    (gang,) = report_of(answer.stdout).gangs
    assert (gang.outcome, gang.proof) == ("Placed", "Optimal")
    assert [each.node for each in gang.assignments] == [f"r1-{number}" for number in range(1, 5)]


def test_what_is_planned_later_is_told() -> None:
    arguments = ["solve", "-f", str(CLUSTER), "-f", str(FILES[LATER])]
    answer = CliRunner().invoke(group, arguments, catch_exceptions=False)
    assert answer.exit_code == 0
    assert "TrainJob default/trainjob: kind: its pods are not planned before they exist" in answer.stderr
