"""Combines the rounds of a run: a row for each mode, size and scene, and whether rows are worse than in an earlier
run.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from benchmarks.live.modes import FLOOR, JOB_PHALANX, JOB_STOCK, MODES, PHALANX, STOCK_OF, Lot

ALLOWED = 1.25
"""The factor by which a row may exceed the earlier run. It limits the row's ratio to the stock scheduler, and the
seconds that the row takes longer than the stock scheduler.
"""
OURS = (PHALANX, JOB_PHALANX)


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of a figure over the rounds of a run, with the smallest and the largest value."""

    middle: float
    least: float
    most: float

    def text(self, digits: int = 2) -> str:
        """Return the median with the smallest and the largest value, such as "1.20 (1.10-1.35)"; the median alone if
        all are equal.
        """
        middle, least, most = (f"{each:.{digits}f}" for each in (self.middle, self.least, self.most))
        return middle if least == most else f"{middle} ({least}-{most})"


@dataclass(frozen=True, slots=True)
class LiveRow:
    """The figures over the rounds of one mode, size and scene. Times are in seconds as in `Lot`.

    `x_stock`: the median time from the first creation, divided by the median time of the stock scheduler; its least and
    its greatest value in the rounds are included. `x_stock_last`, `x_floor`: the median time from the last creation,
    divided by the median time of the stock scheduler, or of pods that name their nodes and are released at once (the
    floor mode). None: there is no such measurement in this scene, or the pods are a Job's, whose pace the Job
    controller sets.
    """

    scene: str
    beside: str
    size: int
    mode: str
    rounds: int
    since_last: Spread
    since_first: Spread
    x_stock: Spread | None
    x_stock_last: float | None
    x_floor: float | None
    racks: Spread
    blocks: Spread
    fewest_racks: int | None
    fewest_blocks: int | None
    cpu: Mapping[str, Spread] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The row's mode, size, scene and installed system as text."""
        return f"{self.mode}, {self.size} pods, {self.scene}, {self.beside} installed"


@dataclass(frozen=True, slots=True)
class Change:
    """A row whose median ratio to the stock scheduler is worse than the ratio in every round of the earlier run.

    `much`: the row exceeds the factor `ALLOWED` both in its ratio to the stock scheduler and in the seconds that it
    takes longer.
    """

    text: str
    much: bool


def spread(values: Sequence[float]) -> Spread:
    """Return the median, the smallest and the largest of these values. Expects at least one value."""
    return Spread(median(values), min(values), max(values))


def rows(lots: Sequence[Lot]) -> list[LiveRow]:
    """Return all rows, in the order of scenes, installed systems, sizes and modes."""
    keys = dict.fromkeys((lot.scene, lot.beside, lot.size) for lot in lots)
    return [row for key in keys for row in _rows([lot for lot in lots if (lot.scene, lot.beside, lot.size) == key])]


def as_json(found: Sequence[LiveRow], about: Mapping[str, Any]) -> str:
    """Return the rows as JSON, which a later run reads for its comparison. `about`: the fields of the file besides the
    rows.
    """
    return json.dumps({**about, "rows": [asdict(row) for row in found]}, indent=1) + "\n"


def changes(found: Sequence[LiveRow], before: Mapping[str, Any], nodes: int) -> list[Change]:
    """Return the rows of Phalanx in `found` whose ratio to the stock scheduler is worse than in `before`, the figures
    of an earlier run (`as_json`).

    Rows that only one of the runs has are not compared. Clusters of different size are not compared either.
    """
    if before.get("nodes") != nodes:
        return []
    old = {_key(row): row for row in before["rows"]}
    return [change for row in found if (change := _change(row, old.get(_key(asdict(row)))))]


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("scene", "beside", "size", "mode"))


def _change(row: LiveRow, old: Mapping[str, Any] | None) -> Change | None:
    if row.mode not in OURS or row.x_stock is None or old is None or old["x_stock"] is None:
        return None
    was = Spread(**old["x_stock"])
    if row.x_stock.middle <= was.most:
        return None
    # The stock scheduler binds eight pods in 0.1 s, and single measurements differ from this by half. For so short
    # times the ratio alone does not show that Phalanx became slower.
    longer, longer_before = _longer_than_stock(asdict(row)), _longer_than_stock(old)
    much = row.x_stock.middle > ALLOWED * was.middle and longer > ALLOWED * longer_before
    verdict = f"more than the {ALLOWED} times that are allowed" if much else "by more than the rounds were apart"
    times = f"{row.x_stock.text()} times stock ({longer:+.2f} s), before {was.text()} ({longer_before:+.2f} s)"
    return Change(f"{row.title}: {times}: worse, {verdict}", much)


def _longer_than_stock(row: Mapping[str, Any]) -> float:
    """Return how many seconds longer than the stock scheduler the row takes, by the median times.

    The times are measured from the creation of the first pod or of the Job.
    """
    seconds: float = row["since_first"]["middle"]
    ratio: float = row["x_stock"]["middle"]
    return seconds - seconds / ratio


def _rows(lots: Sequence[Lot]) -> Iterator[LiveRow]:
    """Yield the rows of one scene, installed system and size, one for each measured mode."""
    for mode in MODES:
        of_mode = [lot for lot in lots if lot.mode == mode]
        if of_mode:
            yield _row(of_mode, [lot for lot in lots if lot.mode == STOCK_OF[mode]], _of_floor(lots, mode))


def _of_floor(lots: Sequence[Lot], mode: str) -> list[Lot]:
    """Return the lots of the floor mode with which a mode is compared: pods that name their nodes and are released at
    once.

    No gang can start faster than these pods. Jobs are not compared with them, because the Job controller sets the pace
    at which a Job's pods are created.
    """
    return [lot for lot in lots if lot.mode == FLOOR and STOCK_OF[mode] == STOCK_OF[FLOOR]]


def _row(lots: Sequence[Lot], stock: Sequence[Lot], floor: Sequence[Lot]) -> LiveRow:
    one = lots[0]
    first = [lot.since_first for lot in lots]
    base = median(lot.since_first for lot in stock) if stock else 0
    return LiveRow(
        scene=one.scene,
        beside=one.beside,
        size=one.size,
        mode=one.mode,
        rounds=len(lots),
        since_last=spread([lot.since_last for lot in lots]),
        since_first=spread(first),
        x_stock=spread([each / base for each in first]) if stock else None,
        x_stock_last=None if STOCK_OF[one.mode] == JOB_STOCK else _ratio(lots, stock),
        x_floor=_ratio(lots, floor),
        racks=spread([lot.racks for lot in lots]),
        blocks=spread([lot.blocks for lot in lots]),
        fewest_racks=one.fewest.racks if one.fewest else None,
        fewest_blocks=one.fewest.blocks if one.fewest else None,
        cpu={name: spread([lot.cpu[name] for lot in lots]) for name in one.cpu},
    )


def _ratio(lots: Sequence[Lot], others: Sequence[Lot]) -> float | None:
    """Return the median time of `lots` divided by the median time of `others`; None if there are no `others`.

    The times are measured from the creation of the last pod.
    """
    return median(lot.since_last for lot in lots) / median(lot.since_last for lot in others) if others else None
