"""What the members' own PodScheduled conditions say while they wait: the first place where people look."""

from collections.abc import Mapping

from controller.picture import Picture
from gangs.koordinator import messages as koordinator
from gangs.model import Gang
from kube.objects import Pod
from planning.decision import Decision, Outcome
from planning.planner import plan_gang

Condition = Mapping[str, str]
Told = list[tuple[Pod, Condition]]

POD_SCHEDULED = "PodScheduled"
GATED = "SchedulingGated"
UNSCHEDULABLE = "Unschedulable"
KOORDINATOR = "koordinator"
"""The shape of messages that the gangs of Koordinator's dialect ask for (`Gang.messages`)."""


def condition(reason: str, message: str) -> Condition:
    """A PodScheduled condition that is not true (yet)."""
    return {"type": POD_SCHEDULED, "status": "False", "reason": reason, "message": message}


def differs(pod: Pod, wanted: Condition) -> bool:
    """Whether the pod says something else now."""
    for each in pod.status.conditions:
        if each.type == wanted["type"]:
            now = {"type": each.type, "status": each.status, "reason": each.reason, "message": each.message}
            return now != dict(wanted)
    return True


def member_conditions(gang: Gang, decision: Decision, picture: Picture) -> Told:
    """What each member that is still gated should say after this decision."""
    pods = [member.pod for member in gang.members if not member.pod.bound]
    if gang.messages == KOORDINATOR and (decision.evictions or decision.outcome is Outcome.UNPLACEABLE):
        return _in_koordinators_words(gang, decision, picture, pods)
    reason = GATED if decision.outcome in (Outcome.PLACED, Outcome.WAITING) else UNSCHEDULABLE
    return [(pod, condition(reason, f"gang {gang.key}: {decision.message}")) for pod in pods]


def _in_koordinators_words(gang: Gang, decision: Decision, picture: Picture, pods: list[Pod]) -> Told:
    """The first member tells what each domain offers, the others that they were rejected because of it.

    What is offered is the room without any eviction, so a plan that evicts is asked for again without.
    """
    refusal = decision
    if decision.evictions:
        refusal = plan_gang(gang, picture.snapshot, picture.topologies, preemption=False)
    preemption = _preemption(decision, pods, len(picture.snapshot.nodes))
    offered = [(level, path[-1] if path else "", slots) for level, path, slots in refusal.explanation.offered]
    reason = koordinator.topology_reason(len(pods), offered)
    first, *others = pods
    group = ",".join(f"{ref.namespace}/{ref.name}" for ref in gang.groups) or str(gang.key)
    leading = koordinator.unschedulable(len(picture.snapshot.nodes), reason, preemption)
    following = koordinator.follower_message(group, first.key, reason, preemption)
    told = [(first, leading), *((pod, following) for pod in others)]
    return [(pod, condition(UNSCHEDULABLE, text)) for pod, text in told]


def _preemption(decision: Decision, pods: list[Pod], nodes: int) -> str:
    if decision.evictions:
        return koordinator.TERMINATING
    if any(pod.spec.preemption_policy == "Never" for pod in pods):
        return koordinator.NEVER
    return koordinator.not_helpful(nodes)
