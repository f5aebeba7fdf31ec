"""Node pools with topologies of their own, tied by an annotation on the Topology.

pool a, topology ta:  spine-0: node-0 node-1      spine-1: node-2 node-3 node-4
pool b, topology tb:  spine-0: node-5 node-6 node-7
"""

from typing import Any

import pytest
from scenes import Manifest, gang, label, members, node, solved, topology

from planning.decision import Decision, Outcome

POOL = "example.com/pool"


def tied(name: str, *pools: str, created: str = "2026-01-01T00:00:00Z") -> Manifest:
    """A topology for these pools."""
    made = topology(("spine",), name)
    made["metadata"] |= {"annotations": {"phalanx.dev/node-pools": ", ".join(pools)}, "creationTimestamp": created}
    return made


def pooled(name: str, pool: str, spine: str) -> Manifest:
    return node(name, {POOL: pool, label("spine"): spine})


NODES = [
    *(pooled(f"node-{i}", "a", "spine-0") for i in (0, 1)),
    *(pooled(f"node-{i}", "a", "spine-1") for i in (2, 3, 4)),
    *(pooled(f"node-{i}", "b", "spine-0") for i in (5, 6, 7)),
]
A, B = tied("ta", f"{POOL}=a"), tied("tb", f"{POOL}=b")
IN_A, IN_B = {"nodeSelector": {POOL: "a"}}, {"nodeSelector": {POOL: "b"}}


def affinity(*terms: list[Manifest]) -> Manifest:
    required = {"nodeSelectorTerms": [{"matchExpressions": each} for each in terms]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def within(*values: str) -> Manifest:
    return {"key": POOL, "operator": "In", "values": list(values)}


def decision_of(*topologies: Manifest, pods: Manifest | None = None, **spec: Any) -> Decision:
    run = solved(NODES, topologies, gang(minMember=3, **spec), members(3, **(pods or {})))
    (decision,) = run.decisions
    return decision


def nodes_of(decision: Decision) -> list[str]:
    return [each.node for each in decision.assignments]


PLACED = {
    "the topology that it names": ({}, {"topology": "tb"}, ["node-5", "node-6", "node-7"]),
    "the topology of the pool that its pods select": (IN_B, {}, ["node-5", "node-6", "node-7"]),
    "the other one, likewise": (IN_A, {}, ["node-2", "node-3", "node-4"]),
    "the pool of its pods' required affinity": (affinity([within("b")]), {}, ["node-5", "node-6", "node-7"]),
    "one of several pools that it may use, as named": (
        affinity([within("a", "b")]),
        {"topology": "ta"},
        ["node-2", "node-3", "node-4"],
    ),
}


@pytest.mark.parametrize(("pods", "spec", "expected"), PLACED.values(), ids=PLACED)
def test_a_gang_is_planned_in(pods: Manifest, spec: Manifest, expected: list[str]) -> None:
    decision = decision_of(A, B, pods=pods, required="spine", **spec)
    assert nodes_of(decision) == expected


def test_pools_by_another_label_do_not_matter_to_pods_that_select_one_by_theirs() -> None:
    other = tied("tc", "example.com/other-pool=c")
    assert nodes_of(decision_of(A, B, other, pods=IN_B, required="spine")) == ["node-5", "node-6", "node-7"]


SEVERAL = "Gang default/llm: spec.topology: is not set, and there are several topologies; name one of ta, tb"
OUT_OF_REACH = (
    'Gang default/llm: spec.topology: "tb" describes the node pools example.com/pool=b, the pods may only use '
    "example.com/pool=a; name the topology of a node pool that the pods may use, or let them use one of its own"
)
REFUSED = {
    "pods that may use pools of different topologies, and no name": (
        affinity([within("a")], [within("b")]),
        {},
        SEVERAL,
    ),
    "no pool and no name": ({}, {}, SEVERAL),
    "the topology of a pool that its pods cannot use": (
        IN_A,
        {"topology": "tb"},
        OUT_OF_REACH,
    ),
}


@pytest.mark.parametrize(("pods", "spec", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(pods: Manifest, spec: Manifest, message: str) -> None:
    decision = decision_of(A, B, pods=pods, **spec)
    assert (decision.outcome, decision.message) == (Outcome.INVALID, message)


def test_equal_labels_in_another_pool_are_another_domain() -> None:
    """spine-0 of pool a has 2 nodes: those of pool b do not belong to it."""
    run = solved(NODES, A, B, gang(minMember=5, required="spine", topology="ta"), members(5))
    assert run.decisions[0].outcome is Outcome.UNPLACEABLE


def test_a_topology_without_pools_describes_all_nodes() -> None:
    run = solved(NODES, topology(("spine",), "ta"), gang(minMember=5, required="spine"), members(5))
    assert nodes_of(run.decisions[0]) == ["node-0", "node-1", "node-5", "node-6", "node-7"]


def test_a_pool_whose_topology_was_detached_is_planned_in_the_one_that_is_named() -> None:
    detached = topology(("spine",), "ta")
    assert nodes_of(decision_of(detached, B, pods=IN_A, required="spine", topology="ta")) == [
        "node-2",
        "node-3",
        "node-4",
    ]


@pytest.mark.parametrize("text", ["a", "=a", "x=", "a=b=c", "a b=c"])
def test_a_pool_is_a_label_and_a_value(text: str) -> None:
    (fault,) = solved(NODES, tied("ta", text)).mistakes
    assert fault.problem == (
        f'"{text}" is not the label and the value of a node pool; '
        "write pools such as kai.scheduler/node-pool=gb200, separated by commas"
    )


def test_a_pool_has_one_topology_and_the_younger_one_gives_way() -> None:
    older, younger = tied("ta", f"{POOL}=a"), tied("tz", f"{POOL}=a", created="2026-01-02T00:00:00Z")
    run = solved(NODES, older, younger, gang(minMember=3), members(3))
    assert [(each.object, each.problem.partition(";")[0]) for each in run.mistakes] == [
        ("Topology tz", "example.com/pool=a belongs to Topology ta already"),
        ("Topology ta", "example.com/pool=a belongs to Topology tz, too"),
    ]
    assert nodes_of(run.decisions[0]) == ["node-2", "node-3", "node-4"]
