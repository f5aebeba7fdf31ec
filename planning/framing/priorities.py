"""Pods as admission would change them: their priority class and RuntimeClass replaced by the values of these classes.

Files and workload templates contain pods that the API server has not admitted yet.
"""

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from cluster.classes import RuntimeClass, with_runtime_class
from cluster.priorities import SYSTEM_CLASSES, priority_of
from cluster.snapshot import Snapshot
from gangs.model import Gang
from kube.objects import Pod, PriorityClass
from kube.placeholders import to_come
from planning.devices.charges import with_charges
from planning.devices.implied_claims import with_implied_claims

NEVER = "Never"
"""The preemption policy of a pod that must not evict others."""


def admitted(pod: Pod, classes: Mapping[str, PriorityClass], runtime_classes: Mapping[str, RuntimeClass]) -> Pod:
    """Return the pod as the admission plugins Priority and RuntimeClass would change it.

    They set `spec.priority`, `spec.preemptionPolicy`, and what the RuntimeClass adds (`cluster.classes`). A pod with a
    uid has been stored by the API server, and keeps what its RuntimeClass added then. A priority that the spec states
    stays. Without one, it comes from the named class; without a name, from the class that is the global default, else
    it is 0. The priority of a class that does not exist stays unset (`missing_class`).
    """
    if not pod.metadata.uid or to_come(pod):
        pod = with_runtime_class(pod, runtime_classes)
    if pod.spec.priority is not None or missing_class(pod, classes):
        return pod
    chosen = _class_of(pod, classes)
    policy = pod.spec.preemption_policy or (chosen.preemption_policy if chosen else "")
    spec = msgspec.structs.replace(pod.spec, priority=priority_of(pod, classes), preemption_policy=policy)
    return msgspec.structs.replace(pod, spec=spec)


def missing_class(pod: Pod, classes: Mapping[str, PriorityClass]) -> str:
    """Return the name of the priority class that the pod needs and that does not exist; "" if nothing is missing."""
    name = pod.spec.priority_class_name
    known = pod.spec.priority is not None or not name or name in classes or name in SYSTEM_CLASSES
    return "" if known else name


def with_priorities(gang: Gang, snapshot: Snapshot) -> Gang:
    """Return the gang with every member's pod as admission would change it (`admitted`, `with_implied_claims`), and
    with the devices that count in its queue's quotas (`with_charges`).

    If nothing changes, the result is the same object.
    """
    return with_charges(with_implied_claims(_with_classes(gang, snapshot), snapshot), snapshot)


def _with_classes(gang: Gang, snapshot: Snapshot) -> Gang:
    specs = (member.pod.spec for member in gang.members)
    if all(spec.priority is not None and not spec.runtime_class_name for spec in specs):
        return gang
    classes, runtimes = snapshot.priority_classes, snapshot.runtime_classes
    pods = [admitted(member.pod, classes, runtimes) for member in gang.members]
    if all(pod is member.pod for pod, member in zip(pods, gang.members, strict=True)):
        return gang
    members = tuple(replace(member, pod=pod) for pod, member in zip(pods, gang.members, strict=True))
    return replace(gang, members=members)


def may_preempt(gang: Gang) -> bool:
    """Whether pods may be evicted for the gang: the gang and all its members allow it.

    Expects a gang from `with_priorities`. False if the gang still waits for members that its workload recreates.
    """
    return (
        gang.preempts
        and not gang.made_again
        and all(member.pod.spec.preemption_policy != NEVER for member in gang.members)
    )


def _class_of(pod: Pod, classes: Mapping[str, PriorityClass]) -> PriorityClass | None:
    """Return the priority class that the pod names, or the global default.

    Of several defaults it is the one with the lowest value, as in the API server.
    """
    if pod.spec.priority_class_name:
        return classes.get(pod.spec.priority_class_name)
    defaults = (each for each in classes.values() if each.global_default)
    return min(defaults, key=lambda each: (each.value, each.metadata.name), default=None)
