"""One lot of pods, from its creation to all bound, and away again."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from benchmarks.live import load, machine_usage
from cluster.api.transport import MERGE_PATCH
from controlplane.control_plane import ControlPlane

STOCK, FLOOR, PHALANX, NATIVE = "stock", "floor", "phalanx", "native"
MODES = (STOCK, FLOOR, PHALANX, NATIVE)
"""Ungrouped pods; pods that know their nodes and are let go at once when the last of them is there, than which no gang
is faster that starts complete; a gang of ours; a gang of the scheduler's own (alpha in 1.37, behind feature gates).
"""
_GROUPS = {PHALANX: (load.GANGS, load.gang), NATIVE: (load.POD_GROUPS, load.pod_group)}
"""By mode: where the object goes that asks for a gang, and what makes it."""
_PODS: Mapping[str, Callable[[str, int], list[load.Manifest]]] = {
    STOCK: load.pods,
    FLOOR: load.held,
    PHALANX: partial(load.pods, member=True),
    NATIVE: partial(load.pods, grouped=True),
}
"""By mode: what makes the pods."""
_WRITERS = 8
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

    :raises TimeoutError: they were not all bound in time.
    """
    name, before = f"{mode}-{size}-{number}", machine_usage.usage_of(servers)
    if mode in _GROUPS:
        path, group = _GROUPS[mode]
        plane.create(path, [group(name, size)])
    pods = _PODS[mode](name, size)
    first = time.monotonic()
    plane.create(load.PODS, pods)
    last = time.monotonic()
    if mode == FLOOR:
        _let_go(plane, pods)
    _await_none(plane, f"{load.PODS}?fieldSelector=spec.nodeName%3D&limit=1", f"{size} pods to be bound")
    bound = time.monotonic()
    items = plane.request("GET", load.PODS)["items"]
    racks = {load.rack_of(each["spec"]["nodeName"]) for each in items}
    _remove(plane, mode, name, pods)
    cpu = machine_usage.spent(before, machine_usage.usage_of(servers))
    return Lot(mode, size, bound - last, bound - first, len(racks), cpu)


def _let_go(plane: ControlPlane, pods: Sequence[load.Manifest]) -> None:
    _ask_each(plane, pods, "PATCH", "", {"spec": {"schedulingGates": None}}, MERGE_PATCH)


def _remove(plane: ControlPlane, mode: str, name: str, pods: Sequence[load.Manifest]) -> None:
    """One by one: an API server ends a request after a minute, and to delete a collection can take longer."""
    _ask_each(plane, pods, "DELETE", "?gracePeriodSeconds=0")
    if mode in _GROUPS:
        plane.request("DELETE", f"{_GROUPS[mode][0]}/{name}")
    _await_none(plane, f"{load.PODS}?limit=1", "pods to go")
    time.sleep(REST_SECONDS)


def _ask_each(plane: ControlPlane, pods: Sequence[load.Manifest], method: str, query: str, *body: Any) -> None:
    """Ask for the same of each pod, several at a time, in their order."""

    def ask_part(part: Sequence[load.Manifest]) -> None:
        with plane.kept() as ask:
            for each in part:
                ask(method, f"{load.PODS}/{each['metadata']['name']}{query}", *body)

    with ThreadPoolExecutor(_WRITERS) as pool:
        for done in [pool.submit(ask_part, pods[start::_WRITERS]) for start in range(_WRITERS)]:
            done.result()


def _await_none(plane: ControlPlane, path: str, what: str) -> None:
    end = time.monotonic() + LONGEST
    with plane.kept() as ask:  # a handshake for each question would take a tenth of a core from what is measured
        while ask("GET", path)["items"]:
            if time.monotonic() > end:
                raise TimeoutError(f"waited {LONGEST:.0f} s for {what}")
            time.sleep(LOOK_SECONDS)
