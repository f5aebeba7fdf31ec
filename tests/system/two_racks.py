"""Nodes in two racks, the first of four, and a topology over them: for gangs that a rack just holds, or does not."""

from typing import Any

from asking import RACK, topology
from node_manifests import node_manifest
from system import Phalanx


def apply_two_racks(phalanx: Phalanx, count: int, dialect: str = "ours", **resources: Any) -> Phalanx:
    """Nodes n0 to n3 in rack r1, so many in all, others in r2; returns when they are ready.

    :param dialect: the system whose topology describes the racks.
    :param resources: more resources of each node (`node_manifests.node_manifest`).
    """
    phalanx.submit(
        *(node_manifest(f"n{number}", {RACK: "r1" if number < 4 else "r2"}, **resources) for number in range(count)),
        topology(dialect),
    )
    phalanx.cluster.await_nodes(f"n{number}" for number in range(count))
    return phalanx
