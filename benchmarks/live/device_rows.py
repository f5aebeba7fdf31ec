"""The rows of the benchmark with devices: their figures, their page, and whether Phalanx keeps its limit."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from benchmarks.live.figures import Change, Spread, spread
from benchmarks.live.machine_usage import Loop
from benchmarks.live.modes import PHALANX, STOCK

TEMPLATE, NAMED = "template", "named"
CLAIMS = (TEMPLATE, NAMED)
"""Where the pods' claims come from. TEMPLATE: kube-controller-manager creates a claim for each pod, from a
ResourceClaimTemplate, after the pod. NAMED: the claims exist before the pods.
"""
MODES = (STOCK, PHALANX)
OURS, API_SERVER, SCHEDULER = "Phalanx", "API server", "scheduler"
"""The programs whose CPU is measured. `OURS`: webhook and controller together."""
LIMIT = 2.5
"""The most times that Phalanx may need as long as stock, from the first creation to the last binding (issue 40)."""
_PROGRAMS = {"kube-scheduler": "scheduler", "kube-controller-manager": "controller-manager"}
"""By the name in the user agent: the stock program whose writes are counted, beside those of Phalanx."""
_OURS = "system:serviceaccount:phalanx-system:"
"""The beginning of the user names of Phalanx's servers."""
_FIRST_FAILURE = 400
"""The lowest HTTP status of a write that was not accepted."""


@dataclass(frozen=True, slots=True)
class Setup:
    """The load of a run: `size` pods with a claim for one device each, on `nodes` nodes of 8 devices each.

    `scheduler_qps`: requests a second that the scheduler may send; None: its default, 50.
    """

    nodes: int
    size: int
    scheduler_qps: int | None


@dataclass(frozen=True, slots=True)
class Lot:
    """The measurement of pods that are created together. Times are in seconds, until the last pod was bound.

    :ivar since_first: from the start of the creation of the first pod.
    :ivar since_last: from the end of the creation of the last pod.
    :ivar first_bound: from the start of the creation of the first pod until the first pod was bound.
    :ivar writes: the number of writes to the API server from the first creation on, by program and type of write.
    :ivar doubled: how many devices were in two claims after the last binding.
    :ivar cpu: by program, the seconds of CPU that it used from the first creation until the writes were counted.
    """

    mode: str
    claims: str
    since_first: float
    since_last: float
    first_bound: float
    writes: Mapping[str, int]
    doubled: int
    cpu: Mapping[str, float]
    loop: Loop


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """The figures over the rounds of one mode and one source of claims.

    :ivar x_stock: `since_first` divided by its median of the stock scheduler with the same source of claims; None if
        the stock scheduler is not measured.
    :ivar writes: the number of writes for each pod, by program and kind; medians.
    """

    mode: str
    claims: str
    rounds: int
    since_first: Spread
    since_last: Spread
    first_bound: Spread
    x_stock: Spread | None
    writes: Mapping[str, float]
    doubled: int
    cpu: Mapping[str, Spread]
    loop: Spread

    @property
    def title(self) -> str:
        """The row's mode and source of claims as text."""
        return f"{self.mode}, {self.claims}"


def writes_in(events: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Return how many accepted writes each program sent, by program and kind (`Phalanx: patch pods/status`).

    :param events: of the API server's audit log. Writes of Leases are not counted, because they happen without pods,
        too.
    """
    found = Counter[str]()
    for event in events:
        agent = event.get("userAgent", "").partition("/")[0]
        program = "Phalanx" if event["user"]["username"].startswith(_OURS) else _PROGRAMS.get(agent, "")
        about, code = event.get("objectRef") or {}, (event.get("responseStatus") or {}).get("code", 0)
        if not program or about.get("resource") == "leases" or code >= _FIRST_FAILURE:
            continue
        resource = "/".join(filter(None, (about.get("resource"), about.get("subresource"))))
        found[f"{program}: {event['verb']} {resource}"] += 1
    return found


def doubled(claims: Iterable[Mapping[str, Any]]) -> int:
    """Return how many devices more than one of these ResourceClaims has."""
    counts = Counter(
        (result["driver"], result["pool"], result["device"])
        for claim in claims
        for result in ((claim.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results", ())
    )
    return sum(count > 1 for count in counts.values())


def rows(lots: Sequence[Lot], size: int) -> list[DeviceRow]:
    """Return a row for each source of claims and mode, in the order of their first lots. `size`: pods of a lot."""
    keys = dict.fromkeys((lot.claims, lot.mode) for lot in lots)
    by_key = {key: [lot for lot in lots if (lot.claims, lot.mode) == key] for key in keys}
    return [_row(each, by_key.get((claims, STOCK), []), size) for (claims, _), each in by_key.items()]


def _row(lots: Sequence[Lot], stock: Sequence[Lot], size: int) -> DeviceRow:
    base = median(lot.since_first for lot in stock) if stock else 0.0
    names = sorted({name for lot in lots for name in lot.writes})
    return DeviceRow(
        mode=lots[0].mode,
        claims=lots[0].claims,
        rounds=len(lots),
        since_first=spread([lot.since_first for lot in lots]),
        since_last=spread([lot.since_last for lot in lots]),
        first_bound=spread([lot.first_bound for lot in lots]),
        x_stock=spread([lot.since_first / base for lot in lots]) if stock else None,
        writes={name: median(lot.writes.get(name, 0) for lot in lots) / size for name in names},
        doubled=max(lot.doubled for lot in lots),
        cpu={name: spread([lot.cpu[name] for lot in lots]) for name in lots[0].cpu},
        loop=spread([lot.loop.elapsed for lot in lots]),
    )


def as_json(found: Sequence[DeviceRow], setup: Setup, about: str) -> str:
    """Return the rows as JSON. `about`: a sentence about the machine."""
    table = {"about": about, "setup": asdict(setup), "limit": LIMIT, "rows": [asdict(row) for row in found]}
    return json.dumps(table, indent=1) + "\n"


def changes(found: Sequence[DeviceRow]) -> list[Change]:
    """Return a sentence for each row of Phalanx above `LIMIT`, and one about devices that two claims had."""
    wrong = []
    for row in found:
        if row.mode == PHALANX and row.x_stock is not None and row.x_stock.middle > LIMIT:
            wrong.append(Change(f"{row.title}: {row.x_stock.text()} times stock, {LIMIT} are allowed", much=True))
        if row.doubled:
            wrong.append(Change(f"{row.title}: {row.doubled} devices were in two claims", much=True))
    return wrong


_HEAD = (
    "| claims | mode | rounds | all bound, s | x stock | since the last creation, s | first bound, s | writes a pod "
    "| of these by Phalanx | doubled devices | CPU of Phalanx, s | of the API server, s | of the scheduler, s "
    "| loop, s |\n"
    "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
)
_WORDS = (
    "Median (least-most). `make bench` writes this page. `stock`: pods without a gang, which kube-scheduler binds one "
    "by one. `phalanx`: the same pods as one gang; all its devices are held before the first pod is released. "
    "`template`: kube-controller-manager creates the claims, after the pods. `named`: the claims exist before. `all "
    "bound`: from the start of the first pod's creation to the last binding. `x stock`: divided by the median of stock "
    "with the same claims; at most {} are allowed. `writes`: accepted writes of Phalanx, kube-scheduler and "
    "kube-controller-manager by the audit log, without leases. `doubled`: devices that two claims had. `loop`: the "
    "elapsed time of a fixed loop right before the measurement; on a busy machine the loop takes longer."
)


def text(lot: Lot) -> str:
    """Return the measurement of one lot as a line of text."""
    ours = sum(count for name, count in lot.writes.items() if name.startswith("Phalanx"))
    times = f"{lot.since_first:.2f} s, first bound after {lot.first_bound:.2f}"
    cpu = ", ".join(f"{name} {seconds:.1f}" for name, seconds in lot.cpu.items())
    return f"{lot.claims:8} {lot.mode:8} {times}; {sum(lot.writes.values())} writes, {ours} by Phalanx; CPU, s: {cpu}"


def page(found: Sequence[DeviceRow], setup: Setup, about: str) -> str:
    """Return the results of the whole run as a page in Markdown. `about`: a sentence about the machine."""
    scene = f"{setup.nodes:,} nodes of kwok with 8 devices each; {setup.size} pods with a claim for one device each."
    limit = f"The scheduler may send {setup.scheduler_qps or 50:,} requests a second."
    lines = [
        f"# {setup.size} pods with devices: stock and Phalanx",
        "",
        f"{scene} {limit} {about}",
        "",
        _WORDS.format(LIMIT),
        "",
        _HEAD,
        *map(_line, found),
        "",
        "## Writes a pod",
        "",
        *_writes(found),
        "",
    ]
    return "\n".join(lines)


def _line(row: DeviceRow) -> str:
    ours = sum(count for name, count in row.writes.items() if name.startswith("Phalanx"))
    cells = [
        row.claims,
        row.mode,
        str(row.rounds),
        row.since_first.text(),
        row.x_stock.text() if row.x_stock is not None else "-",
        row.since_last.text(),
        row.first_bound.text(),
        f"{sum(row.writes.values()):.2f}",
        f"{ours:.2f}",
        str(row.doubled),
        *(row.cpu[name].text() if name in row.cpu else "-" for name in (OURS, API_SERVER, SCHEDULER)),
        row.loop.text(),
    ]
    return f"| {' | '.join(cells)} |"


def _writes(found: Sequence[DeviceRow]) -> Iterator[str]:
    """Yield the lines of a table with a column for each row of figures, and a line for each type of write."""
    yield f"| {' | '.join(['program and write', *(row.title for row in found)])} |"
    yield "| --- " + "| ---: " * len(found) + "|"
    for name in sorted({name for row in found for name in row.writes}):
        yield f"| {' | '.join([name, *(f'{row.writes.get(name, 0.0):.2f}' for row in found)])} |"
