"""One lot of pods, from its creation to all bound, and away again."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from benchmarks.live import kueue, load, machine_usage
from benchmarks.live.crowding import EMPTY, Fewest
from cluster.api.transport import MERGE_PATCH
from controlplane.control_plane import ControlPlane, wait_until

STOCK, FLOOR, PHALANX, NATIVE = "stock", "floor", "phalanx", "native"
JOB_STOCK, JOB_PHALANX, JOB_KUEUE = "job: stock", "job: phalanx", "job: kueue"
MODES = (STOCK, FLOOR, PHALANX, NATIVE, JOB_STOCK, JOB_PHALANX, JOB_KUEUE)
"""Ungrouped pods; pods that know their nodes and are let go at once when the last of them is there, than which no gang
is faster that starts complete; a gang of ours; a gang of the scheduler's own (alpha in 1.37, behind feature gates).
Then Jobs, from their own creation: of no gang, of a gang of ours, in Kueue's queue.
"""
STOCK_OF = {mode: JOB_STOCK if mode.startswith("job") else STOCK for mode in MODES}
"""By mode: what it is compared with."""
_GROUPS = {PHALANX: (load.GANGS, load.gang), NATIVE: (load.POD_GROUPS, load.pod_group)}
"""By mode: where the object goes that asks for a gang, and what makes it."""
_PODS: Mapping[str, Callable[[str, int], list[load.Manifest]]] = {
    STOCK: load.pods,
    FLOOR: load.held,
    PHALANX: partial(load.pods, member=True),
    NATIVE: partial(load.pods, grouped=True),
}
"""By mode: what makes the pods."""
_JOBS: Mapping[str, Callable[[str, int], load.Manifest]] = {
    JOB_STOCK: load.job,
    JOB_PHALANX: partial(load.job, gang=True),
    JOB_KUEUE: partial(load.job, queued=True),
}
"""By mode: what makes the Job."""
_WRITERS = 8
LONGEST = 300.0
"""Seconds that a lot may take."""
LOOK_SECONDS = 0.02
"""How often it is asked whether all are bound."""
REST_SECONDS = 3.0
"""Between two lots."""


@dataclass(frozen=True, slots=True)
class Where:
    """Among whom lots were brought to their nodes. `scene`: how full the nodes were, `beside`: who was installed,
    `servers`: its process ids by their names.
    """

    scene: str = EMPTY
    beside: str = "Phalanx"
    servers: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lot:
    """What became of it. Times in seconds, until all were bound: `since_last` from when the last pod had been created,
    `since_first` from when the first, or the Job, was about to be. `cpu`: by server, the seconds it used from before
    the lot came until it was gone. `fewest`: how few domains would have done; None: not counted.
    """

    mode: str
    size: int
    since_last: float
    since_first: float
    racks: int
    cpu: Mapping[str, float] = field(default_factory=dict)
    blocks: int = 1
    fewest: Fewest | None = None
    scene: str = EMPTY
    beside: str = "Phalanx"


@dataclass(frozen=True, slots=True)
class Asked:
    """A lot that is to be brought to its nodes, the `number`th of its mode and size."""

    mode: str
    size: int
    number: int
    fewest: Fewest | None = None


def run(plane: ControlPlane, asked: Asked, where: Where) -> Lot:
    """Bring so many pods to their nodes.

    :raises TimeoutError: they were not all bound in time.
    """
    mode, size = asked.mode, asked.size
    name, before = f"{mode.replace(': ', '-')}-{size}-{asked.number}", machine_usage.usage_of(where.servers)
    bring, remove = (_bring_job, _remove_job) if mode in _JOBS else (_bring_pods, _remove_pods)
    first, last = bring(plane, mode, name, size)
    _await_none(plane, f"{load.PODS}?fieldSelector=spec.nodeName%3D&limit=1", f"{size} pods to be bound")
    bound = time.monotonic()
    nodes = [each["spec"]["nodeName"] for each in plane.request("GET", load.PODS)["items"]]
    remove(plane, mode, name, size)
    _await_none(plane, f"{load.PODS}?limit=1", "pods to go")
    time.sleep(REST_SECONDS)
    cpu = machine_usage.spent(before, machine_usage.usage_of(where.servers))
    racks, blocks = ({of(node) for node in nodes} for of in (load.rack_of, load.block_of))
    times = (bound - last, bound - first)
    return Lot(mode, size, *times, len(racks), cpu, len(blocks), asked.fewest, where.scene, where.beside)


def _bring_pods(plane: ControlPlane, mode: str, name: str, size: int) -> tuple[float, float]:
    """When the first was about to be created, and when the last had been."""
    if mode in _GROUPS:
        path, group = _GROUPS[mode]
        plane.create(path, [group(name, size)])
    pods = _PODS[mode](name, size)
    first = time.monotonic()
    plane.create(load.PODS, pods)
    last = time.monotonic()
    if mode == FLOOR:
        _let_go(plane, pods)
    return first, last


def _bring_job(plane: ControlPlane, mode: str, name: str, size: int) -> tuple[float, float]:
    """When the Job was about to be created, and when its last pod had been."""
    first = time.monotonic()
    plane.create(load.JOBS, [_JOBS[mode](name, size)])
    end = first + LONGEST
    while _count(plane.request("GET", f"{load.PODS}?limit=1")) < size:
        if time.monotonic() > end:
            raise TimeoutError(f"waited {LONGEST:.0f} s for the {size} pods of {name} to be made")
        time.sleep(LOOK_SECONDS)
    return first, time.monotonic()


def _count(answer: Mapping[str, Any]) -> int:
    """How many there are of what was listed in part."""
    return len(answer["items"]) + int(answer["metadata"].get("remainingItemCount") or 0)


def _let_go(plane: ControlPlane, pods: Sequence[load.Manifest]) -> None:
    _ask_each(plane, pods, "PATCH", "", {"spec": {"schedulingGates": None}}, MERGE_PATCH)


def _remove_pods(plane: ControlPlane, mode: str, name: str, size: int) -> None:
    """One by one: an API server ends a request after a minute, and to delete a collection can take longer."""
    _ask_each(plane, _PODS[mode](name, size), "DELETE", "?gracePeriodSeconds=0")
    if mode in _GROUPS:
        plane.request("DELETE", f"{_GROUPS[mode][0]}/{name}")


def _remove_job(plane: ControlPlane, mode: str, name: str, size: int) -> None:
    """Its pods go with it, and what others keep of it."""
    del mode, size
    plane.request("DELETE", f"{load.JOBS}/{name}?propagationPolicy=Background")
    wait_until(lambda: not kueue.workloads(plane), LONGEST, "Kueue's workloads to go")


def _ask_each(plane: ControlPlane, pods: Sequence[load.Manifest], method: str, query: str, *body: Any) -> None:
    """Ask for the same of each pod, several at a time, in their order."""

    def ask_part(part: Sequence[load.Manifest]) -> None:
        for each in part:
            plane.request(method, f"{load.PODS}/{each['metadata']['name']}{query}", *body)

    with ThreadPoolExecutor(_WRITERS) as pool:
        for done in [pool.submit(ask_part, pods[start::_WRITERS]) for start in range(_WRITERS)]:
            done.result()


def _await_none(plane: ControlPlane, path: str, what: str) -> None:
    end = time.monotonic() + LONGEST
    while plane.request("GET", path)["items"]:
        if time.monotonic() > end:
            raise TimeoutError(f"waited {LONGEST:.0f} s for {what}")
        time.sleep(LOOK_SECONDS)
