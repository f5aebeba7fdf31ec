"""How a gang stands, as text for a terminal: one headline, then only what there is to say."""

import io
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from cli.text.ages import age, moment
from cli.text.line import PlaceInLine
from gangs.mirrors import mirrored_key
from gangs.model import Manifest
from kube.keys import GATE, PLANNED_NODE
from kube.names import natural_key
from kube.objects import Pod
from kube.placeholders import is_seat
from planning.messages.wording import NEAREST_COLUMNS, domain, listed, nearest_row, pods

NO_LEADER_SECONDS = 60
"""A lease that is older than this much beyond its duration has no holder any more."""

_UNLIMITED = 100_000
"""Columns where nobody looks at a terminal: lines stay whole, whatever reads them."""
_STYLES = {
    "Placed": "bold green",
    "Released": "bold green",
    "Unplaceable": "bold red",
    "Invalid": "bold red",
}


@dataclass(frozen=True, slots=True)
class GangFacts:
    """What is known of a gang: its Gang object, its members, events (core/v1), and the spec of the controllers' lease.

    `leader` is None where there is no lease, and empty where it could not be read. `place`: in the line of those that
    wait for room; None where it does not stand in it, or where that may not be read.
    """

    manifest: Manifest
    pods: Sequence[Pod] = ()
    events: Sequence[Manifest] = ()
    leader: Manifest | None = None
    place: PlaceInLine | None = None

    @property
    def status(self) -> Mapping[str, Any]:
        """The Gang's status, empty before the first."""
        return self.manifest.get("status") or {}

    @property
    def spec(self) -> Mapping[str, Any]:
        """What the gang asks for."""
        return self.manifest.get("spec") or {}


def render(story: GangFacts, now: datetime) -> str:
    """The whole story as text; in colour and fitted to the width where the output is a terminal."""
    terminal = sys.stdout.isatty()
    console = Console(file=io.StringIO(), force_terminal=terminal, width=None if terminal else _UNLIMITED)
    with console.capture() as capture:
        for part in _parts(story, now):
            console.print(part, soft_wrap=isinstance(part, Text))
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())


def _parts(story: GangFacts, now: datetime) -> Iterator[RenderableType]:
    yield _headline(story)
    yield Text(f"  {story.status.get('message') or 'nothing has been decided yet'}")
    yield Text()
    yield _table((), _facts(story, now))
    for table in (_members(story), _victims(story), _nearest(story)):
        if table is not None:
            yield Text()
            yield table
    for reason in _left_over(story):
        yield Text()
        yield Text(f"  held back: {reason}")
    why_here = (story.status.get("explanation") or {}).get("whyHere")
    if why_here:
        yield Text()
        yield Text(f"  why here: {why_here}")
    changes = (story.status.get("explanation") or {}).get("wouldFitIf") or ()
    if changes:
        yield Text()
        yield from (Text(f"  would fit if: {change}") for change in changes)
    if story.events:
        yield Text()
        yield _history(story.events, now)


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
    key = mirrored_key(story.manifest)
    if key is not None:
        owners = story.manifest["metadata"].get("ownerReferences") or ()
        who = f"{owners[0]['kind']} {key.namespace}/{owners[0]['name']}" if owners else f"pods of gang {key}"
        yield "asked by", f"{who} ({key.dialect})"
    yield "wants", _wants(story.spec)
    yield "members", _presence(story)
    yield from _shared(story.status)
    since = _since(story.status)
    if since:
        yield "since", f"{since} ({age(since, now)} ago)"
    if story.place is not None:
        yield "in line", str(story.place)
    trouble = leader_trouble(story.leader, now)
    if trouble:
        yield "controller", trouble


def _wants(spec: Mapping[str, Any]) -> str:
    sets = spec.get("podSets") or ()
    count = sum(each["count"] for each in sets)
    least = spec.get("minMember")
    if least is None:
        least = sum(each.get("minCount") or each["count"] for each in sets)
    if count:
        parts = [
            f"{pods(count)} that start together" if least >= count else f"at least {least} of {pods(count)} together"
        ]
    else:
        parts = [f"at least {pods(least)} together" if least else "all its pods together"]
    if spec.get("required"):
        parts.append(f"in one {spec['required']}")
    if spec.get("preferred"):
        parts.append(f"if possible in one {spec['preferred']}")
    return ", ".join(parts)


def _presence(story: GangFacts) -> str:
    members = story.status.get("members") or {}
    here = [pod for pod in story.pods if not pod.terminating and not pod.finished]
    expected = max(members.get("expected", 0), len(here))
    parts = [f"{len(here)} of {expected} exist", f"{sum(pod.bound for pod in here)} bound"]
    missing = _missing(story, here)
    return ", ".join(parts) + (f"; missing: {missing}" if missing else "")


def _missing(story: GangFacts, here: Sequence[Pod]) -> str:
    """How many pods lack in which set, where there are several."""
    sets = story.spec.get("podSets") or ()
    if len(sets) < 2:  # noqa: PLR2004 - one set is the gang itself, whose numbers stand before
        return ""
    planned = {(e["namespace"], e["pod"]): e["podSet"] for e in story.status.get("assignments") or ()}
    known = Counter(planned.get((pod.metadata.namespace, pod.metadata.name)) or set_of(pod, sets) for pod in here)
    lacks = [(each["name"], each["count"] - known[each["name"]]) for each in sets]
    return listed([f"{count} of {name}" for name, count in lacks if count > 0] or [""])


def set_of(pod: Pod, sets: Sequence[Mapping[str, Any]]) -> str:
    """The set that a label of the pod names, as our own dialect and groups of groups do."""
    names = {each["name"] for each in sets}
    full = {f"{pod.metadata.namespace}/{value}": value for value in pod.metadata.labels.values()}
    return next((name for name in (*pod.metadata.labels.values(), *full) if name in names), "")


def _shared(status: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The domains in use, level by level above the node."""
    for level in (status.get("levels") or ())[:-1]:
        used = [f"{domain(each['path'])} ({each['pods']})" for each in level["domains"]]
        if used:
            mode = "" if level["mode"] == "none" else f", {level['mode']}"
            yield f"{level['level']}{mode}", ", ".join(used)


def _since(status: Mapping[str, Any]) -> str:
    """When the gang came to stand as it stands."""
    times = [each.get("lastTransitionTime") or "" for each in status.get("conditions") or ()]
    return max(times, default="")


def leader_trouble(leader: Manifest | None, now: datetime) -> str:
    """Why nothing may happen at all: no controller leads. "" while one does, or where that cannot be known."""
    if leader is None or (leader and not leader.get("holderIdentity")):
        return "none is running: nothing will change until one does"
    if not leader:
        return ""
    silent = (now - moment(leader["renewTime"])).total_seconds() - (leader.get("leaseDurationSeconds") or 0)
    if silent <= NO_LEADER_SECONDS:
        return ""
    return f"{leader['holderIdentity']} has been silent since {leader['renewTime']}: nothing will change until one runs"


def _members(story: GangFacts) -> RenderableType | None:
    planned = {(e["namespace"], e["pod"]): e["node"] for e in story.status.get("assignments") or ()}
    home = story.manifest["metadata"]["namespace"]
    rows = []
    for pod in sorted(story.pods, key=lambda each: natural_key(each.key)):
        meta = pod.metadata
        name = meta.name if meta.namespace == home else pod.key
        node = pod.spec.node_name or meta.annotations.get(PLANNED_NODE) or planned.get((meta.namespace, meta.name), "")
        rows.append((name, pod_state(pod), node))
    planned_for = story.status.get("assignments") or ()
    rows += [
        (each["pod"], "does not exist yet, room is held", each["node"])
        for each in planned_for
        if is_seat(each.get("uid", ""))
    ]
    return _table(("POD", "STATE", "NODE"), rows) if rows else None


def pod_state(pod: Pod) -> str:
    """How one member stands."""
    if pod.terminating:
        return "terminating"
    if pod.finished or pod.bound:
        return pod.status.phase if pod.status.phase != "Pending" else "bound, starting"
    if pod.gated_by(GATE):
        return "held back, room is held" if pod.status.nominated_node_name else "held back"
    refusal = next((c.message for c in pod.status.conditions if c.type == "PodScheduled" and c.status == "False"), "")
    return f"let go, not bound yet: {refusal}" if refusal else "let go, not bound yet"


def _left_over(story: GangFacts) -> Sequence[str]:
    """Why members beyond the minimum wait while the gang has its place: they say it themselves, the gang does not."""
    if story.status.get("phase") not in ("Placed", "Released"):
        return ()
    waiting = [pod for pod in story.pods if pod.gated_by(GATE) and not pod.status.nominated_node_name]
    told = (c.message for pod in waiting for c in pod.status.conditions if c.type == "PodScheduled")
    return tuple(dict.fromkeys(text.partition(": ")[2] for text in told if text.startswith("gang ")))


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
        nearest_row(each["path"], each["fits"], each["needed"], each["nodes"], each.get("excluded") or {})
        for each in (story.status.get("explanation") or {}).get("nearest") or ()
    ]
    return _table(NEAREST_COLUMNS, rows) if rows else None


def _history(events: Iterable[Manifest], now: datetime) -> RenderableType:
    rows = [
        (_seen(event, now), event.get("type", ""), event.get("reason", ""), event.get("message", ""))
        for event in sorted(events, key=_last)
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
