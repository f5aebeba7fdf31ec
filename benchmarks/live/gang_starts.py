"""When the pods of many gangs are bound: read from the events of a watch, and the figures that follow from them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from benchmarks.live import load
from controlplane.recording import WatchEvent, bound

IN_PART_SECONDS = 5.0
"""A gang that is in part for longer counts. Binding one gang of 8 pods takes a stock scheduler less on any machine."""


@dataclass(frozen=True, slots=True)
class Binding:
    """A pod of a gang is bound to `node`; an empty `node` means that the bound pod is gone. `at`: monotonic seconds."""

    at: float
    gang: str
    pod: str
    node: str


@dataclass(frozen=True, slots=True)
class Starts:
    """How many gangs of one size started.

    :ivar bound: the pods bound at the end.
    :ivar seconds: from the beginning to the last binding.
    :ivar half: seconds from the beginning until half of all pods were bound.
    :ivar racks: the racks of a gang at the end, as the mean of all gangs.
    :ivar in_part: by gang, the longest time without a break in which some but not all of its pods were bound.
    """

    bound: int
    seconds: float
    half: float
    racks: float
    in_part: Mapping[str, float]

    @property
    def long_in_part(self) -> int:
        """The number of gangs that were in part for longer than `IN_PART_SECONDS`."""
        return sum(seconds > IN_PART_SECONDS for seconds in self.in_part.values())


def bindings(events: Iterable[WatchEvent]) -> list[Binding]:
    """Return when pods of Jobs were bound and when bound pods were deleted, in the order of the watch's events."""
    nodes, changes = dict[str, str](), list[Binding]()
    for event in events:
        node = "" if event.type == "DELETED" else bound(event)
        if nodes.get(event.name, "") != node:
            nodes[event.name] = node
            changes.append(Binding(event.at, load.job_of(event.object), event.name, node))
    return changes


def starts(changes: Sequence[Binding], gangs: int, size: int, began: float) -> Starts:
    """Return the figures of `gangs` gangs of `size` pods each. `began`: when their creation began.

    :raises ValueError: there are no changes.
    """
    if not changes:
        raise ValueError("no pod was bound")
    nodes, in_part, since = dict[str, dict[str, str]](), dict[str, float](), dict[str, float]()
    half, total = changes[-1].at, 0
    for change in changes:
        of_gang = nodes.setdefault(change.gang, {})
        total -= len(of_gang)
        if change.node:
            of_gang[change.pod] = change.node
        else:
            of_gang.pop(change.pod, None)
        total += len(of_gang)
        if 2 * total >= gangs * size:
            half = min(half, change.at)
        if 0 < len(of_gang) < size:
            since.setdefault(change.gang, change.at)
        elif change.gang in since:
            lasted = change.at - since.pop(change.gang)
            in_part[change.gang] = max(lasted, in_part.get(change.gang, 0.0))
    for gang, beginning in since.items():
        in_part[gang] = max(changes[-1].at - beginning, in_part.get(gang, 0.0))
    racks = [len({load.rack_of(node) for node in of_gang.values()}) for of_gang in nodes.values() if of_gang]
    return Starts(total, changes[-1].at - began, half - began, mean(racks) if racks else 0.0, in_part)
