"""A gang's place in the line of those that wait for room: higher priority first, then the older, then by name.

As the controller plans them (`planning.gang_order.in_order`), as far as Gang objects and their pods tell.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gangs.model import Manifest
from kube.names import natural_key
from planning.decision import Refusal, WaitReason

_SHOWN = 3
_LAST = "~"
"""After every RFC 3339 time: a gang whose time is over comes after those of its priority."""


@dataclass(frozen=True, slots=True)
class PlaceInLine:
    """Who comes before, the first first (`namespace/name`), and how many wait in all."""

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
    """The gang's place. `priority`: of gangs by the uid of their Gang objects, 0 where it is not told."""

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
