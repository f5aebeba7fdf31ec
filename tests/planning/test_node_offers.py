"""The slots that each node offers a gang without evictions, and the reason if a node offers none.

spine-0                    spine-1            (outside)
┌──────┴──────┐                   │
block-0       block-1             block-2
┌───┴───┐         │               ┌───┴───┐
full   free      cordoned         part   small         bare
"""

from typing import Any

import pytest
import scenes

from gangs.no_room import NodeOffer
from planning.messages.offers import ELSEWHERE, node_offers

SMALL = {"cpu": "1", "memory": "1Gi"}
NODES = [
    *scenes.nodes("spine-0/block-0: full free\nspine-0/block-1: cordoned\nspine-1/block-2: part"),
    *scenes.nodes("spine-1/block-2: small", allocatable=SMALL),
    *scenes.nodes("-: bare"),
]
CLUSTER = [
    scenes.topology(),
    *({**each, "spec": {"unschedulable": True}} if each["metadata"]["name"] == "cordoned" else each for each in NODES),
    scenes.running("low", "part", cpu=5),
    scenes.running("all", "full", cpu=8),
]
NOTHING = "Insufficient cpu"
CORDONED = "node(s) were unschedulable"
NO_LABEL = "node(s) had no label example.com/spine"
BLOCK_0, BLOCK_1, BLOCK_2 = ("spine-0", "block-0"), ("spine-0", "block-1"), ("spine-1", "block-2")


def offers(*parts: Any) -> dict[str, NodeOffer]:
    """By node, what it offers the one gang."""
    (gang,), snapshot, topologies = scenes.picture(*CLUSTER, *parts)
    found = node_offers(gang, snapshot, topologies)
    assert [each.node for each in found] == [state.name for state in snapshot.nodes]
    return {each.node: each for each in found}


@pytest.mark.parametrize(
    ("node", "slots", "reason", "path"),
    [
        ("free", 4, "", BLOCK_0),
        ("part", 1, "", BLOCK_2),
        ("full", 0, NOTHING, BLOCK_0),
        ("small", 0, NOTHING, BLOCK_2),
        ("cordoned", 0, CORDONED, BLOCK_1),
        ("bare", 0, NO_LABEL, ()),
    ],
)
def test_a_node_says_how_many_members_fit_or_why_none_does(
    node: str, slots: int, reason: str, path: tuple[str, ...]
) -> None:
    found = offers(scenes.gang(minMember=2, required="block"), scenes.members(2, cpu=2))
    assert found[node] == NodeOffer(node, slots, reason, path)


def test_the_scarcest_resource_counts() -> None:
    found = offers(scenes.gang(minMember=2), [scenes.pod(f"llm-{each}", gang="llm", cpu="500m") for each in range(2)])
    assert (found["free"].slots, found["small"].slots) == (16, 2)


def test_what_the_priority_of_the_gang_could_evict_is_not_offered() -> None:
    found = offers(scenes.gang(minMember=2), scenes.members(2, priority=1000, cpu=4))
    assert (found["part"].slots, found["full"].slots) == (0, 0)


#   One member runs in block-2 already. A required block or spine keeps the other members in the same domain.
@pytest.mark.parametrize(("required", "elsewhere"), [("block", ["cordoned", "free", "full"]), ("", [])])
def test_where_a_member_runs_the_others_go(required: str, elsewhere: list[str]) -> None:
    level = {"required": required} if required else {}
    one = scenes.pod("llm-0", gang="llm", cpu=2, nodeName="part", priority=0)
    found = offers(scenes.gang(minMember=2, **level), one, scenes.pod("llm-1", gang="llm", cpu=1, priority=0))
    assert [each.node for each in found.values() if each.reason == ELSEWHERE] == elsewhere
    assert found["part"].slots == 1
