"""Nodes in two racks, the first of four, and a topology over them: for gangs that a rack just holds, or does not."""

from asking import RACK, topology
from node_manifests import node_manifest
from system import Phalanx


def apply_two_racks(phalanx: Phalanx, count: int, dialect: str = "ours", **room: str) -> Phalanx:
    """Nodes n0 to n3 in rack r1, so many in all, others in r2, with this room as well; returns when they are ready.

    :param dialect: the system whose topology describes the racks.
    """
    phalanx.submit(
        *(node_manifest(f"n{number}", {RACK: "r1" if number < 4 else "r2"}, **room) for number in range(count)),
        topology(dialect),
    )
    phalanx.cluster.await_nodes(f"n{number}" for number in range(count))
    return phalanx
