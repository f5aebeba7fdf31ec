"""Whether a scheduler has tried a pod, as the pod's own PodScheduled condition tells.

The API server writes that condition on pods with a gate, and Phalanx on members that it holds: neither is a try.
"""

import hashlib

from kube.keys import RELEASED, STOCK_SCHEDULER
from kube.objects import Condition, Pod

POD_SCHEDULED = "PodScheduled"
_GATED = "SchedulingGated"


def names_another_scheduler(pod: Pod) -> bool:
    """Whether the pod names another scheduler than the stock one by its own name."""
    return pod.spec.scheduler_name not in (STOCK_SCHEDULER, "")


def tried(pod: Pod) -> str:
    """When a scheduler last changed its mind about the pod (RFC 3339), "" where none has tried it yet.

    A pod that was made with its node has been tried by nobody, as long as its kubelet has not said that it is there.
    """
    condition = _pod_scheduled(pod)
    if condition is None or condition.reason == _GATED or pod.spec.scheduling_gates:
        return ""
    _, _, before = pod.metadata.annotations.get(RELEASED, "").partition(" ")
    if not pod.bound and before and before == _digest(condition):
        return ""
    return condition.last_transition_time or pod.metadata.creation_timestamp or ""


def released(pod: Pod) -> str:
    """When the member was let go (RFC 3339), "" where that is not known."""
    return pod.metadata.annotations.get(RELEASED, "").partition(" ")[0]


def release_note(pod: Pod, now: str) -> str:
    """What the annotation `phalanx.dev/released` says of a pod that is let go now."""
    condition = _pod_scheduled(pod)
    return f"{now} {_digest(condition)}" if condition is not None else now


def _pod_scheduled(pod: Pod) -> Condition | None:
    return next((each for each in pod.status.conditions if each.type == POD_SCHEDULED), None)


def _digest(condition: Condition) -> str:
    text = f"{condition.status}\n{condition.reason}\n{condition.message}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]
