"""Fills some nodes with pods that are not measured, and counts the fewest domains that a gang needs on the other
nodes.
"""

import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchmarks.live import load
from controlplane.control_plane import ControlPlane, wait_until

EMPTY, CROWDED = "empty", "70 % full"
OTHERS = "running"
"""The namespace of the other pods, which take the nodes."""
_SEED = 16
_FULL, _HALF = 0.66, 0.08
"""The share of nodes on which other pods take all GPUs, and the share on which they take half. Together they take 70 %
of all GPUs.
"""
_ROOMIEST = 0.4
"""The share of the first block's nodes that other pods fill, if there are several blocks. It is low, so that a gang of
half a block fits into this block.
"""
_PATIENCE = 300.0
_SETTLE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Fewest:
    """The fewest blocks and racks that can hold a gang whose pods each need a whole node: lower bounds by counting."""

    blocks: int
    racks: int


def taken(nodes: int) -> dict[int, int]:
    """Return, by node, how many of its GPUs are taken by the pods that fill the cluster and are not measured.

    Equal numbers of nodes give equal results.
    """
    draw = random.Random(_SEED)  # noqa: S311 - nothing secret
    racks = -(-nodes // load.PER_RACK)
    weights = {rack: draw.uniform(0.1, 1.9) for rack in range(racks)}
    wanted, found = round(nodes * (_FULL + _HALF)), set[int]()
    first = range(min(nodes, load.PER_BLOCK)) if nodes > load.PER_BLOCK else range(0)
    for part, count in ((first, round(len(first) * _ROOMIEST)), (range(len(first), nodes), 0)):
        keys = {each: draw.random() ** (1 / weights[each // load.PER_RACK]) for each in part}
        found |= set(sorted(keys, key=keys.__getitem__, reverse=True)[: count or wanted - len(found)])
    in_order = sorted(found)
    halves = set(draw.sample(in_order, round(nodes * _HALF)))
    return {each: 4 if each in halves else 8 for each in in_order}


def free_in_racks(nodes: int, without: Mapping[int, int]) -> dict[int, int]:
    """Return, by rack, how many of its nodes have all GPUs free.

    :param without: by node, how many of its GPUs filling pods take, as `taken` returns it. A node without an entry has
        all GPUs free.
    """
    found = dict.fromkeys(range(-(-nodes // load.PER_RACK)), 0)
    for each in range(nodes):
        found[each // load.PER_RACK] += each not in without
    return found


def fewest(free: Mapping[int, int], size: int) -> Fewest | None:
    """Return the fewest domains whose free nodes hold `size` pods; None if the pods do not fit.

    A gang of up to `load.WITHIN_A_BLOCK` pods must be in one block. `free`: by rack, its free nodes.
    """
    by_block: dict[int, list[int]] = {}
    for rack, count in free.items():
        by_block.setdefault(rack * load.PER_RACK // load.PER_BLOCK, []).append(count)
    if size <= load.WITHIN_A_BLOCK:
        racks = min((needed for counts in by_block.values() if (needed := _needed(counts, size))), default=0)
        return Fewest(1, racks) if racks else None
    racks = _needed(list(free.values()), size)
    return Fewest(_needed([sum(counts) for counts in by_block.values()], size), racks) if racks else None


def fill(plane: ControlPlane, nodes: int) -> None:
    """Fill nodes with the pods that `taken` returns, and wait until these pods run."""
    plane.create("/api/v1/namespaces", [{"metadata": {"name": OTHERS}}])
    account = f"/api/v1/namespaces/{OTHERS}/serviceaccounts/default"
    wait_until(
        lambda: bool(plane.request("GET", account).get("kind") == "ServiceAccount"), _PATIENCE, "a service account"
    )
    plane.create(_path(), _pods(taken(nodes)))
    pending = f"{_path()}?fieldSelector=status.phase%3DPending&limit=1"
    wait_until(lambda: not plane.request("GET", pending)["items"], _PATIENCE, "the others' pods to run")
    time.sleep(_SETTLE_SECONDS)


def empty(plane: ControlPlane) -> None:
    """Delete the pods that `fill` has created, and wait until they are gone.

    An API server ends a request after a minute, so requests are repeated until no pod is left.
    """

    def gone() -> bool:
        plane.request("DELETE", f"{_path()}?gracePeriodSeconds=0", seconds=90)
        return not plane.request("GET", f"{_path()}?limit=1")["items"]

    wait_until(gone, _PATIENCE, "the others' pods to go")
    time.sleep(_SETTLE_SECONDS)


def _path() -> str:
    return f"/api/v1/namespaces/{OTHERS}/pods"


def _pods(of: Mapping[int, int]) -> Iterator[load.Manifest]:
    """Yield pods that are bound to their nodes at their creation. `of`: by node, the GPUs of its pod."""
    for number, gpus in of.items():
        name = load.node(number)["metadata"]["name"]
        spec = {**load.pod_spec(gpus), "nodeName": name}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": OTHERS}, "spec": spec}


def _needed(counts: list[int], size: int) -> int:
    """Return how many domains are needed for `size` pods if the domains with the most free nodes are used first; 0 if
    all domains together do not suffice. `counts`: the free nodes of each domain.
    """
    for number, count in enumerate(sorted(counts, reverse=True), start=1):
        size -= count
        if size <= 0:
            return number
    return 0
