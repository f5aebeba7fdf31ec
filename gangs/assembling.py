"""The only place that constructs a `Gang`: from a placement request and a description of the gang's members.

A dialect derives the `PlacementRequest` from keys and objects. A workload or a group object determines the members
(`GangWorkload`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from gangs.membership import age
from gangs.model import Gang, GangKey, Member, ObjectRef, PlacementRequest, PodSet

NO_REQUEST = PlacementRequest()
_REQUESTED = tuple(field.name for field in fields(PlacementRequest))


@dataclass(frozen=True, slots=True)
class GangWorkload:
    """The members of a gang, its pod sets and its origin. The fields have the meaning of the fields of `Gang`."""

    source: ObjectRef
    members: tuple[Member, ...]
    pod_sets: tuple[PodSet, ...]
    min_member: int
    created: str
    groups: tuple[ObjectRef, ...] = ()
    part: str = ""
    expected: int | None = None
    """The number of members that there should be; None: the sum of the pod sets' counts."""
    exact_nodes: bool | None = None
    """Whether the release pins each member to its exact node; None: it does if a member has a rank."""


def of_one_set(members: Sequence[Member], name: str, expected: int, minimum: int) -> tuple[PodSet, ...]:
    """Return the only pod set of a gang, in a tuple.

    If more members exist than `expected`, the pod set's count is the number of members.
    """
    return (PodSet(name, max(expected, len(members)), minimum),)


def assemble(
    key: GangKey,
    workload: GangWorkload,
    request: PlacementRequest = NO_REQUEST,
    waiting_for: tuple[str, ...] = (),
) -> Gang:
    """Return the gang with these members and this placement request. `waiting_for`: what the gang waits for, for
    messages.
    """
    expected, exact_nodes = workload.expected, workload.exact_nodes
    if expected is None:
        expected = sum(pod_set.count for pod_set in workload.pod_sets)
    if exact_nodes is None:
        exact_nodes = any(member.index is not None for member in workload.members)
    asked: dict[str, Any] = {name: getattr(request, name) for name in _REQUESTED}
    return Gang(
        key=key,
        source=workload.source,
        members=workload.members,
        pod_sets=workload.pod_sets,
        expected=expected,
        min_member=workload.min_member,
        created=workload.created,
        waiting_for=waiting_for,
        part=workload.part,
        groups=workload.groups,
        exact_nodes=exact_nodes,
        **asked,
    )


def awaiting(key: GangKey, ref: ObjectRef, members: tuple[Member, ...], part: str = "") -> Gang:
    """Return the gang of pods that name an object `ref` that does not exist. The gang waits for the object.

    :param part: the part of the object that is this gang, if the object asks for several gangs.
    """
    created = min(age(member.pod.metadata) for member in members)[0].rstrip("~")
    groups, sets = () if part else (ref,), of_one_set(members, members[0].pod_set, 0, len(members))
    workload = GangWorkload(ref, members, sets, len(members), created, groups, part, exact_nodes=False)
    return assemble(key, workload, waiting_for=(str(ref),))
