"""The status of KAI Scheduler's PodGroups (v2alpha2): phase, numbers of pods, conditions, resources."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gangs.kai import keys
from gangs.manifests import ref_of
from gangs.model import Gang, GangKey
from gangs.object_statuses import GangObjectStatus, ObjectStatus, Status, StatusView
from kube.conditions import kept_conditions
from kube.objects import Pod
from kube.quantities import written
from kube.requests import all_requests

NODE_POOL = "default"
"""The node pool in the condition. KAI Scheduler writes one condition for each node pool, Phalanx one for all nodes."""


def group_statuses(key: GangKey, view: StatusView) -> Iterator[ObjectStatus]:
    """Yield the status of the PodGroup with the gang's key, if it exists and has pods, even if all have ended."""
    manifest = view.sources.get(keys.GROUP, keys.POD_GROUP_KIND, key.namespace, key.name)
    gang, ended = view.gang(key), view.finished(key)
    if manifest is None or (gang is None and not ended):
        return
    previous = manifest.get("status") or {}
    if gang is None:
        status = ended_status(ended, previous)
    else:
        status = group_status(gang, ended, view.gang_object(key), previous, view.now)
    yield ObjectStatus(ref_of(manifest), status, keys.POD_GROUPS)


def group_status(
    gang: Gang, finished: Sequence[Pod], gang_object: GangObjectStatus, previous: Mapping[str, Any], now: str
) -> Status:
    """Return the status of the PodGroup that asks for a gang.

    :param finished: the gang's pods that have ended, which are not members any more.
    :param gang_object: the status of its Gang object.
    :param previous: the current status of the PodGroup.
    :param now: RFC 3339 time.
    """
    counts = _counts([*(member.pod for member in gang.members), *finished])
    return {
        "phase": _phase(gang.min_member, counts),
        **counts,
        "conditions": kept_conditions(_placed(gang_object), previous.get("conditions") or (), now, None),
        "schedulingConditions": kept_conditions(
            _unschedulable(gang_object, previous), previous.get("schedulingConditions") or (), now, None
        ),
        "resourcesStatus": {
            "requested": _amounts(gang, all_of_them=True),
            "allocated": _amounts(gang, all_of_them=False),
        },
    }


def ended_status(finished: Sequence[Pod], previous: Mapping[str, Any]) -> Status:
    """Return the status of a PodGroup that is no gang any more, because all its pods have ended."""
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


def _placed(gang_object: GangObjectStatus) -> list[Status]:
    """Return the condition `Placed` of the gang's Gang object, in a list; an empty list if there is none."""
    fields = ("type", "status", "reason", "message")
    return [
        {key: each.get(key, "") for key in fields} for each in gang_object.conditions if each.get("type") == "Placed"
    ]


def _unschedulable(gang_object: GangObjectStatus, previous: Mapping[str, Any]) -> list[Status]:
    """Return the condition UnschedulableOnNodePool of a PodGroup, in a list.

    Its status is True while the gang lacks capacity, and False afterwards. If the gang never lacked capacity, the list
    is empty.
    """
    if not gang_object.no_room and not previous.get("schedulingConditions"):
        return []
    condition = {
        "type": "UnschedulableOnNodePool",
        "nodePool": NODE_POOL,
        "status": "True" if gang_object.no_room else "False",
    }
    if not gang_object.no_room:
        return [condition]
    reason, message = "Unschedulable", gang_object.message
    return [{**condition, "reason": reason, "message": message, "reasons": [{"reason": reason, "message": message}]}]


def _amounts(gang: Gang, *, all_of_them: bool) -> dict[str, str]:
    """Return the sum of the members' requests by resource, as text: of all members, or of the bound ones only."""
    requests = all_requests(member.pod for member in gang.members if all_of_them or member.pod.bound)
    return {resource: written(resource, amount) for resource, amount in sorted(requests.items())}
