"""Which members need not be told apart, and so can be counted together: kinds."""

from dataclasses import dataclass

from solver.instance import Instance


@dataclass(frozen=True, slots=True)
class MemberClass:
    """Pending members of one set that are counted together: their shape and their ranks, lowest first."""

    pod_set: int
    shape: int
    ranks: tuple[int, ...]


def of_sets_and_shapes(instance: Instance) -> tuple[MemberClass, ...]:
    """One kind per set and shape, in order of their first members."""
    ranks: dict[tuple[int, int], list[int]] = {}
    for seat in instance.pending:
        ranks.setdefault((seat.pod_set, instance.member(seat).shape), []).append(seat.rank)
    return tuple(MemberClass(pod_set, shape, tuple(held)) for (pod_set, shape), held in ranks.items())


def sorted_kinds(instance: Instance) -> tuple[MemberClass, ...]:
    """One kind per set and shape, in this order."""
    return tuple(sorted(of_sets_and_shapes(instance), key=lambda kind: (kind.pod_set, kind.shape)))


def by_shape(instance: Instance) -> tuple[MemberClass, ...] | None:
    """One kind per set and shape: enough for all goals before ranks, as long as everybody is placed. None where slices
    tell members of a shape apart, or where no two members are alike.
    """
    if any(pod_set.slices for pod_set in instance.problem.sets):
        return None
    kinds = of_sets_and_shapes(instance)
    return kinds if len(kinds) < len(instance.pending) else None


def alike(instance: Instance) -> tuple[MemberClass, ...] | None:
    """One kind per set, where members of a set need not be told apart: all pending, all of one shape, and every
    slice complete. None where they must be.

    Such members can always be seated so that every domain's ranks are consecutive; that keeps slices whole (their
    sizes divide one another, and each domain's count) and is the best that the goal of ranks allows.
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
    """Every pending member as a kind of its own."""
    return tuple(MemberClass(seat.pod_set, instance.member(seat).shape, (seat.rank,)) for seat in instance.pending)
