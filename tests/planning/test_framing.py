"""Framing, the solver's problem: amounts, shapes, members that stay, excluded nodes, and victims with protection."""

from dataclasses import replace
from typing import Any

import pytest
import scenes

from gangs.model import Reading
from kube.keys import GATE, PLANNED_NODE
from planning.framing.gang_problem import Framing, UnknownLevelError, frame
from planning.framing.priorities import with_priorities
from planning.framing.running_gangs import running_gangs
from solver.problem import Cap, Exclusion, Multiple, Slice, Together, VictimGang

ROOM = {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "4", "pods": "20"}


def framed(*parts: Any, name: str = "llm", preemption: bool = True) -> Framing:
    """The problem of one gang among these manifests."""
    gangs, snapshot, topologies = scenes.picture(*parts)
    gang = next(each for each in gangs if each.key.name == name)
    gang = with_priorities(gang, snapshot)
    topology = topologies[0] if topologies else None
    return frame(gang, snapshot, topology, running=running_gangs(Reading(tuple(gangs))), preemption=preemption)


def cluster(drawing: str = scenes.SPINES, **more: Any) -> list[scenes.Manifest]:
    """A topology and its nodes."""
    return [scenes.topology(), *scenes.nodes(drawing, **more)]


def test_resources_are_those_asked_for_in_the_order_that_decides_between_equals() -> None:
    asked = {"nvidia.com/gpu": 2, "example.com/a": 1, "memory": "8Gi"}
    containers = [{"name": "a", "image": "i", "resources": {"requests": asked, "limits": asked}}]
    members = [scenes.pod("llm-0", gang="llm", containers=containers)]
    problem = framed(cluster(allocatable=ROOM), scenes.gang(minMember=1), members).problem
    assert problem.resources == ("memory", "example.com/a", "nvidia.com/gpu", "pods")
    assert problem.shapes[0].requests == (1, 1, 1, 1)
    assert problem.nodes[0].free == (4, 0, 2, 20)


def test_the_unit_of_a_resource_divides_every_amount_so_nothing_is_rounded() -> None:
    #  node 8000m, asked 3000m, running 500m: the unit is 500m
    framing = framed(
        cluster("spine-0/block-0: node-0"),
        scenes.running("other", "node-0", cpu="500m"),
        scenes.gang(minMember=1),
        scenes.members(1, cpu=3, priority=1),
    )
    assert framing.units == (500, 1)
    assert framing.problem.shapes[0].requests == (6, 1)
    assert framing.problem.nodes[0].free == (15, 109)
    assert framing.problem.victims[0].requests == (1, 1)


def test_nodes_come_in_the_order_of_the_tree_with_their_paths() -> None:
    framing = framed(cluster("s1/b0: node-0\ns0/b1: node-10 node-9"), scenes.gang(minMember=1), scenes.members(1))
    assert framing.nodes == ("node-9", "node-10", "node-0")
    assert [node.path for node in framing.problem.nodes] == [("s0", "b1"), ("s0", "b1"), ("s1", "b0")]
    assert framing.problem.levels == ("spine", "block", "node")


def test_without_a_topology_every_node_stands_for_itself() -> None:
    framing = framed(scenes.nodes("-: node-0 node-1"), scenes.gang(minMember=1), scenes.members(1))
    assert framing.problem.levels == ("node",)
    assert [node.path for node in framing.problem.nodes] == [(), ()]


def test_members_that_are_alike_share_a_shape_whatever_their_names_and_labels() -> None:
    alike = [scenes.labelled(each, rank=str(i)) for i, each in enumerate(scenes.members(3))]
    unlike = scenes.pod("llm-3", gang="llm", cpu=4)
    problem = framed(cluster(), scenes.gang(minMember=4), alike, unlike).problem
    assert [member.shape for member in problem.sets[0].members] == [0, 0, 0, 1]


def test_pods_whose_wishes_come_to_the_same_share_a_shape() -> None:
    one = scenes.pod("llm-0", gang="llm")
    other = scenes.pod("llm-1", gang="llm", tolerations=[{"key": "nobody-has-it", "operator": "Exists"}])
    assert len(framed(cluster(), scenes.gang(minMember=2), one, other).problem.shapes) == 1


def test_labels_tell_members_apart_where_somebody_keeps_off_them() -> None:
    #  the pod on node-0 keeps off everything labelled role=b
    term = {"labelSelector": {"matchLabels": {"role": "b"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    members = [scenes.labelled(each, role=role) for each, role in zip(scenes.members(2, cpu=1), "ab", strict=True)]
    shapes = framed(
        cluster("spine-0/block-0: node-0 node-1"),
        scenes.running("shy", "node-0", cpu=1, affinity=affinity),
        scenes.gang(minMember=2),
        members,
    ).problem.shapes
    assert [shape.nodes for shape in shapes] == [{0, 1}, {1}]
    assert shapes[1].excluded == {0: "node(s) didn't satisfy existing pods anti-affinity rules"}


def test_a_wish_of_the_gang_counts_beside_the_pods_own() -> None:
    def term(name: str) -> dict[str, Any]:
        return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}

    own = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "preference": term("node-0")}]}
    spec = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term("node-0"), term("node-1")]},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": term("node-0")}],
    }
    shape = framed(
        cluster("spine-0/block-0: node-0 node-1 node-2"),
        scenes.gang(minMember=1, nodeAffinity=spec),
        scenes.members(1, affinity={"nodeAffinity": own}),
    ).problem.shapes[0]
    assert shape.nodes == {0, 1}
    assert shape.preferences == {0: 8}


def test_rules_of_the_sets_name_their_levels_by_position() -> None:
    worker = {
        "name": "worker",
        "count": 4,
        "required": "spine",
        "slices": [{"level": "block", "size": 2}],
        "multiples": [{"level": scenes.label("spine"), "of": 4}],
        "maxPerDomain": [{"level": "kubernetes.io/hostname", "count": 1}],
    }
    spec: dict[str, Any] = {"podSets": [worker, {"name": "server", "count": 1}], "required": "spine"}
    together = [{"podSets": ["worker", "server"], "level": "spine"}]
    problem = framed(
        cluster(),
        scenes.gang(**spec, together=together),
        scenes.members(4, pod_set="worker"),
        scenes.pod("llm-server", gang="llm", pod_set="server"),
    ).problem
    worker_set, server = problem.sets
    assert (worker_set.required, worker_set.minimum, server.required, server.minimum) == (0, 4, None, 1)
    assert worker_set.slices == (Slice(1, 2),)
    assert worker_set.multiples == (Multiple(0, 4),)
    assert worker_set.caps == (Cap(2, 1),)
    assert (problem.required, problem.minimum, problem.together) == (0, 5, (Together((0, 1), 0),))


def test_members_that_keep_off_each_other_become_an_exclusion() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": scenes.label("block")}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    members = [scenes.labelled(each, app="x") for each in scenes.members(2, affinity=affinity)]
    problem = framed(cluster("s/b0: node-0 node-1\ns/b1: node-2"), scenes.gang(minMember=2), members).problem
    assert problem.exclusions == (Exclusion((0,), ("b0", "b0", "b1")),)


def test_two_sets_on_one_host_port_exclude_each_other() -> None:
    containers = [{"name": "main", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}]
    sets = [{"name": "a", "count": 1}, {"name": "b", "count": 1}]
    pods = [scenes.pod(f"llm-{x}", gang="llm", pod_set=x, containers=containers) for x in "ab"]
    problem = framed(cluster("s/b: node-0 node-1"), scenes.gang(podSets=sets), pods).problem
    assert problem.exclusions == (Exclusion((0,), ("node-0", "node-1")),)
    assert {member.shape for each in problem.sets for member in each.members} == {0}


def test_a_bound_member_keeps_its_node_and_its_room_is_not_free() -> None:
    bound = scenes.pod("llm-0", gang="llm", cpu=3, nodeName="node-0")
    new = scenes.pod("llm-1", gang="llm", cpu=3)
    problem = framed(cluster("s/b: node-0 node-1"), scenes.gang(minMember=2), bound, new).problem
    assert [member.node for member in problem.sets[0].members] == [0, None]
    assert [node.free[0] for node in problem.nodes] == [5, 8]


@pytest.mark.parametrize(
    ("gates", "annotations", "nominated", "node"),
    [
        ([{"name": GATE}], {PLANNED_NODE: "node-0"}, "node-0", None),  # planned and gated: free to move
        ([], {PLANNED_NODE: "node-0"}, "node-0", 0),  # released
        ([], {PLANNED_NODE: "node-0"}, "", 0),  # released, the scheduler has cleared the nomination
        ([], {}, "node-1", None),  # the scheduler wants to preempt there: no plan of ours, and no promise
        ([], {}, "", None),  # as in a file
    ],
)
def test_a_released_member_keeps_its_planned_node(
    gates: list[dict[str, str]], annotations: dict[str, str], nominated: str, node: int | None
) -> None:
    pod = scenes.pod("llm-0", gang="llm", cpu=3, schedulingGates=gates)
    pod["metadata"]["annotations"] = annotations
    pod["status"] = {"nominatedNodeName": nominated}
    problem = framed(cluster("s/b: node-0 node-1"), scenes.gang(minMember=1), pod).problem
    assert problem.sets[0].members[0].node == node
    assert [each.free[0] * 1 for each in problem.nodes] == [5 if i == node else 8 for i in range(2)]


def test_a_member_bound_outside_the_topology_is_alone_in_its_domains() -> None:
    bound = scenes.pod("llm-0", gang="llm", nodeName="stray")
    framing = framed(cluster("s/b: node-0\n-: stray"), scenes.gang(minMember=2), bound, scenes.pod("llm-1", gang="llm"))
    stray = framing.problem.nodes[1]
    assert (stray.name, stray.path, stray.free) == ("stray", ("outside (stray)",) * 2, (0, 0))
    assert framing.guests == {1}
    assert framing.outside == {"stray": scenes.label("spine")}
    assert framing.problem.sets[0].members[0].node == 1
    assert framing.problem.shapes[framing.problem.sets[0].members[1].shape].nodes == {0}


def test_only_running_pods_of_lower_priority_that_nothing_protects() -> None:
    daemon = scenes.running("daemon", "node-1", cpu=1)
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "1", "controller": True}
    daemon["metadata"]["ownerReferences"] = [owner]
    leaving = scenes.running("leaving", "node-2", cpu=1)
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    reserved = scenes.pod("reserved", cpu=1, schedulingGates=[{"name": GATE}])
    reserved["status"] = {"nominatedNodeName": "node-1"}
    framing = framed(
        cluster("s/b: node-0 node-1 node-2"),
        scenes.running("low", "node-0", 4, cpu=1),
        scenes.running("equal", "node-0", 5, cpu=1),
        daemon,
        leaving,
        reserved,
        scenes.gang(minMember=1),
        scenes.members(1, priority=5),
    )
    assert [victim.key for victim in framing.problem.victims] == ["default/low"]
    # leaving counts as free and is named as terminating; the lower reservation may be taken
    assert [(node.free[0], node.terminating[0]) for node in framing.problem.nodes] == [(6, 0), (7, 0), (8, 1)]


@pytest.mark.parametrize("policy", ["Never", "PreemptLowerPriority"])
def test_a_member_that_never_preempts_leaves_no_victims(policy: str) -> None:
    members = scenes.members(2, priority=5)
    members[1]["spec"]["preemptionPolicy"] = policy
    framing = framed(cluster("s/b: node-0 node-1"), scenes.running("low", "node-0"), scenes.gang(minMember=2), members)
    assert len(framing.problem.victims) == (policy != "Never")


def test_no_victims_where_preemption_is_off() -> None:
    parts = cluster("s/b: node-0"), scenes.running("low", "node-0"), scenes.gang(minMember=1)
    assert not framed(*parts, scenes.members(1, priority=5), preemption=False).problem.victims


def test_the_siblings_of_a_victim_are_victims_too_wherever_they_run() -> None:
    #  node-2 is cordoned for the newcomer, stray is outside the topology
    cordoned = scenes.node("node-2", {scenes.label("spine"): "s", scenes.label("block"): "b"})
    cordoned["spec"] = {"unschedulable": True}
    old = [scenes.running(f"old-{i}", node, gang="old") for i, node in enumerate(["node-0", "node-2", "stray"])]
    framing = framed(
        cluster("s/b: node-0 node-1\n-: stray"),
        cordoned,
        scenes.running("bystander", "stray", cpu=1),
        scenes.gang("old", minMember=2),
        old,
        scenes.gang(minMember=1),
        scenes.members(1, priority=5),
    )
    problem = framing.problem
    assert [(v.key, framing.nodes[v.node], v.gang) for v in problem.victims] == [
        ("default/old-0", "node-0", 0),
        ("default/old-1", "node-2", 0),
        ("default/old-2", "stray", 0),
    ]
    assert problem.victim_gangs == (VictimGang("default/old", 3, 2),)


@pytest.mark.parametrize(
    ("spec", "counted", "allowed"),
    [
        ({"minAvailable": 2}, None, 1),
        ({"minAvailable": "50%"}, None, 1),  # of three, rounded up: two must stay
        ({"minAvailable": 4}, None, 0),
        ({"maxUnavailable": 2}, None, 2),
        ({"maxUnavailable": "34%"}, None, 2),  # of three, rounded up
        ({"minAvailable": 3}, 1, 1),  # the controller's own count goes before
    ],
)
def test_a_disruption_budget_allows_what_its_controller_would(
    spec: dict[str, Any], counted: int | None, allowed: int
) -> None:
    pods = [scenes.labelled(scenes.running(f"w-{i}", f"node-{i}"), app="w") for i in range(3)]
    framing = framed(
        cluster("s/b: node-0 node-1 node-2"),
        pods,
        scenes.budget("w", {"app": "w"}, allowed=counted, **spec),
        scenes.gang(minMember=1),
        scenes.members(1, priority=5),
    )
    (budget,) = framing.problem.budgets
    assert (budget.name, budget.victims, budget.allowed) == ("default/w", frozenset({0, 1, 2}), allowed)


def test_a_pod_on_its_way_out_is_not_available() -> None:
    pods = [scenes.labelled(scenes.running(f"w-{i}", f"node-{i}"), app="w") for i in range(3)]
    pods[0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    framing = framed(
        cluster("s/b: node-0 node-1 node-2"),
        pods,
        scenes.budget("w", {"app": "w"}, maxUnavailable=1),
        scenes.gang(minMember=1),
        scenes.members(1, priority=5),
    )
    assert framing.problem.budgets[0].allowed == 0


def test_a_pod_under_two_budgets_can_not_be_evicted_at_all() -> None:
    pods = [scenes.labelled(scenes.running("w", "node-0"), app="w", team="t"), scenes.running("v", "node-1")]
    framing = framed(
        cluster("s/b: node-0 node-1"),
        pods,
        scenes.budget("w", {"app": "w"}, maxUnavailable=1),
        scenes.budget("t", {"team": "t"}, maxUnavailable=1),
        scenes.gang(minMember=1),
        scenes.members(1, priority=5),
    )
    assert [victim.key for victim in framing.problem.victims] == ["default/v"]


def test_later_starts_are_larger() -> None:
    early, late = scenes.running("early", "node-0"), scenes.running("late", "node-1")
    early["status"] = {"startTime": "2026-01-01T10:00:00Z"}
    late["status"] = {"startTime": "2026-01-01T10:00:01+00:00"}
    framing = framed(
        cluster("s/b: node-0 node-1"), early, late, scenes.gang(minMember=1), scenes.members(1, priority=5)
    )
    first, second = framing.problem.victims
    assert second.started - first.started == 1


@pytest.mark.parametrize("levels", [{"required": "aisle"}, {"preferred": "aisle"}])
def test_a_level_that_the_topology_lacks_is_an_error_of_its_own(levels: dict[str, Any]) -> None:
    gangs, snapshot, topologies = scenes.picture(cluster(), scenes.gang(minMember=1), scenes.members(1))
    gang = replace(gangs[0], **levels)
    with pytest.raises(UnknownLevelError, match="aisle"):
        frame(gang, snapshot, topologies[0], running={})


def test_what_is_not_modelled_is_named() -> None:
    members = scenes.members(2, resourceClaims=[{"name": "gpu"}])
    framing = framed(cluster(), scenes.gang(minMember=2), members)
    assert framing.unmodelled == ("dynamic resource claims (spec.resourceClaims)",)


def test_members_that_have_ended_well_are_no_longer_needed() -> None:
    ended = scenes.running("llm-0", "node-0", gang="llm")
    ended["status"] = {"phase": "Succeeded"}
    problem = framed(cluster("s/b: node-0 node-1"), scenes.gang(minMember=2), ended, scenes.members(2)[1]).problem
    assert (problem.minimum, problem.sets[0].minimum, len(problem.sets[0].members)) == (1, 1, 1)
    assert problem.nodes[0].free[0] == problem.nodes[1].free[0]
