"""Quick plans without any proof, with evictions and without: at hand early, and what is left when the solver has
failed. The verifier decides whether they are fine.

Members are seated block by block where that costs the least (`solver.heuristics.block_by_block`), without ever going
back. Rules that go badly together (several multiples, spread with evictions) may be broken.
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
"""In so many domains of each level narrower than the one that is required it is tried to be more compact than asked."""


def greedy_plans(
    problem: Problem, over: DeadlineCheck = no_deadline_check, deadline: Deadline = NO_DEADLINE
) -> Iterator[Plan]:
    """Plans for everybody or for the minimum, as long as the time is not `over`: without evictions and, where there are
    none such, with them. Raises `OutOfTimeError` where the deadline comes before a plan.
    """
    found = False
    for plan in plans_of(instance_of(problem, evicting=False, deadline=deadline), over):
        found = True
        yield plan
    if problem.victims and not found:
        deadline.look()
        yield from plans_of(instance_of(problem, evicting=True, deadline=deadline), over)


def plans_of(instance: Instance, over: DeadlineCheck = no_deadline_check) -> Iterator[Plan]:
    """Plans of an instance, each domain of the required level by itself, those first that seem to be the best."""
    pods = RunningPods(instance)
    for seats in instance.deadline.through(_asked_for(instance), often=1):
        block = blocks_of(instance, (*instance.pinned, *seats))
        none = True
        for place in instance.deadline.through(
            _places(instance, block, everybody=len(seats) == len(instance.pending)), often=1
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
    """Whom to seat: without evictions everybody if that can be, else the minimum; nobody goes for more than that."""
    least = _minimum(instance)
    if not instance.evicting or len(least) == len(instance.pending):
        yield instance.pending
    if len(least) < len(instance.pending):
        yield least


def _minimum(instance: Instance) -> tuple[Seat, ...]:
    """Of every set the lowest ranks that it needs, then those that the gang needs beyond them."""
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
    """Domains that may hold a block: the narrowest first where nobody has to go, else those of the deciding level; in
    each level those where the least would be left.
    """
    deciding = deciding_level(instance.problem)
    narrowest = deciding if instance.evicting else instance.tree.depth - 1
    covers = Covers(instance)
    needs = covers.needs_of(block.counts)
    for level in range(narrowest, deciding - 1, -1):
        instance.deadline.look()
        able = (covers.offers(level) >= needs).all(axis=1) if everybody else ~too_few(instance, level)
        pinned = {instance.tree.domain(level, node) for node in block.pinned}
        domains = [domain for domain in np.flatnonzero(able).tolist() if pinned <= {domain}]
        cost = _costs(instance, level)
        domains.sort(key=lambda domain: (cost(domain), instance.domain_potential(level, domain), domain))
        for domain in domains if level == deciding else domains[:_TRIES]:
            yield BlockPlace(level, domain)


def _costs(instance: Instance, level: int) -> Callable[[int], int]:
    """What evictions cost at least in each domain of a level, where that is known."""
    prices = prices_of(instance, level) if instance.evicting else None
    return (lambda _: 0) if prices is None else prices.least


def _plan(instance: Instance, pods: RunningPods, block: Block, place: BlockPlace, over: DeadlineCheck) -> Plan | None:
    """The block inside a domain, with as many others as have room then."""
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
    """Add members beyond the minimum that find room without further evictions; in whole slices where there are such."""
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
    """The narrowest domain in which the members of a set must be."""
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
    """The goals with bounds that hold for any plan."""
    return tuple(replace(goal, bound=criterion(goal.name).any_bound(problem)) for goal in goals)
