"""The output of a run of the live benchmark: a line for each lot of pods as it is measured, and a page in Markdown with
the results.
"""

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.live.evictions import Evicted
from benchmarks.live.figures import LiveRow
from benchmarks.live.modes import Lot

_HEAD = (
    "| pods | mode | rounds | first created to all bound, s | x stock | last created to all bound, s | x stock "
    "| x floor | racks | blocks | fewest | CPU of its servers, s |\n"
    "| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |"
)
_WORDS = (
    "Median (least-most). `make bench` writes this page. `stock`: ungrouped pods. `floor`: pods that name their "
    "nodes, released at once when the last of them exists. `native`: a gang of the scheduler's own. `job: …`: the "
    "same pods as a Job, measured from the Job's creation. The Job controller creates its pods one after the other,"
    " so the time from the last creation is short. Phalanx and Kueue are measured one after the other, each "
    "installed alone with stock beside it, because each would spend CPU on the other's pods. `fewest`: a lower "
    "bound by counting on the racks of a gang in one block (of up to 1,000 pods). Stock and the floor do not "
    "require a block."
)
_VICTIMS = (
    "60 nodes in racks of 12 and blocks of 36 and 24 run Jobs of one pod and of lower priority. The gang requires one "
    "block. `fewest`: a lower bound by counting on the number of evicted pods."
)


def text(lot: Lot) -> str:
    """Return the measurement of one lot of pods as a line of text."""
    cpu = ", ".join(f"{name} {seconds:.2f} s of CPU" for name, seconds in lot.cpu.items())
    times = f"{lot.since_last:6.2f} s from the last, {lot.since_first:6.2f} s from the first"
    fewest = f" of at least {lot.fewest.racks}" if lot.fewest else ""
    domains = f"{lot.racks:3} racks{fewest}, {lot.blocks} blocks"
    return f"{lot.scene}, {lot.mode:12} {lot.size:5} pods  {times}, {domains}; {cpu}"


def page(
    rows: Sequence[LiveRow], idle: Mapping[str, tuple[float, float]], evicted: Sequence[Evicted], about: str
) -> str:
    """Return the results of the whole run as a page in Markdown.

    :param idle: by server, the percentage of a core that it uses when idle, and its memory in MB.
    :param about: a sentence about the machine and the setup of the run.
    """
    lines = ["# From creation to a node, live", "", about, "", _WORDS, ""]
    for scene, beside in dict.fromkeys((row.scene, row.beside) for row in rows):
        lines += [f"## Nodes {scene}, {beside} installed", "", _HEAD]
        lines += [_line(row) for row in rows if (row.scene, row.beside) == (scene, beside)]
        lines += [""]
    idling = [f"- {name}: {percent:.1f} % of a core, {megabytes:.0f} MB" for name, (percent, megabytes) in idle.items()]
    return "\n".join([*lines, "## With nothing to do", "", *idling, "", *_victims(evicted)])


def _line(row: LiveRow) -> str:
    cpu = " + ".join(f"{name} {spread.text()}" for name, spread in row.cpu.items())
    cells = [
        str(row.size),
        row.mode,
        str(row.rounds),
        row.since_first.text(),
        row.x_stock.text() if row.x_stock else "-",
        row.since_last.text(),
        _number(row.x_stock_last),
        _number(row.x_floor),
        row.racks.text(0),
        row.blocks.text(0),
        str(row.fewest_racks) if row.fewest_racks is not None else "-",
        cpu or "-",
    ]
    return f"| {' | '.join(cells)} |"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _victims(evicted: Sequence[Evicted]) -> Iterator[str]:
    if not evicted:
        return
    yield "## Pods that a gang of 8 evicts"
    yield ""
    yield _VICTIMS
    yield ""
    yield "| running pods | mode | victims | fewest | racks | blocks | seconds |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: |"
    for each in evicted:
        took = "did not start" if each.seconds is None else f"{each.seconds:.1f}"
        cells = [each.scene, each.mode, str(each.victims), str(each.fewest), str(each.racks), str(each.blocks), took]
        yield f"| {' | '.join(cells)} |"
    yield ""
