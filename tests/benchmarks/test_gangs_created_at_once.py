"""Many gangs at once: the figures that follow from bindings, the API server's counts, the rows and their page."""

import json
import socket
from collections.abc import Sequence
from dataclasses import replace
from http.client import HTTPSConnection
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.live import load
from benchmarks.live.api_server_load import counted, requests_in
from benchmarks.live.gang_page import page
from benchmarks.live.gang_rows import (
    API_CPU,
    API_SERVER,
    KUEUE,
    NOTHING,
    OURS,
    OWN_CPU,
    SCHEDULER,
    THEIRS,
    TIME,
    GangRow,
    Lot,
    Setup,
    as_json,
    changes,
    rows,
)
from benchmarks.live.gang_starts import Binding, BindingWatch, Starts, binding_of, starts
from benchmarks.live.machine_usage import Loop, timed_loop
from benchmarks.live.many_gangs import main, modes_beside
from benchmarks.live.modes import NATIVE, PHALANX, STOCK
from controlplane.control_plane import ControlPlane

SECONDS = 300.0
SETUP = Setup(nodes=10, jobs=2, size=4, gpus=4, scheduler_qps=2000)


def test_a_binding_names_the_job_and_a_deletion_has_no_node() -> None:
    pod = {"metadata": {"name": "a-0", "labels": {"batch.kubernetes.io/job-name": "a"}}, "spec": {"nodeName": "n1"}}
    assert binding_of("ADDED", pod, 1.0) == Binding(1.0, "a", "a-0", "n1")
    assert binding_of("DELETED", pod, 2.0) == Binding(2.0, "a", "a-0", "")


def bound(gang: str, *times: float, first_node: int = 0) -> list[Binding]:
    """Bindings of a gang's pods at these times, on consecutive nodes."""
    names = [load.node(first_node + number)["metadata"]["name"] for number in range(len(times))]
    return [Binding(at, gang, f"{gang}-{number}", names[number]) for number, at in enumerate(times)]


def in_order(*gangs: Sequence[Binding]) -> list[Binding]:
    """All bindings in the order of their times."""
    return sorted((binding for gang in gangs for binding in gang), key=lambda binding: binding.at)


def test_gangs_are_in_part_from_their_first_binding_to_their_last() -> None:
    found = starts(in_order(bound("a", 11, 11.5, 12), bound("b", 13, 14, 19, first_node=19)), 2, 3, began=10)
    assert (found.bound, found.seconds, found.half, found.racks) == (6, 9, 2, 1.5)
    assert found.in_part == {"a": 1, "b": 6}
    assert found.long_in_part == 1


def test_a_gang_that_is_withdrawn_was_in_part_until_then_and_half_is_reached_once() -> None:
    gone = [Binding(14, "a", "a-0", "")]
    found = starts(in_order(bound("a", 11), gone, bound("b", 15, 16), bound("a", 17, 18)), 2, 2, began=10)
    assert (found.bound, found.seconds, found.half) == (4, 8, 6)
    assert found.in_part == {"a": 3, "b": 1}


def test_a_gang_that_stays_in_part_counts_until_the_last_change() -> None:
    found = starts(in_order(bound("a", 11), bound("b", 12, 20)), 2, 2, began=10)
    assert (found.bound, found.in_part) == (3, {"a": 9, "b": 8})
    with pytest.raises(ValueError, match="no pod was bound"):
        starts([], 2, 2, began=10)


METRICS = """
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="status",verb="PATCH",version="v1"} 40
apiserver_request_total{code="409",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="status",verb="PATCH",version="v1"} 2
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="events",scope="resource",subresource="",verb="POST",version="v1"} 1.5e+03
apiserver_request_total{code="200",component="",dry_run="",group="",resource="",scope="",subresource="/healthz",verb="GET",version=""} 3
apiserver_request_terminations_total{code="504",resource="pods",subresource="",verb="LIST"} 7
"""  # noqa: E501 - lines of the API server


def test_requests_are_counted_by_verb_and_resource_whatever_their_status() -> None:
    assert requests_in(METRICS) == {"PATCH pods/status": 42, "POST events": 1500, "GET /healthz": 3}


def test_events_of_other_lots_are_not_counted() -> None:
    about = [
        ("Pod", "lot-0-0001-x", "Scheduled"),
        ("Pod", "lot-0-0002-y", "Scheduled"),
        ("Gang", "lot-1", "GangPlaced"),
    ]
    events = [{"involvedObject": {"kind": kind, "name": name}, "reason": reason} for kind, name, reason in about]
    assert counted(events, "lot-0-") == {"Pod Scheduled": 2}


def lot(beside: str, mode: str, seconds: float, *, api: float = 2.0, own: float = 0.0) -> Lot:
    """A lot whose gangs were in part for a tenth of its time."""
    cpu = {API_SERVER: api, SCHEDULER: 0.5, **({"webhook": own / 2, "controller": own / 2} if own else {})}
    gangs = Starts(8, seconds, seconds / 2, 1.0, {"a": seconds / 10})
    requests, events = {"POST pods": 8, "PATCH pods": 4, "GET pods": 0}, {"Pod Scheduled": 8}
    return Lot(beside, mode, gangs, 0.5, cpu, requests, events, Loop(0.5, 0.25))


def run(seconds: float = 20.0, api: float = 3.0, own: float = 1.0) -> list[GangRow]:
    """Rows of a run in which stock alone takes 10 s, and the API server 2 s of CPU for it."""
    ours = lot(OURS, PHALANX, seconds, api=api, own=own)
    return rows([lot(NOTHING, STOCK, 10.0), lot(OURS, STOCK, 11.0, own=0.5), ours], SETUP)


def test_every_row_is_compared_with_stock_alone() -> None:
    alone, beside, ours = run()
    assert [row.title for row in (alone, beside, ours)] == [
        "stock, nothing installed",
        "stock, Phalanx installed",
        "phalanx, Phalanx installed",
    ]
    assert {name: ratio.middle for name, ratio in ours.x_stock.items()} == {
        TIME: 2.0,
        "creation": 1.0,
        API_CPU: 1.5,
        OWN_CPU: 0.5,
    }
    assert (beside.x_stock[TIME].middle, alone.x_stock[OWN_CPU].middle) == (1.1, 0.0)
    (row,) = rows([lot(OURS, PHALANX, 10.0), lot(OURS, PHALANX, 60.0)], SETUP)
    assert (row.x_stock, row.rounds, row.long_in_part, row.longest_in_part) == ({}, 2, 1, 6.0)
    assert row.requests == {"POST pods": 1.0, "PATCH pods": 0.5, "GET pods": 0.0}
    assert row.events == {"Pod Scheduled": 4.0}


@pytest.mark.parametrize(
    ("now", "told", "much"),
    [
        ({}, "", False),
        ({"seconds": 15.0, "api": 2.0, "own": 0.5}, "", False),
        ({"seconds": 22.0}, "seconds 2.20 times stock, before 2.00: worse, by more than the rounds were apart", False),
        ({"seconds": 26.0}, "seconds 2.60 times stock, before 2.00: worse, more than the allowed 1.25 times", True),
        ({"api": 4.0}, "API server CPU 2.00 times stock, before 1.50: worse, more than the allowed 1.25 times", True),
        ({"own": 1.4}, "own CPU 0.70 times stock, before 0.50: worse, more than the allowed 1.25 times", True),
    ],
)
def test_a_ratio_to_stock_that_is_worse_is_reported(*, now: dict[str, float], told: str, much: bool) -> None:
    written = json.loads(as_json(run(), SETUP, ""))
    worse = changes(run(**now), written, SETUP)
    assert [change.text for change in worse] == ([f"phalanx, Phalanx installed: {told}"] if told else [])
    assert any(change.much for change in worse) is much


def test_other_setups_and_other_systems_are_not_compared() -> None:
    written = json.loads(as_json([*run(), *rows([lot(THEIRS, KUEUE, 10.0)], SETUP)], SETUP, ""))
    assert changes(run(90.0), written, replace(SETUP, nodes=20)) == []
    assert changes(run(90.0), {}, SETUP) == []
    kueue = rows([lot(NOTHING, STOCK, 10.0), lot(THEIRS, KUEUE, 90.0)], SETUP)
    assert changes(kueue, written, SETUP) == []


def test_the_page_has_a_row_for_each_system_and_tables_of_requests_and_events() -> None:
    text = page(run(), SETUP, "2 processors.", 3.0)
    assert text.startswith("# 2 gangs at once: stock, Phalanx, Kueue, native\n")
    assert "until 3 s after the last binding" in text
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines[:5]}) == 1
    assert lines[4] == (
        "| Phalanx | phalanx | 1 | 20.0 | 2.00 | 0.5 | 10.0 | 0 | 1.0 | 3.0 | 1.50 | 0.5 | 1.0 | 0 | 2.0 | 0.50 |"
    )
    assert "| POST pods | 1.00 | 1.00 | 1.00 |" in lines
    assert "| Pod Scheduled | 4.00 | 4.00 | 4.00 |" in lines
    assert "GET pods" not in text, "a request that was never sent"


@pytest.mark.parametrize(
    ("modes", "wanted"),
    [
        ((STOCK,), {NOTHING: [STOCK]}),
        ((NATIVE, STOCK), {NOTHING: [STOCK, NATIVE]}),
        ((STOCK, PHALANX), {NOTHING: [STOCK], OURS: [STOCK, PHALANX]}),
        ((KUEUE,), {THEIRS: [KUEUE]}),
    ],
)
def test_a_system_is_installed_only_for_a_mode_of_its_own(modes: Sequence[str], wanted: dict[str, list[str]]) -> None:
    assert modes_beside(modes) == wanted


def test_jobs_of_the_schedulers_own_gangs_name_their_group() -> None:
    pod = load.job("j", 8, grouped=True, gpus=4)["spec"]["template"]["spec"]
    assert pod["schedulingGroup"] == {"podGroupName": load.pod_group("j", 8)["metadata"]["name"]}
    assert pod["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "4"}
    assert "schedulingGroup" not in load.job("j", 8)["spec"]["template"]["spec"]


def test_the_loop_uses_cpu_and_never_more_than_elapses() -> None:
    loop = timed_loop()
    assert loop.elapsed >= loop.cpu > 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--modes", "stock,kai"], "kai: there are stock, phalanx, kueue, native"),
        (["--nodes", "10", "--jobs", "3", "--size", "8"], "24 pods do not fit: 10 nodes hold 20 pods of this size"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_starts(arguments: list[str], told: str) -> None:
    answer = CliRunner().invoke(main, arguments)
    assert (answer.exit_code, told in answer.output) == (2, True)


@pytest.mark.controlplane
def test_a_watch_of_bindings_that_breaks_is_continued(cluster: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the API server ends a watch whose client is too slow. A run failed because of that."""
    sockets, watch = list[socket.socket](), cluster.watch

    def recorded(path: str, since: str, fields: str = "") -> HTTPSConnection:
        connection = watch(path, since, fields)
        sockets.append(connection.sock)
        return connection

    monkeypatch.setattr(cluster, "watch", recorded)
    cluster.add_nodes(map(load.node, range(2)))
    with BindingWatch(cluster) as bindings:
        cluster.create(load.PODS, load.pods("before", 1))
        bindings.await_bound(1, SECONDS)
        socket.socket.shutdown(sockets[-1], socket.SHUT_RDWR)
        cluster.create(load.PODS, load.pods("after", 1))
        changes = bindings.await_bound(2, SECONDS)
        with pytest.raises(TimeoutError, match="2 of 3 pods are bound: waited 0 s"):
            bindings.await_bound(3, 0.0)
    assert [change.pod for change in changes] == ["before-0", "after-0"]
    assert {change.node for change in changes} == {"n00000", "n00001"}
    assert len(sockets) > 1


@pytest.mark.controlplane
@pytest.mark.long
def test_a_few_gangs_are_measured_on_a_control_plane(tmp_path: Path) -> None:
    """Stock, Phalanx and the scheduler's own gangs: two Jobs of two pods, with profiles of the API server."""
    file, profiles = tmp_path / "many_gangs.md", tmp_path / "profiles"
    size = ["--nodes", "2", "--jobs", "2", "--size", "2", "--rounds", "1"]
    names = ["--modes", f"{STOCK},{PHALANX},{NATIVE}", "--write", str(file), "--profile", str(profiles)]
    answer = CliRunner().invoke(main, [*size, *names], catch_exceptions=False)
    assert answer.exit_code == 0
    assert file.read_text() in answer.output
    table = {(row["beside"], row["mode"]): row for row in json.loads(file.with_suffix(".json").read_text())["rows"]}
    assert set(table) == {(NOTHING, STOCK), (NOTHING, NATIVE), (OURS, STOCK), (OURS, PHALANX)}
    for row in table.values():
        assert row["seconds"]["middle"] >= row["half"]["middle"] > 0
        assert row["requests"]["POST pods/binding"] == 1
        assert row["events"]["Pod Scheduled"] == 2
        assert row["cpu"][API_SERVER]["middle"] > 0
        assert list(profiles.glob(f"{row['mode']}-{row['beside'].lower()}-0-*.pb.gz"))
    ours = table[OURS, PHALANX]
    assert (ours["events"]["Gang GangReleased"], ours["requests"]["POST gangs"], ours["racks"]["middle"]) == (1, 0.5, 1)
    assert table[NOTHING, NATIVE]["requests"]["POST podgroups"] == 0.5
    for profile in profiles.iterdir():
        assert profile.read_bytes().startswith(b"\x1f\x8b"), "gzip, as `go tool pprof` reads it"
