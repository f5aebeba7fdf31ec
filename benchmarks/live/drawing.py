"""Draws the rows of a run as a picture (SVG): a bar for each mode, beside the bar of the stock scheduler."""

from collections.abc import Iterator, Sequence
from html import escape

from benchmarks.live.figures import LiveRow
from benchmarks.live.modes import FLOOR, JOB_KUEUE, JOB_PHALANX, JOB_STOCK, NATIVE, PHALANX, STOCK

NAMES = {
    STOCK: "stock, no gang",
    PHALANX: "Phalanx",
    NATIVE: "native gang",
    JOB_STOCK: "stock, no gang",
    JOB_PHALANX: "Phalanx",
    JOB_KUEUE: "Kueue",
}
_PODS, _JOBS = (STOCK, PHALANX, NATIVE), (JOB_STOCK, JOB_PHALANX, JOB_KUEUE)
_COLOURS = {STOCK: "#8a8f98", PHALANX: "#1f6feb", NATIVE: "#c2762b", JOB_KUEUE: "#2f8f5b"}
_WIDTH, _LEFT, _PANEL, _LINE, _GAP, _TOP = 960, 16, 464, 20, 26, 64
_LABEL, _BARS, _SMALLEST = 118, 150, 2


def drawing(rows: Sequence[LiveRow]) -> str:
    """Return panels of bars as SVG: pods at the left, Jobs at the right, scenes and sizes one below the other."""
    keys = dict.fromkeys((row.scene, row.size) for row in rows if row.mode != FLOOR)
    height = _TOP + len(keys) * (_LINE * 4 + _GAP)
    namespace, font = "http://www.w3.org/2000/svg", 'font-family="sans-serif" font-size="13"'
    head = f'<svg xmlns="{namespace}" viewBox="0 0 {_WIDTH} {height}" {font}>'
    parts = [head, f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>']
    parts.append(_text(_LEFT, 24, "Seconds from the first pod (right: from the Job) created to all bound", bold=True))
    parts.append(_text(_LEFT, 44, "Median, the line from least to most; each panel has a scale of its own"))
    for number, (scene, size) in enumerate(keys):
        top = _TOP + number * (_LINE * 4 + _GAP)
        of_panel = [row for row in rows if (row.scene, row.size) == (scene, size)]
        for left, modes, what in ((_LEFT, _PODS, "pods"), (_LEFT + _PANEL, _JOBS, "pods of a Job")):
            found = [row for mode in modes for row in of_panel if row.mode == mode]
            parts += _panel(left, top, f"{size} {what}, nodes {scene}", _each_once(found))
    return "\n".join([*parts, "</svg>", ""])


def _each_once(rows: Sequence[LiveRow]) -> list[LiveRow]:
    """Return one row for each mode. The stock scheduler was measured once beside each installed system; only the first
    of these rows is drawn.
    """
    return list({row.mode: row for row in reversed(rows)}.values())[::-1]


def _panel(left: int, top: int, title: str, rows: Sequence[LiveRow]) -> Iterator[str]:
    if not rows:
        return
    yield _text(left, top + 12, title, bold=True)
    scale = _BARS / max(row.since_first.most for row in rows)
    for number, row in enumerate(rows, start=1):
        middle = top + number * _LINE + 8
        time, start = row.since_first, left + _LABEL
        width = max(_SMALLEST, time.middle * scale)
        colour = _COLOURS.get(row.mode, _COLOURS[PHALANX if row.mode == JOB_PHALANX else STOCK])
        yield _text(left, middle + 4, NAMES[row.mode])
        yield f'<rect x="{start}" y="{middle - 7}" width="{width:.1f}" height="14" rx="2" fill="{colour}"/>'
        ends = [f"{start + each * scale:.1f}" for each in (time.least, time.most)]
        yield f'<path d="M{ends[0]} {middle}H{ends[1]}" stroke="#111111" stroke-width="1.5"/>'
        racks = f"{row.racks.middle:.0f} {'rack' if row.racks.middle == 1 else 'racks'}"
        yield _text(left + _LABEL + _BARS + 10, middle + 4, f"{time.middle:.1f} s, {racks}")


def _text(x: int, y: int, text: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x}" y="{y}" fill="#111111"{weight}>{escape(text)}</text>'
