"""Gangs, decisions and nodes in a line each, for the tables of this folder."""

from collections.abc import Sequence
from typing import Any

from gangs.model import Gang, GangKey, Member, ObjectRef, PodSet
from kube.keys import PLANNED_NODE
from kube.objects import ObjectMeta, OwnerReference, Pod, PodSpec, PodStatus
from planning.decision import Assignment, Decision, DomainUse, Eviction, Explanation, LevelUse, Outcome
from planning.message import Message
from solver.plan import Goal, NearDomain

POD_GROUP = ObjectRef("scheduling.sigs.k8s.io/v1alpha1", "PodGroup", "default", "llm", "uid-group")


def pod(
    name: str, *, node: str = "", planned: str = "", phase: str = "Pending", owners: Sequence[OwnerReference] = ()
) -> Pod:
    """A pod with a uid; `planned` is the node it was nominated to."""
    annotations = {PLANNED_NODE: planned} if planned else {}
    meta = ObjectMeta(
        name=name, namespace="default", uid=f"uid-{name}", annotations=annotations, owner_references=tuple(owners)
    )
    return Pod(metadata=meta, spec=PodSpec(node_name=node), status=PodStatus(phase=phase, nominated_node_name=planned))


def gang(
    *pods: Pod,
    minimum: int = 2,
    expected: int = 2,
    source: ObjectRef = POD_GROUP,
    **fields: Any,
) -> Gang:
    """A gang of one set, "main", named like its source."""
    return Gang(
        key=GangKey(
            "phalanx" if source.kind == "Job" else "koordinator", source.namespace, str(fields.pop("name", source.name))
        ),
        source=source,
        members=tuple(Member(each, "main", index) for index, each in enumerate(pods)),
        pod_sets=fields.pop("pod_sets", (PodSet("main", expected, minimum),)),
        expected=expected,
        min_member=minimum,
        **fields,
    )


def placed(of: Gang, *nodes: str, victims: Sequence[str] = ()) -> Decision:
    """A plan that gives the members these nodes, in order."""
    return Decision(
        gang=of,
        key=of.key,
        outcome=Outcome.PLACED,
        line=Message.of(f"{len(nodes)} pods fit in spine-1: {', '.join(nodes)}, proven optimal"),
        assignments=tuple(
            Assignment(member=member, index=index, node=node, held=member.pod.bound)
            for index, (member, node) in enumerate(zip(of.members, nodes, strict=False))
        ),
        levels=(LevelUse("spine", "example.com/spine", "required", (DomainUse(("spine-1",), len(nodes)),)),),
        evictions=tuple(Eviction("default", name, f"uid-{name}", nodes[0], 0) for name in victims),
        goals=(Goal("victims", len(victims), len(victims)),),
        proof="Optimal",
        seconds={"solve": 0.01},
    )


def refused(of: Gang, proof: str = "Infeasible") -> Decision:
    """Return a rejection: spine-0 fits one of two pods."""
    near = NearDomain("spine", ("spine-0",), 1, 2, 2, {"Insufficient cpu": 1})
    return Decision(
        gang=of,
        key=of.key,
        outcome=Outcome.UNPLACEABLE,
        line=Message.of("needs 2 pods in one spine: spine-0 fits 1 of 2"),
        proof=proof,
        explanation=Explanation(nearest=(near,), would_fit_if=("1 more pod slot in spine-0",)),
    )
