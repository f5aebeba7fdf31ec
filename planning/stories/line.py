"""A gang's position among the gangs that wait for capacity: higher priority first, then the older gang, then by name.

This is the order in which the controller plans gangs (`planning.gang_order.in_order`), as far as it can be read from
Gang objects and their pods.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gangs.model import Manifest
from kube.names import natural_key
from planning.decision import Refusal, WaitReason

_SHOWN = 3
_LAST = "~"
"""A text that sorts after every RFC 3339 time: a timed-out gang comes after the other gangs of its priority."""


@dataclass(frozen=True, slots=True)
class PlaceInLine:
    """A gang's position. `before`: the gangs ahead of it (`namespace/name`) in order; `waiting`: the number of all
    waiting gangs.
    """

    before: tuple[str, ...]
    waiting: int

    def __str__(self) -> str:
        """`2 of 3, after default/big`."""
        shown = self.before[:_SHOWN]
        rest = len(self.before) - len(shown)
        names = ", ".join(shown) + (f" and {rest} more" if rest else "")
        return f"{len(self.before) + 1} of {self.waiting}" + (f", after {names}" if names else "")


def in_line(gang: Manifest) -> bool:
    """Whether the gang waits for nothing but capacity or its turn. A gang that never fits waits in vain."""
    status: Mapping[str, Any] = gang.get("status") or {}
    if status.get("reason") == Refusal.NEVER_FITS.value:
        return False
    waits = status.get("reason") in ("NotPlannedYet", WaitReason.QUOTA_EXHAUSTED.value)
    return status.get("phase") == "Unplaceable" or waits


def place(gang: Manifest, gangs: Iterable[Manifest], priority: Mapping[str, int]) -> PlaceInLine:
    """Return the gang's position. `priority`: priorities by the uid of the Gang object; 0 if it is missing."""

    def turn(each: Manifest) -> tuple[int, str, object]:
        meta = each["metadata"]
        conditions = (each.get("status") or {}).get("conditions") or ()
        over = any(one["type"] == "TimedOut" and one["status"] == "True" for one in conditions)
        created = _LAST if over else meta["creationTimestamp"]
        return -priority.get(meta["uid"], 0), created, natural_key(f"{meta['namespace']}/{meta['name']}")

    waiting = [each for each in gangs if in_line(each)]
    before = sorted((each for each in waiting if turn(each) < turn(gang)), key=turn)
    names = tuple(f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in before)
    return PlaceInLine(names, len(waiting))
