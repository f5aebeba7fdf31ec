"""Writes a run's page, figures and picture over the earlier ones, unless Phalanx has become much slower."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.live.drawing import drawing
from benchmarks.live.figures import ALLOWED, LiveRow, as_json, changes

ASIDE = Path("dist", "bench")
"""The folder for the files of a run that must not replace those of the run before."""


@dataclass(frozen=True, slots=True)
class Run:
    """The result of a run. `text`: the Markdown of its page; `about`: a sentence about the machine and the setup."""

    rows: Sequence[LiveRow]
    text: str
    about: str
    nodes: int


def keep(run: Run, page: Path, picture: Path | None) -> tuple[list[str], bool]:
    """Write the page, its figures beside it (.json), and the picture.

    Returns sentences about the run, and whether no row of Phalanx is much worse than in the earlier figures. If one is
    much worse, the earlier files stay, and this run is written to `ASIDE`.
    """
    table = page.with_suffix(".json")
    before = json.loads(table.read_text(encoding="utf-8")) if table.exists() else {}
    worse = changes(run.rows, before, run.nodes)
    good, said = not any(each.much for each in worse), [each.text for each in worse]
    if not good:
        ASIDE.mkdir(parents=True, exist_ok=True)
        page, table = ASIDE / page.name, ASIDE / table.name
        picture = ASIDE / picture.name if picture else None
        kept = f"what was written before is left as it is, and this run is in {ASIDE}"
        said.append(f"error: beside stock Phalanx takes more than {ALLOWED} times as long as before: {kept}")
    page.write_text(run.text, encoding="utf-8")
    table.write_text(as_json(run.rows, {"about": run.about, "nodes": run.nodes}), encoding="utf-8")
    if picture is not None:
        picture.write_text(drawing(run.rows), encoding="utf-8")
    return said, good
