"""A gang as nested blocks: members that must lie in one domain of a level, and within it others in one of a narrower.

Slices, required levels, multiples and sets that belong together are all expressed as blocks. Blocks with an equal
`sign` are interchangeable.
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
    """Members of one set and shape that may lie anywhere, in order of rank. `pinned`: nodes of those that have one."""

    pod_set: int
    shape: int
    seats: tuple[Seat, ...]

    @property
    def sign(self) -> object:
        """A key that is equal for interchangeable runs."""
        return self.pod_set, self.shape, len(self.seats)


@dataclass(frozen=True)
class Block:
    """Parts that lie in one domain of `level` (ROOT: anywhere). `pinned`: nodes on which members of it are already."""

    level: int
    parts: tuple["Block | Run", ...]
    pinned: frozenset[int] = frozenset()

    @cached_property
    def sign(self) -> object:
        """A key that is equal for interchangeable blocks."""
        return self.level, tuple(part.sign for part in self.parts), self.pinned

    @cached_property
    def counts(self) -> dict[int, int]:
        """By shape, how many members of the block are to be placed."""
        found: dict[int, int] = {}
        for part in self.parts:
            counts = {part.shape: len(part.seats)} if isinstance(part, Run) else part.counts
            for shape, count in counts.items():
                found[shape] = found.get(shape, 0) + count
        return found


def blocks_of(instance: Instance, seats: Sequence[Seat]) -> Block:
    """Return these members of a gang as one block, the hardest parts first. It must contain the pinned members."""
    problem = instance.problem
    sets = {pod_set: list(group) for pod_set, group in groupby(sorted(seats), key=lambda seat: seat.pod_set)}
    level = ROOT if problem.required is None else problem.required
    return _block(instance, level, _bound_together(instance, tuple(sets), problem.together, sets), sets.values())


def beyond(instance: Instance, seats: Sequence[Seat], placed: frozenset[Seat]) -> list["Block | Run"]:
    """Return more members of one set, part by part. If the set has slices, only slices without a member in `placed`."""
    position = seats[0].pod_set
    rules = [(rule.level, rule.size) for rule in instance.problem.sets[position].slices]
    if rules:
        begun = {seat.rank // rules[0][1] for seat in placed if seat.pod_set == position}
        seats = [seat for seat in seats if seat.rank // rules[0][1] not in begun]
    return _in_slices(instance, seats, rules)


def _bound_together(
    instance: Instance, pod_sets: tuple[int, ...], rules: Sequence[Together], seats: dict[int, list[Seat]]
) -> list[Block]:
    """Return sets that share a domain as one block, and each other set as a block."""
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
    """Return the sets that rules bind to `first`, directly or through other sets, and these rules."""
    chain, inside = {first}, list[Together]()
    while more := [rule for rule in rules if rule not in inside and chain.intersection(rule.pod_sets)]:
        inside += more
        chain.update(*(rule.pod_sets for rule in more))
    return chain, inside


def _of_set(instance: Instance, position: int, seats: Sequence[Seat]) -> Block:
    pod_set, problem = instance.problem.sets[position], instance.problem
    rules = [(rule.level, rule.size) for rule in pod_set.slices]
    rules += [(rule.level, rule.of) for rule in (*pod_set.multiples, *_alone(problem, position))]
    level = ROOT if pod_set.required is None else pod_set.required
    return _block(
        instance, level, _in_slices(instance, seats, sorted(rules, key=lambda rule: (rule[0], -rule[1]))), [seats]
    )


def _alone(problem: Problem, position: int) -> Iterable[Multiple]:
    """The multiples of the whole gang, where this is its only set."""
    filled = [place for place, pod_set in enumerate(problem.sets) if pod_set.members]
    return problem.multiples if filled == [position] else ()


def _in_slices(instance: Instance, seats: Sequence[Seat], rules: Sequence[tuple[int, int]]) -> list["Block | Run"]:
    """Return the members in blocks of each rule's size, the widest rule first. Innermost are runs, the largest requests
    first.
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
    pinned = frozenset[int]()
    if instance.pinned:
        members = (instance.member(seat).node for each in seats for seat in each)
        pinned = frozenset(node for node in members if node is not None)
    return Block(level, tuple(parts), pinned)


def _size(instance: Instance, shape: int) -> int:
    return instance.problem.shapes[shape].requests[instance.scarce]


def _weight(block: Block) -> tuple[int, int]:
    """Return the level of a block, then its number of members: larger values are harder and come first."""
    return block.level, sum(block.counts.values())
