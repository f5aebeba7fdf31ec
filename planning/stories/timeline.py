"""The history of a gang as steps in order of time, from its Gang object and from events.

The events are those of the Gang, its pods and the object that asked for the gang. The API server keeps events for an
hour, but conditions as long as the Gang exists. A step whose event is gone is taken from a condition.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from cluster.times import instant
from gangs.mirrors import mirrored_key
from gangs.model import Manifest

ASKED = "asked for"
FOLDED_FROM = 40
"""The fewest characters of a clause that is not printed again when a later event repeats it."""
PLANNED = "GangPlanned"
TOLD_BY_EVENTS: Mapping[str, str] = {
    "Planned": PLANNED,
    "Released": "GangReleased",
    "Placed": "GangPlaced",
    "TimedOut": "GangTimedOut",
}
"""By condition of a Gang, the reason of the event that reports the same step with more detail. As long as the event
exists, it is shown in place of the condition.
"""
WARNINGS = frozenset({"GangTimedOut"})
"""The reasons in `TOLD_BY_EVENTS` that are warnings."""
_PLAIN: Mapping[str, str] = {"Complete": "all members exist"}


@dataclass(frozen=True, slots=True)
class Step:
    """One step in a gang's history. `what`: an event's reason, or plain text. `times`: how often the event happened."""

    at: datetime
    what: str
    note: str
    warning: bool = False
    times: int = 1
    of: str = ""
    """The object that the event is about, as `Kind name`; "" for the gang itself."""


def moment(text: str) -> datetime:
    """Return the time in an RFC 3339 text that the API server or Phalanx wrote. Raises ValueError for any other
    text.
    """
    if (time := instant(text)) is None:
        raise ValueError(f"{text!r} is not a time in RFC 3339")
    return time


def story(gang: Manifest, happened: Iterable[Manifest]) -> list[Step]:
    """Return the steps of the gang's history in order of time.

    `happened`: events (core/v1) of the Gang, its members, and the object that asked for the gang.
    """
    reported = sorted((each for each in map(step_of, happened) if each is not None), key=lambda each: each.at)
    planned = next((each.at for each in reported if each.what == PLANNED), None)
    steps = [_asked(gang), *_conditions(gang, {each.what for each in reported if not each.of}, planned), *reported]
    return sorted(steps, key=lambda each: each.at)


def folded(notes: Iterable[str]) -> list[str]:
    """Return the notes of several events without repetitions: a clause that an earlier note had becomes `as above`.

    A clause ends at a semicolon. Clauses shorter than `FOLDED_FROM` characters are repeated.
    """
    known: set[str] = set()
    found = []
    for note in notes:
        clauses = note.split("; ")
        shown = ["as above" if each in known else each for each in clauses]
        found.append("; ".join(each for each, _ in groupby(shown)))
        known.update(each for each in clauses if len(each) >= FOLDED_FROM)
    return found


def moment_of(event: Manifest) -> str:
    """Return when an event happened last (RFC 3339); "" if the event has no time."""
    series = event.get("series") or {}
    found = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return str(found or event["metadata"].get("creationTimestamp") or "")


def step_of(event: Manifest) -> Step | None:
    """Return the step that an event (core/v1) reports; None for an event without a valid time."""
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
    """Yield the steps that only the Gang's conditions report. `known`: the reasons of its events, which are left out.

    Condition times are whole seconds. So the completion step is moved to the end of its second, but not after
    `planned`, because members were complete before they were planned.
    """
    for each in (gang.get("status") or {}).get("conditions") or ():
        at, note = instant(each.get("lastTransitionTime")), each.get("message", "")
        if each["status"] != "True" or at is None:
            continue
        if (reason := TOLD_BY_EVENTS.get(each["type"])) is not None and reason not in known:
            yield Step(at, reason, note, warning=reason in WARNINGS)
        elif each["type"] in _PLAIN:
            end = at + timedelta(seconds=1, microseconds=-1)
            yield Step(min(end, planned) if planned is not None and planned >= at else end, _PLAIN[each["type"]], "")
