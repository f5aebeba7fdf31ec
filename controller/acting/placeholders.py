"""Placeholders: pods that never run and reserve capacity (docs/decisions/0022 and 0043).

Each expected pod of a plan has a placeholder. Its placeholder is nominated, and has the requests and the priority of
the expected pod. When the pod arrives, the pod is nominated first. For a moment, both the pod and the placeholder
reserve capacity. Then the placeholder is deleted. The pod is released only after the scheduler has seen the deletion.

Before Kubernetes 1.37 the scheduler forgets the nominations of gated pods when it restarts. There, each gated member of
a plan has a placeholder, too, and no placeholder has a gate (`Planned.ungated`).
"""

import hashlib
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import msgspec

from controller.acting.probe import PODS_PATH, never_run, tried_probe
from controller.release.next_step import Planned
from controller.writes.writer import Result, Write, Writer, Written
from gangs.model import GangKey
from kube.keys import GATE, SYSTEM_NAMESPACE
from kube.objects import ObjectMeta, Pod
from kube.placeholders import HELD_FOR, HELD_FOR_GANG, PLACEHOLDER, SEAT, holding_class, to_come, written_limits
from kube.requests import PODS, pod_limits, pod_requests

CLASSES_PATH = "/apis/scheduling.k8s.io/v1/priorityclasses"
_OVERCOMMITTED = ("cpu", "memory", "ephemeral-storage")
"""Resources that may be overcommitted. For all others the API requires limits equal to the requests."""


class HoldingClasses:
    """Creates the PriorityClasses of ungated placeholders, one for each priority, when they are needed.

    Nothing deletes them but `phalanx uninstall`: there is one for each priority that a gang has had.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._made = set[int]()
        """The priorities whose class exists, as far as this leader knows."""

    def provide(self, members: Iterable[Planned]) -> list[Written]:
        """Create the missing PriorityClasses that placeholders of these members need. Return the results of failed
        writes.
        """
        wanted = {_priority(each.pod) for each in members if each.ungated} - self._made
        written = self._writer.all(partial(self._create, each) for each in sorted(wanted))
        failed = list[Written]()
        for priority, answer in zip(sorted(wanted), written, strict=True):
            if answer.done or answer.result is Result.CONFLICT:  # an earlier leader has created it
                self._made.add(priority)
            else:
                failed.append(answer)
        return failed

    def forget(self) -> None:
        """Forget which PriorityClasses of placeholders exist, because a user may have deleted one."""
        self._made.clear()

    def _create(self, priority: int) -> Written:
        return self._writer.create(CLASSES_PATH, holding_class_manifest(priority))


def holding_class_manifest(priority: int) -> dict[str, Any]:
    """Return the manifest of the PriorityClass of ungated placeholders with this priority.

    Its pods never preempt. If an ungated pod may preempt, the scheduler clears its nomination when it finds no victims
    (`pkg/scheduler/framework/preemption`).
    """
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": holding_class(priority), "labels": {PLACEHOLDER: "true"}},
        "value": priority,
        "preemptionPolicy": "Never",
        "description": f"Placeholder pods of Phalanx, which reserve capacity for gangs of priority {priority}.",
    }


def hold(
    writer: Writer, gang: GangKey, member: Planned, plan_id: str, condition: Mapping[str, str] | None = None
) -> Written:
    """Reserve capacity by a placeholder: create it if the member has none, and nominate the placeholder.

    An ungated placeholder is nominated only after the scheduler has tried it (`must_wait`). A failed try that began
    before the nomination can remove the nomination from the scheduler's memory. So its creation and its nomination need
    two calls. Return the result of the write that failed, or of the last one.

    :param member: the expected pod or the gated member, with its planned node.
    :param condition: a condition to write on the placeholder, or on the member if it exists; None for none.
    """
    placeholder = member.placeholder
    if placeholder is not None and member.outdated:
        deleted = free(writer, [placeholder])[0]
        if not deleted.over:
            return deleted
        placeholder = None
    exists = not to_come(member.pod)
    if placeholder is None:
        manifest = placeholder_manifest(gang, member.pod, ungated=member.ungated)
        made = writer.create(PODS_PATH, manifest)
        if not made.done:
            return made
        if member.ungated:
            return writer.condition(member.pod, condition) if exists and condition else made
        name = manifest["metadata"]["name"]
        meta = ObjectMeta(name=name, namespace=SYSTEM_NAMESPACE, uid=made.uid, resource_version=made.version)
        placeholder = Pod(metadata=meta)
    return writer.nominate(placeholder, member.node, plan_id, None if member.ungated else condition)


def must_wait(member: Planned) -> bool:
    """Return whether the member's placeholder cannot be nominated yet, because the scheduler has not tried it."""
    if not (member.needs_placeholder and member.ungated):
        return False
    return member.placeholder is None or member.outdated or not tried_probe(member.placeholder)


def swap(writer: Writer, member: Planned, plan_id: str, patch: Mapping[str, Any], *, time: str) -> Written:
    """Release a gated member whose capacity a placeholder reserves. Return the result of the first write that failed.

    The writes are sent one after the other, so that the scheduler receives them in this order, by one watch:

    1. The member is nominated. For a moment, member and placeholder both reserve the capacity.
    2. The placeholder is deleted.
    3. The member is released.

    Only between 2 and 3 a restart of the scheduler loses the reservation (docs/decisions/0043).

    :param patch: the patch that releases the member (`controller.release.patches`).
    :param time: any text that differs from that of an earlier call. A write that changes nothing causes no watch event,
        and the scheduler must see one to count the nomination.
    """
    nominated = writer.nominate(member.pod, member.node, plan_id, counted_again=time)
    if not nominated.done:
        return nominated
    if member.placeholder is not None:
        meta = member.placeholder.metadata
        deleted = writer.delete(f"{PODS_PATH}/{meta.name}", meta.uid)
        if not deleted.over:
            return deleted
    metadata = {**patch["metadata"], "resourceVersion": nominated.version}
    return writer.release(member.pod, {**patch, "metadata": metadata})


def free(writer: Writer, placeholders: Iterable[Pod]) -> list[Written]:
    """Delete placeholders, which frees their capacity. Return the results in order.

    The scheduler writes conditions on ungated placeholders at any time, so their version is not a precondition.
    """
    return writer.all(_deletion(writer, pod) for pod in placeholders)


def _deletion(writer: Writer, pod: Pod) -> Write:
    meta = pod.metadata
    version = meta.resource_version if pod.gated_by(GATE) else ""
    return partial(writer.delete, f"{PODS_PATH}/{meta.name}", meta.uid, version=version)


def placeholder_manifest(gang: GangKey, pod: Pod, *, ungated: bool = False) -> dict[str, Any]:
    """Return the manifest of the placeholder for an expected pod or a gated member.

    Its name is a hash of the pod's identifier, so two placeholders for one pod cannot exist.

    :param pod: the expected pod, or the gated member.
    :param ungated: whether the placeholder has no gate, but a PriorityClass that never preempts.
    """
    requests = {
        name: f"{amount}m" if name == "cpu" else str(amount)
        for name, amount in pod_requests(pod).items()
        if name != PODS
    }
    metadata = {
        "name": f"placeholder-{hashlib.sha256(pod.metadata.uid.encode()).hexdigest()[:20]}",
        "labels": {PLACEHOLDER: "true"},
        "annotations": {
            HELD_FOR: pod.key,
            HELD_FOR_GANG: f"{gang.dialect}/{gang.namespace}/{gang.name}",
            SEAT: pod.metadata.uid,
            **written_limits(pod_limits(pod)),
        },
    }
    resources = {
        "requests": requests,
        "limits": {name: text for name, text in requests.items() if name not in _OVERCOMMITTED},
    }
    tolerations = [msgspec.to_builtins(each) for each in pod.spec.tolerations]
    if ungated:
        named = {"priorityClassName": holding_class(_priority(pod))}
        return never_run(metadata, resources, tolerations=tolerations, **named)
    return never_run(
        metadata,
        resources,
        schedulingGates=[{"name": GATE}],
        tolerations=tolerations,
        **({"priorityClassName": pod.spec.priority_class_name} if pod.spec.priority_class_name else {}),
    )


def _priority(pod: Pod) -> int:
    return pod.spec.priority or 0
