"""Whether a scheduler has tried a pod, according to the pod's own PodScheduled condition.

The API server writes that condition on gated pods, and Phalanx writes it on gated members. Neither is a try.
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
    """Return when a scheduler last changed its result for the pod (RFC 3339); "" if no scheduler has tried it yet.

    A pod that was created with its node counts as not tried until its kubelet has reported it.
    """
    condition = _pod_scheduled(pod)
    if condition is None or condition.reason == _GATED or pod.spec.scheduling_gates:
        return ""
    _, _, before = pod.metadata.annotations.get(RELEASED, "").partition(" ")
    if not pod.bound and before and before == _digest(condition):
        return ""
    return condition.last_transition_time or pod.metadata.creation_timestamp or ""


def released(pod: Pod) -> str:
    """Return when the member was released (RFC 3339); "" if that is not known."""
    return pod.metadata.annotations.get(RELEASED, "").partition(" ")[0]


def release_note(pod: Pod, now: str) -> str:
    """Return the value of the annotation `phalanx.dev/released` for a pod that is released now."""
    condition = _pod_scheduled(pod)
    return f"{now} {_digest(condition)}" if condition is not None else now


def _pod_scheduled(pod: Pod) -> Condition | None:
    return next((each for each in pod.status.conditions if each.type == POD_SCHEDULED), None)


def _digest(condition: Condition) -> str:
    text = f"{condition.status}\n{condition.reason}\n{condition.message}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]
