"""Gangs in a cluster without any topology object: Phalanx finds the levels in the labels of the nodes.

zone-a: node-0 node-1
zone-b: node-2 node-3 node-4
no zone: node-5
"""

from typing import Any

from scenes import gang, members, node, solved, topology

from planning.decision import Decision, Outcome

ZONE = "topology.kubernetes.io/zone"
NODES = [
    *(node(f"node-{i}", {ZONE: "zone-a"}) for i in (0, 1)),
    *(node(f"node-{i}", {ZONE: "zone-b"}) for i in (2, 3, 4)),
    node("node-5"),
]


def decision_of(count: int, *more: Any, **spec: Any) -> Decision:
    run = solved(NODES, gang(minMember=count, **spec), members(count), *more)
    (decision,) = run.decisions
    return decision


def nodes_of(decision: Decision) -> list[str]:
    return [each.node for each in decision.assignments]


def test_a_level_is_named_by_its_label() -> None:
    decision = decision_of(3, required=ZONE)
    assert nodes_of(decision) == ["node-2", "node-3", "node-4"]
    assert [(each.level, each.mode) for each in decision.levels] == [("zone", "required"), ("node", "none")]


def test_a_level_is_named_by_its_name() -> None:
    assert nodes_of(decision_of(2, required="zone")) == ["node-0", "node-1"]


def test_a_gang_that_names_no_level_is_placed_close_together() -> None:
    assert nodes_of(decision_of(2)) == ["node-0", "node-1"]


def test_a_gang_that_names_no_level_may_use_nodes_without_labels() -> None:
    assert nodes_of(decision_of(6)) == ["node-0", "node-1", "node-2", "node-3", "node-4", "node-5"]


def test_nothing_is_promised_for_nodes_without_labels() -> None:
    assert decision_of(4, required=ZONE).outcome is Outcome.UNPLACEABLE


def test_a_level_that_no_node_shows_is_refused_with_those_that_are() -> None:
    decision = decision_of(2, required="rack")
    assert decision.outcome is Outcome.INVALID
    assert decision.message == (
        'Gang default/llm: spec.required: "rack" is not a level of the levels found on the nodes; '
        "its levels are zone (topology.kubernetes.io/zone), node (kubernetes.io/hostname)"
    )


def test_a_topology_object_takes_their_place() -> None:
    decision = decision_of(2, topology(("rack",)), required="zone")
    assert decision.outcome is Outcome.INVALID
    assert 'spec.required: "zone" is not a level of Topology net' in decision.message
