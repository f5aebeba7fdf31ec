"""Text for a terminal from the webhook's record of an ended gang: its outcome, its waits, and its steps."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.text import Text

from cli.text.ages import age, lasting, since
from cli.text.columns import STYLES, lines, table
from planning.stories.timeline import moment

Json = Mapping[str, Any]

A_RECORD = "This is a record: the gang has ended, and no object in the cluster shows it any more."
REASONS: Mapping[str, str] = {
    "QuotaExhausted": "for quota",
    "NoRoom": "for capacity",
    "NeverFits": "for capacity",
    "NotProven": "for capacity",
    "MembersMissing": "for pods",
    "ObjectsMissing": "for objects",
    "ResourceClaims": "for devices",
    "NotPlannedYet": "for its plan",
    "New": "for its plan",
    "RoomHeld": "for its release",
    "VictimsLeaving": "for evictions",
    "Binding": "for binding",
}
"""The cause of a gang's wait in words, by the reason in its status. Further reasons are printed without words."""


def accelerator_hours(hours: Mapping[str, float]) -> float:
    """Return the sum of the hours of all GPU resources, such as nvidia.com/gpu and amd.com/gpu."""
    return sum(spent for name, spent in hours.items() if "gpu" in name.rpartition("/")[2].lower())


def record_text(gang: Json, earlier: int, now: datetime) -> str:
    """Return the record of an ended gang as `phalanx why` prints it.

    :param gang: the gang as `/v1/history` reports it.
    :param earlier: the number of further recorded gangs with the same name, which ended earlier.
    """
    rows = table(("", ""), list(_facts(gang, earlier)), indent="  ")[1:]
    return lines([_headline(gang, now), Text(f"  {A_RECORD}"), Text(), *rows])


def steps_text(gang: Json, now: datetime) -> str:
    """Return the record of an ended gang as `phalanx events` prints it: submission, start, evictions, end.

    :param gang: the gang as `/v1/history` reports it.
    """
    start = moment(gang["submitted"])
    rows = [[since(start, at), what, note] for at, what, note in _steps(gang)]
    titles = ("AFTER", "WHAT", "NOTE")
    return lines([_headline(gang, now), Text(f"  {A_RECORD}"), Text(), *table(titles, rows, indent="  ")])


def _headline(gang: Json, now: datetime) -> Text:
    outcome = gang["outcome"]
    name = f"{gang['namespace']}/{gang['name']}"
    style = f"bold {STYLES.get(outcome, '')}".strip()
    return Text.assemble((name, "bold"), "  ", (outcome, style), f"  ended {age(gang['finished'], now)} ago")


def _facts(gang: Json, earlier: int) -> Iterator[Sequence[str]]:
    yield "submitted", gang["submitted"]
    if gang["started"]:
        yield "started", f"{gang['started']}, {lasting(gang['waitedSeconds'])} after it was submitted"
        yield "finished", f"{gang['finished']}, after it ran for {lasting(gang['ranSeconds'])}"
    else:
        yield "started", "never"
        yield "finished", f"{gang['finished']}, {lasting(gang['waitedSeconds'])} after it was submitted"
    yield "waited", _waits_in_all(gang) or "not at all, as far as the record shows"
    yield "evictions", _evictions(gang)
    yield "restarts", str(gang["restarts"])
    yield "used", _used(gang["hours"])
    yield "pods", _place(gang)
    if gang["queue"]:
        yield "queue", f"{gang['namespace']}/{gang['queue']}"
    yield "dialect", gang["dialect"]
    if earlier:
        times = "once" if earlier == 1 else f"{earlier} times"
        yield "before", f"a gang of this name ended {times} before: phalanx gangs --all -n {gang['namespace']}"


def waits(waited: Iterable[Json]) -> str:
    """Return waits as text, such as `20s for quota (QuotaExhausted), 10s for capacity (NoRoom)`.

    :param waited: the field `waitedFor` of `/v1/history`, the longest wait first.
    """
    return ", ".join(f"{lasting(each['seconds'])} {_reason(each['reason'])}" for each in waited)


def _waits_in_all(gang: Json) -> str:
    """Return the waits of a gang with their sum, if there are several, and the part of it after the gang's first start.

    The parts are in whole seconds, so that they add up: `40s: 20s for quota (QuotaExhausted), 20s for capacity
    (NoRoom); 6s of it after its first start`.
    """
    waited = [{**each, "seconds": round(each["seconds"])} for each in gang["waitedFor"]]
    total = sum(each["seconds"] for each in waited)
    text = waits(waited)
    if len(waited) > 1:
        text = f"{lasting(total)}: {text}"
    later = total - round(gang["waitedSeconds"])
    # A difference of a second is rounding.
    return f"{text}; {lasting(later)} of it after its first start" if gang["started"] and later > 1 else text


def _reason(reason: str) -> str:
    words = REASONS.get(reason)
    return f"{words} ({reason})" if words else f"({reason})"


def _evictions(gang: Json) -> str:
    known = [" ".join((each["at"], *_cause(each))) for each in gang.get("displaced") or ()]
    return f"{gang['evictions']}: {', '.join(known)}" if known else str(gang["evictions"])


def _cause(displacement: Json) -> tuple[str, ...]:
    """Return the gang that an eviction made way for, such as ("for team-a/llm",); () if it is unknown."""
    return (f"for {displacement['by']}",) if displacement["by"] else ()


def _place(gang: Json) -> str:
    return f"{gang['pods']} in {gang['domain']}" if gang["domain"] else str(gang["pods"])


def _used(hours: Mapping[str, float]) -> str:
    parts = [f"{accelerator_hours(hours):.4g} GPU-hours"]
    parts += [f"{spent:.4g} {'core' if name == 'cpu' else name}-hours" for name, spent in hours.items()]
    return f"{parts[0]} ({', '.join(parts[1:])})" if len(parts) > 1 else parts[0]


def _steps(gang: Json) -> Iterator[tuple[datetime, str, str]]:
    queue = f"queue {gang['namespace']}/{gang['queue']}, " if gang["queue"] else ""
    yield moment(gang["submitted"]), "submitted", f"{queue}dialect {gang['dialect']}"
    if gang["started"]:
        yield moment(gang["started"]), "started", f"pods: {_place(gang)}"
    for each in gang.get("displaced") or ():
        yield moment(each["at"]), "evicted", "".join(_cause(each))
    told = [f"{gang['outcome']}; used {_used(gang['hours'])}"]
    if waited := _waits_in_all(gang):
        told.append(f"waited {waited}")
    if gang["restarts"]:
        told.append(f"restarts: {gang['restarts']}")
    yield moment(gang["finished"]), "finished", "; ".join(told)
