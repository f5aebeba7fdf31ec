"""The rows of many gangs at once: one for each installed system and mode, and which rows are worse than before."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from benchmarks.live.figures import ALLOWED, Change, Spread, spread
from benchmarks.live.gang_starts import Starts
from benchmarks.live.machine_usage import Loop
from benchmarks.live.modes import NATIVE, PHALANX, STOCK

KUEUE = "kueue"
MODES = (STOCK, PHALANX, KUEUE, NATIVE)
NOTHING, OURS, THEIRS = "nothing", "Phalanx", "Kueue"
"""The systems that can be installed beside the stock control plane."""
MODES_BESIDE: Mapping[str, Sequence[str]] = {NOTHING: (STOCK, NATIVE), OURS: (STOCK, PHALANX), THEIRS: (STOCK, KUEUE)}
"""By installed system, the modes that are measured beside it."""
OWN = ("webhook", "controller", "kueue")
"""The servers of the installed system. Their CPU is the row's own CPU."""
API_SERVER, SCHEDULER = "API server", "scheduler"
TIME, CREATION, API_CPU, OWN_CPU = "seconds", "creation", "API server CPU", "own CPU"
"""The figures that are compared with mode stock with no system installed. OWN_CPU is divided by the API server's CPU in
that mode, because no further server runs then.
"""
_COMPARED = (TIME, API_CPU, OWN_CPU)
"""The ratios that must not become worse. Creation takes seconds only, so its ratio varies too much."""


@dataclass(frozen=True, slots=True)
class Setup:
    """The load of a run: `jobs` Jobs of `size` pods with `gpus` GPUs each, on `nodes` nodes.

    Figures are compared only with those of an equal setup. `scheduler_qps`: requests a second that the scheduler may
    send.
    """

    nodes: int
    jobs: int
    size: int
    gpus: int
    scheduler_qps: int

    @property
    def pods(self) -> int:
        """The pods of all Jobs."""
        return self.jobs * self.size


@dataclass(frozen=True, slots=True)
class Lot:
    """The measurement of all Jobs of one mode, created at once.

    :ivar beside: the installed system.
    :ivar created: the seconds that the creation of the Jobs took.
    :ivar cpu: by program, the seconds of CPU that it used.
    :ivar requests: the number of requests, by verb and resource.
    :ivar events: the number of Event objects, by kind of object and reason.
    :ivar loop: the fixed loop that ran before the Jobs were created. Its time tells how busy the machine was.
    """

    beside: str
    mode: str
    starts: Starts
    created: float
    cpu: Mapping[str, float]
    requests: Mapping[str, int]
    events: Mapping[str, int]
    loop: Loop

    @property
    def own_cpu(self) -> float:
        """The seconds that the servers of the installed system used."""
        return sum(self.cpu.get(name, 0.0) for name in OWN)


@dataclass(frozen=True, slots=True)
class GangRow:
    """The figures over the rounds of one mode beside one installed system.

    :ivar x_stock: by name of a figure, its ratio to the median of the same figure in mode stock with no system
        installed. Empty if that mode is not measured.
    :ivar long_in_part: the most gangs of one round that were in part for longer than `IN_PART_SECONDS`.
    :ivar requests: the number of requests for each pod, by verb and resource; medians.
    :ivar events: the number of Event objects for each gang, by kind of object and reason; medians.
    :ivar loop: elapsed seconds of the fixed loop.
    """

    beside: str
    mode: str
    rounds: int
    seconds: Spread
    created: Spread
    half: Spread
    pods_a_second: Spread
    own_cpu: Spread
    cpu: Mapping[str, Spread]
    x_stock: Mapping[str, Spread]
    racks: Spread
    long_in_part: int
    longest_in_part: float
    requests: Mapping[str, float]
    events: Mapping[str, float]
    loop: Spread

    @property
    def title(self) -> str:
        """The row's mode and installed system as text."""
        return f"{self.mode}, {self.beside} installed"


def rows(lots: Sequence[Lot], setup: Setup) -> list[GangRow]:
    """Return a row for each installed system and mode, in the order of their first lots."""
    keys = dict.fromkeys((lot.beside, lot.mode) for lot in lots)
    alone = [lot for lot in lots if (lot.beside, lot.mode) == (NOTHING, STOCK)]
    return [_row([lot for lot in lots if (lot.beside, lot.mode) == key], alone, setup) for key in keys]


def as_json(gang_rows: Sequence[GangRow], setup: Setup, about: str) -> str:
    """Return the rows as JSON, which a later run reads for its comparison. `about`: a sentence about the machine."""
    table = {"about": about, "setup": asdict(setup), "rows": [asdict(row) for row in gang_rows]}
    return json.dumps(table, indent=1) + "\n"


def changes(gang_rows: Sequence[GangRow], before: Mapping[str, Any], setup: Setup) -> list[Change]:
    """Return what is worse beside Phalanx than in `before` (`as_json`), by the ratios `GangRow.x_stock`.

    A ratio is worse if its median exceeds the largest ratio of the earlier rounds. Rows and ratios that only one of the
    runs has are not compared, nor are runs with different setups.
    """
    if before.get("setup") != asdict(setup):
        return []
    old = {(row["beside"], row["mode"]): row["x_stock"] for row in before["rows"]}
    ours = [row for row in gang_rows if row.beside == OURS]
    return [change for row in ours for change in _worse(row, old.get((row.beside, row.mode), {}))]


def _worse(row: GangRow, before: Mapping[str, Any]) -> Iterator[Change]:
    for name in _COMPARED:
        if name not in row.x_stock or name not in before:
            continue
        now, was = row.x_stock[name], Spread(**before[name])
        if now.middle > was.most:
            much = now.middle > ALLOWED * was.middle
            verdict = f"more than the allowed {ALLOWED} times" if much else "by more than the rounds were apart"
            yield Change(f"{row.title}: {name} {now.text()} times stock, before {was.text()}: worse, {verdict}", much)


def _row(lots: Sequence[Lot], alone: Sequence[Lot], setup: Setup) -> GangRow:
    return GangRow(
        beside=lots[0].beside,
        mode=lots[0].mode,
        rounds=len(lots),
        seconds=spread([lot.starts.seconds for lot in lots]),
        created=spread([lot.created for lot in lots]),
        half=spread([lot.starts.half for lot in lots]),
        pods_a_second=spread([lot.starts.bound / lot.starts.seconds for lot in lots]),
        own_cpu=spread([lot.own_cpu for lot in lots]),
        cpu={name: spread([lot.cpu[name] for lot in lots]) for name in lots[0].cpu},
        x_stock=_ratios(lots, alone) if alone else {},
        racks=spread([lot.starts.racks for lot in lots]),
        long_in_part=max(lot.starts.long_in_part for lot in lots),
        longest_in_part=max(max(lot.starts.in_part.values(), default=0.0) for lot in lots),
        requests=_medians([lot.requests for lot in lots], setup.pods),
        events=_medians([lot.events for lot in lots], setup.jobs),
        loop=spread([lot.loop.elapsed for lot in lots]),
    )


def _ratios(lots: Sequence[Lot], alone: Sequence[Lot]) -> dict[str, Spread]:
    """Return the ratios of figures to their medians in mode stock with no system installed. `alone`: the lots of that
    mode, at least one.
    """
    seconds = median(lot.starts.seconds for lot in alone)
    created = median(lot.created for lot in alone)
    cpu = median(lot.cpu[API_SERVER] for lot in alone)
    return {
        TIME: spread([lot.starts.seconds / seconds for lot in lots]),
        CREATION: spread([lot.created / created for lot in lots]),
        API_CPU: spread([lot.cpu[API_SERVER] / cpu for lot in lots]),
        OWN_CPU: spread([lot.own_cpu / cpu for lot in lots]),
    }


def _medians(counts: Sequence[Mapping[str, int]], per: int) -> dict[str, float]:
    """Return by name the median of the counts divided by `per`, the largest first."""
    names = {name for count in counts for name in count}
    medians = {name: median(count.get(name, 0) for count in counts) / per for name in names}
    return {name: medians[name] for name in sorted(names, key=lambda name: (-medians[name], name))}
