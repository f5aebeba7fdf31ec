"""The snapshot after plans equals a snapshot with every node rebuilt, although only the changed nodes are updated."""

from dataclasses import replace
from random import Random

import pytest

from cluster.node_state import NodeState, Tenant
from cluster.snapshot import Snapshot
from gangs.model import GangKey, Member
from kube.objects import Node, ObjectMeta, Pod, PodSpec
from kube.requests import pod_requests
from planning.after_plan import after_all
from planning.decision import Assignment, Decision, Eviction, Outcome
from planning.message import Message

NODES = 6


def pod(name: str, node: str = "") -> Pod:
    """A pod, bound to a node if one is given."""
    return Pod(metadata=ObjectMeta(name=name, namespace="default", uid=f"uid-{name}"), spec=PodSpec(node_name=node))


def tenant(of: Pod, node: str, *, reserved: bool = False) -> Tenant:
    """The pod in its place."""
    return Tenant(of, node, pod_requests(of), 0, reserved=reserved)


def drawn(draw: Random) -> tuple[Snapshot, list[Decision]]:
    """Nodes with running pods and older places of members, and plans that evict some and give members new places."""
    names = [f"n{number}" for number in range(NODES)]
    there: dict[str, list[Tenant]] = {name: [] for name in names}
    running = [pod(f"r{number}", draw.choice(names)) for number in range(8)]
    for each in running:
        there[each.spec.node_name].append(tenant(each, each.spec.node_name))
    members = [pod(f"m{number}") for number in range(6)]
    for each in members:
        if draw.random() < 0.5:
            node = draw.choice(names)
            there[node].append(tenant(each, node, reserved=draw.random() < 0.5))
    nodes = (NodeState(Node(metadata=ObjectMeta(name=name)), {"pods": 110}, tuple(there[name])) for name in names)
    plans = []
    for first in (0, 3):
        going = draw.sample(running[first : first + 3], draw.randint(0, 2))
        evictions = [Eviction("default", p.metadata.name, p.metadata.uid, p.spec.node_name, 0) for p in going]
        assigned = [
            Assignment(Member(each, "main", None), place, draw.choice(names), held=draw.random() < 0.2)
            for place, each in enumerate(members[first : first + 3])
        ]
        key = GangKey("phalanx", "default", f"g{first}")
        plans.append(Decision(None, key, Outcome.PLACED, Message(), tuple(assigned), evictions=tuple(evictions)))
    return Snapshot(tuple(nodes)), plans


def node_by_node(plans: list[Decision], snapshot: Snapshot) -> Snapshot:
    """Return the snapshot after these plans, with every node and every pod rebuilt: the reference for `after`."""
    new = [each for plan in plans for each in plan.assignments if not each.held]
    evicted = {f"{each.namespace}/{each.name}" for plan in plans for each in plan.evictions}
    leaving = evicted | {each.member.pod.key for each in new}
    states = []
    for state in snapshot.nodes:
        stay = [each for each in state.tenants if each.pod.key not in leaving]
        come = [tenant(each.member.pod, state.name, reserved=True) for each in new if each.node == state.name]
        states.append(replace(state, tenants=(*stay, *come)))
    gone = tuple(each for state in snapshot.nodes for each in state.tenants if each.pod.key in evicted)
    causes = {f"{each.namespace}/{each.name}": str(plan.key) for plan in plans for each in plan.evictions}
    return replace(snapshot, nodes=tuple(states), evicted=gone, evicted_for=causes)


@pytest.mark.parametrize("seed", range(100))
def test_only_what_changes_is_looked_at_and_the_picture_is_the_same(seed: int) -> None:
    snapshot, plans = drawn(Random(seed))  # noqa: S311 - nothing secret
    found = after_all(plans, snapshot)
    assert found == node_by_node(plans, snapshot)
    assert [found.state(state.name) for state in snapshot.nodes] == list(found.nodes)
    assert found.state("unknown") is None
