"""The examples give the results that they describe."""

import itertools
import subprocess
import sys
from functools import cache
from pathlib import Path

from click.testing import CliRunner
from contract_report import Report, report_of

from cli.main import group

EXAMPLES = Path(__file__).parents[2] / "examples"
LINGJUN = EXAMPLES / "lingjun"


@cache
def solve(*paths: Path) -> Report:
    """The report on these files."""
    arguments = [part for path in paths for part in ("-f", str(path))]
    result = CliRunner().invoke(group, ["solve", *arguments, "-o", "json"], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return report_of(result.stdout)


def test_groups_of_kubernetes_are_planned_in_the_rack_that_they_require() -> None:
    native = EXAMPLES / "native"
    (train,) = solve(native / "nodes.yaml", native / "train.yaml").gangs
    assert (train.name, train.dialect, train.outcome, train.proof, train.placed) == (
        "train",
        "native",
        "Placed",
        "Optimal",
        3,
    )
    rack = next(level for level in train.levels if level.level == "rack")
    assert (rack.mode, [domain.pods for domain in rack.domains]) == ("required", [3])
    (serve,) = solve(native / "nodes.yaml", native / "composite.yaml").gangs
    assert {each.pod_set for each in serve.assignments} == {"decode", "router"}
    assert (serve.outcome, serve.placed) == ("Placed", 3)


def test_the_nodes_of_lingjun_are_what_its_script_makes_of_the_data_set() -> None:
    command = [sys.executable, str(LINGJUN / "make_nodes.py")]
    made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert made == (LINGJUN / "nodes.json").read_text(encoding="utf-8")


def test_64_pods_fill_8_access_switches_of_lingjun_proven_optimal() -> None:
    (gang,) = solve(LINGJUN).gangs
    assert (gang.outcome, gang.proof, gang.placed) == ("Placed", "Optimal", 64)
    dsw, psw, asw, node = gang.levels
    assert [len(level.domains) for level in (dsw, psw, asw, node)] == [1, 1, 8, 64]
    assert asw.mode == "preferred"
    assert all(domain.pods == 8 for domain in asw.domains)
    # ranks fill one switch after the other
    switches = [each.node.rsplit("-", 1)[0] for each in gang.assignments]
    assert sum(a != b for a, b in itertools.pairwise(switches)) == 7


def test_the_kai_guide_waits_for_the_pods_that_it_leaves_out_and_is_placed_with_them() -> None:
    kai = EXAMPLES / "kai"
    steps = ("topology-aware-training", "multi-node-tas", "disaggregated-serving", "benchmark-topology")
    files = [kai / f"{name}.yaml" for name in ("nodes", "tas-config", *steps)]
    arguments = [part for file in files for part in ("-f", str(file))]
    waiting = CliRunner().invoke(group, ["solve", *arguments, "-o", "json"], catch_exceptions=False)
    assert waiting.exit_code == 3, waiting.stderr
    messages = {each.name: each.message for each in report_of(waiting.stdout).gangs}
    assert messages["multi-node-training"] == "waits for 1 more pod: 1 of 2 exist"
    assert messages["llm-serving-pipeline"] == "waits for 1 more pod: 2 of 3 exist"
    gangs = {each.name: {pod.node for pod in each.assignments} for each in solve(*files, kai / "complete").gangs}
    nodes = {name: len(found) for name, found in gangs.items()}
    assert nodes == {"ddp-training-tas": 1, "multi-node-training": 2, "llm-serving-pipeline": 1, "nccl-benchmark": 1}
    assert gangs["nccl-benchmark"] == {"hgx-a100-01"}


def test_our_own_gang_has_its_workers_two_to_a_rack() -> None:
    own = EXAMPLES / "own"
    (gang,) = solve(own / "cluster.yaml", own / "gang.yaml").gangs
    workers = [each.node.split("-")[0] for each in gang.assignments if each.pod_set == "worker"]
    assert workers[0] == workers[1]
    assert workers[2] == workers[3]
    assert [len(level.domains) for level in gang.levels[:1]] == [1]


def test_a_job_that_is_a_gang_by_its_annotations_fills_one_rack() -> None:
    own = EXAMPLES / "own"
    (gang,) = solve(own / "cluster.yaml", own / "job.yaml").gangs
    assert (gang.dialect, gang.name, gang.placed) == ("phalanx", "training", 3)
    assert len({each.node.split("-")[0] for each in gang.assignments}) == 1


RUNAI = EXAMPLES / "runai"


def test_workload_3_of_runais_figure_lies_wholly_in_rack_a() -> None:
    (gang,) = solve(RUNAI).gangs
    assert (gang.dialect, gang.outcome, gang.proof) == ("runai", "Placed", "Optimal")
    assert [each.node for each in gang.assignments] == [f"gb200-a-{index}" for index in range(12, 18)]
    assert {each.level: each.mode for each in gang.levels} == {
        "zone": "required",
        "block": "none",
        "rack": "preferred",
        "node": "none",
    }


def test_the_same_workload_prefers_the_node_in_an_automatic_namespace() -> None:
    cluster = [RUNAI / name for name in ("nodes.yaml", "running-workloads.yaml", "topology.yaml")]
    (gang,) = solve(*cluster, RUNAI / "automatic" / "job.yaml").gangs
    assert (gang.dialect, gang.outcome, gang.proof) == ("phalanx", "Placed", "Optimal")
    assert {each.node for each in gang.assignments} == {f"gb200-a-{index}" for index in range(12, 18)}
    assert gang.levels[-1].mode == "preferred"


def test_runais_nodes_and_workloads_are_what_its_script_makes(tmp_path: Path) -> None:
    (tmp_path / "make_cluster.py").write_text((RUNAI / "make_cluster.py").read_text())
    subprocess.run([sys.executable, str(tmp_path / "make_cluster.py")], check=True)
    for name in ("nodes.yaml", "running-workloads.yaml"):
        assert (tmp_path / name).read_text() == (RUNAI / name).read_text()
