"""Determines a pod's priority as the API server does (admission plugin Priority)."""

from collections.abc import Mapping

from kube.objects import Pod, PriorityClass

# These classes exist in every cluster, even if no object was read.
SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def priority_of(pod: Pod, classes: Mapping[str, PriorityClass]) -> int:
    """Return the pod's priority: `spec.priority`, else the value of its class, else of the global default class.

    0 if there is none of them, or if the class does not exist.
    """
    if pod.spec.priority is not None:
        return pod.spec.priority
    name = pod.spec.priority_class_name
    if name:
        if name in classes:
            return classes[name].value
        return SYSTEM_CLASSES.get(name, 0)
    # Of several global defaults the API server takes the least.
    return min((each.value for each in classes.values() if each.global_default), default=0)
