"""Measures how many pods a gang evicts if it can start only after evictions. The nodes and their pods are so few that
the least number of victims can be counted by hand.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click

from benchmarks.live import kueue, load
from benchmarks.live.modes import JOB_KUEUE, JOB_PHALANX
from controlplane.control_plane import ControlPlane, wait_until
from controlplane.deployment import Deployment

PER_BLOCK, PER_RACK, NODES, SIZE = 36, 12, 60, 8
_LOW, _HIGH = "low", "high"
_PRIORITIES = {_LOW: 100, _HIGH: 1000}
_FREE = ((0, 1, 12, 13, 24, 25), (36, 37, 38, 48, 49))
"""The free nodes of the first block and of the second."""
_FIRST, _SECOND = range(PER_BLOCK), range(PER_BLOCK, NODES)
_LEFT_IN_FIRST = tuple(each for each in _FIRST if each not in _FREE[0])
_LEFT_IN_SECOND = tuple(each for each in _SECOND if each not in _FREE[1])
SCENES: tuple[tuple[str, tuple[Sequence[int], ...]], ...] = (
    ("on all nodes", (_FIRST, _SECOND)),
    ("all but 6 and 5 nodes of the blocks, the second block's newer", (_LEFT_IN_FIRST, _LEFT_IN_SECOND)),
    ("all but 6 and 5 nodes of the blocks, the first block's newer", (_LEFT_IN_SECOND, _LEFT_IN_FIRST)),
)
"""The name of each scene, and the nodes on which a Job of one pod each runs, in groups. The Jobs of earlier groups are
older.
"""
MODES = (JOB_PHALANX, JOB_KUEUE)
_PATIENCE = 60.0
_AGE_SECONDS = 2.5
"""Seconds between the creation of two groups of Jobs. Creation times are in whole seconds, so the groups differ in age.
"""
_SETTLE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Evicted:
    """The victims of one gang in one scene.

    `fewest`: a lower bound on the number of victims of any plan. `seconds`: from the gang's creation until all its pods
    were bound; None: the gang did not start in time.
    """

    scene: str
    mode: str
    victims: int
    fewest: int
    racks: int
    blocks: int
    seconds: float | None


def fewest_victims(running: Sequence[Sequence[int]], size: int = SIZE) -> int:
    """Return how many pods must be evicted at least, so that one block has a free node for each of `size` pods.

    `running`: the nodes on which other pods run, in groups.
    """
    taken = {each for group in running for each in group}
    return min(max(0, size - sum(each not in taken for each in block)) for block in (_FIRST, _SECOND))


def measure(plane: ControlPlane, mode: str) -> Iterator[Evicted]:
    """Measure the evictions in every scene of `SCENES`: a scene states which nodes running pods fill, and in which
    order.

    The system of `mode` is installed first. The pods of a scene are deleted before the next scene begins.

    :raises TimeoutError: the Jobs of a scene did not run in time.
    """
    plane.add_nodes(load.node(number, PER_BLOCK, PER_RACK) for number in range(NODES))
    classes = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    plane.apply({**classes, "metadata": {"name": name}, "value": value} for name, value in _PRIORITIES.items())
    if mode == JOB_KUEUE:
        kueue.start(plane)
    else:
        _install(plane)
    for scene, running in SCENES:
        found = _evicted(plane, mode, scene, running)
        click.echo(str(found))
        yield found


def _install(plane: ControlPlane) -> None:
    deployment = Deployment(plane)
    deployment.install()
    plane.apply([load.topology()])
    deployment.start_webhook()
    deployment.register_webhook()
    deployment.start_controller()


def _evicted(plane: ControlPlane, mode: str, scene: str, running: Sequence[Sequence[int]]) -> Evicted:
    queued, gang = mode == JOB_KUEUE, mode == JOB_PHALANX
    for group in running:
        plane.create(load.JOBS, [_low(number, queued=queued) for number in group])
        time.sleep(_AGE_SECONDS)
    count = sum(map(len, running))
    wait_until(lambda: len(_bound(plane)) == count, _PATIENCE, f"{count} pods to run: {scene}")
    before = {pod["metadata"]["uid"] for pod in _bound(plane)}
    began = time.monotonic()
    plane.create(load.JOBS, [_with_priority(load.job("gang", SIZE, gang=gang, queued=queued), _HIGH)])
    seconds = _seconds_until_bound(plane, began)
    time.sleep(_SETTLE_SECONDS)
    now = _bound(plane)
    nodes = [load.number_of(pod["spec"]["nodeName"]) for pod in now if _of_gang(pod)]
    victims = len(before - {pod["metadata"]["uid"] for pod in now})
    racks, blocks = (len({node // per for node in nodes}) for per in (PER_RACK, PER_BLOCK))
    _clear(plane)
    return Evicted(scene, mode, victims, fewest_victims(running), racks, blocks, seconds)


def _low(node: int, *, queued: bool) -> load.Manifest:
    """Return a Job of one pod of low priority that must run on the node with the number `node`."""
    job = _with_priority(load.job(f"low-{node}", 1, queued=queued), _LOW)
    hostname = load.node(node)["metadata"]["name"]
    job["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": hostname}
    return job


def _with_priority(job: load.Manifest, name: str) -> load.Manifest:
    job["spec"]["template"]["spec"]["priorityClassName"] = name
    return job


def _of_gang(pod: load.Manifest) -> bool:
    return bool(pod["metadata"]["labels"].get("job-name") == "gang")


def _bound(plane: ControlPlane) -> list[load.Manifest]:
    """Return the bound pods that are not being deleted."""
    items = plane.request("GET", load.PODS)["items"]
    return [pod for pod in items if pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]]


def _seconds_until_bound(plane: ControlPlane, began: float) -> float | None:
    try:
        wait_until(lambda: sum(map(_of_gang, _bound(plane))) == SIZE, _PATIENCE, "the gang to be bound")
    except TimeoutError:
        return None
    return time.monotonic() - began


def _clear(plane: ControlPlane) -> None:
    for job in plane.request("GET", load.JOBS)["items"]:
        plane.request("DELETE", f"{load.JOBS}/{job['metadata']['name']}?propagationPolicy=Background")
    wait_until(lambda: not plane.request("GET", f"{load.PODS}?limit=1")["items"], _PATIENCE, "pods to go")
    wait_until(lambda: not kueue.workloads(plane), _PATIENCE, "Kueue's workloads to go")
    time.sleep(_SETTLE_SECONDS)
