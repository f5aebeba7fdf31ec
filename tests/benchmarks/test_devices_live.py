"""The benchmark with devices: what it counts, its rows and limit, and a run on a real control plane."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks.live.device_rows import (
    LIMIT,
    NAMED,
    TEMPLATE,
    DeviceRow,
    Lot,
    Setup,
    as_json,
    changes,
    doubled,
    page,
    rows,
    writes_in,
)
from benchmarks.live.devices import main
from benchmarks.live.machine_usage import Loop
from benchmarks.live.modes import PHALANX, STOCK

SETUP = Setup(nodes=20, size=8, scheduler_qps=None)


def lot(mode: str, seconds: float, claims: str = NAMED, **more: Any) -> Lot:
    """A lot that took so long."""
    return replace(
        Lot(mode, claims, seconds, seconds - 0.1, seconds / 2, {}, 0, {"Phalanx": 0.5}, Loop(0.3, 0.3)), **more
    )


def write(agent: str, verb: str, resource: str, *, user: str = "system:admin", sub: str = "", code: int = 200) -> Any:
    """An event of the audit log."""
    about = {"resource": resource, **({"subresource": sub} if sub else {})}
    status = {"code": code}
    return {
        "userAgent": f"{agent}/v1.37.1",
        "user": {"username": user},
        "verb": verb,
        "objectRef": about,
        "responseStatus": status,
    }


def test_writes_are_counted_by_program_and_kind_without_refused_ones_leases_and_other_clients() -> None:
    ours = "system:serviceaccount:phalanx-system:phalanx-controller"
    found = writes_in(
        [
            write("python", "patch", "resourceclaims", user=ours, sub="status"),
            write("python", "patch", "resourceclaims", user=ours, sub="status"),
            write("python", "update", "leases", user=ours),
            write("kube-scheduler", "create", "pods", sub="binding"),
            write("kube-scheduler", "update", "resourceclaims", sub="status", code=409),
            write("kube-controller-manager", "create", "resourceclaims"),
            write("kwok", "patch", "pods", sub="status"),
        ]
    )
    assert found == {
        "Phalanx: patch resourceclaims/status": 2,
        "scheduler: create pods/binding": 1,
        "controller-manager: create resourceclaims": 1,
    }


def test_a_device_in_two_claims_is_found() -> None:
    def claim(*devices: str) -> dict[str, Any]:
        results = [{"driver": "d", "pool": "n0", "device": each} for each in devices]
        return {"status": {"allocation": {"devices": {"results": results}}}}

    assert doubled([claim("a", "b"), claim("c"), {"status": {}}, {}]) == 0
    assert doubled([claim("a", "b"), claim("b"), claim("c")]) == 1


def test_phalanx_is_compared_with_stock_whose_claims_come_from_the_same_place() -> None:
    found = rows(
        [
            lot(STOCK, 2.0),
            lot(PHALANX, 3.0, writes={"Phalanx: patch pods": 8}),
            lot(STOCK, 4.0, TEMPLATE),
            lot(PHALANX, 5.0, TEMPLATE),
            lot(PHALANX, 7.0, writes={"Phalanx: patch pods": 16}),
        ],
        size=8,
    )
    by_key = {(row.claims, row.mode): row for row in found}
    ours = by_key[NAMED, PHALANX]
    assert ours.x_stock is not None
    assert (ours.rounds, ours.x_stock.middle, ours.x_stock.most) == (2, 2.5, 3.5)
    assert ours.writes == {"Phalanx: patch pods": 1.5}
    other = by_key[TEMPLATE, PHALANX].x_stock
    assert other is not None
    assert other.middle == 1.25
    text = page(found, SETUP, "2 processors.")
    assert "| named | phalanx | 2 | 5.00 (3.00-7.00) | 2.50 (1.50-3.50) |" in text
    assert "| Phalanx: patch pods | 0.00 | 1.50 | 0.00 | 0.00 |" in text
    assert json.loads(as_json(found, SETUP, "x"))["limit"] == LIMIT


@pytest.mark.parametrize(
    ("lots", "wrong"),
    [
        ([lot(STOCK, 2.0), lot(PHALANX, 5.0)], []),
        ([lot(STOCK, 2.0), lot(PHALANX, 5.1)], ["phalanx, named: 2.55 times stock, 2.5 are allowed"]),
        ([lot(PHALANX, 5.1)], []),
        ([lot(STOCK, 2.0, doubled=1), lot(PHALANX, 2.0)], ["stock, named: 1 devices were in two claims"]),
    ],
)
def test_a_run_fails_above_the_limit_and_if_a_device_is_in_two_claims(lots: list[Lot], wrong: list[str]) -> None:
    found: list[DeviceRow] = rows(lots, size=8)
    assert [each.text for each in changes(found)] == wrong


@pytest.mark.controlplane
def test_a_small_run_binds_all_pods_counts_the_writes_and_writes_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a machine that runs tests may exceed the limit; then the page is written aside
    arguments = ["--nodes", "20", "--size", "4", "--rounds", "1", "--write", "devices.md"]
    result = CliRunner().invoke(main, arguments)
    file = next((each for each in (Path("devices.md"), Path("dist", "bench", "devices.md")) if each.exists()), None)
    assert file is not None, result.output
    found = {(row["claims"], row["mode"]): row for row in json.loads(file.with_suffix(".json").read_text())["rows"]}
    assert set(found) == {(claims, mode) for claims in (TEMPLATE, NAMED) for mode in (STOCK, PHALANX)}
    assert all(row["doubled"] == 0 for row in found.values())
    for claims in (TEMPLATE, NAMED):
        writes = found[claims, PHALANX]["writes"]
        assert writes["Phalanx: patch resourceclaims/status"] == 1.0, "one status write a claim"
        assert writes["scheduler: create pods/binding"] == 1.0
        assert not any(name.startswith("scheduler") and "resourceclaims" in name for name in writes)
        assert any(name.startswith("scheduler") and "resourceclaims" in name for name in found[claims, STOCK]["writes"])
