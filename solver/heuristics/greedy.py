"""Greedy plans without proof, with and without evictions: early results, and a fallback if the solver fails.

Blocks of members are placed one after the other where they cost the least (`solver.heuristics.block_by_block`), without
backtracking. The caller verifies the plans. They may break constraints that are hard to satisfy together: affinity,
multiples of several sets, or topology spread with evictions.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from solver.bounds.domain_cover import Covers, too_few
from solver.capacity import deciding_level, needed_members
from solver.deadline import NO_DEADLINE, Deadline, DeadlineCheck, no_deadline_check
from solver.eviction.lower_bounds import prices_of
from solver.heuristics.block_by_block import BlockPlace, Seating
from solver.heuristics.blocks import Block, beyond, blocks_of
from solver.heuristics.running_pods import RunningPods
from solver.instance import Instance, Seat, instance_of
from solver.objective import criterion, goals_of
from solver.plan import Goal, Plan, Proof
from solver.problem import Problem

_TRIES = 3
"""How many domains of each level narrower than the required level are tried, to find a more compact plan."""


def greedy_plans(
    problem: Problem, over: DeadlineCheck = no_deadline_check, deadline: Deadline = NO_DEADLINE
) -> Iterator[Plan]:
    """Yield plans that place every member, or at least the minimum, as long as `over` returns False.

    Plans have no evictions; if none is found, plans with evictions follow. Raises `OutOfTimeError` if the deadline
    passes before a plan is found.
    """
    found = False
    for plan in plans_of(instance_of(problem, evicting=False, deadline=deadline), over):
        found = True
        yield plan
    if problem.victims and not found:
        deadline.check()
        yield from plans_of(instance_of(problem, evicting=True, deadline=deadline), over)


def plans_of(instance: Instance, over: DeadlineCheck = no_deadline_check) -> Iterator[Plan]:
    """Yield plans of an instance, one for each tried domain that holds the gang, the most promising domain first.
    When `over` returns True, no further plan is yielded.
    """
    pods = RunningPods(instance)
    for seats in instance.deadline.iterate(_asked_for(instance), every=1):
        block = blocks_of(instance, (*instance.pinned, *seats))
        none = True
        for place in instance.deadline.iterate(
            _places(instance, block, everybody=len(seats) == len(instance.pending)), every=1
        ):
            plan = _plan(instance, pods, block, place, over)
            if plan is not None:
                none = False
                yield plan
            if over():
                return
        if not none:
            return


def _asked_for(instance: Instance) -> Iterator[tuple[Seat, ...]]:
    """Yield the members that a plan must place. Without evictions, all pending members come first, and then only the
    members of the minimum. With evictions, only the members of the minimum.

    The reason: no pod is evicted for members beyond the minimum.
    """
    least = _minimum(instance)
    if not instance.evicting or len(least) == len(instance.pending):
        yield instance.pending
    if len(least) < len(instance.pending):
        yield least


def _minimum(instance: Instance) -> tuple[Seat, ...]:
    """Return the pending members that fulfil the minimums. In each set, the lowest ranks up to the set's minimum come
    first. Then come as many other members as the gang's minimum needs.
    """
    problem, chosen = instance.problem, list[Seat]()
    others: list[Seat] = []
    for position, pod_set in enumerate(problem.sets):
        waiting = [Seat(position, rank) for rank, member in enumerate(pod_set.members) if member.node is None]
        missing = max(0, pod_set.minimum - (len(pod_set.members) - len(waiting)))
        chosen += waiting[:missing]
        others += waiting[missing:]
    beyond = max(0, needed_members(problem) - len(instance.pinned) - len(chosen))
    return tuple(sorted((*chosen, *others[:beyond])))


def _places(instance: Instance, block: Block, *, everybody: bool) -> Iterator[BlockPlace]:
    """Yield domains that may hold a block of members (members that are placed together in one domain).

    The most promising domains come first. `everybody`: whether the block has all members of the gang.

    Without evictions, all levels from the node level out to the gang's required level are tried, the narrowest level
    first. With evictions, only the required level is tried. If the gang has no required level, the whole cluster takes
    the place of this level. Within a level, domains with the least cost of evictions come first, then domains with the
    least usable capacity.
    """
    deciding = deciding_level(instance.problem)
    narrowest = deciding if instance.evicting else instance.tree.depth - 1
    covers = Covers(instance)
    needs = covers.needs_of(block.counts)
    for level in range(narrowest, deciding - 1, -1):
        instance.deadline.check()
        able = (covers.capacities(level) >= needs).all(axis=1) if everybody else ~too_few(instance, level)
        pinned = {instance.tree.domain(level, node) for node in block.pinned}
        domains = [domain for domain in np.flatnonzero(able).tolist() if pinned <= {domain}]
        cost = _costs(instance, level)
        domains.sort(key=lambda domain: (cost(domain), instance.domain_potential(level, domain), domain))
        for domain in domains if level == deciding else domains[:_TRIES]:
            yield BlockPlace(level, domain)


def _costs(instance: Instance, level: int) -> Callable[[int], int]:
    """Return a function that maps a domain of `level` to a lower bound on the price of victims in it. The function
    returns 0 if no prices can be computed.
    """
    prices = prices_of(instance, level) if instance.evicting else None
    return (lambda _: 0) if prices is None else prices.least


def _plan(instance: Instance, pods: RunningPods, block: Block, place: BlockPlace, over: DeadlineCheck) -> Plan | None:
    """Return a plan with the block inside the domain `place`, and with as many other members as fit after it. None if
    the block does not fit.
    """
    seating = Seating(instance, pods, over)
    seated = seating.seat(block, place)
    if seated is None:
        return None
    order = instance.tree.order
    at = dict(seated.seats(order)) | {seat: instance.pinned_node(seat) for seat in instance.pinned}
    seating.standing.spare()
    _extras(instance, seating, at, place)
    nodes = tuple(
        tuple(at.get(Seat(position, rank)) for rank in range(len(pod_set.members)))
        for position, pod_set in enumerate(instance.problem.sets)
    )
    victims = tuple(sorted(seating.standing.gone))
    goals = goals_of(instance, nodes, victims)
    return Plan(nodes, victims, unproven(instance.problem, goals), Proof.FEASIBLE)


def _extras(instance: Instance, seating: Seating, at: dict[Seat, int], place: BlockPlace) -> None:
    """Add members beyond the minimum to `at` if they fit without further evictions. A set with slices gets whole slices
    only.

    `at`: the node of each placed member. Sets and gangs with multiples get no further members.
    """
    problem = instance.problem
    seating.standing.evicting = False
    for position, pod_set in enumerate(problem.sets):
        waiting = [seat for seat in instance.pending if seat.pod_set == position and seat not in at]
        if pod_set.multiples or problem.multiples or not waiting:
            continue
        for part in beyond(instance, waiting, frozenset(at)):
            seated = seating.as_many(part, _home(instance, position, at, place))
            at.update(seated)
            if not seated:
                break


def _home(instance: Instance, position: int, at: Mapping[Seat, int], place: BlockPlace) -> BlockPlace:
    """Return the narrowest domain that must contain further members of the set at `position`, because the set's placed
    members are in it.

    `at`: the node of each placed member. `place`: the domain of the gang.
    """
    pod_set, found = instance.problem.sets[position], place
    rules = [] if pod_set.required is None else [(pod_set.required, frozenset((position,)))]
    rules += [(rule.level, frozenset(rule.pod_sets)) for rule in instance.problem.together if position in rule.pod_sets]
    for level, pod_sets in rules:
        set_nodes = (node for seat, node in at.items() if seat.pod_set in pod_sets)
        node = next(set_nodes, None)
        if node is not None and level > found.level:
            found = BlockPlace(level, instance.tree.domain(level, node))
    return found


def unproven(problem: Problem, goals: tuple[Goal, ...]) -> tuple[Goal, ...]:
    """Return the goals, each with the weakest bound, which holds for any plan. So no goal counts as proven by its
    bound.
    """
    return tuple(replace(goal, bound=criterion(goal.name).any_bound(problem)) for goal in goals)
