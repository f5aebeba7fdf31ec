"""One lot of pods, from its creation to all bound, and away again."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.live import load, usage
from controlplane.control_plane import ControlPlane, wait_until

STOCK, PHALANX = "stock", "phalanx"
MODES = (STOCK, PHALANX)
LONGEST = 300.0
"""Seconds that a lot may take."""
LOOK_SECONDS = 0.02
"""How often it is asked whether all are bound."""
REST_SECONDS = 3.0
"""Between two lots."""


@dataclass(frozen=True, slots=True)
class Lot:
    """What became of it. Times in seconds, until all were bound: `since_last` from when the last pod had been created,
    `since_first` from when the first was about to be. `cpu`: by server of ours, the seconds it used from before the lot
    came until it was gone.
    """

    mode: str
    size: int
    since_last: float
    since_first: float
    racks: int
    cpu: Mapping[str, float] = field(default_factory=dict)


def run(plane: ControlPlane, mode: str, size: int, number: int, servers: Mapping[str, int]) -> Lot:
    """Bring so many pods to their nodes. `servers`: the process ids of ours by their names.

    :raises controlplane.control_plane.StartError: they were not all bound in time.
    """
    name, before = f"{mode}-{size}-{number}", usage.usage_of(servers)
    if mode == PHALANX:
        plane.create(load.GANGS, [load.gang(name, size)])
    pods = load.pods(name, size, member=mode == PHALANX)
    first = time.monotonic()
    plane.create(load.PODS, pods)
    last = time.monotonic()
    _await_none(plane, f"{load.PODS}?fieldSelector=spec.nodeName%3D&limit=1", f"{size} pods to be bound")
    bound = time.monotonic()
    items = plane.request("GET", load.PODS)["items"]
    racks = {load.rack_of(each["spec"]["nodeName"]) for each in items}
    _remove(plane, mode, name)
    cpu = usage.spent(before, usage.usage_of(servers))
    return Lot(mode, size, bound - last, bound - first, len(racks), cpu)


def _remove(plane: ControlPlane, mode: str, name: str) -> None:
    plane.request("DELETE", f"{load.PODS}?gracePeriodSeconds=0")
    if mode == PHALANX:
        plane.request("DELETE", f"{load.GANGS}/{name}")
    _await_none(plane, f"{load.PODS}?limit=1", "pods to go")
    time.sleep(REST_SECONDS)


def _await_none(plane: ControlPlane, path: str, what: str) -> None:
    def none() -> bool:
        time.sleep(LOOK_SECONDS)
        return not plane.request("GET", path)["items"]

    wait_until(none, LONGEST, what)
