"""The status of KAI's PodGroups in the fields of its definition (v2alpha2): phase, counts, conditions, resources."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from cluster.quantities import written
from controller.gang_status import Phase, kept_conditions
from gangs.model import Gang
from kube.objects import Pod
from planning.quota.usage import needs

Status = dict[str, Any]

NODE_POOL = "default"
"""KAI Scheduler speaks of one condition for each of its node pools; here there is one scheduler for all nodes."""


def kai_group_status(
    gang: Gang, finished: Sequence[Pod], told: Mapping[str, Any], previous: Mapping[str, Any], now: str
) -> Status:
    """The status of the PodGroup that asked for the gang.

    :param finished: its pods that have ended; they are no members any more.
    :param told: the status of its Gang object.
    :param previous: as it is.
    :param now: RFC 3339.
    """
    counts = _counts([*(member.pod for member in gang.members), *finished])
    return {
        "phase": _phase(gang.min_member, counts),
        **counts,
        "conditions": kept_conditions(_placed(told), previous.get("conditions") or (), now, None),
        "schedulingConditions": kept_conditions(
            _unschedulable(told, previous), previous.get("schedulingConditions") or (), now, None
        ),
        "resourcesStatus": {
            "requested": _amounts(gang, all_of_them=True),
            "allocated": _amounts(gang, all_of_them=False),
        },
    }


def ended_status(finished: Sequence[Pod], previous: Mapping[str, Any]) -> Status:
    """The status of a PodGroup that is no gang any more: all of its pods have ended."""
    counts = _counts(finished)
    return {**previous, "phase": _phase(1, counts), **counts}


def _counts(pods: Sequence[Pod]) -> dict[str, int]:
    by_phase = Counter(pod.status.phase for pod in pods)
    running, succeeded, failed = (by_phase[name] for name in ("Running", "Succeeded", "Failed"))
    pending = by_phase.total() - running - succeeded - failed
    return {"pending": pending, "running": running, "succeeded": succeeded, "failed": failed}


def _phase(minimum: int, counts: Mapping[str, int]) -> str:
    if counts["running"] and counts["running"] + counts["succeeded"] >= minimum:
        return "Running"
    if counts["running"] or counts["pending"]:
        return "Pending"
    if counts["failed"]:
        return "Failed"
    return "Succeeded" if counts["succeeded"] else "Pending"


def _placed(told: Mapping[str, Any]) -> list[Status]:
    """What the Gang object says of its members' nodes."""
    fields = ("type", "status", "reason", "message")
    conditions = told.get("conditions") or ()
    return [{key: each.get(key, "") for key in fields} for each in conditions if each.get("type") == "Placed"]


def _unschedulable(told: Mapping[str, Any], previous: Mapping[str, Any]) -> list[Status]:
    """True while there is no room for the gang; False once there is; nothing where there always was."""
    holds = told.get("phase") == Phase.UNPLACEABLE.value
    if not holds and not previous.get("schedulingConditions"):
        return []
    condition = {"type": "UnschedulableOnNodePool", "nodePool": NODE_POOL, "status": "True" if holds else "False"}
    if not holds:
        return [condition]
    reason, message = "Unschedulable", told.get("message", "")
    return [{**condition, "reason": reason, "message": message, "reasons": [{"reason": reason, "message": message}]}]


def _amounts(gang: Gang, *, all_of_them: bool) -> dict[str, str]:
    """What the members ask for: all of them, or those that have nodes."""
    members = [member for member in gang.members if all_of_them or member.pod.bound]
    return {resource: written(resource, amount) for resource, amount in sorted(needs(members).items())}
