"""Placeholders: pods of Phalanx that reserve capacity for expected pods (docs/decisions/0022).

A *seat* is an expected pod. Its identifier, which takes the place of a UID, is `<uid of the workload>/<role>/<name>`.
The UIDs that an API server assigns contain no slash.
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
"""Annotation of a placeholder: the seat that it is for."""
HELD_FOR_GANG = "phalanx.dev/held-for-gang"
"""Annotation of a placeholder: the gang of its seat, as `dialect/namespace/name`."""

HELD_LIMITS = "phalanx.dev/held-limits"
"""Annotation of a placeholder: the limits of the pod, in base units, for ResourceQuotas that count them."""


def is_placeholder(pod: Pod) -> bool:
    """Return whether the pod is a placeholder of Phalanx."""
    return PLACEHOLDER in pod.metadata.labels and pod.metadata.namespace == SYSTEM_NAMESPACE


def seat_uid(workload_uid: str, role: str, name: str) -> str:
    """Return the identifier of an expected pod, which takes the place of a UID."""
    return f"{workload_uid}/{role}/{name}"


def is_seat(uid: str) -> bool:
    """Return whether the identifier is a seat, and not the UID of an existing pod."""
    return "/" in uid


def role_of_seat(uid: str) -> str:
    """Return the role in a seat; "" for the UID of an existing pod."""
    return uid.split("/")[1] if is_seat(uid) else ""


def to_come(pod: Pod) -> bool:
    """Return whether the pod is an expected pod, which its workload has yet to create."""
    return is_seat(pod.metadata.uid)


def seat_of(placeholder: Pod) -> str:
    """Return the seat for which a placeholder reserves capacity."""
    return placeholder.metadata.annotations.get(SEAT, "")


def written_limits(limits: Mapping[str, int]) -> dict[str, str]:
    """Return the annotation of a placeholder with the limits of its expected pod; empty if it has no limits."""
    return {HELD_LIMITS: " ".join(f"{name}={value}" for name, value in sorted(limits.items()))} if limits else {}


def held_limits(pod: Pod) -> dict[str, int]:
    """Return the limits, in base units, of a placeholder's expected pod; empty for any other pod."""
    text = pod.metadata.annotations.get(HELD_LIMITS, "") if PLACEHOLDER in pod.metadata.labels else ""
    parted = (each.partition("=") for each in text.split())
    return {name: int(value) for name, _, value in parted if value.isdecimal() and value.isascii()}


def as_held(pod: Pod) -> Pod:
    """Return a placeholder under the name of its expected pod, so that its capacity counts as its gang's own.

    Any other pod is returned unchanged.
    """
    if not is_placeholder(pod):
        return pod
    namespace, slash, name = pod.metadata.annotations.get(HELD_FOR, "").partition("/")
    return replace(pod, metadata=replace(pod.metadata, namespace=namespace, name=name)) if slash else pod


def holds_for_later(pod: Pod) -> bool:
    """Return whether a pod in a snapshot reserves capacity for a pod that does not exist.

    Such a pod is a placeholder under the name of the expected pod (`as_held`), or the expected pod itself in a new
    plan.
    """
    return to_come(pod) or (PLACEHOLDER in pod.metadata.labels and SEAT in pod.metadata.annotations)


def matched(seats: Iterable[tuple[str, str]], pods: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Match arrived pods to expected pods, both given by role and name. Return the seat's name by the pod's name.

    A pod first matches the seat of its own name, then the seat whose name it extends by a dash and a suffix, as Jobs'
    pods do. Otherwise it matches the next seat of its role: other operators use random names, and their pods are alike.
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
