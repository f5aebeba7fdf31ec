"""A snapshot reuses the unchanged parts of the snapshot before it. It equals one that is built from scratch.

nodes  n0 … n15 | n16 … n31 | n32 … n39       in blocks of 16
pictures   --+-- +-----  +--  +-+----  +--       pods come, go, are nominated, leave; nodes are labelled anew
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from cluster_objects import apart, asking, node, pod

from cluster.capturing import Capture, snapshot_of
from cluster.node_blocks import NODES
from cluster.node_state import room
from cluster.snapshot import Snapshot
from kube.objects import Node, Pod
from kube.requests import PODS

pytestmark = pytest.mark.repetitive

COUNT = 2 * NODES + 8
RESOURCES = ("cpu", "memory", "example.com/gpu", PODS)
LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
CONDITIONS: list[dict[str, Any]] = [
    {"nodeName": True},
    {"nodeName": True, "affinity": apart("a", "zone")},
    {"nodeName": True, "metadata": LEAVING},
    {"status": {"nominatedNodeName": True}, "schedulingGates": [{"name": "phalanx.dev/gang"}]},
    {},
]


@dataclass
class Changing:
    """A cluster that changes at random, and the capture that receives its events."""

    rng: Random
    capture: Capture = field(default_factory=Capture)
    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)

    def change(self) -> None:
        """One event."""
        kind, name = self.rng.random(), f"p{self.rng.randrange(60)}"
        if kind < 0.2:
            self.put_node(f"n{self.rng.randrange(COUNT)}")
        elif kind < 0.4 and name in self.pods:
            self.capture.drop_pod(self.pods.pop(name).key)
        elif name not in self.pods:
            self.put_pod(name)

    def put_node(self, name: str) -> None:
        """Add a node, or change its content."""
        labels = {"zone": self.rng.choice("ab")} if self.rng.random() < 0.8 else {}
        # More memory than 64 bits hold, too: a node may say what it likes.
        allocatable = {"cpu": f"{self.rng.randint(4, 9)}", "memory": f"{2 ** self.rng.choice((34, 70))}", "pods": 9}
        self.nodes[name] = node(name, labels, allocatable=allocatable)
        self.capture.put_node(self.nodes[name])

    def put_pod(self, name: str) -> None:
        """Add a pod."""
        where = f"n{self.rng.randrange(COUNT + 2)}"
        spec: dict[str, Any] = dict(self.rng.choice(CONDITIONS))
        if "nodeName" in spec:
            spec["nodeName"] = where
        if "status" in spec:
            spec["status"] = {"nominatedNodeName": where}
        metadata = {"namespace": self.rng.choice("xy"), "uid": f"uid-{name}", **spec.pop("metadata", {})}
        containers = asking(cpu=str(self.rng.randint(1, 3)), **{"example.com/gpu": 1})
        priority = self.rng.choice((0, 5, 9))
        self.pods[name] = pod(name, metadata=metadata, containers=containers, priority=priority, **spec)
        self.capture.put_pod(self.pods[name])


def said(picture: Snapshot) -> dict[str, Any]:
    """Return the values of a snapshot that are computed from all nodes, as plain Python objects."""
    pods = picture.evictable
    columns = zip(pods.node.tolist(), pods.priority.tolist(), pods.started.tolist(), strict=True)
    asked = [pods.asked[each] for each in pods.asks.tolist()]
    return {
        "nodes": [state.name for state in picture.nodes],
        "positions": picture.positions,
        "names": picture.names,
        "zones": picture.label_values["zone"],
        "evictable": [*zip(pods.keys, pods.tenants, columns, asked, strict=True)],
        "within": [pods.namespaces[each] for each in pods.within.tolist()],
        "lowest": picture.lowest_evictable,
        "running": picture.running_keys,
        "expecting": [state.name for state in picture.expecting],
        "keeping off": [state.name for state in picture.keeping_off],
        "in x": [(place, [*tenants]) for place, tenants in picture.tenants_in("x")],
    }


def free(picture: Snapshot, priority: int, ignoring: Iterable[str]) -> list[Any]:
    """Return by resource the free and the terminating amounts on each node."""
    found = picture.room(RESOURCES, priority=priority, ignoring=frozenset(ignoring))
    return [(column.free, column.terminating) for column in found]


def free_one_by_one(picture: Snapshot, priority: int, ignoring: Iterable[str]) -> list[Any]:
    rooms = [room(state, priority=priority, ignoring=frozenset(ignoring)) for state in picture.nodes]
    return [
        ([one.get(each, 0) for one, _ in rooms], [leaving.get(each, 0) for _, leaving in rooms]) for each in RESOURCES
    ]


@pytest.mark.parametrize("seed", range(20))
def test_pictures_that_follow_each_other_say_what_one_made_at_once_says(seed: int) -> None:
    rng = Random(seed)  # noqa: S311 -- draws changes, keeps no secrets
    there = Changing(rng)
    for number in range(COUNT):
        there.put_node(f"n{number}")
    for _ in range(60):
        for _ in range(rng.choice((0, 1, 3, 30))):
            there.change()
        picture = there.capture.snapshot()
        if rng.random() < 0.5:  # leave some snapshots unread: not every snapshot is asked for everything
            continue
        anew = snapshot_of(there.nodes.values(), there.pods.values())
        assert said(picture) == said(anew)
        own = rng.sample([*there.pods], min(4, len(there.pods)))
        ignoring = [f"uid-{each}" if rng.random() < 0.5 else there.pods[each].key for each in own]
        for priority in (0, 7):
            assert free(picture, priority, ignoring) == free_one_by_one(anew, priority, ignoring)


def test_what_a_plan_changes_is_not_changed_in_the_picture_before() -> None:
    rng = Random(1)  # noqa: S311 -- draws changes, keeps no secrets
    there = Changing(rng)
    for number in range(COUNT):
        there.put_node(f"n{number}")
    there.put_pod("p0")
    first = there.capture.snapshot()
    before = free(first, 0, ())
    for column in first.room(RESOURCES, priority=0, ignoring=()):
        column.free[0] -= 1  # a caller's own list
    there.put_pod("p1")
    there.capture.snapshot().room(RESOURCES, priority=0, ignoring=())
    assert free(first, 0, ()) == before


def test_labels_and_resources_that_nobody_has_are_not_kept_for_ever() -> None:
    picture = snapshot_of([node("a"), node("b")], [])
    for number in range(100):
        assert picture.label_values[f"key-{number}"] == (None, None)
        assert picture.room([f"example.com/{number}"], priority=0, ignoring=())[0].free == [0, 0]
    following = picture.with_states(picture.nodes)
    assert following.label_values is picture.label_values
    assert len(picture.label_values) <= 16
    assert following.room([PODS], priority=0, ignoring=())[0].free == [110, 110]
