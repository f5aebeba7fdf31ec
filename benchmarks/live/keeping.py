"""Writes a run's page, figures and picture over the earlier ones, unless Phalanx has become much slower."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.live.drawing import drawing
from benchmarks.live.figures import ALLOWED, Change, LiveRow, as_json, changes

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
    """Write the page of a run, its figures beside it (.json), and the picture.

    Returns sentences about the run, and whether no row of Phalanx is much worse than in the figures of the earlier run.
    If one is much worse, the earlier files stay, and this run is written to `ASIDE`.
    """
    texts = {page: run.text, table_of(page): as_json(run.rows, {"about": run.about, "nodes": run.nodes})}
    if picture is not None:
        texts[picture] = drawing(run.rows)
    return write(texts, changes(run.rows, earlier(page), run.nodes))


def table_of(page: Path) -> Path:
    """Return the file of a page's figures."""
    return page.with_suffix(".json")


def earlier(page: Path) -> dict[str, Any]:
    """Return the figures that were written with a page; empty if there are none."""
    table = table_of(page)
    return dict(json.loads(table.read_text(encoding="utf-8"))) if table.exists() else {}


def write(texts: Mapping[Path, str], worse: Sequence[Change]) -> tuple[list[str], bool]:
    """Write the files of a run, unless a row is much worse than in the earlier run. Return sentences about the run, and
    whether no row is much worse; if one is, the files are written to `ASIDE`.

    :param texts: by file, its text.
    :param worse: the rows that are worse than in the earlier run.
    """
    good, said = not any(change.much for change in worse), [change.text for change in worse]
    if not good:
        ASIDE.mkdir(parents=True, exist_ok=True)
        kept = f"the earlier files are unchanged, and this run is in {ASIDE}"
        said.append(f"error: compared with stock, Phalanx needs more than {ALLOWED} times as much as before: {kept}")
    for file, text in texts.items():
        (file if good else ASIDE / file.name).write_text(text, encoding="utf-8")
    return said, good
