"""The best plan for several gangs by trying every plan, from "Several gangs" of docs/decisions/0002.

Goals that are sums over members and victims are those of `brute_force` over the sets of all gangs; compactness and
waste are counted gang by gang.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

import brute_force
from brute_force import (
    RULED,
    VICTIM_GOALS,
    Outcome,
    Row,
    World,
    compactness,
    everybody_bears_the_others,
    numbers_hold,
    room_with,
    rules_about_others_hold,
    seatings,
    victim_sets,
)

from solver.multi_gang.joint_problem import JointAnswer
from solver.problem import PodSet, Problem
from solver.quota import Quota
from tests.solver.joining import Several

Rows = tuple[Row, ...]


class Whole(NamedTuple):
    """A plan: by gang the nodes set by set, None for a gang without a place; and the victims of all."""

    gangs: tuple[Rows | None, ...]
    victims: tuple[int, ...]


class Worlds:
    """The gangs that have a place, each alone and all in one, and the whole problem with its rules between gangs."""

    def __init__(self, joint: Several, placed: Sequence[int]) -> None:
        self.alone = [World(joint.gangs[gang]) for gang in placed]
        self.all = World(_in_one([joint.gangs[gang] for gang in placed]))
        self.whole = World(joint.problem)
        self.placed = tuple(placed)

    def rows_of_all(self, plan: Sequence[Rows]) -> Rows:
        """Return the nodes of all gangs' members. A gang without a plan has nodes for its running members only."""
        rows = [tuple(member.node for member in each.members) for each in self.whole.problem.sets]
        for gang, own in zip(self.placed, plan, strict=True):
            for pod_set, row in zip(self.whole.problem.gangs[gang].pod_sets, own, strict=True):
                rows[pod_set] = row
        return tuple(rows)


def rules_between_hold(worlds: Worlds, plan: Sequence[Rows], victims: tuple[int, ...]) -> bool:
    """Whether the rules over all members hold, once all gangs are in their places."""
    rows = worlds.rows_of_all(plan)
    return (
        everybody_bears_the_others(worlds.whole.problem, rows)
        and rules_about_others_hold(worlds.whole, Outcome(rows, victims))
        and all(_covers(quota, worlds.whole.problem, rows) for quota in worlds.whole.problem.quotas)
    )


def _covers(quota: Quota, problem: Problem, rows: Rows) -> bool:
    """Whether each queue with new members has these available, while the members of all others are there. As Kueue
    counts (`available` of pkg/cache/scheduler/resource_node.go).
    """
    held, new = [share.used for share in quota.shares], [0] * len(quota.shares)
    for charge in quota.charges:
        for member, node in zip(problem.sets[charge.pod_set].members, rows[charge.pod_set], strict=True):
            if node is not None and member.shape == charge.shape:
                (held if member.node is not None else new)[charge.share] += charge.amount

    def usage(position: int, without: int) -> int:
        used = held[position] + (new[position] if position != without else 0)
        for below, share in enumerate(quota.shares):
            if share.parent == position:
                used += max(0, usage(below, without) - share.kept)
        return used

    def available(position: int, without: int) -> int:
        share, used = quota.shares[position], usage(position, without)
        if share.parent is None:
            return share.quota - used
        parent_available = available(share.parent, without)
        if share.limit is not None:
            stored_in_parent = share.quota - share.kept
            used_in_parent = max(0, used - share.kept)
            parent_available = min(stored_in_parent - used_in_parent + share.limit - share.quota, parent_available)
        return max(0, share.kept - used) + parent_available

    return all(not amount or amount <= available(queue, queue) for queue, amount in enumerate(new))


def _in_one(gangs: Sequence[Problem]) -> Problem:
    """Return one problem with the sets of all gangs on their common cluster, without any rules."""
    sets: list[PodSet] = []
    shapes: list[Any] = []
    for gang in gangs:
        first = len(shapes)
        shapes += gang.shapes
        for each in gang.sets:
            members = tuple(replace(member, shape=first + member.shape) for member in each.members)
            sets.append(PodSet(each.name, members, 0))
    return replace(
        gangs[0],
        sets=tuple(sets),
        shapes=tuple(shapes),
        minimum=0,
        required=None,
        together=(),
        multiples=(),
        exclusions=(),
        separations=(),
        conflicts=(),
        affinities=(),
        spreads=(),
    )


def joined(plan: Sequence[Rows], victims: tuple[int, ...]) -> Outcome:
    """The plans of all gangs as one."""
    return Outcome(tuple(row for rows in plan for row in rows), victims)


def placements(worlds: Worlds, victims: tuple[int, ...]) -> Iterator[tuple[Rows, ...]]:
    """Every way to seat all gangs side by side once these victims are gone."""
    for plan in _side_by_side(worlds.alone, room_with(worlds.all, victims), victims):
        if rules_between_hold(worlds, plan, victims):
            yield plan


def _side_by_side(
    gangs: Sequence[World], room: list[list[int]], victims: tuple[int, ...]
) -> Iterator[tuple[Rows, ...]]:
    if not gangs:
        yield ()
        return
    world, *others = gangs
    for rows in seatings(world, room, victims):
        if numbers_hold(world, Outcome(rows, victims)):
            for rest in _side_by_side(others, room, victims):
                yield (rows, *rest)


# --- the goals that are counted gang by gang -------------------------------------------------------------------------


class Plan(NamedTuple):
    """The input of a goal: the plans of all gangs and the victims."""

    worlds: Worlds
    rows: tuple[Rows, ...]
    victims: tuple[int, ...]

    @property
    def whole(self) -> Outcome:
        """The plans of all gangs as one."""
        return joined(self.rows, self.victims)

    def spread(self) -> list[list[tuple[int, int]]]:
        """By gang and level: its domains, and summed over its sets."""
        return [
            compactness(world, Outcome(rows, self.victims))
            for world, rows in zip(self.worlds.alone, self.rows, strict=True)
        ]


def compact_together(plan: Plan) -> list[tuple[int, int]]:
    """Level by level, summed over the gangs and then over their sets."""
    return [
        (sum(gang for gang, _ in level), sum(sets for _, sets in level)) for level in zip(*plan.spread(), strict=True)
    ]


def compact_first(plan: Plan) -> list[list[int]]:
    """Return the compactness of each gang in order: at equal sums, the earlier gang is compact first."""
    return [[gang for gang, _ in levels] for levels in plan.spread()]


def waste_together(plan: Plan) -> list[int]:
    """(a), (b) outward, (c) downward, (d) downward, each summed over the gangs."""
    depth = plan.worlds.all.depth
    sums: Counter[tuple[int, int]] = Counter()
    for world, rows in zip(plan.worlds.alone, plan.rows, strict=True):
        for key, value in _waste(plan, world, Outcome(rows, plan.victims), depth):
            sums[key] += value
    return [sums[part, level] for part in range(4) for level in range(-depth, depth + 1)]


def _waste(plan: Plan, world: World, outcome: Outcome, depth: int) -> Iterator[tuple[tuple[int, int], int]]:
    nodes = [node for _, node in world.placed(outcome)]
    if not nodes:
        return
    touched = {level: sorted({world.domain(level, node) for node in nodes}) for level in range(-1, depth)}
    rooms = {level: [_room_left(plan, world, level, each) for each in found] for level, found in touched.items()}
    narrowest = max(level for level in range(-1, depth) if len(touched[level]) <= 1)
    yield (0, 0), rooms[narrowest][0]
    for level in range(-1, narrowest):
        yield (1, -level), rooms[level][0]
    for level in range(narrowest + 1, depth):
        yield (2, level), sum(rooms[level])
        yield (3, level), sum(room > 0 for room in rooms[level])


def _room_left(plan: Plan, world: World, level: int, domain: tuple[str, ...]) -> int:
    """Return the waste of one gang in a domain: the scarcest resource that all gangs leave on the nodes it may use."""
    everybody, problem, scarce = plan.worlds.all, plan.worlds.all.problem, plan.worlds.all.scarce
    left = 0
    for node in sorted(world.usable if plan.victims else world.unhindered):
        if world.domain(level, node) != domain:
            continue
        could = problem.nodes[node].free[scarce]
        if plan.victims:
            could += sum(victim.requests[scarce] for victim in problem.victims if victim.node == node)
        left += max(0, could)
        left -= sum(everybody.request(seat)[scarce] for seat, at in everybody.fresh(plan.whole) if at == node)
    return left


Goal = tuple[str, Callable[[Plan], Any]]


def _of_all(score: Callable[[World, Outcome], Any]) -> Callable[[Plan], Any]:
    return lambda plan: score(plan.worlds.all, plan.whole)


def place_goals() -> Iterator[Goal]:
    """Yield the goals about nodes in their order: the goals of one gang, of which some are counted gang by gang."""
    for name, score in brute_force.PLACE_GOALS:
        if name == "waste":
            yield "precedence", compact_first
        yield name, {"compactness": compact_together, "waste": waste_together}.get(name) or _of_all(score)


JOINT_GOALS = tuple(name for name, _ in (*VICTIM_GOALS, *place_goals()) if name not in RULED)


def best_together(joint: Several, leaving_out: str = "") -> Whole:
    """The best plan, or the best by a reference that does not know one of the goals."""
    placed = _placeable(joint)
    if not placed:
        return Whole((None,) * len(joint.gangs), ())
    worlds = Worlds(joint, placed)
    survivors = _cheapest(worlds, leaving_out)
    for name, score in place_goals():
        if name != leaving_out and len(survivors) > 1:
            values = [score(plan) for plan in survivors]
            least = min(values)
            survivors = [plan for plan, value in zip(survivors, values, strict=True) if value == least]
    rows = dict(zip(placed, survivors[0].rows, strict=True))
    return Whole(tuple(rows.get(gang) for gang in range(len(joint.gangs))), survivors[0].victims)


def _placeable(joint: Several) -> list[int]:
    """Return all gangs if they are feasible together, with any evictions.

    Otherwise add the gangs in their order: each gang that is feasible together with the gangs added before.
    """
    everybody = list(range(len(joint.gangs)))
    if _have_places(joint, everybody):
        return everybody
    placed: list[int] = []
    before: list[int] | None = None
    while placed != before:  # a gang with affinity to a later gang is tried again when the later gang is placed
        before = placed
        for gang in everybody:
            if gang not in placed and _have_places(joint, sorted([*placed, gang])):
                placed = sorted([*placed, gang])
    return placed


def _have_places(joint: Several, gangs: Sequence[int]) -> bool:
    worlds = Worlds(joint, gangs)
    return any(True for victims in victim_sets(worlds.all.problem) for _ in placements(worlds, victims))


def _cheapest(worlds: Worlds, leaving_out: str) -> list[Plan]:
    def cost(victims: tuple[int, ...]) -> list[Any]:
        return [score(worlds.all, Outcome((), victims)) for name, score in VICTIM_GOALS if name != leaving_out]

    for _, equals in groupby(sorted(victim_sets(worlds.all.problem), key=cost), key=cost):
        found = [Plan(worlds, rows, victims) for victims in equals for rows in placements(worlds, victims)]
        if found:
            return found
    return []


def whole_of(answer: JointAnswer) -> Whole:
    """Convert the solver's answer to the form of the reference."""
    victims = {victim for share in answer.shares if share is not None for victim in share.victims}
    return Whole(tuple(None if share is None else share.nodes for share in answer.shares), tuple(sorted(victims)))


def is_as_good(joint: Several, found: Whole, expected: Whole) -> bool:
    """Whether a plan is valid, accepts the same gangs and equals the expected plan in every goal.

    Names may differ: a rule without a proof decides between equal plans (goal 6).
    """
    if found == expected:
        return True
    placed = [gang for gang, rows in enumerate(expected.gangs) if rows is not None]
    if [gang for gang, rows in enumerate(found.gangs) if rows is not None] != placed:
        return False
    worlds = Worlds(joint, placed)
    one, other = (
        Plan(worlds, tuple(rows for rows in whole.gangs if rows is not None), whole.victims)
        for whole in (found, expected)
    )
    cheap = all(score(worlds.all, one.whole) == score(worlds.all, other.whole) for _, score in VICTIM_GOALS)
    equal = cheap and all(score(one) == score(other) for name, score in place_goals() if name not in RULED)
    valid = found.victims in victim_sets(worlds.all.problem) and one.rows in placements(worlds, found.victims)
    return equal and valid
