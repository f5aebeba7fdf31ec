"""Formats tables for the terminal, with columns aligned as in kubectl. They are coloured only on a terminal."""

import io
import sys
from collections.abc import Iterable, Mapping, Sequence

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

GAP = 3
"""The number of spaces between two columns."""
STYLES: Mapping[str, str] = {
    "Placed": "green",
    "Released": "green",
    "Nominated": "cyan",
    "Evicting": "cyan",
    "Waiting": "yellow",
    "Unplaceable": "red",
    "Invalid": "red",
    "Succeeded": "green",
    "Failed": "red",
    "Warning": "red",
}
"""The colour of a cell that consists of this word."""


class Columns:
    """A table that is printed row by row. A column is as wide as its widest cell so far, so later rows may widen it."""

    def __init__(self, titles: Sequence[str], indent: str = "") -> None:
        self._titles = titles
        self._indent = indent
        self._widths = [cell_len(title) for title in titles]

    def head(self) -> Text:
        """Return the line of titles."""
        return Text(self._line(self._titles), style="dim")

    def fit(self, rows: Iterable[Sequence[str]]) -> None:
        """Widen the columns to fit these rows."""
        for row in rows:
            self._widths = [max(width, cell_len(cell)) for width, cell in zip(self._widths, row, strict=True)]

    def row(self, cells: Sequence[str]) -> Text:
        """Return one row as a line. If a cell is wider than its column, the column is widened."""
        self.fit([cells])
        text = Text(self._line(cells))
        start = len(self._indent)
        for cell, width in zip(cells, self._widths, strict=True):
            if cell in STYLES:
                text.stylize(STYLES[cell], start, start + len(cell))
            start += len(set_cell_size(cell, width)) + GAP
        return text

    def _line(self, cells: Sequence[str]) -> str:
        padded = (set_cell_size(cell, width) for cell, width in zip(cells, self._widths, strict=True))
        return f"{self._indent}{(' ' * GAP).join(padded)}".rstrip()


def table(titles: Sequence[str], rows: Sequence[Sequence[str]], indent: str = "") -> list[Text]:
    """Return the lines of a table: the titles, then the rows."""
    columns = Columns(titles, indent)
    columns.fit(rows)
    return [columns.head(), *map(columns.row, rows)]


def lines(texts: Iterable[Text]) -> str:
    """Return the texts as lines, which are never wrapped.

    They contain colours if standard output is a terminal and NO_COLOR is not set.
    """
    terminal = sys.stdout.isatty()
    console = Console(file=io.StringIO(), force_terminal=terminal, highlight=False)
    with console.capture() as capture:
        for text in texts:
            console.print(text, soft_wrap=True)
    return capture.get()
