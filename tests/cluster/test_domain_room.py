"""The free capacity in every domain of a topology.

(all)
┌────┴────┐
r1        r2       (outside)
┌─┴─┐       │
a   b       c           d
"""

from typing import Any

import pytest
from cluster_objects import asking, node, pod

from cluster.capturing import snapshot_of
from cluster.snapshot import Snapshot
from cluster.topology.domain_room import DomainRoom, free_under, rooms_under
from cluster.topology.tree import DomainTree, domains
from kube.topology import HOSTNAME_LABEL, Level, Topology

RACKS = Topology("t", "Topology", (Level("rack", ("rack",)), Level("node", (HOSTNAME_LABEL,))))
READY = [{"type": "Ready", "status": "True"}]
UNIT = 1000
"""Of a cpu, in base units."""


def cluster() -> tuple[DomainTree, Snapshot]:
    four: dict[str, Any] = {"allocatable": {"cpu": "4"}, "conditions": READY}
    nodes = [
        node("a", {"rack": "r1"}, **four),
        node("b", {"rack": "r1"}, **four, unschedulable=True),
        node("c", {"rack": "r2"}, **four),
        node("d", **four),
    ]
    held = {"metadata": {"resourceVersion": "1"}, "status": {"nominatedNodeName": "a"}}
    pods = [
        pod("runs", containers=asking(cpu="1"), nodeName="a"),
        pod("held", containers=asking(cpu="2"), **held),
        pod("goes", containers=asking(cpu="3"), nodeName="b", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        pod("over", containers=asking(cpu="5"), nodeName="c"),
        pod("outside", containers=asking(cpu="1"), nodeName="d"),
    ]
    return domains(RACKS, nodes), snapshot_of(nodes, pods)


@pytest.mark.parametrize(
    ("path", "nodes", "closed", "free", "used", "held", "shut"),
    [
        (("r1", "a"), 1, 0, 1, 1, 2, 0),  # capacity that a nomination reserves is not free
        (("r1", "b"), 1, 1, 4, 0, 0, 4),  # the room of a pod on its way out is
        (("r2", "c"), 1, 0, 0, 5, 0, 0),  # an overcommitted node has none
        (("r1",), 2, 1, 5, 1, 2, 4),
        ((), 3, 1, 5, 6, 2, 4),  # a node outside the topology is in none of its domains
    ],
)
def test_rooms_are_summed_over_the_nodes_under_a_domain(
    path: tuple[str, ...], nodes: int, closed: int, free: int, used: int, held: int, shut: int
) -> None:
    tree, snapshot = cluster()
    found = rooms_under(tree, snapshot.nodes)[path]
    amounts = [each.get("cpu", 0) / UNIT for each in (found.free, found.used, found.held, found.free_closed)]
    assert (found.nodes, found.closed, *amounts) == (nodes, closed, free, used, held, shut)


def test_what_is_free_is_the_same_in_both_sums() -> None:
    tree, snapshot = cluster()
    rooms = rooms_under(tree, snapshot.nodes)
    assert free_under(tree, snapshot.nodes) == {path: rooms[path].free for path in ((), ("r1",), ("r2",))}


def test_a_domain_without_nodes_has_no_room() -> None:
    tree, _ = cluster()
    assert rooms_under(tree, ())["r1",] == DomainRoom()
