"""A gang's position among the gangs that wait for the same reason: by priority, then by age, then by name.

The controller plans gangs in this order (`planning.gang_order.in_order`). The position is derived from Gang objects and
their pods only.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gangs.model import Manifest
from kube.names import natural_key
from planning.decision import Refusal, WaitReason

_SHOWN = 3
_LAST = "~"
"""A text that sorts after every RFC 3339 time. Used as the creation time of a gang that timed out, so that this gang
comes after the other gangs of its priority.
"""


@dataclass(frozen=True, slots=True)
class PlaceInLine:
    """A gang's position among the gangs that wait for the same `thing`: capacity or a quota.

    `before`: the gangs before it, as `namespace/name`, in the order in which they will be planned. `waiting`: how many
    gangs wait in all.
    """

    before: tuple[str, ...]
    waiting: int
    thing: str

    def __str__(self) -> str:
        """Return the position as text: `2 of 3 for capacity, after default/big`."""
        shown = self.before[:_SHOWN]
        rest = len(self.before) - len(shown)
        names = ", ".join(shown) + (f" and {rest} more" if rest else "")
        place = f"{len(self.before) + 1} of {self.waiting} for {self.thing}"
        return f"{place}, after {names}" if names else place


def in_line(gang: Manifest) -> bool:
    """Whether the gang waits for nothing but capacity, quota or its turn. False for a gang that fits on no cluster
    state.
    """
    status: Mapping[str, Any] = gang.get("status") or {}
    if status.get("reason") == Refusal.NEVER_FITS.value:
        return False
    waits = status.get("reason") in ("NotPlannedYet", WaitReason.QUOTA_EXHAUSTED.value)
    return status.get("phase") == "Unplaceable" or waits


def thing(gang: Manifest) -> str:
    """Return what a waiting gang waits for, as text: capacity, or the quota of the queue that the gang names."""
    if (gang.get("status") or {}).get("reason") != WaitReason.QUOTA_EXHAUSTED.value:
        return "capacity"
    return f"the quota of queue {gang['metadata']['namespace']}/{(gang.get('spec') or {}).get('queue', '')}"


def place(gang: Manifest, gangs: Iterable[Manifest], priority: Mapping[str, int]) -> PlaceInLine:
    """Return the gang's position among the gangs that wait for the same thing.

    The thing is the quota of one queue, or the capacity of the cluster (`thing`).

    :param priority: of gangs, by the uid of their Gang objects; a gang without an entry has priority 0.
    """

    def turn(each: Manifest) -> tuple[int, str, object]:
        meta = each["metadata"]
        conditions = (each.get("status") or {}).get("conditions") or ()
        over = any(one["type"] == "TimedOut" and one["status"] == "True" for one in conditions)
        created = _LAST if over else meta["creationTimestamp"]
        return -priority.get(meta["uid"], 0), created, natural_key(f"{meta['namespace']}/{meta['name']}")

    awaited = thing(gang)
    waiting = [each for each in gangs if in_line(each) and thing(each) == awaited]
    before = sorted((each for each in waiting if turn(each) < turn(gang)), key=turn)
    names = tuple(f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in before)
    return PlaceInLine(names, len(waiting), awaited)
