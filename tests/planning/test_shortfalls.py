"""Decisions name the members without a node and the reason: extra members, unlike members, disruption budgets.

s-0/b: node-0 node-1      s-1/c: node-2 node-3        8 cpu each
"""

from typing import Any

import scenes

NODES = "s-0/b: node-0 node-1\ns-1/c: node-2 node-3"


def message(*parts: Any, **options: Any) -> str:
    """Return the message of the decision for the one gang in these manifests."""
    (decision,) = scenes.solved(scenes.topology(), scenes.nodes(NODES), *parts, **options).decisions
    return decision.message


def test_extra_members_are_told_what_keeps_them_off_every_node() -> None:
    gang = scenes.gang(minMember=2, required="spine")
    full = [scenes.running("old", "node-3", priority=100)]
    assert message(gang, scenes.members(4), full) == (
        "2 of 4 pods fit in s-0/b: node-0..1, proven optimal, "
        "2 more find no room (3 nodes: Insufficient cpu, 1 node: outside the gang's spine)"
    )


def test_nobody_is_evicted_for_extra_members_and_so_they_wait() -> None:
    taken = [scenes.running(f"low-{node}", f"node-{node}", priority=-1) for node in range(4)]
    said = message(scenes.gang(minMember=1), scenes.members(2), taken)
    assert said.endswith("1 more finds no room (4 nodes: Insufficient cpu)")


def test_members_that_a_rule_of_the_gang_keeps_off_are_told_so() -> None:
    sets = [{"name": "a", "count": 6, "minCount": 4, "maxPerDomain": [{"level": "node", "count": 1}]}]
    members = [scenes.pod(f"llm-{i}", gang="llm", cpu=1, pod_set="a") for i in range(6)]
    said = message(scenes.gang(podSets=sets, minMember=4), members)
    assert said.endswith("2 more find no room (4 nodes: the gang's own rules)")


def test_the_one_of_unlike_members_that_fits_nowhere_is_named_with_its_resource() -> None:
    sets = [{"name": "worker", "count": 2}, {"name": "server", "count": 1}]
    workers = [scenes.pod(f"worker-{i}", gang="llm", cpu=4, pod_set="worker") for i in range(2)]
    server = scenes.pod("server-0", gang="llm", cpu=16, pod_set="server")
    assert message(scenes.gang(podSets=sets), workers, server) == (
        "needs 3 pods: pod server-0 fits on no node (4 nodes: Insufficient cpu); the cluster holds 2 of 3"
    )


def test_alike_members_need_no_name() -> None:
    said = message(scenes.gang(minMember=2), scenes.members(2, cpu=16))
    assert said == "needs 2 pods: the cluster holds 0 of 2 (4 nodes: Insufficient cpu)"


def test_a_disruption_budget_that_keeps_the_room_is_named() -> None:
    web = [scenes.labelled(scenes.running(f"web-{i}", f"node-{i}", priority=-1), app="web") for i in range(4)]
    budget = scenes.budget("web", {"app": "web"}, allowed=1)
    said = message(scenes.gang(minMember=2), scenes.members(2), web, budget)
    assert said == (
        "needs 2 pods: the cluster holds 0 of 2 now, 1 after evictions; "
        "evictions there are limited by PodDisruptionBudget default/web"
    )
    assert "fit" in message(scenes.gang(minMember=1), scenes.members(1), web, budget)
