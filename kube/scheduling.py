"""Whether a scheduler has tried to schedule a pod, according to the pod's condition PodScheduled.

The API server and Phalanx write this condition on gated pods, too. Such a condition is not counted as a try.
"""

import hashlib

from kube.keys import RELEASED, STOCK_SCHEDULER
from kube.objects import Condition, Pod

POD_SCHEDULED = "PodScheduled"
_GATED = "SchedulingGated"


def names_another_scheduler(pod: Pod) -> bool:
    """Return whether the pod names a scheduler other than the stock scheduler."""
    return pod.spec.scheduler_name not in (STOCK_SCHEDULER, "")


def tried(pod: Pod) -> str:
    """Return the time (RFC 3339) of a scheduler's last result for the pod; "" if no scheduler has tried it yet.

    A condition PodScheduled that has not changed since the release is older than the release, so it is ignored. For a
    pod that was created with a node, the result is "" until its kubelet has reported a condition.
    """
    condition = _pod_scheduled(pod)
    if condition is None or condition.reason == _GATED or pod.spec.scheduling_gates:
        return ""
    _, _, before = pod.metadata.annotations.get(RELEASED, "").partition(" ")
    if not pod.bound and before and before == _digest(condition):
        return ""
    return condition.last_transition_time or pod.metadata.creation_timestamp or ""


def released(pod: Pod) -> str:
    """Return when the pod was released (RFC 3339), from its annotation; "" if it has no such annotation."""
    return pod.metadata.annotations.get(RELEASED, "").partition(" ")[0]


def release_note(pod: Pod, now: str) -> str:
    """Return the value of the annotation `phalanx.dev/released` for a pod that is released now.

    It is the time `now`, then a digest of the pod's condition PodScheduled. By the digest, `tried` recognizes that a
    scheduler has changed the condition since.
    """
    condition = _pod_scheduled(pod)
    return f"{now} {_digest(condition)}" if condition is not None else now


def _pod_scheduled(pod: Pod) -> Condition | None:
    return next((each for each in pod.status.conditions if each.type == POD_SCHEDULED), None)


def _digest(condition: Condition) -> str:
    text = f"{condition.status}\n{condition.reason}\n{condition.message}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]
