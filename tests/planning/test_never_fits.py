"""A gang that does not fit the empty cluster can never run. Its message says so once, whichever pods run.

r0: n0 n1 n2    r1: n3 n4    8 cpu each
"""

from typing import Any

import pytest
import scenes
from pod_by_pod import Cluster, best
from random_pods import random_cluster

from planning.decision import Decision, Outcome, Refusal
from planning.stories.line import in_line

RACKS = [scenes.topology(("rack",)), *scenes.nodes("r0: n0 n1 n2\nr1: n3 n4", ("rack",))]
HOST = "kubernetes.io/hostname"
NEVER = (
    "never fits this cluster, even without other pods: needs 4 pods in one rack, and the largest rack, r0 (3 nodes), "
    "holds 3"
)


def running(*nodes: str) -> list[dict[str, Any]]:
    """Pods that fill these nodes."""
    return [scenes.pod(f"other-{node}", cpu=8, nodeName=node) for node in nodes]


def decided(count: int, *others: dict[str, Any], cluster: Any = None, cpu: int = 8, **spec: Any) -> Decision:
    """The decision for a gang that requires one rack."""
    gang = scenes.gang(minMember=count, required="rack")
    members = scenes.members(count, cpu=cpu, **spec)
    (decision,) = scenes.solved(cluster or RACKS, gang, members, *others).decisions
    return decision


@pytest.mark.parametrize("full", ["n0", "n1", "n4"])
def test_the_message_names_the_largest_domain_whichever_nodes_are_full(full: str) -> None:
    decision = decided(4, *running(full))
    assert (decision.outcome, decision.refusal, decision.proof) == (
        Outcome.UNPLACEABLE,
        Refusal.NEVER_FITS,
        "Infeasible",
    )
    assert decision.message == NEVER


def test_without_other_pods_the_message_speaks_of_the_empty_cluster_already() -> None:
    decision = decided(4)
    assert decision.refusal is Refusal.NEVER_FITS
    assert decision.message == "needs 4 pods in one rack: r0 fits 3 of 4; r1 fits 2 of 4"


def test_a_gang_that_other_pods_keep_out_may_fit_later() -> None:
    assert decided(3, *running("n0")).refusal is None


def test_a_gang_without_a_level_is_compared_with_the_whole_cluster() -> None:
    members = scenes.members(6, cpu=8)
    (decision,) = scenes.solved(RACKS, scenes.gang(minMember=6), members, *running("n0")).decisions
    assert decision.message == (
        "never fits this cluster, even without other pods: needs 6 pods, and the cluster (5 nodes) holds 5"
    )


@pytest.mark.parametrize(
    "state",
    [
        {"spec": {"unschedulable": True}},
        {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
        {"spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}},
    ],
    ids=["cordoned", "not ready", "tainted as not ready"],
)
def test_a_node_that_may_come_back_counts(state: dict[str, Any]) -> None:
    cluster = [*RACKS[:-1], {**RACKS[-1], **{key: {**RACKS[-1].get(key, {}), **value} for key, value in state.items()}}]
    members = scenes.members(5, cpu=8)
    (decision,) = scenes.solved(cluster, scenes.gang(minMember=5), members).decisions
    assert (decision.outcome, decision.refusal) == (Outcome.UNPLACEABLE, None)


def test_members_that_exclude_each_other_need_as_many_nodes() -> None:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"phalanx.dev/gang": "llm"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    decision = decided(4, *running("n3"), cpu=1, affinity=apart)
    assert decision.message == NEVER


def test_pods_of_daemon_sets_stay() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u", "controller": True}
    agents = [scenes.pod(f"agent-{node}", cpu=1, nodeName=node) for node in ("n0", "n1", "n2")]
    for agent in agents:
        agent["metadata"]["ownerReferences"] = [owner]
    assert decided(3, *agents, *running("n4")).refusal is Refusal.NEVER_FITS


def test_a_gang_that_wants_to_be_near_a_pod_of_others_may_fit_beside_it() -> None:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "db"}}}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    database = scenes.labelled(scenes.pod("db", cpu=8, nodeName="n0"), app="db")
    assert decided(1, database, cpu=1, affinity=near).refusal is None


def test_a_gang_that_never_fits_has_no_plan_on_the_empty_cluster() -> None:
    never = 0
    for seed in range(100):
        cluster = random_cluster(seed)
        parts = [*map(dict, (*cluster.nodes, *cluster.running, *cluster.members))]
        (decision,) = scenes.solved(parts, scenes.gang("g", minMember=len(cluster.members))).decisions
        if decision.refusal is Refusal.NEVER_FITS:
            never += 1
            assert best(Cluster(cluster.nodes, [], cluster.members)) is None, f"seed {seed}: {decision.message}"
    assert never


@pytest.mark.parametrize(("reason", "stands"), [("NoRoom", True), ("NotProven", True), ("NeverFits", False)])
def test_a_gang_that_never_fits_has_no_place_in_line(reason: str, stands: bool) -> None:  # noqa: FBT001
    assert in_line({"status": {"phase": "Unplaceable", "reason": reason}}) is stands
