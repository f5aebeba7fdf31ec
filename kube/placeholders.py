"""Placeholders: pods of Phalanx that reserve capacity for other pods (docs/decisions/0022 and 0043).

Placeholders reserve capacity for expected pods and, before Kubernetes 1.37, also for existing members that are gated.

An expected pod, which its workload has yet to create, is called a *seat* in the code. An expected pod has no UID. Its
identifier is `<uid of the workload>/<role>/<name>`. UIDs of an API server contain no slash, so the two never collide.
"""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from kube.keys import SYSTEM_NAMESPACE
from kube.objects import Pod

PLACEHOLDER = "phalanx.dev/placeholder"
"""Label of a placeholder, "true". It counts only in Phalanx's own namespace, where only Phalanx creates pods."""
HELD_FOR = "phalanx.dev/held-for"
"""Annotation of a placeholder: the pod for which it reserves capacity, as `namespace/name`."""
SEAT = "phalanx.dev/seat"
"""Annotation of a placeholder: the identifier of its expected pod (`seat_uid`), or the UID of its existing member."""
HELD_FOR_GANG = "phalanx.dev/held-for-gang"
"""Annotation of a placeholder: the gang of its expected pod, as `dialect/namespace/name`."""
HOLDING_CLASS = "phalanx-hold-"
"""The prefix of the PriorityClasses of ungated placeholders. Each class has one priority and never preempts."""
HIGHEST_CLASS = 1_000_000_000
"""The highest priority that a PriorityClass may have (scheduling/v1 `HighestUserDefinablePriority`)."""

HELD_LIMITS = "phalanx.dev/held-limits"
"""Annotation of a placeholder: the limits of its expected pod, in base units.

A placeholder has no limits itself, so ResourceQuotas for limits need the annotation.
"""


def is_placeholder(pod: Pod) -> bool:
    """Return whether the pod is a placeholder of Phalanx."""
    return PLACEHOLDER in pod.metadata.labels and pod.metadata.namespace == SYSTEM_NAMESPACE


def seat_uid(workload_uid: str, role: str, name: str) -> str:
    """Return the identifier of an expected pod, which stands in for the UID that the pod does not have yet."""
    return f"{workload_uid}/{role}/{name}"


def is_seat(uid: str) -> bool:
    """Return whether the identifier is that of an expected pod (`seat_uid`), and not the UID of an existing pod."""
    return "/" in uid


def role_of_seat(uid: str) -> str:
    """Return the role (name of the pod set) in an expected pod's identifier; "" for the UID of an existing pod.

    :param uid: the UID of an existing pod, or an identifier from `seat_uid`.
    """
    return uid.split("/")[1] if is_seat(uid) else ""


def to_come(pod: Pod) -> bool:
    """Return whether the pod is an expected pod, which its workload has yet to create.

    Its metadata then has an identifier from `seat_uid` instead of a UID.
    """
    return is_seat(pod.metadata.uid)


def holding_class(priority: int) -> str:
    """Return the name of the PriorityClass of ungated placeholders with this priority, such as `phalanx-hold-1000`.

    The sign of a negative priority is written as `minus-`.
    """
    return f"{HOLDING_CLASS}{'minus-' if priority < 0 else ''}{abs(priority)}"


def seat_of(placeholder: Pod) -> str:
    """Return the identifier of the pod for which a placeholder reserves capacity; "" if its annotation is missing.

    The identifier is that of an expected pod (`seat_uid`), or the UID of a pod that exists.
    """
    return placeholder.metadata.annotations.get(SEAT, "")


def written_limits(limits: Mapping[str, int]) -> dict[str, str]:
    """Return the annotation `HELD_LIMITS` of a placeholder, from its expected pod's limits in base units.

    Without limits, the result is empty.
    """
    return {HELD_LIMITS: " ".join(f"{name}={value}" for name, value in sorted(limits.items()))} if limits else {}


def held_limits(pod: Pod) -> dict[str, int]:
    """Return the limits of a placeholder's expected pod, in base units. For any other pod the result is empty."""
    text = pod.metadata.annotations.get(HELD_LIMITS, "") if PLACEHOLDER in pod.metadata.labels else ""
    parted = (each.partition("=") for each in text.split())
    return {name: int(value) for name, _, value in parted if value.isdecimal() and value.isascii()}


def as_held(pod: Pod) -> Pod:
    """Return a placeholder with the namespace and name of its expected pod; any other pod unchanged.

    Under this name the capacity of the placeholder counts as the gang's own.
    """
    if not is_placeholder(pod):
        return pod
    namespace, slash, name = pod.metadata.annotations.get(HELD_FOR, "").partition("/")
    return replace(pod, metadata=replace(pod.metadata, namespace=namespace, name=name)) if slash else pod


def holds_for_later(pod: Pod) -> bool:
    """Return whether a pod in a snapshot reserves capacity for a pod that does not exist yet.

    Such a pod is either a placeholder, renamed by `as_held`, or an expected pod that a new plan has added.
    """
    return to_come(pod) or (PLACEHOLDER in pod.metadata.labels and is_seat(seat_of(pod)))


def matched(seats: Iterable[tuple[str, str]], pods: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Match arrived pods to expected pods of the same role. Return the name of the expected pod by the pod's name.

    First, pods are matched to expected pods of the same name. Then, pods are matched whose name extends that of an
    expected pod by a dash and a suffix, as names of Jobs' pods do. Each remaining pod gets the next expected pod,
    because operators that use random names create interchangeable pods.

    :param seats: the expected pods, as (role, name).
    :param pods: the arrived pods, as (role, name).
    """
    left: dict[str, dict[str, None]] = {}
    for role, name in seats:
        left.setdefault(role, {})[name] = None
    arriving, found = list(pods), dict[str, str]()
    for seat_for in (_same, _without_letters, _first):
        for role, name in arriving:
            free = left.get(role, {})
            if name not in found and (seat := seat_for(name, free)) in free:
                found[name] = seat
                del free[seat]
    return found


def _same(name: str, _free: Iterable[str]) -> str:
    return name


def _without_letters(name: str, _free: Iterable[str]) -> str:
    return name.rpartition("-")[0]


def _first(_name: str, free: Iterable[str]) -> str:
    return next(iter(free), "")
