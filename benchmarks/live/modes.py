"""Measures one lot: creates pods of one mode (such as a gang, or ungrouped pods) together, waits until all are bound,
and deletes them.
"""

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
"""The modes of a lot.
- STOCK: ungrouped pods.
- FLOOR: pods that name their nodes, and are released at once when the last of them exists. No gang that starts complete
  is faster.
- PHALANX: a gang of Phalanx.
- NATIVE: a gang of the scheduler (alpha in 1.37, behind feature gates).
- JOB_STOCK, JOB_PHALANX, JOB_KUEUE: Jobs, from their own creation: without a gang, as a gang of Phalanx, in Kueue's
  queue.
"""
STOCK_OF = {mode: JOB_STOCK if mode.startswith("job") else STOCK for mode in MODES}
"""By mode: the mode that it is compared with."""
_GROUPS = {PHALANX: (load.GANGS, load.gang), NATIVE: (load.POD_GROUPS, load.pod_group)}
"""By mode: the path of the object that requests a gang, and the function that builds it."""
_PODS: Mapping[str, Callable[[str, int], list[load.Manifest]]] = {
    STOCK: load.pods,
    FLOOR: load.held,
    PHALANX: partial(load.pods, member=True),
    NATIVE: partial(load.pods, grouped=True),
}
"""By mode: the function that builds the pods."""
_JOBS: Mapping[str, Callable[[str, int], load.Manifest]] = {
    JOB_STOCK: load.job,
    JOB_PHALANX: partial(load.job, gang=True),
    JOB_KUEUE: partial(load.job, queued=True),
}
"""By mode: the function that builds the Job."""
_WRITERS = 8
LONGEST = 300.0
"""The most seconds that a lot may take until all its pods are bound."""
LOOK_SECONDS = 0.02
"""Seconds between two checks of whether all pods are bound."""
REST_SECONDS = 3.0
"""Seconds between two lots."""


@dataclass(frozen=True, slots=True)
class Where:
    """The conditions under which pods are measured.

    `scene`: how full the nodes were. `beside`: the installed system. `servers`: that system's process ids, by name.
    """

    scene: str = EMPTY
    beside: str = "Phalanx"
    servers: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lot:
    """The measurement of one lot of pods. Times are in seconds, until all its pods were bound.

    `since_last`: from the end of the last pod's creation. `since_first`: from the start of the creation of the first
    pod, or of the Job. `cpu`: by server, the seconds that it used from before the lot was created until it was gone.
    `fewest`: the fewest domains that hold the pods; None: not counted. `grouped`: the number of its pods that are in a
    PodGroup of Kubernetes.
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
    grouped: int = 0


@dataclass(frozen=True, slots=True)
class Asked:
    """A lot of pods to be measured, the `number`th of its mode and size. `fewest`: the fewest domains that hold its
    pods. `known`: whether the pods of a gang are created only when the controller has written its Gang's status.
    """

    mode: str
    size: int
    number: int
    fewest: Fewest | None = None
    known: bool = False


def run(plane: ControlPlane, asked: Asked, where: Where) -> Lot:
    """Measure one lot: create its pods, wait until all are bound, and delete them.

    :raises TimeoutError: the pods were not all bound in time.
    """
    mode, size = asked.mode, asked.size
    name, before = f"{mode.replace(': ', '-')}-{size}-{asked.number}", machine_usage.usage_of(where.servers)
    bring, remove = (_bring_job, _remove_job) if mode in _JOBS else (_bring_pods, _remove_pods)
    first, last = bring(plane, asked, name)
    _await_none(plane, f"{load.PODS}?fieldSelector=spec.nodeName%3D&limit=1", f"{size} pods to be bound")
    bound = time.monotonic()
    specs = [each["spec"] for each in plane.request("GET", load.PODS)["items"]]
    nodes, grouped = [each["nodeName"] for each in specs], sum("schedulingGroup" in each for each in specs)
    remove(plane, mode, name, size)
    _await_none(plane, f"{load.PODS}?limit=1", "pods to go")
    time.sleep(REST_SECONDS)
    cpu = machine_usage.spent(before, machine_usage.usage_of(where.servers))
    racks, blocks = ({of(node) for node in nodes} for of in (load.rack_of, load.block_of))
    times = (bound - last, bound - first)
    return Lot(mode, size, *times, len(racks), cpu, len(blocks), asked.fewest, where.scene, where.beside, grouped)


def _bring_pods(plane: ControlPlane, asked: Asked, name: str) -> tuple[float, float]:
    """Create the pods of a lot. Return the times before the first creation and after the last one."""
    mode, size = asked.mode, asked.size
    if mode in _GROUPS:
        path, group = _GROUPS[mode]
        plane.create(path, [group(name, size)])
    if mode == PHALANX and asked.known:
        wait_until(lambda: "status" in plane.request("GET", f"{load.GANGS}/{name}"), LONGEST, "the gang to be known")
    pods = _PODS[mode](name, size)
    first = time.monotonic()
    plane.create(load.PODS, pods)
    last = time.monotonic()
    if mode == FLOOR:
        _let_go(plane, pods)
    return first, last


def _bring_job(plane: ControlPlane, asked: Asked, name: str) -> tuple[float, float]:
    """Create the Job of a lot. Return the times before its creation and after the creation of its last pod."""
    mode, size = asked.mode, asked.size
    first = time.monotonic()
    plane.create(load.JOBS, [_JOBS[mode](name, size)])
    end = first + LONGEST
    while _count(plane.request("GET", f"{load.PODS}?limit=1")) < size:
        if time.monotonic() > end:
            raise TimeoutError(f"waited {LONGEST:.0f} s for the {size} pods of {name} to be made")
        time.sleep(LOOK_SECONDS)
    return first, time.monotonic()


def _count(answer: Mapping[str, Any]) -> int:
    """Return the number of objects in a collection. `answer`: the API server's list, which may have only the first of
    them.
    """
    return len(answer["items"]) + int(answer["metadata"].get("remainingItemCount") or 0)


def _let_go(plane: ControlPlane, pods: Sequence[load.Manifest]) -> None:
    _ask_each(plane, pods, "PATCH", "", {"spec": {"schedulingGates": None}}, MERGE_PATCH)


def _remove_pods(plane: ControlPlane, mode: str, name: str, size: int) -> None:
    """Delete the pods of a lot one by one.

    A request that deletes them all at once could take longer than a minute, after which the API server ends it.
    """
    _ask_each(plane, _PODS[mode](name, size), "DELETE", "?gracePeriodSeconds=0")
    if mode in _GROUPS:
        plane.request("DELETE", f"{_GROUPS[mode][0]}/{name}")


def _remove_job(plane: ControlPlane, mode: str, name: str, size: int) -> None:
    """Delete a Job with its pods, and wait until Kueue's objects for it are gone."""
    del mode, size
    plane.request("DELETE", f"{load.JOBS}/{name}?propagationPolicy=Background")
    wait_until(lambda: not kueue.workloads(plane), LONGEST, "Kueue's workloads to go")


def _ask_each(plane: ControlPlane, pods: Sequence[load.Manifest], method: str, query: str, *body: Any) -> None:
    """Send one request for each pod, in the order of the pods and several at a time. The requests differ only in the
    pod's name.
    """

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
