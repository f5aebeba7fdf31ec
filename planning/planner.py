"""Decides for one gang or for all that wait, on one snapshot. Pure: nothing is changed anywhere.

Several gangs are planned in their order (`planning.gang_order`); each plan's room is taken for those that follow. Gangs
of one priority that compete are weighed against each other (`planning.competing.planned_together`).
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from cluster.snapshot import Snapshot
from gangs.dialects.topologies import topology_of
from gangs.model import Fault, Gang
from kube.text import one_line
from kube.topology import Topology
from planning.after_plan import after
from planning.competing.evicted import staying, with_evicted
from planning.competing.planned_together import plan_tier
from planning.competing.tier import Taken, Tier
from planning.decision import Decision, Explanation, Outcome
from planning.framing.gang_problem import Framing, UnknownLevelError, frame, frame_together
from planning.framing.priorities import missing_class, with_priorities
from planning.gang_order import in_order
from planning.messages import wording
from planning.messages.devices import unplanned
from planning.messages.never_fits import with_never_fits
from planning.messages.outcomes import decided
from planning.messages.takers import with_takers
from planning.messages.unlabelled import labels_that_help
from planning.planning_options import DEFAULT_OPTIONS, PlanningOptions
from planning.quota.flavors import Choice
from planning.quota.queueing import charged, decide_in_queue, open_choices, takes_namespace
from planning.quota.strict_order import behind_others, strict_queue, waits_behind
from planning.scheduler_rules.holdups import holdups
from planning.scheduler_rules.member_affinity import UNFULFILLED, answer_with_companions, stands
from planning.scheduler_rules.resource_claims import unplanned_devices
from planning.scheduler_rules.resource_quotas import quotas_in_the_way
from planning.solver_pool.known_answers import KnownAnswers
from planning.solver_pool.pool import shared_workers
from solver.heuristics.greedy import unproven
from solver.plan import Answer, NoPlan, Plan, Proof
from solver.problem import Limits, Problem

COMPARING = Limits(deterministic=0.5, seconds=1.0)
"""What looking next door may take."""


def plan_gang(
    gang: Gang,
    snapshot: Snapshot,
    topologies: Sequence[Topology],
    options: PlanningOptions = DEFAULT_OPTIONS,
    *,
    weighed: bool = True,
    known: KnownAnswers | None = None,
) -> Decision:
    """The decision for one gang: where its members go and who makes room, or why not and what would help.

    `topologies`: all there are; the gang's own is chosen from them. `weighed` False: other gangs compete, and a plan
    that is the best for this one need not be the best for all; it claims no more than holds however they are placed.
    `known`: answers to problems of other gangs.
    Never raises for what a gang asks.
    """
    if options.deadline.over:
        return _too_late(gang)
    full_gang = with_priorities(gang, snapshot)
    gang = staying(full_gang, snapshot)

    def placed(charged_to_nobody: Gang) -> Decision:
        return _plan(charged_to_nobody, snapshot, topologies, options, weighed=weighed, known=known)

    if gang.account is None:
        decision = with_never_fits(placed(gang), gang, snapshot, topologies)
    elif (held := _waiting(gang, snapshot, None)) is not None:
        decision = held
    else:
        decision = decide_in_queue(gang, options.usage, snapshot, placed)
    return with_evicted(decision, full_gang, snapshot)


def _plan(
    gang: Gang,
    snapshot: Snapshot,
    topologies: Sequence[Topology],
    options: PlanningOptions,
    *,
    weighed: bool,
    known: KnownAnswers | None,
) -> Decision:
    limits, running = options.limits_now(), options.running_gangs
    started = time.perf_counter()
    framing = _framed(gang, snapshot, topologies, options)
    if isinstance(framing, Decision):
        return framing
    framed = time.perf_counter()
    answer = _answer(gang, snapshot, framing, limits, known)
    if isinstance(answer, NoPlan) and framing.outside and answer is not UNFULFILLED:

        def on(changed: Snapshot) -> tuple[Framing, Answer]:
            stated = frame(gang, changed, framing.topology, running=running, preemption=options.preemption)
            return stated, _answer(gang, changed, stated, COMPARING)

        helping = labels_that_help(gang, snapshot, framing, answer, on)
        answer = replace(answer, would_fit_if=(*helping, *answer.would_fit_if))
    if not framing.exact and isinstance(answer, NoPlan):
        answer = replace(answer, proof=Proof.UNPROVEN)
    in_turn = isinstance(answer, Plan) and answer.proof is Proof.OPTIMAL and framing.exact and not weighed
    if isinstance(answer, Plan) and not (weighed and framing.exact):
        answer = replace(answer, goals=unproven(framing.problem, answer.goals), proof=Proof.FEASIBLE)
    seconds = {"snapshot": framed - started, "solve": time.perf_counter() - framed}
    decision = decided(gang, framing, answer, running, seconds, in_turn=in_turn)
    if not options.comparing or not weighed or not isinstance(answer, Plan) or answer.proof is not Proof.OPTIMAL:
        return decision
    return _compared(decision, framing.problem, answer)


def _compared(decision: Decision, problem: Problem, plan: Plan) -> Decision:
    """The decision with what is next door, as far as that is known in time."""
    beside = shared_workers().next_door(problem, plan, COMPARING)
    return decision if beside is None else replace(decision, explanation=Explanation(why_here=wording.why_here(beside)))


def _framed(
    gang: Gang, snapshot: Snapshot, topologies: Sequence[Topology], options: PlanningOptions
) -> Framing | Decision:
    """The problem, or the decision where there is nothing to place."""
    topology = topology_of(gang, topologies)
    if isinstance(topology, Fault):
        return _invalid(gang, topology)
    if (held := _waiting(gang, snapshot, topology)) is not None:
        return held
    try:
        return frame(gang, snapshot, topology, running=options.running_gangs, preemption=options.preemption)
    except UnknownLevelError as error:
        return _waiting_for(gang, [f'a topology with the level "{error.name}"'])


def plan_all(
    gangs: Iterable[Gang],
    snapshot: Snapshot,
    topologies: Sequence[Topology],
    options: PlanningOptions = DEFAULT_OPTIONS,
) -> list[Decision]:
    """Decisions for all `gangs`, in the order of their planning; each plan counts for those that follow.

    Gangs of one priority that compete are planned together. A gang whose turn comes after the deadline is not planned,
    and its decision says so.
    """
    return [decision for tier in plan_in_turn(gangs, snapshot, topologies, options) for decision in tier]


def plan_in_turn(
    gangs: Iterable[Gang],
    snapshot: Snapshot,
    topologies: Sequence[Topology],
    options: PlanningOptions = DEFAULT_OPTIONS,
    *,
    standing: Iterable[Decision] = (),
) -> Iterator[Sequence[Decision]]:
    """The same priority by priority, the decisions for one as soon as they are known.

    `standing`: plans that were found before and that the snapshot does not show: they count for all gangs of the same
    or of a lower priority.
    """
    each_gang, taken = _EachGang(topologies, options), Taken(snapshot, options.usage, {})
    before = sorted(standing, key=_priority_of)
    ordered = in_order(with_priorities(each, snapshot) for each in gangs)
    for priority, same_priority in groupby(ordered, key=lambda each: each.priority):
        while before and _priority_of(before[-1]) >= priority:
            taken = _carried_out(before.pop(), taken)
        full_gangs = tuple(same_priority)
        start = taken
        found, taken = plan_tier(each_gang.tier(tuple(staying(each, start.snapshot) for each in full_gangs), start))
        told = with_takers(found, start.snapshot, each_gang.framed)
        yield [with_evicted(each, whole, start.snapshot) for each, whole in zip(told, full_gangs, strict=True)]


@dataclass(frozen=True, slots=True)
class _EachGang:
    """How one gang of many is planned: on what is left by those before it, until the time for all of them is over."""

    topologies: Sequence[Topology]
    options: PlanningOptions
    known: KnownAnswers = field(default_factory=KnownAnswers)

    def tier(self, gangs: tuple[Gang, ...], start: Taken) -> Tier:
        """Gangs of one priority with the ways to state and plan them."""
        return Tier(
            gangs,
            start,
            self.options.running_gangs,
            self.options.limits_now(),
            choices=self.choices,
            frame=self.framed,
            frame_together=self.framed_together,
            plan=self.step,
            stands_in_line=stands_in_line,
        )

    def choices(self, gang: Gang, now: Snapshot) -> list[tuple[Choice, Gang]]:
        """The choices of flavors in which it may be planned now, each with the gang in them."""
        if gang.account is not None and _reasons_to_wait(gang, now, None):
            return []
        return open_choices(gang, now)

    def framed_together(self, gangs: Sequence[Gang], now: Snapshot, like: Framing) -> Framing:
        """The one problem of several gangs in the topology of another framing."""
        options = self.options
        return frame_together(gangs, now, like.topology, running=options.running_gangs, preemption=options.preemption)

    def framed(self, gang: Gang, now: Snapshot) -> Framing | Decision:
        """Its problem, or the decision where there is none to solve."""
        return _too_late(gang) if self.options.deadline.over else _framed(gang, now, self.topologies, self.options)

    def step(self, gang: Gang, now: Taken, weighed: bool) -> tuple[Decision, Taken]:  # noqa: FBT001 -- see Tier
        """The decision on what is left, unless its queue is closed to it, and what is left after it."""
        queue = strict_queue(gang)
        if ahead := now.closed.get(queue):
            return waits_behind(gang, ahead), now
        options = self.options.with_usage(now.usage)
        decision = plan_gang(gang, now.snapshot, self.topologies, options, weighed=weighed, known=self.known)
        closed = now.closed
        if queue and decision.outcome is not Outcome.PLACED and stands_in_line(gang, now.snapshot):
            closed = {**closed, queue: gang.key}
        return decision, _carried_out(decision, now._replace(closed=closed))


def _carried_out(decision: Decision, taken: Taken) -> Taken:
    """What is taken once a decision is carried out, too."""
    return taken._replace(snapshot=after(decision, taken.snapshot), usage=charged(decision, taken.usage))


def _priority_of(decision: Decision) -> int:
    return decision.gang.priority if decision.gang is not None else 0


def stands_in_line(gang: Gang, snapshot: Snapshot) -> bool:
    """Whether those behind it in a strict queue have to wait for it: it is complete, and the queue is open to it."""
    account = gang.account
    if account is None or not takes_namespace(account, gang.key.namespace, snapshot):
        return False
    return _waiting(staying(gang, snapshot), snapshot, None) is None


def behind_in_line(
    gangs: Iterable[Gang], snapshot: Snapshot, stands: Callable[[Gang, Snapshot], bool] = stands_in_line
) -> Iterator[Decision]:
    """The decisions for gangs before which another one of their strict queue has to have its place."""
    strict = [with_priorities(each, snapshot) for each in gangs if strict_queue(each)]
    line = [each for each in in_order(strict) if stands(each, snapshot)] if len(strict) > 1 else []
    return (waits_behind(gang, ahead) for gang, ahead in behind_others(line))


def waiting(gang: Gang, snapshot: Snapshot, topologies: Sequence[Topology]) -> Decision | None:
    """The decision for a gang of which nothing needs to be solved: what it names, or a member, is not there."""
    full_gang = with_priorities(gang, snapshot)
    gang = staying(full_gang, snapshot)
    topology = None if gang.account is not None else topology_of(gang, topologies)
    if isinstance(topology, Fault):
        return _invalid(gang, topology)
    held = _waiting(gang, snapshot, topology)
    return None if held is None else with_evicted(held, full_gang, snapshot)


def _answer(
    gang: Gang, snapshot: Snapshot, framing: Framing, limits: Limits, known: KnownAnswers | None = None
) -> Answer:
    """The solver's answer, checked for what members wish of each other where they do."""
    if not framing.among_members and not framing.problem.spreads:
        if known is not None:
            return known.solved(framing.problem, lambda problem: _solved(problem, limits))
        return _solved(framing.problem, limits)
    return answer_with_companions(
        framing.problem,
        framing.spread_limits,
        lambda problem: _solved(problem, limits),
        lambda plan: stands(decided(gang, framing, plan, {}, {}), snapshot),
    )


def _solved(problem: Problem, limits: Limits) -> Answer:
    """The solver's answer, from a process of its own. A solver that fails has proven nothing; other gangs go on."""
    return shared_workers().solve(problem, limits)


def is_pending(gang: Gang) -> bool:
    """Whether there is something to plan or to wait for: a member without a node, or members that do not exist."""
    return any(not member.pod.bound for member in gang.members) or bool(missing_members(gang))


def _reasons_to_wait(gang: Gang, snapshot: Snapshot, topology: Topology | None) -> list[str]:
    """Objects that are named and not there, then pods that are not. Of a gang of a queue the topology is not looked for
    before its flavor is known.
    """
    named = None if gang.topology is None or gang.account is not None else one_line(gang.topology)
    mentioned = topology is not None or any(named in (each, *each.split()[1:2]) for each in gang.waiting_for)
    lacking = [] if named is None or mentioned else [f"{gang.topology_kind or 'Topology'} {named}"]
    objects = dict.fromkeys((*gang.waiting_for, *lacking, *_missing_classes(gang, snapshot)))
    missing = missing_members(gang) or ([] if gang.members else ["members to be made again"])
    return [*objects, *missing, *holdups(gang, snapshot), *quotas_in_the_way(gang, snapshot)]


def _missing_classes(gang: Gang, snapshot: Snapshot) -> list[str]:
    names = {missing_class(member.pod, snapshot.priority_classes) for member in gang.members} - {""}
    return [f"PriorityClass {name}" for name in sorted(names)]


def missing_members(gang: Gang) -> list[str]:
    """What must exist before the gang can start, its minimum and that of each set, as ends of a sentence."""
    existing = Counter(member.pod_set for member in gang.counted)
    total = existing.total() + gang.succeeded
    if len(gang.pod_sets) > 1 and not gang.succeeded:
        short = [each for each in gang.pod_sets if existing[each.name] < each.min_count]
        if short:
            return [wording.more_pods(existing[each.name], each.min_count, each.name) for each in short]
    least = max([gang.min_member, *(each.min_count for each in gang.pod_sets[:1] if len(gang.pod_sets) == 1)])
    return [wording.more_pods(total, least)] if total < least else []


def _waiting(gang: Gang, snapshot: Snapshot, topology: Topology | None) -> Decision | None:
    """The decision that the gang waits, with every reason; None where nothing keeps it from being planned."""
    missing, devices = _reasons_to_wait(gang, snapshot, topology), unplanned_devices(gang, snapshot)
    if devices is None:
        return _waiting_for(gang, missing) if missing else None
    if missing:
        decision = _waiting_for(gang, missing)
        return replace(decision, message=f"{decision.message}; {unplanned(devices)}")
    return Decision(gang, gang.key, Outcome.WAITING, unplanned(devices), reason=devices.code)


def _waiting_for(gang: Gang, missing: Sequence[str]) -> Decision:
    """`missing`: what has to come, as ends of a sentence."""
    message = f"waits for {wording.listed(missing)}"
    if missing_members(gang):
        message += wording.one_by_one(gang)
    return Decision(gang=gang, key=gang.key, outcome=Outcome.WAITING, message=message)


def _too_late(gang: Gang) -> Decision:
    message = "the time was over before it was this gang's turn, so nothing is known of it, and nothing proven"
    return Decision(gang, gang.key, Outcome.UNPLACEABLE, message, proof=Proof.UNPROVEN.value)


def _invalid(gang: Gang, fault: Fault) -> Decision:
    return Decision(gang=gang, key=gang.key, outcome=Outcome.INVALID, message=str(fault), faults=(fault,))
