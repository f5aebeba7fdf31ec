"""Pods that kube-scheduler binds in one cycle, all or none: members of one PodGroup of scheduling.k8s.io.

If a pod of a PodGroup has a scheduling gate, kube-scheduler tries no pod of the group (Kubernetes 1.37,
backend/queue/scheduling_queue.go, `moveToActiveQ`). So the removal of the last gate starts all of them
(docs/decisions/0041).
"""

import hashlib
from collections.abc import Iterable, Mapping

from kube.keys import GATE
from kube.objects import Pod

API_GROUP = "scheduling.k8s.io"
API_VERSION = f"{API_GROUP}/v1beta1"
"""The version in which Phalanx writes PodGroups. Kubernetes 1.37 serves it."""
KIND = "PodGroup"
_OURS = ".release.phalanx.dev"
"""The end of the names of PodGroups that Phalanx creates itself.

With this end the names are DNS subdomains of Phalanx, so no other program uses them.
"""
_DIGITS = 16
"""Hexadecimal digits of the hash in a PodGroup's name: 64 bits, so two gangs of a cluster have different names."""


def group_of(pod: Pod) -> str:
    """Return the name of the PodGroup that the pod belongs to; "" if it belongs to none."""
    return pod.spec.scheduling_group.pod_group_name if pod.spec.scheduling_group is not None else ""


def release_group(dialect: str, namespace: str, name: str) -> str:
    """Return the name of the PodGroup that Phalanx creates for the gang with this key."""
    return hashlib.sha256(f"{dialect}/{namespace}/{name}".encode()).hexdigest()[:_DIGITS] + _OURS


def is_release_group(name: str) -> bool:
    """Return whether Phalanx creates the PodGroup of this name."""
    return name.endswith(_OURS)


def groups_held_back(pods: Iterable[Pod]) -> frozenset[str]:
    """Return the names of the PodGroups that have a gated pod among `pods`: kube-scheduler tries no pod of them."""
    return frozenset(group_of(pod) for pod in pods if pod.gated_by(GATE)) - {""}


def pod_group(
    name: str, pod: Pod, count: int | None, owner: Mapping[str, str] | None = None
) -> dict[str, dict[str, object] | str]:
    """Return the manifest of a PodGroup of Phalanx.

    :param pod: a member. All members have the same priority, and kube-scheduler requires the same of their PodGroup.
    :param count: the number of members, all of which must start together; None: each member may start alone.
    :param owner: the reference to the Gang object with which the PodGroup is deleted.
    """
    priority = {"priorityClassName": pod.spec.priority_class_name} if pod.spec.priority_class_name else {}
    policy: dict[str, object] = {"basic": {}} if count is None else {"gang": {"minCount": count}}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, **({"ownerReferences": [dict(owner)]} if owner else {})},
        "spec": {"schedulingPolicy": policy, **priority},
    }


def pod_group_path(namespace: str, name: str = "") -> str:
    """Return the API path of a PodGroup, or of the collection if `name` is ""."""
    base = f"/apis/{API_VERSION}/namespaces/{namespace}/podgroups"
    return f"{base}/{name}" if name else base
