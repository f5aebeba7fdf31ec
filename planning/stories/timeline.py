"""What has happened to a gang, in order: from its Gang object, and from events on it, its pods and what asked for it.

Events are kept for an hour, conditions as long as the Gang is: what only they still know is told from them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cluster.times import instant
from gangs.mirrors import mirrored_key
from gangs.model import Manifest

ASKED = "asked for"
PLANNED = "GangPlanned"
TOLD_BY_EVENTS: Mapping[str, str] = {
    "Planned": PLANNED,
    "Released": "GangReleased",
    "Placed": "GangPlaced",
    "TimedOut": "GangTimedOut",
}
"""Conditions, and the reason of the event that says more than they do, while there is one."""
WARNINGS = frozenset({"GangTimedOut"})
"""Those of these events that are warnings."""
_PLAIN: Mapping[str, str] = {"Complete": "all members exist"}


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happened. `what`: an event's reason, or ours in plain words. `times`: how often by now."""

    at: datetime
    what: str
    note: str
    warning: bool = False
    times: int = 1
    of: str = ""
    """The object that it happened to, where that is not the gang: `Kind name`."""


def moment(text: str) -> datetime:
    """An RFC 3339 time that the API server or Phalanx wrote. Raises ValueError for any other text."""
    if (time := instant(text)) is None:
        raise ValueError(f"{text!r} is not a time in RFC 3339")
    return time


def story(gang: Manifest, happened: Iterable[Manifest]) -> list[Step]:
    """The steps in their order. `happened`: events (core/v1) of the gang, its members and what asked for it."""
    reported = sorted((each for each in map(step_of, happened) if each is not None), key=lambda each: each.at)
    planned = next((each.at for each in reported if each.what == PLANNED), None)
    steps = [_asked(gang), *_conditions(gang, {each.what for each in reported if not each.of}, planned), *reported]
    return sorted(steps, key=lambda each: each.at)


def moment_of(event: Manifest) -> str:
    """When an event happened last (RFC 3339)."""
    series = event.get("series") or {}
    found = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return str(found or event["metadata"].get("creationTimestamp") or "")


def step_of(event: Manifest) -> Step | None:
    """The step that an event (core/v1) reports; None for an event without a valid time."""
    at = instant(moment_of(event))
    if at is None:
        return None
    whom = event.get("involvedObject") or {}
    of = "" if whom.get("kind") == "Gang" else f"{whom.get('kind', '')} {whom.get('name', '')}"
    times = (event.get("series") or {}).get("count") or event.get("count") or 1
    return Step(
        at=at,
        what=event.get("reason") or "",
        note=event.get("message") or "",
        warning=event.get("type") == "Warning",
        times=times,
        of=of,
    )


def _asked(gang: Manifest) -> Step:
    meta = gang["metadata"]
    key = mirrored_key(gang)
    owners: Sequence[Mapping[str, str]] = meta.get("ownerReferences") or ()
    if key is None:
        note = f"Gang {meta['namespace']}/{meta['name']}"
    elif owners:
        note = f"{owners[0]['kind']} {key.namespace}/{owners[0]['name']} ({key.dialect})"
    else:
        note = f"pods of gang {key} ({key.dialect})"
    return Step(moment(meta["creationTimestamp"]), ASKED, note)


def _conditions(gang: Manifest, known: Collection[str], planned: datetime | None) -> Iterator[Step]:
    """What conditions tell. Their times are cut to whole seconds: members were complete before they were planned."""
    for each in (gang.get("status") or {}).get("conditions") or ():
        at, note = instant(each.get("lastTransitionTime")), each.get("message", "")
        if each["status"] != "True" or at is None:
            continue
        if (reason := TOLD_BY_EVENTS.get(each["type"])) is not None and reason not in known:
            yield Step(at, reason, note, warning=reason in WARNINGS)
        elif each["type"] in _PLAIN:
            end = at + timedelta(seconds=1, microseconds=-1)
            yield Step(min(end, planned) if planned is not None and planned >= at else end, _PLAIN[each["type"]], "")
