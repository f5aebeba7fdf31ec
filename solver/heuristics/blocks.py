"""A gang as nested blocks: the members of a block lie in one domain of its level. A block inside another one has a
narrower level.

Slices, required levels, multiples and `Together` constraints are all expressed as blocks. Blocks with equal `sign` are
interchangeable.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from solver.instance import Instance, Seat
from solver.problem import Multiple, Problem, Together
from solver.tree import ROOT


@dataclass(frozen=True)
class Run:
    """Pending members of one set and one shape, in order of rank. They are part of a block, and may be on any nodes of
    the block's domain.
    """

    pod_set: int
    shape: int
    seats: tuple[Seat, ...]

    @property
    def sign(self) -> object:
        """A key that is equal for interchangeable runs: set, shape and number of members."""
        return self.pod_set, self.shape, len(self.seats)


@dataclass(frozen=True)
class Block:
    """Parts of a gang that must lie in one domain of `level` (ROOT: anywhere). A part is another block or a run of
    members.

    `pinned`: the nodes of pinned members that belong to the block.
    """

    level: int
    parts: tuple["Block | Run", ...]
    pinned: frozenset[int] = frozenset()

    @cached_property
    def sign(self) -> object:
        """A key that is equal for interchangeable blocks: blocks of one level with the same pinned nodes, whose parts
        are interchangeable in the same order.
        """
        return self.level, tuple(part.sign for part in self.parts), self.pinned

    @cached_property
    def counts(self) -> dict[int, int]:
        """By shape, how many pending members the block has."""
        found: dict[int, int] = {}
        for part in self.parts:
            counts = {part.shape: len(part.seats)} if isinstance(part, Run) else part.counts
            for shape, count in counts.items():
                found[shape] = found.get(shape, 0) + count
        return found


def blocks_of(instance: Instance, seats: Sequence[Seat]) -> Block:
    """Return a gang as one block. `seats`: the members to place, and all pinned members. Parts that are hard to place
    come first.
    """
    problem = instance.problem
    sets = {pod_set: list(group) for pod_set, group in groupby(sorted(seats), key=lambda seat: seat.pod_set)}
    level = ROOT if problem.required is None else problem.required
    return _block(instance, level, _bound_together(instance, tuple(sets), problem.together, sets), sets.values())


def beyond(instance: Instance, seats: Sequence[Seat], placed: frozenset[Seat]) -> list["Block | Run"]:
    """Return the members of one set beyond its minimum, in parts to be placed one after the other.

    A part is a `Block` (a whole slice) or, in a set without slices, a `Run` (members in order of rank). `seats`: the
    members. If the set has slices, the result has only slices without a member in `placed`.
    """
    position = seats[0].pod_set
    rules = [(rule.level, rule.size) for rule in instance.problem.sets[position].slices]
    if rules:
        begun = {seat.rank // rules[0][1] for seat in placed if seat.pod_set == position}
        seats = [seat for seat in seats if seat.rank // rules[0][1] not in begun]
    return _in_slices(instance, seats, rules)


def _bound_together(
    instance: Instance, pod_sets: tuple[int, ...], rules: Sequence[Together], seats: dict[int, list[Seat]]
) -> list[Block]:
    """Return the sets `pod_sets` (positions) as blocks. Sets that `Together` constraints bind to each other share one
    block. Blocks that are hard to place come first. `seats`: the members of each set.
    """
    parts: list[Block] = []
    left = list(pod_sets)
    while left:
        chain, inside = _chain(left[0], rules)
        bound = [each for each in left if each in chain]
        left = [each for each in left if each not in chain]
        if not inside:
            parts.append(_of_set(instance, bound[0], seats[bound[0]]))
            continue
        level = min(rule.level for rule in inside)
        narrower = [rule for rule in inside if rule.level > level]
        inner = _bound_together(instance, tuple(bound), narrower, seats)
        parts.append(_block(instance, level, inner, (seats[each] for each in bound)))
    return sorted(parts, key=_weight, reverse=True)


def _chain(first: int, rules: Sequence[Together]) -> tuple[set[int], list[Together]]:
    """Return the sets that `Together` constraints bind to the set `first`, directly or through other sets, and the
    constraints that bind them.
    """
    chain, inside = {first}, list[Together]()
    while more := [rule for rule in rules if rule not in inside and chain.intersection(rule.pod_sets)]:
        inside += more
        chain.update(*(rule.pod_sets for rule in more))
    return chain, inside


def _of_set(instance: Instance, position: int, seats: Sequence[Seat]) -> Block:
    """Return the pod set at position `position` as a block of its required level. The set's slices and multiples are
    blocks inside it. `seats`: the set's pinned members, and its members to place.
    """
    pod_set, problem = instance.problem.sets[position], instance.problem
    rules = [(rule.level, rule.size) for rule in pod_set.slices]
    rules += [(rule.level, rule.of) for rule in (*pod_set.multiples, *_alone(problem, position))]
    level = ROOT if pod_set.required is None else pod_set.required
    return _block(
        instance, level, _in_slices(instance, seats, sorted(rules, key=lambda rule: (rule[0], -rule[1]))), [seats]
    )


def _alone(problem: Problem, position: int) -> Iterable[Multiple]:
    """Return the `Multiple` constraints of the whole gang if the set at `position` is the gang's only set;
    else none.
    """
    filled = [place for place, pod_set in enumerate(problem.sets) if pod_set.members]
    return problem.multiples if filled == [position] else ()


def _in_slices(instance: Instance, seats: Sequence[Seat], rules: Sequence[tuple[int, int]]) -> list["Block | Run"]:
    """Return the members in nested blocks. `rules`: pairs of a level and the number of members in a block of that
    level, the widest level first.

    The innermost blocks contain runs. The shapes with the largest requests come first.
    """
    if not rules:
        by_shape: dict[int, list[Seat]] = {}
        for seat in seats:
            member = instance.member(seat)
            if member.node is None:
                by_shape.setdefault(member.shape, []).append(seat)
        largest_first = sorted(by_shape, key=lambda shape: (-_size(instance, shape), shape))
        return [Run(by_shape[shape][0].pod_set, shape, tuple(by_shape[shape])) for shape in largest_first]
    (level, size), *inner = rules
    slices: dict[int, list[Seat]] = {}
    for seat in seats:
        slices.setdefault(seat.rank // size, []).append(seat)
    return [_block(instance, level, _in_slices(instance, each, inner), [each]) for each in slices.values()]


def _block(instance: Instance, level: int, parts: Iterable["Block | Run"], seats: Iterable[Sequence[Seat]]) -> Block:
    """Return a block of `level` with these parts. The nodes of its pinned members are its pinned nodes.

    `seats`: the identities of all members of the block, pending and pinned, in several sequences.
    """
    pinned = frozenset[int]()
    if instance.pinned:
        members = (instance.member(seat).node for each in seats for seat in each)
        pinned = frozenset(node for node in members if node is not None)
    return Block(level, tuple(parts), pinned)


def _size(instance: Instance, shape: int) -> int:
    """Return a shape's request of the scarcest resource."""
    return instance.problem.shapes[shape].requests[instance.scarce]


def _weight(block: Block) -> tuple[int, int]:
    """Return how hard a block is to place: its level and its number of members, for comparison. A larger value is
    harder.
    """
    return block.level, sum(block.counts.values())
