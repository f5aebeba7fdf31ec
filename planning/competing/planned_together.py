"""Gangs of one priority that compete: planned together where that can be better than one after the other.

It cannot where no two of them may use the same node. Together means: no earlier gang loses its minimum to a later one,
all minimums come before any extra member, then the goals are summed (solver.multi_gang.joint). Where the sum is not
proven in time, the better of the two ways is taken and not called optimal.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cluster.snapshot import Snapshot
from gangs.model import Gang, GangKey
from planning.after_plan import after, after_all
from planning.competing.affinity_between import leaning, minding
from planning.competing.evicted import staying
from planning.competing.in_turn import InTurn
from planning.competing.remaining import Remaining, only_room_matters
from planning.competing.tier import Tier, share_as_plan
from planning.competing.united import plan_as_one
from planning.decision import Decision, Outcome
from planning.framing.gang_problem import Framing
from planning.messages.outcomes import decided
from planning.solver_pool.pool import shared_workers
from solver.multi_gang.joint_problem import JointAnswer, JointProblem, Share, can_join, size
from solver.objective import SolvePhase, until
from solver.plan import Goal, Plan, Proof
from solver.problem import Limits, Problem

SMALL = 240
"""The size of a joint problem (`solver.multi_gang.joint_problem.size`) up to which all its goals are weighed. In a
larger one gangs of alike members are weighed down to compactness, as long as all have room; else it only counts who has
a place at all, and only if one after the other somebody has none.
"""
LONGEST = Limits(deterministic=3.0, seconds=3.0)
"""What weighing gangs against each other may take at most."""
BOUNDING = Limits(deterministic=1.0, seconds=1.0)
"""What all gangs together may take to learn what each would have alone. Nobody is better placed for it; all wait."""
_WORTH_BEGINNING = 0.2
"""Seconds; with less left, a worker would only be killed over a gang."""

_SUMMED_LAST = until(SolvePhase.ROOM)[-1]
"""The last goal that says nothing about what other gangs leave."""

_Done = tuple[list[Decision], Snapshot]


def plan_tier(tier: Tier) -> tuple[list[Decision], Snapshot]:
    """Decisions for all gangs in their order, and the snapshot once they are carried out."""
    started = time.perf_counter()
    framings = _framings(tier)
    turns = _turns(tier)
    if not _may_compete(tier, framings):
        decisions, then = turns.planned(tier.gangs, weighed=True)
        if not (any(each.evictions for each in decisions) and turns.crowded_out(decisions)):
            return decisions, then
    if not _joinable(tier, framings):
        return _settled(tier, turns, *turns.planned(tier.gangs, weighed=False))
    names = list(framings)
    joint = JointProblem(
        tuple(framings[key].problem for key in names), tuple(tuple(framings[key].units) for key in names)
    )
    small = size(joint) <= SMALL
    found = _together(tier, joint, framings, started, all_members=not small)
    if found is not None and found.proven:
        return found.decisions, found.snapshot
    alone, then = turns.planned(tier.gangs, weighed=False)
    if found is None and not small and _crowded_out(tier, turns, alone):
        found = _together(tier, joint, framings, started)
    if found is not None and (_cost(found.decisions), 0) < (_cost(alone), found.levels):
        return (
            (found.decisions, found.snapshot)
            if found.levels
            else _settled(tier, turns, found.decisions, found.snapshot)
        )
    return _settled(tier, turns, _with_bounds(tier, framings, alone), then)


def _turns(tier: Tier) -> InTurn[Snapshot]:
    """The gangs one after the other."""

    def step(gang: Gang, snapshot: Snapshot, weighed: bool) -> tuple[Decision, Snapshot]:  # noqa: FBT001 -- as `plan`
        decision = tier.plan(gang, snapshot, weighed)
        return decision, after(decision, snapshot)

    return InTurn(tier.snapshot, step, tier.snapshot.namespaces, lambda gangs, end: plan_as_one(tier, gangs, end))


def _settled(
    tier: Tier, turns: InTurn[Snapshot], decisions: list[Decision], snapshot: Snapshot
) -> tuple[list[Decision], Snapshot]:
    """With another order where one finds no place after others, and no no that only holds in this one."""
    crowded = turns.crowded_out(decisions)
    return turns.settled(decisions, snapshot, crowded, min(tier.limits.seconds, LONGEST.seconds))


def _with_bounds(tier: Tier, framings: Mapping[GangKey, Framing], decisions: list[Decision]) -> list[Decision]:
    """The decisions of gangs planned one after the other, with what is proven for their sum all the same.

    Where everybody is placed whole and nobody is evicted, the first two goals cannot be better. From compactness down
    to the preferences, goals are sums over the gangs; where each gang is as well off as alone, so is the sum. At the
    first goal where one is not, what it would have alone is a bound, and nothing is known of the goals after it.
    Without a bound stays all that is not known in time (`BOUNDING`).
    """
    framed = [decision for decision in decisions if decision.key in framings]
    if not all(_all_placed(decision) for decision in framed):
        return decisions
    best = _alone(framings, _at_most(tier.limits, BOUNDING))
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


def _alone(framings: Mapping[GangKey, Framing], limits: Limits) -> dict[GangKey, Plan] | None:
    """The best plan of each gang if there were no other; None where not all are proven within `limits.seconds`."""
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


def _all_placed(decision: Decision) -> bool:
    """Whether every member has its place without an eviction."""
    members = len(decision.gang.members) if decision.gang is not None else 0
    return decision.outcome is Outcome.PLACED and not decision.evictions and len(decision.assignments) == members


def _as_good(goals: Sequence[Goal], best: Sequence[Goal]) -> int:
    """How many of the goals down to the preferences, from the first on, are as good as they can be alone."""
    place = 0
    while goals[place].name != _SUMMED_LAST and (goals[place].value, goals[place].parts) == (
        best[place].value,
        best[place].parts,
    ):
        place += 1
    return place + (goals[place].name == _SUMMED_LAST and goals[place].value == best[place].value)


def _bounded(goals: Sequence[Goal], best: Sequence[Goal], same: int) -> tuple[Goal, ...]:
    """The goals with bounds: proven as far as they are the same, and what is possible in the next one."""
    known = [replace(goal, bound=goal.value) for goal in goals[:same]]
    if goals[same - 1].name == _SUMMED_LAST:
        return (*known, *goals[same:])
    return (*known, replace(goals[same], bound=best[same].value), *goals[same + 1 :])


def _at_most(limits: Limits, most: Limits) -> Limits:
    return Limits(min(limits.deterministic, most.deterministic), min(limits.seconds, most.seconds))


@dataclass(frozen=True, slots=True)
class _Found:
    """A joint plan carried over into decisions. `proven`: in all goals that were weighed; `levels`: how many levels
    are, where only compactness was.
    """

    decisions: list[Decision]
    snapshot: Snapshot
    proven: bool
    levels: int


def _framings(tier: Tier) -> dict[GangKey, Framing]:
    """The gangs that can be placed at all, stated on the same snapshot; none where one is by itself."""
    if len(tier.gangs) == 1:
        return {}
    framed = ((gang.key, tier.frame(gang, tier.snapshot)) for gang in tier.gangs)
    return {key: framing for key, framing in framed if isinstance(framing, Framing)}


def _may_compete(tier: Tier, framings: Mapping[GangKey, Framing]) -> bool:
    """Whether one may be in another's way, by room or by what their members say of each other."""
    gangs = (gang for gang in tier.gangs if gang.key in framings)
    return _compete([each.problem for each in framings.values()]) or minding(gangs, tier.snapshot.namespaces)


def _joinable(tier: Tier, framings: Mapping[GangKey, Framing]) -> bool:
    """Whether they can be weighed against each other: none of them can only be planned alone, or leans on another."""
    if len({framing.topology for framing in framings.values()}) != 1:
        return False
    if not all(can_join(each.problem) and each.exact and not each.among_members for each in framings.values()):
        return False
    return not leaning((gang for gang in tier.gangs if gang.key in framings), tier.snapshot.namespaces)


def _compete(problems: Sequence[Problem]) -> bool:
    """Whether two of them may use the same node."""
    used: set[str] = set()
    for problem in problems:
        usable = {
            problem.nodes[node].name
            for pod_set in problem.sets
            for shape in {member.shape for member in pod_set.members if member.node is None}
            for node in problem.shapes[shape].nodes
        }
        if used & usable:
            return True
        used |= usable
    return False


def _together(
    tier: Tier, joint: JointProblem, framings: Mapping[GangKey, Framing], started: float, *, all_members: bool = False
) -> _Found | None:
    """The joint plan as decisions; None where there is none or it does not hold, gang by gang, in the snapshot.
    `all_members`: only one for all members of all gangs, as compact as can be (`solver.multi_gang.all_placed`).
    """
    framed = time.perf_counter()
    answer = shared_workers().solve_joint(joint, _at_most(tier.limits, LONGEST), all_members=all_members)
    if answer is None:
        return None
    seconds = {"snapshot": framed - started, "solve": time.perf_counter() - framed}
    return _carried_over(_Joint(tier, framings, answer, seconds))


@dataclass(frozen=True, slots=True)
class _Joint:
    """The answer for the gangs of a tier together, how each was stated, and the seconds that it took by step."""

    tier: Tier
    framings: Mapping[GangKey, Framing]
    answer: JointAnswer
    seconds: Mapping[str, float]

    @property
    def shares(self) -> Mapping[GangKey, Share | None]:
        """What each gang that was stated gets."""
        return dict(zip(self.framings, self.answer.shares, strict=True))


def _carried_over(joint: _Joint) -> _Found | None:
    tier, framings, answer, shares = joint.tier, joint.framings, joint.answer, joint.shares
    placed = [gang for gang in tier.gangs if shares.get(gang.key) is not None]
    quick = only_room_matters(placed, [*framings.values()], answer.shares)
    found = _on_what_is_left(joint, placed) if quick else None
    found = found or _stated_anew(joint, placed)
    if found is None:
        return None
    decisions, snapshot = {decision.key: decision for decision in found[0]}, found[1]
    for gang in tier.gangs:
        if gang.key not in decisions:
            decisions[gang.key] = tier.plan(gang, snapshot, False)  # noqa: FBT003 -- as `weighed`
            snapshot = after(decisions[gang.key], snapshot)
    depth = len(next(iter(framings.values())).problem.levels)
    proven = answer.proof is Proof.OPTIMAL or answer.levels == depth
    return _Found([decisions[gang.key] for gang in tier.gangs], snapshot, proven, answer.levels)


def _on_what_is_left(joint: _Joint, gangs: Sequence[Gang]) -> _Done | None:
    """Every gang's share, verified on what the gangs before it leave; all that they take is room."""
    tier, shares, left, decisions = joint.tier, joint.shares, Remaining(), []
    for gang in gangs:
        share, framing = shares[gang.key], left.framing(joint.framings[gang.key])
        plan = None if share is None or framing is None else share_as_plan(framing.problem, share, joint.answer)
        if share is None or framing is None or plan is None:
            return None
        decisions.append(decided(gang, framing, plan, tier.running, joint.seconds))
        left.take(framing, share)
    return decisions, after_all(decisions, tier.snapshot)


def _stated_anew(joint: _Joint, gangs: Sequence[Gang]) -> _Done | None:
    """Every gang's share, stated anew and verified on what the gangs before it leave."""
    tier, shares, decisions = joint.tier, joint.shares, []
    snapshot = tier.snapshot
    for gang in gangs:
        if staying(gang, snapshot) is not gang:
            return None  # it was stated with members that one before it evicts
        share, framing = shares[gang.key], tier.frame(gang, snapshot)
        if share is None or isinstance(framing, Decision):
            return None
        plan = share_as_plan(framing.problem, _named_anew(share, joint.framings[gang.key], framing), joint.answer)
        if plan is None:
            return None
        decisions.append(decided(gang, framing, plan, tier.running, joint.seconds))
        snapshot = after(decisions[-1], snapshot)
    return decisions, snapshot


def _named_anew(share: Share, stated: Framing, framing: Framing) -> Share:
    """The share in the positions of another framing of the gang."""
    places = {name: position for position, name in enumerate(framing.nodes)}
    rows = tuple(tuple(None if node is None else places[stated.nodes[node]] for node in row) for row in share.nodes)
    gone = {stated.victims[victim].pod.key for victim in share.victims}
    return Share(rows, tuple(position for position, each in enumerate(framing.victims) if each.pod.key in gone))


def _crowded_out(tier: Tier, turns: InTurn[Snapshot], decisions: Sequence[Decision]) -> bool:
    """Whether somebody has no place, or not for all, who would have one alone."""
    others = False
    for gang, decision in zip(tier.gangs, decisions, strict=True):
        if decision.outcome is Outcome.PLACED and len(decision.assignments) < len(gang.members):
            return True
        if others and decision.outcome is Outcome.UNPLACEABLE and turns.alone(gang).outcome is Outcome.PLACED:
            return True
        others = others or bool(decision.evictions) or any(not each.held for each in decision.assignments)
    return False


def _cost(decisions: Sequence[Decision]) -> tuple[object, ...]:
    """The goals down to compactness, smaller being better: who has no place, victims, extras, domains by level."""
    placed = [each for each in decisions if each.outcome is Outcome.PLACED]
    evicted = sorted((victim.priority for each in placed for victim in each.evictions), reverse=True)
    domains = [sum(len(use.domains) for use in uses) for uses in zip(*(each.levels for each in placed), strict=True)]
    return (
        [each.outcome is not Outcome.PLACED for each in decisions],
        evicted,
        -sum(len(each.assignments) for each in placed),
        domains,
    )
