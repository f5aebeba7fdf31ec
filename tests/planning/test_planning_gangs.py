"""Decisions for single gangs: placed, waiting, unplaceable, invalid, and the sentence that says so."""

from typing import Any

import pytest
import scenes

from planning.decision import Decision, Outcome
from planning.messages.solve_report import solve_report


def decided(*parts: Any, **options: Any) -> Decision:
    """The decision for the one gang in these manifests."""
    run = scenes.solved(scenes.topology(), *parts, **options)
    assert not run.mistakes, run.mistakes
    (decision,) = run.decisions
    return decision


def nodes_of(decision: Decision) -> list[str]:
    """Nodes in the order of the members."""
    return [each.node for each in decision.assignments]


def test_the_sentence_names_the_domain_its_nodes_and_the_proof() -> None:
    decision = decided(scenes.nodes(), scenes.gang(minMember=4, required="spine"), scenes.members(4))
    assert decision.outcome is Outcome.PLACED
    assert decision.message == "4 pods fit in spine-1: node-5..8, proven optimal"
    assert nodes_of(decision) == ["node-5", "node-6", "node-7", "node-8"]


def test_levels_run_from_the_widest_to_the_node() -> None:
    decision = decided(scenes.nodes(), scenes.gang(minMember=4, required="spine", preferred="block"), scenes.members(4))
    assert [(use.level, use.label, use.mode) for use in decision.levels] == [
        ("spine", "example.com/spine", "required"),
        ("block", "example.com/block", "preferred"),
        ("node", "kubernetes.io/hostname", "none"),
    ]
    assert [[(domain.path, domain.pods) for domain in use.domains] for use in decision.levels] == [
        [(("spine-1",), 4)],
        [(("spine-1", "block-2"), 2), (("spine-1", "block-3"), 2)],
        [
            (("spine-1", "block-2", "node-5"), 1),
            (("spine-1", "block-2", "node-6"), 1),
            (("spine-1", "block-3", "node-7"), 1),
            (("spine-1", "block-3", "node-8"), 1),
        ],
    ]
    assert decision.message.endswith("proven optimal, preferred block widened to spine (2 block domains)")


def test_a_preferred_level_that_is_kept_is_not_worth_a_word() -> None:
    decision = decided(scenes.nodes(), scenes.gang(minMember=3, preferred="block"), scenes.members(3))
    assert decision.message == "3 pods fit in spine-2/block-4: node-9..11, proven optimal"


def test_one_node_is_named_alone() -> None:
    decision = decided(scenes.nodes(), scenes.gang(minMember=2), scenes.members(2, cpu=4))
    assert decision.message == "2 pods fit on node-5, proven optimal"


def test_extras_without_room_are_counted() -> None:
    decision = decided(scenes.nodes("s/b: node-0 node-1"), scenes.gang(minMember=1), scenes.members(3))
    assert decision.outcome is Outcome.PLACED
    assert decision.message == (
        "2 of 3 pods fit in s/b: node-0..1, proven optimal, 1 more finds no room (2 nodes: Insufficient cpu)"
    )
    entry = solve_report([decision])["gangs"][0]
    assert (entry["members"], entry["minMember"], entry["placed"]) == (3, 1, 2)


def test_victims_are_named() -> None:
    decision = decided(
        scenes.nodes("s/b: node-0 node-1"),
        scenes.running("low", "node-1", -1),
        scenes.gang(minMember=2),
        scenes.members(2),
    )
    assert decision.message == "2 pods fit in s/b: node-0..1, after evicting default/low, proven optimal"
    assert decision.line.nameless == "2 pods fit in s/b: node-0..1, after evicting 1 pod, proven optimal"
    assert [(each.name, each.node, each.priority) for each in decision.evictions] == [("low", "node-1", -1)]


def test_members_that_are_there_stay_and_the_others_come_beside_them() -> None:
    there = scenes.pod("llm-0", gang="llm", nodeName="node-7")
    decision = decided(
        scenes.nodes(), scenes.gang(minMember=2, required="block"), there, scenes.pod("llm-1", gang="llm")
    )
    assert decision.message == "1 more pod fits beside 1 in spine-1/block-3: node-8, proven optimal"
    assert [(each.node, each.held) for each in decision.assignments] == [("node-7", True), ("node-8", False)]


def test_ranks_decide_the_order_and_are_reported() -> None:
    members = scenes.members(2)
    for member, index in zip(members, "10", strict=True):
        member["metadata"]["annotations"] = {"phalanx.dev/index": index}
    decision = decided(scenes.nodes("s/b: node-0 node-1"), scenes.gang(minMember=2), members)
    found = [(each.member.pod.metadata.name, each.index, each.node) for each in decision.assignments]
    assert found == [("llm-1", 0, "node-0"), ("llm-0", 1, "node-1")]


def test_without_ranks_names_read_as_numbers_decide() -> None:
    names = ["llm-10", "llm-9"]
    members = [scenes.pod(name, gang="llm") for name in names]
    decision = decided(scenes.nodes("s/b: node-0 node-1"), scenes.gang(minMember=2), members)
    found = [(each.member.pod.metadata.name, each.index, each.node) for each in decision.assignments]
    assert found == [("llm-9", 0, "node-0"), ("llm-10", 1, "node-1")]


def test_amounts_are_reported_in_the_units_of_the_api() -> None:
    decision = decided(
        scenes.nodes("s/b: node-0", allocatable={"cpu": "8"}), scenes.gang(minMember=1), scenes.members(1, cpu=2)
    )
    waste = next(goal for goal in decision.goals if goal.name == "waste")
    assert waste.value == 6000


def test_what_is_not_considered_is_said() -> None:
    ignoring = {**scenes.gang(minMember=1)}
    ignoring["metadata"] = {**ignoring["metadata"], "annotations": {"phalanx.dev/ignore-resource-claims": "true"}}
    decision = decided(scenes.nodes(), ignoring, scenes.members(1, resourceClaims=[{"name": "x"}]))
    assert decision.message.endswith("; not considered: dynamic resource claims (spec.resourceClaims)")
    assert decision.proof == "Feasible"


@pytest.mark.parametrize(
    ("spec", "members", "message"),
    [
        ({"minMember": 4}, scenes.members(3), "waits for 1 more pod: 3 of 4 exist"),
        ({"minMember": 4}, [], "waits for 4 more pods: 0 of 4 exist"),
        (
            {"podSets": [{"name": "a", "count": 2}, {"name": "b", "count": 1}]},
            scenes.members(1, pod_set="a"),
            "waits for 1 more pod of a: 1 of 2 exist and 1 more pod of b: 0 of 1 exist",
        ),
        (
            {"podSets": [{"name": "a", "count": 4, "minCount": 2}]},
            scenes.members(1, pod_set="a"),
            "waits for 3 more pods: 1 of 4 exist",
        ),
        ({"minMember": 1, "topology": "other"}, scenes.members(1), "waits for Topology other"),
        ({"minMember": 1, "topology": "a\nb c"}, scenes.members(1), r"waits for Topology a\nb c"),
        (
            {"minMember": 2},
            [scenes.pod("llm-0", gang="llm", priorityClassName="high")],
            "waits for PriorityClass high and 1 more pod: 1 of 2 exist",
        ),
    ],
)
def test_a_gang_says_what_it_waits_for(spec: dict[str, Any], members: list[scenes.Manifest], message: str) -> None:
    decision = decided(scenes.nodes(), scenes.gang(**spec), members)
    assert (decision.outcome, decision.message, decision.proof) == (Outcome.WAITING, message, "")


def test_a_level_without_any_topology_is_waited_for() -> None:
    run = scenes.solved(scenes.nodes(), scenes.gang(minMember=1, required="spine"), scenes.members(1))
    assert run.decisions[0].message == 'waits for Topology with a level "spine"'


def test_the_nearest_domains_come_with_numbers_and_reasons() -> None:
    decision = decided(
        scenes.nodes(),
        [scenes.running(f"busy-{i}", f"node-{i}", 100) for i in (0, 1, 5)],
        scenes.gang(minMember=4, required="spine"),
        scenes.members(4),
    )
    assert decision.outcome is Outcome.UNPLACEABLE
    assert decision.proof == "Infeasible"
    assert decision.message == (
        "needs 4 pods in one spine: spine-0 fits 3 of 4 (2 nodes: Insufficient cpu); "
        "spine-1 fits 3 of 4 (1 node: Insufficient cpu); spine-2 fits 3 of 4"
    )
    assert [(path, fits) for _, path, fits in decision.explanation.offered] == [
        (("spine-0",), 3),
        (("spine-1",), 3),
        (("spine-2",), 3),
    ]
    assert decision.explanation.would_fit_if


def test_a_taint_tolerated_is_no_help_to_members_that_want_another_label() -> None:
    """All members can use node n only, but for different reasons.

    Nodes x and y are tainted and not in zone a. One member does not tolerate the taint; the others require the zone.
    """
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    tainted = [{**each, "spec": {"taints": [taint]}} for each in scenes.nodes("s/b: x y")]
    labelled = [scenes.labelled(each, zone="a") for each in scenes.nodes("s/b: n")]
    wanting = {"nodeSelector": {"zone": "a"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]}
    plain, *others = scenes.members(3)
    choosy = [{**each, "spec": {**each["spec"], **wanting}} for each in others]
    nodes = (*labelled, *tainted)

    mixed = decided(nodes, scenes.gang(minMember=3), plain, choosy)
    assert not any("tolerated" in each for each in mixed.explanation.would_fit_if)
    alike = decided(nodes, scenes.gang(minMember=3), scenes.members(3))
    assert "taint {gpu: yes} tolerated (2 nodes)" in alike.explanation.would_fit_if


def test_nodes_outside_the_topology_are_a_reason() -> None:
    decision = decided(scenes.nodes("s/b: node-0\n-: stray-0 stray-1"), scenes.gang(minMember=2), scenes.members(2))
    (near,) = decision.explanation.nearest
    assert (near.path, near.nodes) == ((), 3)
    assert near.excluded["node(s) had no label example.com/spine"] == 2
    assert decision.message.startswith("needs 2 pods: the cluster holds 1 of 2 (")


@pytest.mark.parametrize("required", [None, "spine", "block"])
def test_a_topology_in_which_no_node_lies_is_the_reason(required: str | None) -> None:
    strays = scenes.nodes("-: stray-0 stray-1")
    decision = decided(
        strays, scenes.gang(minMember=2, required=required), scenes.members(1), scenes.members(2, cpu=4)[1:]
    )
    where = f" in one {required}" if required else ""
    assert decision.message == (
        f"needs 2 pods{where}: the cluster holds 0 of 2 (2 nodes: node(s) had no label example.com/spine)"
    )


def test_without_preemption_nobody_goes() -> None:
    parts = (
        scenes.nodes("s/b: node-0"),
        scenes.running("low", "node-0", -1),
        scenes.gang(minMember=1),
        scenes.members(1),
    )
    assert decided(*parts).outcome is Outcome.PLACED
    assert decided(*parts, preemption=False).outcome is Outcome.UNPLACEABLE


def test_an_invalid_request_is_a_mistake_with_its_file_and_an_entry_in_the_report() -> None:
    run = scenes.solved(scenes.topology(), scenes.nodes(), scenes.gang(minMember=1, required="aisle"))
    (mistake,) = run.mistakes
    assert str(mistake).startswith('test.yaml: Gang default/llm: spec.required: "aisle" is not a level of Topology net')
    (decision,) = run.decisions
    assert (decision.outcome, decision.key.dialect, str(decision.key)) == (Outcome.INVALID, "phalanx", "default/llm")


def test_the_rest_is_planned_beside_an_invalid_request() -> None:
    run = scenes.solved(
        scenes.topology(),
        scenes.nodes(),
        scenes.gang("bad", minMember=0),
        scenes.gang(minMember=1),
        scenes.members(1),
    )
    assert [(str(each.key), each.outcome) for each in run.decisions] == [
        ("default/llm", Outcome.PLACED),
        ("default/bad", Outcome.INVALID),
    ]


def test_a_plan_is_told_with_what_the_best_elsewhere_would_cost() -> None:
    asked = scenes.topology(), *scenes.nodes(), scenes.gang(minMember=2, required="block"), *scenes.members(2)
    (decision,) = scenes.solved(*asked, comparing=True).decisions
    assert decision.explanation.why_here == "block spine-1/block-3 is as good and comes later by name"
    assert not scenes.solved(*asked).decisions[0].explanation.why_here
