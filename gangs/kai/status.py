"""The status of KAI's PodGroups in the fields of its definition (v2alpha2): phase, counts, conditions, resources."""

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
"""KAI Scheduler writes one condition for each of its node pools. Phalanx has one scheduler for all nodes."""


def group_statuses(key: GangKey, view: StatusView) -> Iterator[ObjectStatus]:
    """The status of the PodGroup of that name, if there is one and its pods exist."""
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
    """The status of the PodGroup that asked for the gang.

    :param finished: its pods that have ended; they are no members any more.
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


def _placed(gang_object: GangObjectStatus) -> list[Status]:
    """Return the `Placed` condition of the gang's Gang object."""
    fields = ("type", "status", "reason", "message")
    return [
        {key: each.get(key, "") for key in fields} for each in gang_object.conditions if each.get("type") == "Placed"
    ]


def _unschedulable(gang_object: GangObjectStatus, previous: Mapping[str, Any]) -> list[Status]:
    """Return the condition: True while the gang lacks capacity, False after that, none if it never lacked capacity."""
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
    """Return the requests of the members by resource, of all members or of bound members only."""
    requests = all_requests(member.pod for member in gang.members if all_of_them or member.pod.bound)
    return {resource: written(resource, amount) for resource, amount in sorted(requests.items())}
