"""Formats the state of a gang for a terminal, for `phalanx why`: a headline, then the parts that are not empty."""

import io
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from cli.text.ages import age, ahead, clock, lasting
from gangs.model import Manifest
from kube.keys import PLANNED_NODE
from kube.names import natural_key
from kube.placeholders import is_seat
from planning.messages.wording import DEVICE_COLUMNS, NEAREST_COLUMNS, compressed, device_row, fitting, nearest_row
from planning.stories.devices import MemberDevices, devices_of_member, held_devices
from planning.stories.facts import (
    GangFacts,
    StartEstimate,
    asked_by,
    left_over,
    pod_state,
    presence,
    restarted,
    shared,
    since,
    waited,
    wants,
)
from planning.stories.timeline import folded, moment

NO_LEADER_SECONDS = 60
"""If the controllers' Lease is overdue by its duration and so many seconds more, no controller counts as leading."""

MOST_ROWS = 10
"""The most pods with a row of their own. More rows would push the answer off a screen of 24 lines."""
_UNLIMITED = 100_000
"""The width in columns if the output is no terminal. Lines are not wrapped, so that other programs can read them."""
_STYLES = {
    "Placed": "bold green",
    "Released": "bold green",
    "Unplaceable": "bold red",
    "Invalid": "bold red",
}


def render(story: GangFacts, now: datetime) -> str:
    """Return the state of the gang as text, which is coloured and fits the width if standard output is a terminal."""
    terminal = sys.stdout.isatty()
    console = Console(file=io.StringIO(), force_terminal=terminal, width=None if terminal else _UNLIMITED)
    with console.capture() as capture:
        for part in _parts(story, now):
            console.print(part, soft_wrap=isinstance(part, Text))
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())


def _parts(story: GangFacts, now: datetime) -> Iterator[RenderableType]:
    """Yield the parts of the text about a gang: its message and the remedies first, then its other facts, its pods and
    its events.
    """
    yield _headline(story)
    yield Text(f"  {story.status.get('message') or 'nothing has been decided yet'}")
    if line := restarted(story.status):
        yield Text(f"  {line}")
    for lines in _answers(story):
        yield Text()
        yield from (Text(f"  {line}") for line in lines)
    yield Text()
    yield _table((), _facts(story, now))
    for table in (_nearest(story), _devices_near(story), _victims(story), _members(story)):
        if table is not None:
            yield Text()
            yield table
    if story.events:
        yield Text()
        yield _history(story.events, now)


def _answers(story: GangFacts) -> Iterator[Sequence[str]]:
    """Yield groups of lines: the few domains that the gang may use, which changes would help, why the plan uses its
    domains, and why extra members wait.
    """
    explanation = story.status.get("explanation") or {}
    if only_in := explanation.get("onlyIn"):
        named = f", by {compressed(story.beside)}" if story.beside else ""
        yield [f"may run only in {only_in}{named}"]
    if changes := explanation.get("wouldFitIf"):
        yield [f"would fit if: {change}" for change in changes]
    if why_here := explanation.get("whyHere"):
        yield [f"why here: {why_here}"]
    if reasons := left_over(story):
        yield [f"held back: {reason}" for reason in reasons]


def _headline(story: GangFacts) -> Text:
    meta, status = story.manifest["metadata"], story.status
    phase = status.get("phase", "Unknown")
    style = _STYLES.get(phase, "bold yellow")
    line = Text.assemble((f"{meta['namespace']}/{meta['name']}", "bold"), "  ", (phase, style))
    if status.get("reason"):
        line.append(f"  {status['reason']}")
    if status.get("proof"):
        line.append(f"  {status['proof'].lower()}")
    return line


def _facts(story: GangFacts, now: datetime) -> Iterator[Sequence[str]]:
    if who := asked_by(story.manifest):
        yield "asked by", who
    yield "wants", wants(story.spec)
    yield "members", presence(story)
    if held := held_devices(story.pods, story.claims, story.status):
        yield "devices held", held
    yield from shared(story.status)
    if start := since(story.status):
        yield "since", f"{start} ({age(start, now)} ago)"
    if (seconds := waited(story.manifest)) is not None:
        yield (
            "waited",
            f"{lasting(seconds)} from its creation to its {'last ' if story.status.get('restarts') else ''}placement",
        )
    if restarts := story.status.get("restarts"):
        yield "restarts", str(restarts)
    if story.place is not None:
        yield "in line", str(story.place)
    if story.start is not None:
        yield "estimated start", _estimate(story.start, now)
    trouble = leader_trouble(story.leader, now)
    if trouble:
        yield "controller", trouble


def _estimate(start: StartEstimate, now: datetime) -> str:
    """Return an estimated start as text, such as `in 2h13m, at 14:13 UTC (an estimate: …)`, or `unknown:` and the
    reason.
    """
    if start.at is None:
        return f"unknown: {start.unknown}"
    end = f"the quota is free when {start.after} ends as expected" if start.after else "when the quota is free"
    return f"{ahead(start.at, now)}, at {clock(start.at, now)} (an estimate: {end})"


def leader_trouble(leader: Manifest | None, now: datetime) -> str:
    """Return a warning if no controller leads, so that nothing will change; "" if one leads.

    :param leader: the spec of the controllers' Lease; None if there is no Lease; empty if it may not be read.
    """
    if leader is None or (leader and not leader.get("holderIdentity")):
        return "none is running: nothing will change until one does"
    if not leader:
        return ""
    silent = (now - moment(leader["renewTime"])).total_seconds() - (leader.get("leaseDurationSeconds") or 0)
    if silent <= NO_LEADER_SECONDS:
        return ""
    return f"{leader['holderIdentity']} has been silent since {leader['renewTime']}: nothing will change until one runs"


def _members(story: GangFacts) -> RenderableType | None:
    """Return a table of the gang's pods with their states and nodes; None if there are no pods.

    If there are more than `MOST_ROWS`, the pods in one state share a row.
    """
    planned = {(e["namespace"], e["pod"]): e["node"] for e in story.status.get("assignments") or ()}
    home = story.manifest["metadata"]["namespace"]
    rows, devices = list[tuple[str, str, str]](), dict[str, MemberDevices]()
    for pod in sorted(story.pods, key=lambda each: natural_key(each.key)):
        meta = pod.metadata
        name = meta.name if meta.namespace == home else pod.key
        node = pod.spec.node_name or meta.annotations.get(PLANNED_NODE) or planned.get((meta.namespace, meta.name), "")
        rows.append((name, pod_state(pod), node))
        if (found := devices_of_member(pod, story.claims, story.status)) is not None:
            devices[name] = found
    planned_for = story.status.get("assignments") or ()
    rows += [
        (each["pod"], "does not exist yet, capacity is reserved", each["node"])
        for each in planned_for
        if is_seat(each.get("uid", ""))
    ]
    shown = [(*row, devices[row[0]].text if row[0] in devices else "") for row in rows]
    if len(rows) > MOST_ROWS:
        shown = _folded(rows, devices)
    columns = ("POD", "STATE", "NODE", *(["DEVICES"] if devices else []))
    return _table(columns, [row[: len(columns)] for row in shown]) if shown else None


def _folded(
    rows: Iterable[tuple[str, str, str]], devices: Mapping[str, MemberDevices]
) -> list[tuple[str, str, str, str]]:
    """Return one row for all pods in the same state: their names and nodes are compressed, such as `node-1..3`.

    Devices are counted.

    :param devices: by pod, the devices of the pods that have or get some.
    """
    by_state: dict[str, list[tuple[str, str]]] = {}
    for name, state, node in rows:
        by_state.setdefault(state, []).append((name, node))
    return [
        (
            compressed(name for name, _ in pods),
            state if len(pods) == 1 else f"{state} ({len(pods)} pods)",
            compressed(node for _, node in pods if node),
            _counted([devices[name] for name, _ in pods if name in devices]),
        )
        for state, pods in by_state.items()
    ]


def _counted(devices: Sequence[MemberDevices]) -> str:
    """Return the number of devices that members have and get: `16 devices`, or `12 devices, 4 planned`."""
    held, planned = (sum(each.count for each in devices if each.held is held) for held in (True, False))
    parts = [f"{held} {'device' if held == 1 else 'devices'}"] if held else []
    return ", ".join([*parts, *([f"{planned} planned"] if planned else [])])


def _victims(story: GangFacts) -> RenderableType | None:
    rows = [
        (
            f"{each['namespace']}/{each['pod']}",
            each.get("node", ""),
            str(each.get("priority", "")),
            each.get("gang", ""),
        )
        for each in story.status.get("victims") or ()
    ]
    return _table(("VICTIM", "NODE", "PRIORITY", "GANG"), rows) if rows else None


def _nearest(story: GangFacts) -> RenderableType | None:
    rows = [
        nearest_row(
            each["path"],
            fitting(each["fits"], each["needed"], each.get("fitsWithoutEvictions")),
            each["nodes"],
            each.get("excluded") or {},
        )
        for each in (story.status.get("explanation") or {}).get("nearest") or ()
    ]
    return _table(NEAREST_COLUMNS, rows) if rows else None


def _devices_near(story: GangFacts) -> RenderableType | None:
    """Return a table of the devices in the domains that are nearest to holding the gang; None if the gang asks for no
    devices, or was not rejected.
    """
    rows = [
        device_row(near["path"], count)
        for near in (story.status.get("explanation") or {}).get("nearest") or ()
        for count in near.get("devices") or ()
    ]
    return _table(DEVICE_COLUMNS, rows) if rows else None


def _history(events: Iterable[Manifest], now: datetime) -> RenderableType:
    order = sorted(events, key=_last)
    notes = folded(event.get("message", "") for event in order)
    rows = [
        (_seen(event, now), event.get("type", ""), event.get("reason", ""), note)
        for event, note in zip(order, notes, strict=True)
    ]
    return _table(("SEEN", "TYPE", "REASON", "NOTE"), rows)


def _seen(event: Manifest, now: datetime) -> str:
    count = (event.get("series") or {}).get("count") or event.get("count") or 1
    last = age(_last(event), now) if _last(event) else ""
    return f"{last} (x{count})" if count > 1 else last


def _last(event: Manifest) -> str:
    series = event.get("series") or {}
    return series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or ""


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> RenderableType:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim", show_header=bool(columns))
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return Padding(table, (0, 0, 0, 2), expand=False)
