"""Gangs of one priority that compete: accepted in their order, and planned together.

Gangs compete if they may use the same node or quota, or if their pods have affinity or spread rules about each other.
One joint model accepts gangs in order, gives all minimums before any extra member, and sums the goals
(solver.multi_gang.joint). If the joint model is too large, or not solved in time, gangs are planned one after the
other, and no plan is called optimal.
"""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product

from gangs.model import GangKey
from planning.competing.affinity_between import any_pod_rules_between
from planning.competing.carrying_over import Joint, JointDecisions, carried_over
from planning.competing.one_by_one import OneByOne, takes_new_nodes
from planning.competing.same_priority import GangPart, SamePriority, Taken, Variant
from planning.decision import Decision, Outcome
from planning.devices.allotment import AllotmentError
from planning.devices.demands import NotPlannedError
from planning.framing.gang_problem import Framing
from planning.messages.outcomes import devices_of_members
from planning.quota.joint_quotas import any_shared_quota, quotas_may_limit, quotas_of
from planning.quota.strict_order import strict_queue
from planning.solver_pool.pool import shared_workers
from solver.multi_gang.joint_problem import ManyGangs, size
from solver.objective import SolvePhase, ordered, until
from solver.plan import Goal, Plan, Proof
from solver.problem import Limits, Problem

log = logging.getLogger(__name__)

SMALL = 240
"""Largest summed size of gangs (`solver.multi_gang.joint_problem.size`) for which all goals are optimised jointly.
Above it, gangs of equal members are optimised down to compactness, if all members fit. Other gangs are planned together
only if one of them is displaced by the others.
"""
LONGEST = Limits(deterministic=3.0, seconds=3.0)
"""Upper limits of solving the joint problem of the gangs of one priority."""
BOUNDING = Limits(deterministic=1.0, seconds=1.0)
"""Limits, for all gangs of one priority together, of planning each gang alone to get bounds. The limits are low because
bounds improve no plan, and all gangs wait for them.
"""
_COMPARED = 100
"""Gangs up to which a joint plan that is not proven is compared with planning one after the other.

That takes a solve for each gang, at least 10 ms, so more gangs would take seconds and rarely get a better plan.
"""
_MOST_TOGETHER = 100_000
"""The summed size of gangs above which no joint model is built: CP-SAT does not load it within `LONGEST`."""
_MOST_CHOICES = 8
"""The most combinations of the gangs' flavors that are tried. Each one takes a joint solve; most queues have one
flavor.
"""
_WORTH_BEGINNING = 0.2
"""The least time in seconds for which a solve is started. With less time, the solver process would be killed before it
has a result.
"""

_SUMMED_LAST = until(SolvePhase.START)[-1]
"""The last goal that does not depend on the capacity that other gangs leave: the node preferences."""


def plan_same_priority(same_priority: SamePriority) -> tuple[list[Decision], Taken]:
    """Return the decisions for all gangs of one priority, in their order, and the capacity and quota taken after all
    plans.
    """
    started = time.perf_counter()
    variants = _variants(same_priority)
    one_by_one = OneByOne(same_priority)
    if not _may_compete(same_priority, variants):
        decisions, taken = one_by_one.planned(uncontested=True)
        if not (any(each.evictions for each in decisions) and one_by_one.displaced(decisions)):
            return decisions, taken
    ways = _Ways(same_priority, variants, started)
    effort = sum(size(each[0].framing.problem) for each in variants.values())
    small = effort <= SMALL
    found = _together(ways, one_by_one) if small else _all_placed(ways, one_by_one)
    if found is not None and (found.proven or len(same_priority.gangs) > _COMPARED):
        return found.decisions, found.taken
    decisions, taken = one_by_one.planned(uncontested=False)
    if found is None and SMALL < effort <= _MOST_TOGETHER and _displaced(same_priority, one_by_one, decisions):
        found = _together(ways, one_by_one)
    if found is not None and (_cost(found.decisions), 0) < (_cost(decisions), found.levels):
        return found.decisions, found.taken
    return one_by_one.not_proven(_with_bounds(same_priority, variants, decisions)), taken


def _variants(same_priority: SamePriority) -> dict[GangKey, list[Variant]]:
    """Return the gangs that can be planned, each with a problem for each of its choices of flavors.

    Empty if fewer than two gangs can be planned, because nothing competes then.
    """
    found: dict[GangKey, list[Variant]] = {}
    snapshot, closed = same_priority.start.snapshot, set(same_priority.start.closed)
    for gang in same_priority.gangs if len(same_priority.gangs) > 1 else ():
        queue = strict_queue(gang)
        if queue in closed:
            continue
        stated = (
            (choice, each, same_priority.frame(each, snapshot))
            for choice, each in same_priority.choices(gang, snapshot)
        )
        if own := [
            Variant(gang, choice, each, framing) for choice, each, framing in stated if isinstance(framing, Framing)
        ]:
            found[gang.key] = own
        elif queue and same_priority.stands_in_line(gang, snapshot):
            closed.add(queue)
    return found if len(found) > 1 else {}


def _may_compete(same_priority: SamePriority, variants: Mapping[GangKey, Sequence[Variant]]) -> bool:
    """Whether two gangs may compete: for a node, for a quota, or through rules between their pods.

    `variants`: each gang in all its choices of flavors.
    """
    first = [each[0] for each in variants.values()]
    if _share_nodes(variants.values()) or any_pod_rules_between(
        [each.gang for each in first], same_priority.start.snapshot.namespaces
    ):
        return True
    if not any_shared_quota([each.gang for each in first]):
        return False
    used = same_priority.start.usage.without(*variants)
    return any(quotas_may_limit([(each.gang, each.choice) for each in way], used) for way in _ways_of(variants))


def _share_nodes(variants: Iterable[Sequence[Variant]]) -> bool:
    """Whether two of the gangs may use the same node. `variants`: each gang in all its choices of flavors."""
    used: set[str] = set()
    for own in variants:
        usable = {name for each in own for name in _usable(each.framing.problem)}
        if used & usable:
            return True
        used |= usable
    return False


def _usable(problem: Problem) -> Iterable[str]:
    """Return the names of the nodes that members without a node may use."""
    shapes = {m.shape for pod_set in problem.sets for m in pod_set.members if m.node is None}
    return (problem.nodes.layout.names[node] for shape in shapes for node in problem.shapes[shape].nodes)


def _ways_of(variants: Mapping[GangKey, Sequence[Variant]]) -> list[tuple[Variant, ...]]:
    """Return the combinations of one variant for each gang, the preferred combination first.

    `variants`: each gang in all its choices of flavors. Of more than `_MOST_CHOICES` combinations, one more than
    `_MOST_CHOICES` are returned, so that the caller sees that some are missing.
    """
    return list(islice(product(*variants.values()), _MOST_CHOICES + 1))


@dataclass(frozen=True, slots=True)
class _Ways:
    """The gangs of one priority that are planned together. `variants`: each gang in all its choices of flavors.
    `started`: when the planning of these gangs began (`time.perf_counter`).
    """

    same_priority: SamePriority
    variants: Mapping[GangKey, Sequence[Variant]]
    started: float


def _together(ways: _Ways, one_by_one: OneByOne) -> JointDecisions | None:
    """Return the decisions of the best joint plan; None if none is found in time, or one model cannot hold all gangs.

    Several combinations of flavors are tried. The best one accepts the most gangs, the earlier gangs first.
    """
    every = _ways_of(ways.variants)
    end = time.monotonic() + min(ways.same_priority.limits.seconds, LONGEST.seconds)
    best: Joint | None = None
    complete = True
    for number, way in enumerate(every):
        if number == _MOST_CHOICES or (number and end - time.monotonic() < _WORTH_BEGINNING):
            complete = False
            break
        joint = _joint(ways, way, end - time.monotonic())
        complete = complete and joint is not None and joint.all_decided
        if joint is not None and (best is None or joint.accepted > best.accepted):
            best = joint
            if all(best.accepted):
                break
    if best is None:
        return None
    return carried_over(replace(best, complete=complete), one_by_one)


def _joint(ways: _Ways, way: Sequence[Variant], seconds: float) -> Joint | None:
    """Solve one joint problem of all gangs, each in the flavors of its variant in `way`. Return the joint answer.

    None if the solver finds no answer in time, the gangs use different topologies, amounts must be rounded, or the
    gangs ask for too many device kinds.
    """
    same_priority = ways.same_priority
    if len({variant.framing.topology for variant in way}) != 1:
        return None
    try:
        framing = same_priority.frame_together(
            [each.in_flavors for each in way], same_priority.start.snapshot, way[0].framing
        )
    except NotPlannedError:  # more device kinds than one problem may have
        return None
    if not framing.exact:
        return None
    used = same_priority.start.usage.without(*ways.variants)
    lines = [
        strict_queue(each.gang) if same_priority.stands_in_line(each.gang, same_priority.start.snapshot) else ""
        for each in way
    ]
    problem = replace(
        framing.problem,
        gangs=tuple(replace(gang, line=line) for gang, line in zip(framing.problem.gangs, lines, strict=True)),
        quotas=quotas_of([(each.gang, each.choice) for each in way], framing, used),
    )
    framed = time.perf_counter()
    answer = shared_workers().solve_joint(problem, _at_most(same_priority.limits, replace(LONGEST, seconds=seconds)))
    if answer is None:
        return None
    shares = [*zip(way, problem.gangs, answer.shares, strict=True)]
    placed = [(gang.pod_sets, share.nodes) for _, gang, share in shares if share is not None]
    victims = {victim for share in answer.shares if share is not None for victim in share.victims}
    try:
        devices = devices_of_members(framing, placed, victims)
    except AllotmentError:
        log.exception("the devices of a joint plan do not suffice, so the plan is dropped")
        return None
    return Joint(
        same_priority=same_priority,
        variants={each.gang.key: each for each in way},
        answer=answer,
        parts={
            each.gang.key: GangPart.of(share, framing, gang.pod_sets, devices)
            for each, gang, share in shares
            if share is not None
        },
        without=frozenset(way[place].gang.key for place in answer.without),
        complete=True,
        seconds={"snapshot": framed - ways.started, "solve": time.perf_counter() - framed},
    )


def _all_placed(ways: _Ways, one_by_one: OneByOne) -> JointDecisions | None:
    """Return the decisions of a plan for all members of all gangs, as compact as possible
    (`solver.multi_gang.all_placed`).

    None if no such plan is found, or if the gangs compete for quotas, or have pod affinity or resource claims.
    """
    same_priority, way = ways.same_priority, [each[0] for each in ways.variants.values()]
    gangs = [each.gang for each in way]
    one_way = all(len(each) == 1 for each in ways.variants.values())
    if not one_way or len({each.framing.topology for each in way}) != 1 or not all(each.framing.exact for each in way):
        return None
    if any(each.framing.among_members or each.framing.devices.names for each in way) or any_pod_rules_between(
        gangs, same_priority.start.snapshot.namespaces
    ):
        return None
    if quotas_may_limit([(each.gang, each.choice) for each in way], same_priority.start.usage.without(*ways.variants)):
        return None
    many = ManyGangs(tuple(each.framing.problem for each in way), tuple(each.framing.units for each in way))
    framed = time.perf_counter()
    answer = shared_workers().place_many(many, _at_most(same_priority.limits, LONGEST))
    if answer is None:
        return None
    joint = Joint(
        same_priority=same_priority,
        variants={each.gang.key: each for each in way},
        answer=answer,
        parts={
            each.gang.key: GangPart.of(share, each.framing, range(len(each.framing.members)))
            for each, share in zip(way, answer.shares, strict=True)
            if share is not None
        },
        without=frozenset(way[place].gang.key for place in answer.without),
        complete=True,
        seconds={"snapshot": framed - ways.started, "solve": time.perf_counter() - framed},
    )
    return carried_over(joint, one_by_one)


def _with_bounds(
    same_priority: SamePriority, variants: Mapping[GangKey, Sequence[Variant]], decisions: list[Decision]
) -> list[Decision]:
    """Return the decisions of gangs planned one after the other, with bounds for goals that are sums over the gangs.

    If every gang is placed completely and no pod is evicted, the first two goals are optimal. From compactness down to
    the preferences, a goal of the joint problem is a sum over the gangs. If each gang is as good as when planned alone,
    the sum is optimal. At the first goal where a gang is worse, its value when planned alone is a bound. Later goals
    get no bound, and neither do goals whose bound is not known in time (`BOUNDING`).
    """
    framed = [decision for decision in decisions if decision.key in variants]
    if not all(_is_whole(decision) and _has_first_flavors(decision, variants) for decision in framed):
        return decisions
    framings = {key: each[0].framing for key, each in variants.items()}
    best = _alone(framings, _at_most(same_priority.limits, BOUNDING))
    if best is None:
        return decisions
    same = min(
        (_as_good(decision.goals, best[decision.key].goals) for decision in framed),
        default=0,
    )
    return [
        replace(decision, goals=_bounded(decision.goals, best[decision.key].goals, same))
        if decision.key in best
        else decision
        for decision in decisions
    ]


def _has_first_flavors(decision: Decision, variants: Mapping[GangKey, Sequence[Variant]]) -> bool:
    """Whether the decision is for the flavors that the gang's queue tries first, that is, its first variant."""
    return set(decision.flavors) == set(variants[decision.key][0].choice.values())


def _alone(framings: Mapping[GangKey, Framing], limits: Limits) -> dict[GangKey, Plan] | None:
    """Return the optimal plan of each gang when it is planned alone; None if some gang has none that is proven within
    `limits.seconds`.
    """
    end = time.monotonic() + limits.seconds
    best: dict[GangKey, Plan] = {}
    for key, framing in framings.items():
        left = end - time.monotonic()
        if left < _WORTH_BEGINNING:
            return None
        answer = shared_workers().solve(framing.problem, replace(limits, seconds=left))
        if not isinstance(answer, Plan) or answer.proof is not Proof.OPTIMAL:
            return None
        best[key] = answer
    return best


def _is_whole(decision: Decision) -> bool:
    """Whether every member of the gang has a node, and the plan evicts no pod."""
    members = len(decision.gang.members) if decision.gang is not None else 0
    return decision.outcome is Outcome.PLACED and not decision.evictions and len(decision.assignments) == members


def _as_good(goals: Sequence[Goal], best: Sequence[Goal]) -> int:
    """Return how many goals, counted from the first, have the same value in `goals` and in `best`. Goals after the
    preferences do not count.

    `best`: the goals of the gang's plan when it is planned alone.
    """
    place = 0
    while goals[place].name != _SUMMED_LAST and (goals[place].value, goals[place].parts) == (
        best[place].value,
        best[place].parts,
    ):
        place += 1
    return place + (goals[place].name == _SUMMED_LAST and goals[place].value == best[place].value)


def _bounded(goals: Sequence[Goal], best: Sequence[Goal], same: int) -> tuple[Goal, ...]:
    """Return the goals of a gang's plan with bounds: the first `same` goals are proven, and the next goal gets its
    value in `best` as bound.

    `best`: the goals of the gang's optimal plan when it is planned alone.
    """
    known = [replace(goal, bound=goal.value) for goal in goals[:same]]
    if goals[same - 1].name == _SUMMED_LAST:
        return (*known, *goals[same:])
    return (*known, replace(goals[same], bound=best[same].value), *goals[same + 1 :])


def _at_most(limits: Limits, most: Limits) -> Limits:
    return Limits(min(limits.deterministic, most.deterministic), min(limits.seconds, most.seconds))


def _displaced(same_priority: SamePriority, one_by_one: OneByOne, decisions: Sequence[Decision]) -> bool:
    """Whether a gang has no plan in `decisions` but would have one alone, or a gang is placed without some of its
    members.
    """
    others = False
    for gang, decision in zip(same_priority.gangs, decisions, strict=True):
        if decision.outcome is Outcome.PLACED and len(decision.assignments) < len(gang.members):
            return True
        if others and decision.outcome is not Outcome.PLACED and one_by_one.alone(gang).outcome is Outcome.PLACED:
            return True
        others = others or bool(decision.evictions) or takes_new_nodes(decision)
    return False


def _cost(decisions: Sequence[Decision]) -> tuple[object, ...]:
    """Return the cost of all decisions of one priority as a tuple; the smaller of two tuples is the better result.

    First, for each gang in order, whether it is unplaced. Then the goals down to compactness, over all gangs: the
    victims' priorities, the placed members, and the domains of each level.
    """
    placed = [decision for decision in decisions if decision.outcome is Outcome.PLACED]
    levels = zip(*(decision.levels for decision in placed), strict=True)
    goals: dict[str, object] = {
        "victims": sorted((victim.priority for decision in placed for victim in decision.evictions), reverse=True),
        "extras": -sum(len(decision.assignments) for decision in placed),
        "compactness": [sum(len(use.domains) for use in uses) for uses in levels],
    }
    return [decision.outcome is not Outcome.PLACED for decision in decisions], *ordered(goals)
