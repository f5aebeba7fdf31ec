"""Clusters of three nodes of 4 cpu in two racks, and gangs of pods of 4 cpu, for the tables of the protocol.

r1: n1, n2      r2: n3
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from cluster.capturing import snapshot_of
from cluster.snapshot import Snapshot
from controller.release.next_step import Situation
from controller.release.records import PlannedMember, PlannedVictim, PlanRecord
from gangs.model import Gang, GangKey, Member, ObjectRef, PodSet
from kube.keys import GATE, PLAN, PLANNED_NODE
from kube.objects import (
    Affinity,
    Container,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    SchedulingGate,
)
from kube.topology import HOSTNAME_LABEL, Level, Topology

PLAN_ID = "plan-1"
GRACE_END = "2026-01-01T00:00:00Z"
"""When the grace period of a terminating pod ends."""
RACK = "example.com/rack"
TOPOLOGY = Topology("t", "Topology", (Level("rack", (RACK,)), Level(HOSTNAME_LABEL, (HOSTNAME_LABEL,))))
RACKS = {"n1": "r1", "n2": "r1", "n3": "r2"}


def node(name: str) -> Node:
    """A node of 4 cpu in its rack."""
    meta = ObjectMeta(name=name, labels={HOSTNAME_LABEL: name, RACK: RACKS[name]})
    return Node(metadata=meta, status=NodeStatus(allocatable={"cpu": "4", "pods": "110"}))


def pod(
    name: str,
    *,
    gated: bool = True,
    nominated: str = "",
    plan: str = PLAN_ID,
    bound: str = "",
    priority: int = 10,
    cpu: str = "4",
    terminating: bool = False,
    affinity: Affinity | None = None,
    finalizers: tuple[str, ...] = (),
) -> Pod:
    """A pod: gated, nominated to a node by a plan, released, or bound."""
    annotations = {PLAN: plan, PLANNED_NODE: nominated} if nominated else {}
    meta = ObjectMeta(
        name=name,
        namespace="default",
        uid=f"uid-{name}",
        resource_version="1",
        annotations=annotations,
        deletion_timestamp=GRACE_END if terminating else None,
        finalizers=finalizers,
    )
    container = Container(name="main", resources=ResourceRequirements(requests={"cpu": cpu}))
    gates = (SchedulingGate(name=GATE),) if gated and not bound else ()
    spec = PodSpec(
        node_name=bound, priority=priority, containers=(container,), scheduling_gates=gates, affinity=affinity
    )
    return Pod(metadata=meta, spec=spec, status=PodStatus(nominated_node_name=nominated))


def gang(*members: Pod, indexed: bool = False) -> Gang:
    """The gang `llm` of these pods."""
    ref = ObjectRef("phalanx.dev/v1alpha1", "Gang", "default", "llm", "uid-llm")
    count = len(members)
    return Gang(
        key=GangKey("phalanx", "default", "llm"),
        source=ref,
        members=tuple(Member(each, "main", i if indexed else None) for i, each in enumerate(members)),
        pod_sets=(PodSet("main", count, count),),
        expected=count,
        min_member=count,
    )


def record(places: Iterable[tuple[str, str]], victims: Sequence[tuple[str, str]] = ()) -> PlanRecord:
    """A plan: pods with their nodes, and victims with theirs."""
    return PlanRecord(
        PLAN_ID,
        tuple(PlannedMember(f"uid-{name}", "default", name, node) for name, node in places),
        tuple(PlannedVictim(f"uid-{name}", "default", name, node) for name, node in victims),
    )


def snapshot(*pods: Pod, now: datetime | None = None) -> Snapshot:
    """The three nodes with these pods. `now`: None: every terminating pod counts as gone."""
    return snapshot_of([node(name) for name in RACKS], pods, gate=GATE, now=now)


def situation(of: Gang, plan: PlanRecord | None, *others: Pod, now: datetime | None = None) -> Situation:
    """The gang, its plan, and the cluster with its members and the others."""
    pods = [*(member.pod for member in of.members), *others]
    return Situation(of, plan, snapshot(*pods, now=now), {each.metadata.uid: each for each in pods})
