"""What the members' own PodScheduled conditions say while they wait: the first place where people look."""

from collections.abc import Mapping
from functools import partial

from controller.cluster_view import ClusterView
from gangs.dialects.table import WORDS
from gangs.model import Gang
from gangs.no_room import NoRoom
from kube.objects import Pod
from kube.text import one_line
from planning.decision import Decision, Outcome
from planning.messages.offers import node_offers
from planning.planner import plan_gang
from planning.planning_options import PlanningOptions

Condition = Mapping[str, str]
PodConditions = list[tuple[Pod, Condition]]

POD_SCHEDULED = "PodScheduled"
GATED = "SchedulingGated"
UNSCHEDULABLE = "Unschedulable"


def condition(reason: str, message: str) -> Condition:
    """A PodScheduled condition that is not true (yet)."""
    return {"type": POD_SCHEDULED, "status": "False", "reason": reason, "message": one_line(message)}


def differs(pod: Pod, wanted: Condition) -> bool:
    """Whether the pod says something else now."""
    for each in pod.status.conditions:
        if each.type == wanted["type"]:
            now = {"type": each.type, "status": each.status, "reason": each.reason, "message": each.message}
            return now != dict(wanted)
    return True


def member_conditions(gang: Gang, decision: Decision, picture: ClusterView) -> PodConditions:
    """Return the PodScheduled condition of each member that is still gated, after this decision.

    The reason stays SchedulingGated: autoscalers add nodes for pods whose reason is Unschedulable, and a gated pod does
    not fit the nodes that they would choose. Only a dialect whose own document prints another condition gets that one.
    """
    pods = [member.pod for member in gang.members if not member.pod.bound]
    words = WORDS.get(gang.messages)
    if words and pods and (decision.evictions or decision.outcome is Outcome.UNPLACEABLE):
        messages = words(_no_room(gang, decision, picture, pods))
        if messages is not None:
            return [(pod, condition(UNSCHEDULABLE, text)) for pod, text in zip(pods, messages, strict=True)]
    said = condition(GATED, f"gang {gang.key}: {decision.message}")
    return [(pod, said) for pod in pods]


def _no_room(gang: Gang, decision: Decision, picture: ClusterView, pods: list[Pod]) -> NoRoom:
    """What is offered is the room without any eviction, so a plan that evicts is asked for again without."""
    refusal = decision
    if decision.evictions:
        refusal = plan_gang(gang, picture.snapshot, picture.topologies, PlanningOptions(preemption=False))
    return NoRoom(
        gang=gang,
        pods=pods,
        nodes=len(picture.snapshot.nodes),
        offered=refusal.explanation.offered,
        evicting=bool(decision.evictions),
        node_offers=partial(node_offers, gang, picture.snapshot, picture.topologies),
    )
