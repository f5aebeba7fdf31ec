"""The output of a run with many gangs at once: a line for each lot as it is measured, and a page in Markdown with the
results.
"""

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.live.gang_rows import API_CPU, API_SERVER, SCHEDULER, TIME, GangRow, Lot, Setup
from benchmarks.live.gang_starts import IN_PART_SECONDS

_LEAST_SHOWN = 0.05
"""Requests a pod and events a gang that are rarer in every row are not shown."""
_HEAD = (
    "| installed | mode | rounds | all bound, s | x stock | Jobs created, s | half bound, s | pods a second "
    "| own CPU, s | API server CPU, s | x stock | scheduler CPU, s | racks a gang "
    f"| gangs in part > {IN_PART_SECONDS:.0f} s | longest in part, s | loop, s |\n"
    "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
)
_WORDS = (
    "Median (least-most). `make bench` writes this page. All Jobs are created at once. `all bound`: the time from the "
    "start of the first Job's creation to the last binding. `x stock`: divided by the median of stock with nothing "
    "installed. `own CPU`: the servers of the installed system. CPU, requests and events are counted until {:.0f} s "
    "after the last binding. `in part`: the time without a break in which some but not all pods of a gang are bound. "
    "Stock has no gangs, so there the pods of a Job count. `native`: each Job's pods are in a PodGroup of the "
    "scheduler's own (alpha in 1.37), which is created before the Job. Phalanx and Kueue are measured one after the "
    "other, each installed alone. `loop`: the elapsed time of a fixed loop right before the measurement; on a busy "
    "machine the loop takes longer."
)


def text(lot: Lot) -> str:
    """Return the measurement of one lot as a line of text."""
    cpu = ", ".join(f"{name} {seconds:.1f}" for name, seconds in lot.cpu.items())
    times = f"{lot.starts.seconds:.1f} s, half after {lot.starts.half:.1f}, Jobs created in {lot.created:.1f}"
    in_part = f"{lot.starts.long_in_part} gangs in part > {IN_PART_SECONDS:.0f} s"
    domains = f"{lot.starts.racks:.2f} racks a gang"
    return f"{lot.mode:8} {lot.beside:8} {times}, {domains}, {in_part}; CPU, s: {cpu}; loop {lot.loop.elapsed:.2f} s"


def page(gang_rows: Sequence[GangRow], setup: Setup, about: str, rest: float) -> str:
    """Return the results of the whole run as a page in Markdown.

    :param about: a sentence about the machine.
    :param rest: seconds after the last binding until which CPU, requests and events are counted.
    """
    lines = [
        f"# {setup.jobs} gangs at once: stock, Phalanx, Kueue, native",
        "",
        f"{_about(setup)} {about}",
        "",
        _WORDS.format(rest),
        "",
        _HEAD,
        *map(_line, gang_rows),
        "",
        "## Requests a pod",
        "",
        *_counts(gang_rows, "request", [row.requests for row in gang_rows]),
        "",
        "## Events a gang",
        "",
        *_counts(gang_rows, "about and reason", [row.events for row in gang_rows]),
        "",
    ]
    return "\n".join(lines)


def _about(setup: Setup) -> str:
    pods = f"{setup.jobs} Jobs of {setup.size} pods with {setup.gpus} GPUs each"
    limit = f"The scheduler may send {setup.scheduler_qps:,} requests a second."
    return f"{setup.nodes:,} nodes of kwok with 8 GPUs, {pods}. {limit}"


def _line(row: GangRow) -> str:
    cells = [
        row.beside,
        row.mode,
        str(row.rounds),
        row.seconds.text(1),
        _ratio(row, TIME),
        row.created.text(1),
        row.half.text(1),
        row.pods_a_second.text(0),
        row.own_cpu.text(1),
        row.cpu[API_SERVER].text(1),
        _ratio(row, API_CPU),
        row.cpu[SCHEDULER].text(1),
        row.racks.text(1),
        str(row.long_in_part),
        f"{row.longest_in_part:.1f}",
        row.loop.text(),
    ]
    return f"| {' | '.join(cells)} |"


def _ratio(row: GangRow, name: str) -> str:
    return row.x_stock[name].text() if name in row.x_stock else "-"


def _counts(gang_rows: Sequence[GangRow], what: str, counts: Sequence[Mapping[str, float]]) -> Iterator[str]:
    """Yield the lines of a table with a column for each row of figures, and a line for each name that is not rare."""
    most = dict[str, float]()
    for count in counts:
        for name, value in count.items():
            most[name] = max(value, most.get(name, 0.0))
    yield f"| {' | '.join([what, *(row.title for row in gang_rows)])} |"
    yield "| --- " + "| ---: " * len(gang_rows) + "|"
    for name in sorted(most, key=lambda name: (-most[name], name)):
        if most[name] >= _LEAST_SHOWN:
            yield f"| {' | '.join([name, *(f'{count.get(name, 0.0):.2f}' for count in counts)])} |"
