"""The summary of the live benchmark's runs: rows, the page, the chart, and the figures that have become worse."""

import json
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks.live.crowding import CROWDED, EMPTY, Fewest
from benchmarks.live.drawing import drawing
from benchmarks.live.evictions import Evicted
from benchmarks.live.figures import LiveRow, as_json, changes, rows
from benchmarks.live.keeping import ASIDE, Run, keep
from benchmarks.live.modes import FLOOR, JOB_KUEUE, JOB_PHALANX, JOB_STOCK, NATIVE, PHALANX, STOCK, Lot
from benchmarks.live.report import page

CPU = {"webhook": 0.5, "controller": 1.0}


def lots(mode: str, *seconds: float, size: int = 8, **more: object) -> list[Lot]:
    """Lots that took so long from the first created, and half of it from the last."""
    return [Lot(mode, size, each / 2, each, 1, CPU, fewest=Fewest(1, 1), **more) for each in seconds]  # type: ignore[arg-type]


def test_rows_have_medians_spreads_and_the_ratio_to_stock_beside_the_same_system() -> None:
    found = rows(
        [
            *lots(STOCK, 0.1, 0.2, 0.4),
            *lots(FLOOR, 0.3),
            *lots(PHALANX, 0.6, 0.5, 0.8),
            *lots(JOB_STOCK, 2.0, beside="Kueue"),
            *lots(JOB_KUEUE, 3.0, beside="Kueue"),
            *lots(JOB_KUEUE, 5.0, beside="Kueue", scene=CROWDED),
        ]
    )
    stock, floor, ours, _, kueue, crowded = found
    assert stock.x_stock is not None
    assert stock.x_stock.text() == "1.00 (0.50-2.00)"
    assert floor.rounds == 1
    assert ours.x_stock is not None
    assert ours.x_stock.text() == "3.00 (2.50-4.00)"
    assert ours.x_stock_last == pytest.approx(3)
    assert ours.x_floor == pytest.approx(2)
    assert kueue.x_stock is not None
    assert kueue.x_stock.text() == "1.50"
    assert (kueue.x_stock_last, kueue.x_floor, crowded.x_stock) == (None, None, None)


def test_the_page_has_a_table_for_each_scene_and_whom_a_gang_evicts() -> None:
    found = rows([*lots(STOCK, 0.2), *lots(PHALANX, 0.6, 0.5, 0.8), *lots(PHALANX, 0.9, scene=CROWDED)])
    evicted = [
        Evicted("on all nodes", JOB_PHALANX, 8, 8, 1, 1, 1.23),
        Evicted("on all nodes", JOB_KUEUE, 0, 8, 0, 0, None),
    ]
    text = page(found, {"webhook": (0.24, 350.4)}, evicted, "10 nodes")
    cpu = "webhook 0.50 + controller 1.00"
    assert (
        f"| 8 | phalanx | 3 | 0.60 (0.50-0.80) | 3.00 (2.50-4.00) | 0.30 (0.25-0.40) | 3.0 | - | 1 | 1 | 1 | {cpu} |"
        in text
    )
    assert f"| 8 | phalanx | 1 | 0.90 | - | 0.45 | - | - | 1 | 1 | 1 | {cpu} |" in text
    assert text.index("## Nodes empty, Phalanx installed") < text.index("## Nodes 70 % full, Phalanx installed")
    assert "- webhook: 0.2 % of a core, 350 MB" in text
    assert "| on all nodes | job: phalanx | 8 | 8 | 1 | 1 | 1.2 |" in text
    assert "| on all nodes | job: kueue | 0 | 8 | 0 | 0 | did not start |" in text


def of(mode: str, *seconds: float) -> list[LiveRow]:
    """Return the rows of a mode with these seconds, compared with a stock scheduler that takes one second."""
    return rows([*lots(STOCK, 1.0), *lots(JOB_STOCK, 1.0), *lots(mode, *seconds)])


@pytest.mark.parametrize(
    ("mode", "before", "now", "told"),
    [
        (PHALANX, (2.0, 1.8, 2.2), (2.2,), ""),
        (PHALANX, (2.0, 1.8, 2.2), (2.3,), "a little"),
        (PHALANX, (2.0, 1.8, 2.2), (2.6,), "much"),
        (PHALANX, (2.0, 1.8, 4.0), (2.6,), ""),
        (PHALANX, (2.0,), (1.0,), ""),
        (JOB_PHALANX, (2.0,), (2.6,), "much"),
        (NATIVE, (2.0,), (9.0,), ""),
    ],
)
def test_a_row_of_ours_is_worse_beyond_its_spread_and_much_worse_beyond_a_quarter(
    mode: str, before: Sequence[float], now: Sequence[float], told: str
) -> None:
    written = json.loads(as_json(of(mode, *before), {"nodes": 10}))
    found = changes(of(mode, *now), written, 10)
    assert [each.much for each in found] == ([told == "much"] if told else [])
    if found:
        assert found[0].text.startswith(f"{mode}, 8 pods, {EMPTY}, Phalanx installed: {now[0]:.2f} times stock (+")


def test_the_same_delay_beside_a_faster_stock_is_not_much_worse() -> None:
    """Eight pods: stock took 0.19 s and then 0.09, we took 0.27 s more each time."""
    before = rows([*lots(STOCK, 0.19), *lots(PHALANX, 0.46)])
    written = json.loads(as_json(before, {"nodes": 10}))
    (found,) = changes(rows([*lots(STOCK, 0.09), *lots(PHALANX, 0.36)]), written, 10)
    assert not found.much
    assert "4.00 times stock (+0.27 s), before 2.42 (+0.27 s)" in found.text
    (found,) = changes(rows([*lots(STOCK, 0.09), *lots(PHALANX, 0.46)]), written, 10)
    assert found.much


def test_clusters_of_other_sizes_and_rows_that_are_new_are_not_compared() -> None:
    written = json.loads(as_json(of(PHALANX, 1.0), {"nodes": 10}))
    assert changes(of(PHALANX, 9.0), written, 20) == []
    assert changes(of(JOB_PHALANX, 9.0), written, 10) == []
    assert changes(of(PHALANX, 9.0), {}, 10) == []


def test_a_run_that_is_much_worse_goes_aside_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page_of, picture = tmp_path / "live.md", tmp_path / "live.svg"
    assert keep(Run(of(PHALANX, 2.0), "the first", "", 10), page_of, picture) == ([], True)
    assert keep(Run(of(PHALANX, 1.0), "faster", "", 10), page_of, picture) == ([], True)
    written = picture.read_text()
    said, good = keep(Run(of(PHALANX, 1.1), "a little slower", "", 10), page_of, None)
    assert (len(said), good, page_of.read_text()) == (1, True, "a little slower")
    said, good = keep(Run(of(PHALANX, 2.0), "much slower", "", 10), page_of, picture)
    assert (good, page_of.read_text(), picture.read_text()) == (False, "a little slower", written)
    worse = "2.00 times stock (+1.00 s), before 1.10 (+0.10 s): worse, more than the 1.25 times that are allowed"
    assert worse in said[0]
    assert "this run is in dist/bench" in said[1]
    assert (tmp_path / ASIDE / "live.md").read_text() == "much slower"
    assert {each.name for each in (tmp_path / ASIDE).iterdir()} == {"live.md", "live.json", "live.svg"}


def test_the_picture_has_a_bar_for_each_mode_and_is_xml() -> None:
    found = rows(
        [
            *lots(STOCK, 1.0),
            *lots(PHALANX, 2.0),
            *lots(NATIVE, 4.0),
            *lots(JOB_STOCK, 1.0),
            *lots(JOB_STOCK, 1.5, beside="Kueue"),
            *lots(JOB_KUEUE, 3.0, beside="Kueue"),
        ]
    )
    picture = ET.fromstring(drawing(found))  # noqa: S314 - our own
    shown = [each.text for each in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert "8 pods, nodes empty" in shown
    assert [each for each in shown if each and each.endswith("1 rack")] == [
        *("1.0 s, 1 rack", "2.0 s, 1 rack", "4.0 s, 1 rack"),
        *("1.0 s, 1 rack", "3.0 s, 1 rack"),
    ]
