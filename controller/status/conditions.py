"""Computes the PodScheduled conditions of members that wait. Users look at these conditions first."""

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
    """Return a PodScheduled condition with status False, with the message on one line."""
    return {"type": POD_SCHEDULED, "status": "False", "reason": reason, "message": one_line(message)}


def differs(pod: Pod, wanted: Condition) -> bool:
    """Return whether the pod lacks the wanted condition: it has none of this type, or one with other values."""
    for each in pod.status.conditions:
        if each.type == wanted["type"]:
            now = {"type": each.type, "status": each.status, "reason": each.reason, "message": each.message}
            return now != dict(wanted)
    return True


def member_conditions(gang: Gang, decision: Decision, cluster_view: ClusterView) -> PodConditions:
    """Return the wanted PodScheduled condition of each member that is not bound, after this decision.

    The reason stays SchedulingGated, because autoscalers add nodes for pods whose reason is Unschedulable, and a gated
    pod does not fit the nodes that they would choose. Some dialects document an Unschedulable condition of their own:
    only their members get that one (`gangs.dialects.table.WORDS`).
    """
    pods = [member.pod for member in gang.members if not member.pod.bound]
    words = WORDS.get(gang.messages)
    if words and pods and (decision.evictions or decision.outcome is Outcome.UNPLACEABLE):
        messages = words(_no_room(gang, decision, cluster_view, pods))
        if messages is not None:
            return [(pod, condition(UNSCHEDULABLE, text)) for pod, text in zip(pods, messages, strict=True)]
    wanted = condition(GATED, f"gang {gang.key}: {decision.message}")
    return [(pod, wanted) for pod in pods]


def _no_room(gang: Gang, decision: Decision, cluster_view: ClusterView, pods: list[Pod]) -> NoRoom:
    """Return the facts for a dialect's message about missing capacity.

    The message counts capacity without evictions. So if the decision evicts, the gang is planned here again, without
    preemption.

    :param pods: the members that are not bound.
    """
    refusal = decision
    if decision.evictions:
        refusal = plan_gang(gang, cluster_view.snapshot, cluster_view.topologies, PlanningOptions(preemption=False))
    return NoRoom(
        gang=gang,
        pods=pods,
        nodes=len(cluster_view.snapshot.nodes),
        offered=refusal.explanation.offered,
        evicting=bool(decision.evictions),
        node_offers=partial(node_offers, gang, cluster_view.snapshot, cluster_view.topologies),
    )
