"""`phalanx solve` from the outside: exit statuses, both streams, every output."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from contract_report import Report, report_of

from cli.main import group, program_name

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
KOORDINATOR = EXAMPLES / "koordinator"
CLUSTER = [KOORDINATOR / "nodes.yaml", KOORDINATOR / "cluster-network-topology.yaml"]
EXAMPLE_1 = [*CLUSTER, KOORDINATOR / "topology-demo-job.yaml"]
EXAMPLE_2 = [
    *CLUSTER,
    *(KOORDINATOR / f"{name}.yaml" for name in ("priorityclasses", "low-priority-pods", "high-priority-training")),
]


def run(*arguments: str | Path, stdin: str | None = None) -> Result:
    """The command in this process."""
    return CliRunner().invoke(group, ["solve", *map(str, arguments)], input=stdin, catch_exceptions=False)


def files(*paths: Path) -> list[str | Path]:
    """`-f` for each."""
    return [part for path in paths for part in ("-f", path)]


def report(*arguments: str | Path, stdin: str | None = None) -> Report:
    """The JSON report of a run that must not fail."""
    result = run(*arguments, "-o", "json", stdin=stdin)
    assert result.exit_code in (0, 3), result.stderr
    return report_of(result.stdout)


def test_example_1_gathers_in_spine_1_in_the_order_of_the_index() -> None:
    (gang,) = report(*files(*EXAMPLE_1)).gangs
    assert (gang.namespace, gang.name, gang.dialect) == ("default", "topology-demo-job", "koordinator")
    assert (gang.outcome, gang.proof, gang.members, gang.placed) == ("Placed", "Optimal", 4, 4)
    assert [(each.pod, each.index, each.node) for each in gang.assignments] == [
        (f"training-pod-{i}", i, f"node-{5 + i}") for i in range(4)
    ]
    assert [level.level for level in gang.levels] == ["SpineLayer", "BlockLayer", "NodeTopologyLayer"]
    assert [domain.path for domain in gang.levels[0].domains] == [["spine-1"]]


def test_example_2_evicts_only_the_pod_on_node_5() -> None:
    (gang,) = report(*files(*EXAMPLE_2)).gangs
    assert [(each.pod, each.node) for each in gang.assignments] == [
        (f"hp-training-pod-{i}", f"node-{5 + i}") for i in range(4)
    ]
    assert [(each.pod, each.node, each.priority) for each in gang.victims] == [("low-priority-pod-5", "node-5", 1000)]
    goals = {goal.goal: goal for goal in gang.objective}
    assert (goals["victims"].value, goals["victims"].bound) == (1, 1)
    assert gang.message.endswith("after evicting default/low-priority-pod-5, proven optimal")


def test_example_2_without_preemption_says_how_many_each_spine_holds() -> None:
    result = run(*files(*EXAMPLE_2), "--no-preemption", "-o", "json")
    assert result.exit_code == 3
    (gang,) = report_of(result.stdout).gangs
    assert (gang.outcome, gang.proof) == ("Unplaceable", "Infeasible")
    assert sorted((near.path, near.fits, near.needed) for near in gang.explanation.nearest) == [
        (["spine-0"], 3, 4),
        (["spine-1"], 3, 4),
        (["spine-2"], 3, 4),
    ]


def test_an_input_that_asks_for_no_gang_says_so() -> None:
    result = run("-f", KOORDINATOR / "nodes.yaml")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "nothing to plan: the input asks for no gang; -v: what was left out\n"


def test_goals_come_in_the_order_that_is_promised() -> None:
    """The test lists the names itself instead of reading `solver.objective`, because programs depend on these names."""
    (gang,) = report(*files(*EXAMPLE_2)).gangs
    names = [goal.goal for goal in gang.objective]
    levels = [f"compactness/{level.level}" for level in gang.levels]
    first, last = ["victims", "gangsBroken", "evicted", "extras"], ["terminating", "waste", "ranks", "ties"]
    order = [*first, *levels, "preferences", *last]
    assert names == [name for name in order if name in names]
    assert all(goal.value == goal.bound for goal in gang.objective)


def test_all_files_of_the_folder_together() -> None:
    high, demo = report("-f", KOORDINATOR).gangs
    assert (high.name, demo.name) == ("high-priority-training", "topology-demo-job")
    taken = {each.node for each in high.assignments}
    assert not taken & {each.node for each in demo.assignments}


def test_yaml_says_the_same_as_json() -> None:
    as_json = json.loads(run(*files(*EXAMPLE_1), "-o", "json").stdout)
    as_yaml = yaml.safe_load(run(*files(*EXAMPLE_1), "-o", "yaml").stdout)
    for each in (as_json, as_yaml):
        each["gangs"][0].pop("milliseconds")
    assert as_json == as_yaml


def test_the_table_has_a_line_for_each_pod_its_domains_the_victim_and_the_tree() -> None:
    result = run(*files(*EXAMPLE_2))
    assert result.exit_code == 0
    text = re.sub(r"\d+\.\d ms", "N ms", result.stdout)
    assert text == TABLE


def test_nothing_wraps_and_nothing_trails_where_nobody_looks_at_a_terminal() -> None:
    lines = run("-f", EXAMPLES / "lingjun").stdout.splitlines()
    assert all(line == line.rstrip() for line in lines)
    assert sum(line.strip().startswith("pretraining-") for line in lines) == 64


def test_a_no_shows_the_nearest_domains_and_what_would_help() -> None:
    lines = run(*files(*EXAMPLE_2), "--no-preemption").stdout.splitlines()
    assert "  NEAREST   FITS     NODES   EXCLUDED" in lines
    assert "  spine-0   3 of 4   5       2 Insufficient cpu" in lines
    assert any(line.startswith("  would fit if: ") for line in lines)


TABLE = """\
default/high-priority-training  Placed  optimal  (snapshot N ms, solve N ms)
  4 pods fit in spine-1: node-5..8, after evicting default/low-priority-pod-5, proven optimal

  POD                 NODE     SPINELAYER   BLOCKLAYER
  hp-training-pod-0   node-5   spine-1      block-2
  hp-training-pod-1   node-6   spine-1      block-2
  hp-training-pod-2   node-7   spine-1      block-3
  hp-training-pod-3   node-8   spine-1      block-3

  VICTIM                       NODE     PRIORITY
  default/low-priority-pod-5   node-5   1000

  SpineLayer > BlockLayer: 4 pods
  └── spine-1  4 pods
      ├── block-2  2 pods  node-5..6
      └── block-3  2 pods  node-7..8
"""


def test_standard_input_and_files_mix() -> None:
    job = (KOORDINATOR / "topology-demo-job.yaml").read_text(encoding="utf-8")
    (gang,) = report(*files(*CLUSTER), "-f", "-", stdin=job).gangs
    assert gang.outcome == "Placed"


def test_a_list_in_json_is_the_same_as_the_documents() -> None:
    items = [item for path in EXAMPLE_1 for item in yaml.safe_load_all(path.read_text(encoding="utf-8"))]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    one, other = report("-f", "-", stdin=text), report(*files(*EXAMPLE_1))
    assert one.gangs[0].assignments == other.gangs[0].assignments


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a: [", ["error: stdin:2: cannot be read as YAML: did not find expected node content"]),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {priority: high}",
            ["error: stdin: Pod default/p: spec.priority: expected int | null, got str; correct the value"],
        ),
        (
            "apiVersion: v1\nkind: Node\nmetadata: {name: n}\nstatus: {allocatable: {cpu: lots}}",
            ["error: stdin: Node n: status.allocatable.cpu: 'lots' is not a quantity"],
        ),
        (
            "- 1\n- 2",
            ["error: stdin: expected an object, got int '1'", "error: stdin: expected an object, got int '2'"],
        ),
    ],
)
def test_bad_input_is_status_2_with_one_line_for_each_mistake(text: str, lines: list[str]) -> None:
    result = run("-f", "-", stdin=text)
    assert result.exit_code == 2
    assert result.stderr.splitlines() == lines


def test_what_cannot_be_found_is_named(tmp_path: Path) -> None:
    result = run("-f", tmp_path / "none.yaml", "-f", tmp_path)
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        f"error: {tmp_path}/none.yaml: cannot be read: No such file or directory",
        f"error: {tmp_path}: holds no file that ends in .yaml, .yml, .json",
    ]


def test_an_invalid_request_is_status_2_and_the_rest_is_planned() -> None:
    text = "apiVersion: phalanx.dev/v1alpha1\nkind: Gang\nmetadata: {name: bad}\nspec: {minMember: 0}"
    result = run(*files(*EXAMPLE_1), "-f", "-", "-o", "json", stdin=text)
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: stdin: Gang default/bad: spec.minMember: ")
    assert [gang.outcome for gang in report_of(result.stdout).gangs] == ["Placed", "Invalid"]


def test_a_gang_that_waits_is_status_3() -> None:
    three = "---".join((KOORDINATOR / "topology-demo-job.yaml").read_text(encoding="utf-8").split("---")[:-1])
    result = run(*files(*CLUSTER), "-f", "-", "-o", "json", stdin=three)
    assert result.exit_code == 3
    (gang,) = report_of(result.stdout).gangs
    assert (gang.outcome, gang.message) == ("Waiting", "waits for 1 more pod: 3 of 4 exist")


def test_kinds_that_are_left_out_are_named_on_request() -> None:
    text = "apiVersion: v1\nkind: Service\nmetadata: {name: s}"
    assert run(*files(*EXAMPLE_1), "-f", "-", stdin=text).stderr == ""
    assert run(*files(*EXAMPLE_1), "-f", "-", "-v", stdin=text).stderr == "ignored: 1 Service\n"


def test_no_file_at_all_is_a_mistake_of_usage() -> None:
    assert run().exit_code == 2


def process(*arguments: str, name: str = "phalanx", seed: str = "0") -> subprocess.CompletedProcess[str]:
    """The command as its own process, called `name`."""
    code = f"import sys; sys.argv[0] = '/bin/{name}'; from cli.main import main; main()"
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=environment, check=False
    )


@pytest.mark.long
def test_the_same_input_gives_the_same_plan_in_any_process() -> None:
    arguments = ["solve", "-f", str(KOORDINATOR), "-o", "json"]
    reports = [report_of(process(*arguments, seed=seed).stdout) for seed in ("0", "1", "77")]
    plans = [[(gang.assignments, gang.victims, gang.objective) for gang in each.gangs] for each in reports]
    assert plans[0] == plans[1] == plans[2]


@pytest.mark.parametrize(("name", "usage"), [("phalanx", "phalanx"), ("kubectl-phalanx", "kubectl phalanx")])
def test_usage_calls_the_program_as_the_user_does(name: str, usage: str) -> None:
    assert process("--help", name=name).stdout.startswith(f"Usage: {usage} [OPTIONS] COMMAND")
    assert program_name(f"/usr/local/bin/{name}") == usage


def test_the_overview_lists_every_command_and_imports_none() -> None:
    code = "import sys; from cli.main import main, COMMANDS\ntry: main()\nexcept SystemExit: pass\n"
    code += "print([m for m in sys.modules if m in {e.module for e in COMMANDS.values()} or m == 'ortools'])"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, "-c", code, "--help"], capture_output=True, text=True, env=environment, check=True
    )
    for name in ("solve", "why", "demo", "webhook", "controller"):
        assert re.search(rf"^  {name} ", result.stdout, re.MULTILINE)
    assert result.stdout.splitlines()[-1] == "[]"
