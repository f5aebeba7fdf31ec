"""Spread and affinity between members of one gang, checked on the finished plan.

s
b0          b1
n0 n1 n2    n3 n4 n5     8 cpu each
"""

from typing import Any

import pytest
import scenes

from planning.decision import Decision, Outcome

CLUSTER = [scenes.topology(), *scenes.nodes("s/b0: n0 n1 n2\ns/b1: n3 n4 n5")]
ALIKE = {"matchLabels": {"app": "x"}}


def decided(count: int, cpu: int, **spec: Any) -> Decision:
    """The decision for a gang of pods labelled app=x."""
    members = [scenes.labelled(each, app="x") for each in scenes.members(count, cpu=cpu, **spec)]
    (decision,) = scenes.solved(CLUSTER, scenes.gang(minMember=count), members).decisions
    return decision


def spread(key: str, skew: int = 1) -> dict[str, Any]:
    """A hard spread over the domains of a label."""
    constraint = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": ALIKE}
    return {"topologySpreadConstraints": [constraint]}


def together(key: str) -> dict[str, Any]:
    """Affinity to the pods that the selector `ALIKE` matches."""
    term = {"labelSelector": ALIKE, "topologyKey": key}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def test_a_spread_that_the_best_plan_keeps_anyway_costs_nothing() -> None:
    #  each pod fills a node
    decision = decided(3, 8, **spread("kubernetes.io/hostname"))
    assert decision.message == "3 pods fit in s/b0: n0..2, proven optimal"
    assert not decision.notes


def test_a_spread_over_nodes_is_planned() -> None:
    #  two pods would fit on a node; with five empty nodes beside it that is a skew of two
    decision = decided(4, 4, **spread("kubernetes.io/hostname"))
    assert (decision.outcome, decision.proof) == (Outcome.PLACED, "Optimal")
    assert len({each.node for each in decision.assignments}) == 4


def test_four_pods_spread_over_two_blocks_are_two_and_two() -> None:
    #  looked at one by one, the first block may only have one pod while the other is empty
    decision = decided(4, 4, **spread(scenes.label("block")))
    assert (decision.outcome, decision.proof) == (Outcome.PLACED, "Optimal")
    assert [each.node for each in decision.assignments] == ["n0", "n0", "n3", "n3"]


def test_the_spread_of_one_set_does_not_bind_another_that_asks_for_the_same_room() -> None:
    #  the workers are one and one, the leaders in one block
    constraints = spread(scenes.label("block"))["topologySpreadConstraints"]
    workers = scenes.members(2, cpu=4, pod_set="worker", topologySpreadConstraints=constraints)
    leaders = [scenes.pod(f"leader-{number}", gang="llm", cpu=4, pod_set="leader") for number in range(2)]
    members = [*(scenes.labelled(each, app="x") for each in workers), *leaders]
    gang = scenes.gang(podSets=[{"name": "leader", "count": 2, "required": "block"}, {"name": "worker", "count": 2}])
    (decision,) = scenes.solved(CLUSTER, gang, members).decisions
    assert (decision.outcome, decision.proof) == (Outcome.PLACED, "Optimal")
    assert [each.node for each in decision.assignments] == ["n0", "n0", "n1", "n3"]


def test_a_spread_that_nobody_can_keep_is_a_proven_no() -> None:
    #  of three blocks one is missing and counts as empty, so that each of the others takes one pod
    (constraint,) = spread(scenes.label("block"))["topologySpreadConstraints"]
    decision = decided(4, 4, topologySpreadConstraints=[{**constraint, "minDomains": 3}])
    assert (decision.outcome, decision.proof) == (Outcome.UNPLACEABLE, "Infeasible")


def test_a_block_that_is_too_full_until_the_other_is_filled_takes_members_too() -> None:
    #  b0 has two pods alike: it takes the fourth member once b1 has the other three
    spec = spread(scenes.label("block"))
    running = [
        {**each, "spec": {**each["spec"], "nodeName": "n0"}}
        for each in (scenes.labelled(scenes.pod(f"old-{number}", cpu=1), app="x") for number in range(2))
    ]
    members = [scenes.labelled(each, app="x") for each in scenes.members(4, cpu=6, **spec)]
    (decision,) = scenes.solved([*CLUSTER, *running], scenes.gang(minMember=4), members).decisions
    assert (decision.outcome, decision.proof) == (Outcome.PLACED, "Optimal")
    assert sorted(each.node for each in decision.assignments)[1:] == ["n3", "n4", "n5"]


@pytest.mark.parametrize(("skew", "nodes"), [(1, 4), (2, 2)])
def test_the_allowed_skew_counts(skew: int, nodes: int) -> None:
    decision = decided(4, 4, **spread("kubernetes.io/hostname", skew))
    assert len({each.node for each in decision.assignments}) == nodes


def test_pods_that_want_to_be_together_are_planned_where_they_are() -> None:
    decision = decided(3, 8, **together(scenes.label("block")))
    assert decision.message == "3 pods fit in s/b0: n0..2, proven optimal"


def test_more_than_one_domain_holds_of_pods_that_want_to_be_together_is_a_proven_no() -> None:
    decision = decided(4, 8, **together(scenes.label("block")))
    assert (decision.outcome, decision.proof) == (Outcome.UNPLACEABLE, "Infeasible")
    assert decision.message == "needs 4 pods: the cluster holds 3 of 4"
    assert "members no longer wanting to be near others" in decision.explanation.would_fit_if


def near(app: str, key: str = "kubernetes.io/hostname") -> dict[str, Any]:
    """Affinity to pods of an app."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def test_workers_go_where_their_master_goes() -> None:
    """Node n0 can hold the master and one worker. Block b0 can hold all members."""
    master = scenes.labelled(scenes.pod("llm-0", gang="llm", cpu=5), app="master")
    workers = [scenes.pod(f"llm-{n}", gang="llm", cpu=3, **near("master", scenes.label("block"))) for n in (1, 2, 3)]
    (decision,) = scenes.solved(CLUSTER, scenes.gang(minMember=4), master, workers).decisions
    assert (decision.outcome, decision.proof) == (Outcome.PLACED, "Optimal")
    assert [each.node for each in decision.assignments] == ["n0", "n0", "n1", "n1"]


def test_a_worker_that_must_be_on_the_node_of_a_full_master_has_no_place() -> None:
    master = scenes.labelled(scenes.pod("llm-0", gang="llm", cpu=6), app="master")
    worker = scenes.pod("llm-1", gang="llm", cpu=3, **near("master"))
    (decision,) = scenes.solved(CLUSTER, scenes.gang(minMember=2), master, worker).decisions
    assert (decision.outcome, decision.proof) == (Outcome.UNPLACEABLE, "Infeasible")


def test_a_replaced_worker_comes_back_to_its_master() -> None:
    bound = scenes.labelled(scenes.pod("llm-0", gang="llm", cpu=1, nodeName="n4"), app="master")
    worker = scenes.pod("llm-1", gang="llm", cpu=1, **near("master"))
    (decision,) = scenes.solved(CLUSTER, scenes.gang(minMember=2), bound, worker).decisions
    assert [each.node for each in decision.assignments] == ["n4", "n4"]


def test_members_that_wait_for_each_other_are_never_bound() -> None:
    """Each of the two members has affinity to the other, so that neither can be bound first."""
    one = scenes.labelled(scenes.pod("llm-0", gang="llm", cpu=1, **near("b")), app="a")
    other = scenes.labelled(scenes.pod("llm-1", gang="llm", cpu=1, **near("a")), app="b")
    (decision,) = scenes.solved(CLUSTER, scenes.gang(minMember=2), one, other).decisions
    assert (decision.outcome, decision.proof) == (Outcome.UNPLACEABLE, "Unproven")
    wish = "pod affinity to members of the same gang (kubernetes.io/hostname)"
    assert decision.message == f"no placement of 2 pods found, nor proven impossible, that fulfils {wish}"
