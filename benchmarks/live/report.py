"""The rounds of a run put together: a table of medians and spreads."""

from collections.abc import Mapping, Sequence
from statistics import median

from benchmarks.live.modes import FLOOR, MODES, STOCK, Lot

_HEAD = (
    "| pods | mode | rounds | last created to all bound, s | first created to all bound, s | x stock | x floor | "
    "racks | CPU s, webhook | CPU s, controller |\n"
    "| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
)


def text(lot: Lot) -> str:
    """One lot on a line."""
    cpu = ", ".join(f"{name} {seconds:.2f} s of CPU" for name, seconds in lot.cpu.items())
    times = f"{lot.since_last:6.2f} s from the last, {lot.since_first:6.2f} s from the first"
    return f"{lot.mode:8} {lot.size:5} pods  {times}, {lot.racks:3} racks; {cpu}"


def page(lots: Sequence[Lot], idle: Mapping[str, tuple[float, float]], about: str) -> str:
    """The whole run in Markdown.

    :param idle: by server, the percentage of a core that it used with nothing to do, and its megabytes then.
    :param about: what was measured on what.
    """
    sizes, measured = dict.fromkeys(lot.size for lot in lots), {lot.mode for lot in lots}
    rows = [_row(lots, size, mode) for size in sizes for mode in MODES if mode in measured]
    idling = [f"- {name}: {percent:.1f} % of a core, {megabytes:.0f} MB" for name, (percent, megabytes) in idle.items()]
    return "\n".join(
        (
            "# From creation to a node, live",
            "",
            about,
            "",
            "Median (least-most). `make bench` writes this page; `x stock` compares the medians from the last created,",
            "`x floor` with pods that know their nodes and are let go at once when the last of them is there.",
            "",
            _HEAD,
            *rows,
            "",
            "With nothing to do:",
            "",
            *idling,
            "",
        )
    )


def _row(lots: Sequence[Lot], size: int, mode: str) -> str:
    of_mode = [lot for lot in lots if (lot.size, lot.mode) == (size, mode)]
    cells = [
        str(size),
        mode,
        str(len(of_mode)),
        _spread([lot.since_last for lot in of_mode]),
        _spread([lot.since_first for lot in of_mode]),
        *(_ratio(lots, of_mode, size, other) for other in (STOCK, FLOOR)),
        str(round(median(lot.racks for lot in of_mode))),
        *(_spread([lot.cpu[name] for lot in of_mode]) for name in ("webhook", "controller")),
    ]
    return f"| {' | '.join(cells)} |"


def _ratio(lots: Sequence[Lot], of_mode: Sequence[Lot], size: int, other: str) -> str:
    """How much longer the lots of a mode took than those of another, from the last created."""
    others = [lot.since_last for lot in lots if (lot.size, lot.mode) == (size, other)]
    return f"{median(lot.since_last for lot in of_mode) / median(others):.1f}" if others else "-"


def _spread(values: Sequence[float]) -> str:
    return f"{median(values):.2f} ({min(values):.2f}-{max(values):.2f})"
