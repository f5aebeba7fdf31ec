"""The benchmark runs and prints the promised report. The tests do not judge the measured values."""

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner
from thorough import mostly

from benchmarks import network
from benchmarks.__main__ import main
from benchmarks.arrivals import Ask
from benchmarks.drawn_scenarios import SCENARIOS, SIZES, Scenario
from benchmarks.filling import Load, filled
from benchmarks.network import GPUS_PER_HOST, HOSTS
from benchmarks.room import Room, Slices
from benchmarks.rows import Reference, Row, checks, compared, exponent, percentile
from benchmarks.running import room_of
from cluster.capturing import snapshot_of

KEYS = ("scenario", "nodes", "instances", "p50_ms", "p95_ms", "p99_ms", "max_ms", "stages_ms", "proven_share")


@pytest.mark.parametrize(
    "scenario",
    [
        *mostly(["small-required"], ["preempt-8-required", "hopeless-required"]),
        pytest.param("joint-20-preferred", marks=[pytest.mark.thorough, pytest.mark.long]),
    ],
)
def test_a_run_prints_rows_and_writes_them(scenario: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    options = ["--only", scenario, "--nodes", str(HOSTS), "--instances", "1", "--write", str(file)]
    result = CliRunner().invoke(main, options, catch_exceptions=False)
    assert result.exit_code == 0
    assert scenario in result.output
    written = json.loads(file.read_bytes())
    assert written["machine"]
    (row,) = written["rows"]
    assert [row["scenario"], row["nodes"], row["instances"]] == [scenario, HOSTS, 1]
    assert {*KEYS, "proven_all_share", "peak_mb"} <= row.keys()
    assert row["stages_ms"].keys() == {"snapshot", "model", "solve", "verify"}
    assert 0 < row["p50_ms"] <= row["p95_ms"] <= row["p99_ms"] <= row["max_ms"]
    assert row["peak_mb"] > 0
    assert f"| {scenario} | {HOSTS} | 1 |" in file.with_suffix(".md").read_text()


def test_every_kind_of_gang_has_its_scenarios() -> None:
    kinds = ("small-", "gang-64-", "gang-512-", "gang-2048-", "sets-", "slices-", "preempt-", "joint-", "hopeless-")
    for kind in kinds:
        modes = [each.name.removeprefix(kind) for each in SCENARIOS if each.name.startswith(kind)]
        assert any("required" in mode for mode in modes), kind
        assert any("preferred" in mode for mode in modes), kind
    assert len({each.name for each in SCENARIOS}) == len(SCENARIOS)
    assert SIZES == (847, 5_082, 15_246)


@pytest.mark.parametrize("fill", [0.7, 0.95])
def test_a_load_fills_the_cluster_that_far_and_the_same_way_each_time(fill: float) -> None:
    cluster = filled(Load(1, fill, 1))
    assert cluster == filled(Load(1, fill, 1))
    used = sum(tenant.requests.get("nvidia.com/gpu", 0) for state in cluster.snapshot.nodes for tenant in state.tenants)
    assert used / (HOSTS * GPUS_PER_HOST) == pytest.approx(fill, abs=0.03)
    assert cluster.running, "jobs of several pods are gangs"


def test_pods_without_gpus_top_a_cluster_up() -> None:
    assert filled(Load(1, 0.7, 1, pods=6_000)).pods == pytest.approx(6_000, abs=10)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_the_same_seed_draws_the_same_gangs(scenario: Scenario) -> None:
    room = room_of(Load(1, 0.8, 4), scenario.evicting_below)
    first, second = (scenario.draw(Random(1), room) for _ in range(2))  # noqa: S311 -- draws gangs, keeps no secrets
    assert first == second


@pytest.mark.parametrize(
    ("times", "share", "expected"),
    [([1.0], 99, 1.0), ([3.0, 1.0, 2.0, 4.0], 50, 2.0), ([float(each) for each in range(1, 101)], 99, 99.0)],
)
def test_a_percentile_is_a_value_that_was_seen(times: list[float], share: float, expected: float) -> None:
    assert percentile(times, share) == expected


@pytest.mark.parametrize(("power", "expected"), [(1.0, 1.0), (2.0, 2.0), (0.0, 0.0)])
def test_the_growth_exponent_is_the_power_of_the_nodes(power: float, expected: float) -> None:
    rows = [_row(nodes=nodes, p50_ms=nodes**power) for nodes in SIZES]
    assert exponent(rows) == pytest.approx(expected)
    assert exponent(rows[:1]) is None


@pytest.mark.parametrize(
    ("changed", "missed"),
    [
        ({}, []),
        ({"nodes": 847, "p99_ms": 9_000.0, "proven_share": 0.0}, []),
        ({"p99_ms": 25.1}, ["p99"]),
        ({"stages_ms": {"snapshot": 30.1}}, ["stating"]),
        ({"scenario": "joint-20-required", "stages_ms": {"snapshot": 300.0}}, []),
        ({"proven_share": 0.98}, ["goals 1-3"]),
        ({"proven_all_share": 0.89}, ["all goals"]),
        ({"peak_mb": 900.0}, []),
        ({"nodes": 15_246, "proven_share": 0.94, "peak_mb": 601.0, "p99_ms": 99.0}, ["goals 1-3", "memory"]),
        ({"reference": Reference(1, 1, 0.4, 19.9, equal=True)}, ["naive model"]),
        ({"reference": Reference(1, 1, 0.4, 20.0, equal=True)}, []),
        ({"reference": Reference(1, 0, 1.0, 3.0, equal=True)}, []),
        ({"reference": Reference(1, 1, 9.0, 99.0, equal=False)}, ["naive model"]),
    ],
)
def test_a_row_is_held_against_what_is_wanted_of_its_size(changed: dict[str, Any], missed: list[str]) -> None:
    assert [check.what for check in checks(_row(**changed), 25.0) if not check.met] == missed


def test_a_row_is_compared_with_the_committed_one_of_its_scenario_and_size() -> None:
    before = {("small-required", 5_082): _row(p50_ms=4.0, p99_ms=40.0)}
    assert compared(_row(p50_ms=6.0, p99_ms=20.0), before) == (1.5, 0.5)
    assert compared(_row(nodes=847), before) is None


def _row(**changed: Any) -> Row:
    return replace(
        Row(
            scenario="small-required",
            nodes=5_082,
            instances=10,
            placed=10,
            p50_ms=5.0,
            p95_ms=9.0,
            p99_ms=10.0,
            max_ms=10.0,
            stages_ms={"snapshot": 12.0},
            proven_share=1.0,
            proven_all_share=1.0,
            peak_mb=100.0,
        ),
        **changed,
    )


@pytest.mark.parametrize(
    ("gpus", "level", "slices", "held"),
    [
        (8, None, (), HOSTS),
        (1, "asw", (), 8 * GPUS_PER_HOST),
        (8, "psw", (), 362),
        (8, None, (("asw", 8),), 68 * 8),
        (8, "psw", (("asw", 8),), 35 * 8),
        (8, None, (("asw", 8), ("psw", 16)), (17 + 14 + 2) * 16),
    ],
)
def test_room_is_counted_by_domains_and_whole_slices(gpus: int, level: str | None, slices: Slices, held: int) -> None:
    empty = Room(snapshot_of(network.nodes(1), ()))
    assert empty.slots(Ask(gpus, 1_000, 1_000), level, slices) == held
