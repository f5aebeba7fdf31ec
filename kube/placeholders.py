"""Placeholders: pods of ours that hold room for pods which their workload has not made yet (docs/decisions/0022).

A *seat* is the place of such a pod in its gang, known by what would be its uid: `<uid of the workload>/<role>/<name>`.
The uids that an API server gives have no slash.
"""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from kube.keys import SYSTEM_NAMESPACE
from kube.objects import Pod

PLACEHOLDER = "phalanx.dev/placeholder"
"""Label of a placeholder, "true". It says something on pods of our own namespace alone, where nobody else makes any."""
HELD_FOR = "phalanx.dev/held-for"
"""Annotation of a placeholder: the pod, as `namespace/name`, that is to have its room."""
SEAT = "phalanx.dev/seat"
"""Annotation of a placeholder: the seat that it is for."""
HELD_FOR_GANG = "phalanx.dev/held-for-gang"
"""Annotation of a placeholder: the gang that the seat is of, as `dialect/namespace/name`."""

HELD_LIMITS = "phalanx.dev/held-limits"
"""Annotation of a placeholder: the limits of the pod, in base units, for ResourceQuotas that count them."""


def is_placeholder(pod: Pod) -> bool:
    """Whether the pod is a placeholder of ours."""
    return PLACEHOLDER in pod.metadata.labels and pod.metadata.namespace == SYSTEM_NAMESPACE


def seat_uid(workload_uid: str, role: str, name: str) -> str:
    """What stands for the uid of a pod that is to come."""
    return f"{workload_uid}/{role}/{name}"


def is_seat(uid: str) -> bool:
    """Whether that is a seat, and not the uid of a pod that exists."""
    return "/" in uid


def role_of_seat(uid: str) -> str:
    """The role, "" for the uid of a pod that exists."""
    return uid.split("/")[1] if is_seat(uid) else ""


def to_come(pod: Pod) -> bool:
    """Whether the pod is one that its workload will still make."""
    return is_seat(pod.metadata.uid)


def seat_of(placeholder: Pod) -> str:
    """The seat that a placeholder is for."""
    return placeholder.metadata.annotations.get(SEAT, "")


def written_limits(limits: Mapping[str, int]) -> dict[str, str]:
    """The annotation that says what limits the pod has for which room is held; none where it has none."""
    return {HELD_LIMITS: " ".join(f"{name}={value}" for name, value in sorted(limits.items()))} if limits else {}


def held_limits(pod: Pod) -> dict[str, int]:
    """The limits, in base units, of the pod for which a placeholder holds room; empty for any other pod."""
    text = pod.metadata.annotations.get(HELD_LIMITS, "") if PLACEHOLDER in pod.metadata.labels else ""
    parted = (each.partition("=") for each in text.split())
    return {name: int(value) for name, _, value in parted if value.isdecimal() and value.isascii()}


def as_held(pod: Pod) -> Pod:
    """A placeholder under the name of the pod for which it holds room: so its room is its gang's own. Others as they
    are.
    """
    if not is_placeholder(pod):
        return pod
    namespace, slash, name = pod.metadata.annotations.get(HELD_FOR, "").partition("/")
    return replace(pod, metadata=replace(pod.metadata, namespace=namespace, name=name)) if slash else pod


def holds_for_later(pod: Pod) -> bool:
    """Whether what holds room in a picture of the cluster stands for a pod that does not exist: it is a placeholder, by
    the name of that pod (`as_held`), or the pod itself in a plan that was just made.
    """
    return to_come(pod) or (PLACEHOLDER in pod.metadata.labels and SEAT in pod.metadata.annotations)


def matched(seats: Iterable[tuple[str, str]], pods: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Which pods have come for which seats: role and name of each; the seat's name by the pod's.

    By the same name; else by one that has some letters more after a dash, as those of Jobs' pods have; else any seat of
    the role that is left, in order: the names of other operators' pods are random, and the pods alike.
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
