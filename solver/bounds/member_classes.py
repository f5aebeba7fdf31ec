"""Member classes: members that are interchangeable, so that a model can count them instead of naming each. In the code,
`kind` is a member class or its position.
"""

from dataclasses import dataclass

from solver.instance import Instance


@dataclass(frozen=True, slots=True)
class MemberClass:
    """A member class: pending members of one set and one shape. A model counts them instead of naming each. `ranks`:
    the ranks of these members, lowest first.
    """

    pod_set: int
    shape: int
    ranks: tuple[int, ...]


def of_sets_and_shapes(instance: Instance) -> tuple[MemberClass, ...]:
    """Return one member class for each set and shape with pending members, in order of their first members."""
    ranks: dict[tuple[int, int], list[int]] = {}
    for seat in instance.pending:
        ranks.setdefault((seat.pod_set, instance.member(seat).shape), []).append(seat.rank)
    return tuple(MemberClass(pod_set, shape, tuple(held)) for (pod_set, shape), held in ranks.items())


def sorted_kinds(instance: Instance) -> tuple[MemberClass, ...]:
    """Return one member class for each set and shape with pending members, sorted by set, then by shape."""
    return tuple(sorted(of_sets_and_shapes(instance), key=lambda kind: (kind.pod_set, kind.shape)))


def by_shape(instance: Instance) -> tuple[MemberClass, ...] | None:
    """Return one member class for each set and shape, if counts of members per node decide the goals before goal 5
    (`ranks`) when every member is placed.

    None if slices distinguish members of a shape, so that counts do not suffice. None also if each class would have one
    member only, so that counting gains nothing.
    """
    if any(pod_set.slices for pod_set in instance.problem.sets):
        return None
    kinds = of_sets_and_shapes(instance)
    return kinds if len(kinds) < len(instance.pending) else None


def alike(instance: Instance) -> tuple[MemberClass, ...] | None:
    """Return one member class for each set, if the members of each set are interchangeable; else None.

    They are interchangeable if all members of the set are pending and have one shape, and every slice is complete. Such
    members always have an arrangement in which every domain's ranks are consecutive. This arrangement keeps slices
    whole, because slice sizes divide one another and the number of members in each domain. It is also the best
    arrangement for goal 5 (`ranks`).
    """
    problem = instance.problem
    everybody = problem.minimum == sum(len(pod_set.members) for pod_set in problem.sets)
    for pod_set in problem.sets:
        members = pod_set.members
        if any(member.node is not None or member.shape != members[0].shape for member in members):
            return None
        everyone = everybody or pod_set.minimum == len(members)
        if pod_set.slices and not (everyone and all(len(members) % each.size == 0 for each in pod_set.slices)):
            return None
    return tuple(
        MemberClass(position, pod_set.members[0].shape, tuple(range(len(pod_set.members))))
        for position, pod_set in enumerate(problem.sets)
        if pod_set.members
    )


def each_alone(instance: Instance) -> tuple[MemberClass, ...]:
    """Return one member class per pending member, for models that name each member."""
    return tuple(MemberClass(seat.pod_set, instance.member(seat).shape, (seat.rank,)) for seat in instance.pending)
