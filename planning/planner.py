"""Plans one gang, or all waiting gangs, on one snapshot. The functions are pure: they change nothing.

Several gangs are planned in their order (`planning.gang_order`). The capacity that a plan takes is not free for the
gangs after it. Gangs of one priority that compete are planned in one joint problem
(`planning.competing.planned_together`).
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
from planning.competing.planned_together import plan_same_priority
from planning.competing.same_priority import SamePriority, Taken
from planning.decision import Decision, Explanation, Outcome
from planning.devices.demands import NotPlannedError
from planning.devices.domains import without_required
from planning.devices.fewest_domains import Counts
from planning.framing.gang_problem import Framing, UnknownLevelError, frame, frame_together
from planning.framing.priorities import missing_class, with_priorities
from planning.gang_order import in_order
from planning.message import Message, listed
from planning.messages import wording
from planning.messages.device_domains import on_best_node
from planning.messages.devices import unplanned
from planning.messages.never_fits import with_never_fits
from planning.messages.outcomes import decided
from planning.messages.selected_domains import only_in
from planning.messages.takers import with_takers
from planning.messages.unlabelled import labels_that_help
from planning.planning_options import DEFAULT_OPTIONS, PlanningOptions
from planning.quota.flavors import Choice
from planning.quota.queueing import charged, decide_in_queue, open_choices, takes_namespace
from planning.quota.strict_order import behind_others, strict_queue, waits_behind
from planning.scheduler_rules.holdups import holdups
from planning.scheduler_rules.member_affinity import UNFULFILLED, answer_with_member_rules, stands
from planning.scheduler_rules.resource_claims import missing_for_claims, unplanned_devices
from planning.scheduler_rules.resource_quotas import quotas_in_the_way
from planning.solver_pool.known_answers import KnownAnswers
from planning.solver_pool.pool import shared_workers
from solver.heuristics.greedy import unproven
from solver.plan import Answer, NoPlan, Plan, Proof
from solver.problem import Limits, Problem

COMPARING = Limits(deterministic=0.5, seconds=1.0)
"""Limits of the search for the best plan outside a gang's domain, and of trying missing node labels."""


def plan_gang(
    gang: Gang,
    snapshot: Snapshot,
    topologies: Sequence[Topology],
    options: PlanningOptions = DEFAULT_OPTIONS,
    *,
    uncontested: bool = True,
    known: KnownAnswers | None = None,
) -> Decision:
    """Return the decision for one gang: its nodes and victims, or the reason for the rejection and what would help.

    `topologies`: all topologies of the cluster; the gang's own is chosen from them. `uncontested` False: other gangs
    compete, and the best plan of this gang need not be the best for all gangs. The decision then has only bounds that
    are valid however the other gangs are placed. `known`: answers of earlier solves, reused for an equal problem.

    The function never raises because of what a gang requests.
    """
    if options.deadline.over:
        return _too_late(gang)
    full_gang = with_priorities(gang, snapshot)
    gang = staying(full_gang, snapshot)

    def placed(in_flavors: Gang) -> Decision:
        return _plan(in_flavors, snapshot, topologies, options, uncontested=uncontested, known=known)

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
    uncontested: bool,
    known: KnownAnswers | None,
) -> Decision:
    limits, running = options.limits_now(), options.running_gangs
    started = time.perf_counter()
    framing = _framed(gang, snapshot, topologies, options)
    if isinstance(framing, Decision):
        return framing
    framed = time.perf_counter()
    answer = _answer(gang, snapshot, framing, limits, known)
    framing, answer = _evicting_together(gang, snapshot, framing, answer, options)
    if isinstance(answer, NoPlan) and framing.outside and answer is not UNFULFILLED:

        def on(changed: Snapshot) -> tuple[Framing, Answer]:
            stated = frame(gang, changed, framing.topology, running=running, preemption=options.preemption)
            return stated, _answer(gang, changed, stated, COMPARING)

        helping = labels_that_help(gang, snapshot, framing, answer, on)
        answer = replace(answer, would_fit_if=(*helping, *answer.would_fit_if))
    if isinstance(answer, NoPlan) and answer is not UNFULFILLED:
        helping = _device_levels_to_drop(gang, snapshot, framing, options)
        answer = replace(answer, would_fit_if=(*answer.would_fit_if, *helping))
    if not framing.exact and isinstance(answer, NoPlan):
        answer = replace(answer, proof=Proof.UNPROVEN)
    in_turn = isinstance(answer, Plan) and answer.proof is Proof.OPTIMAL and framing.exact and not uncontested
    if isinstance(answer, Plan) and not (uncontested and framing.exact):
        answer = replace(answer, goals=unproven(framing.problem, answer.goals), proof=Proof.FEASIBLE)
    seconds = {"snapshot": framed - started, "solve": time.perf_counter() - framed}
    fewest: Counts = ()
    if isinstance(answer, Plan):
        answer, fewest = on_best_node(framing, answer)
    decision = decided(gang, framing, answer, running, seconds, in_turn=in_turn, fewest=fewest)
    if isinstance(answer, NoPlan):
        confined = only_in(gang, framing, snapshot, running)
        return replace(decision, explanation=replace(decision.explanation, only_in=confined))
    if not options.comparing or not uncontested or answer.proof is not Proof.OPTIMAL:
        return decision
    return _compared(decision, framing.problem, answer)


def _evicting_together(
    gang: Gang, snapshot: Snapshot, framing: Framing, answer: Answer, options: PlanningOptions
) -> tuple[Framing, Answer]:
    """Return a plan that evicts pods together (`planning.framing.evicted_together`), with its problem.

    Without such a plan, return `framing` and `answer` unchanged, and also if `answer` is a plan already. Such a plan is
    sought only if the amounts of devices that evictions free are not exact.

    The goal `gangsBroken` counts the real gangs only.
    """
    inexact = bool(framing.devices.names) and not framing.exact and len(framing.victims) > 0
    if isinstance(answer, Plan) or answer is UNFULFILLED or not inexact or options.deadline.over:
        return framing, answer
    together = frame(gang, snapshot, framing.topology, running=options.running_gangs, together=True)
    found = _answer(gang, snapshot, together, options.limits_now())
    if not isinstance(found, Plan):
        return framing, answer
    problem = together.problem
    broken = {problem.victims[position].gang for position in found.victims} - {None}
    groups = sum(problem.victim_gangs[one].name in together.groups for one in broken if one is not None)
    goals = (replace(each, value=each.value - groups) if each.name == "gangsBroken" else each for each in found.goals)
    return together, replace(found, goals=tuple(goals))


def _device_levels_to_drop(
    gang: Gang, snapshot: Snapshot, framing: Framing, options: PlanningOptions
) -> tuple[str, ...]:
    """Return, as the end of a sentence, the required levels below the node without which the gang has a plan.

    Such levels are constraints of the claims, so the solver cannot drop them itself. Empty if there are none, or if the
    gang has no plan without them.
    """
    free, levels = without_required(gang, framing.topology)
    if not levels:
        return ()
    try:
        changed = frame(free, snapshot, framing.topology, running=options.running_gangs, preemption=options.preemption)
    except NotPlannedError:
        return ()
    return (wording.levels_dropped(levels),) if isinstance(_answer(free, snapshot, changed, COMPARING), Plan) else ()


def _compared(decision: Decision, problem: Problem, plan: Plan) -> Decision:
    """Return the decision with the cost of the best plan outside the gang's domain, if it is known in time."""
    beside = shared_workers().next_door(problem, plan, COMPARING)
    return decision if beside is None else replace(decision, explanation=Explanation(why_here=wording.why_here(beside)))


def _framed(
    gang: Gang, snapshot: Snapshot, topologies: Sequence[Topology], options: PlanningOptions
) -> Framing | Decision:
    """Return the gang's problem for the solver; or a decision without a solve, because the gang waits or is invalid."""
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
    """Return the decisions for all `gangs`, in planning order. The capacity of each plan is not free for later gangs.

    Gangs of one priority that compete are planned together. A gang whose turn comes after the deadline is not planned,
    and its decision says so.
    """
    return [decision for decisions in plan_in_turn(gangs, snapshot, topologies, options) for decision in decisions]


def plan_in_turn(
    gangs: Iterable[Gang],
    snapshot: Snapshot,
    topologies: Sequence[Topology],
    options: PlanningOptions = DEFAULT_OPTIONS,
    *,
    standing: Iterable[Decision] = (),
) -> Iterator[Sequence[Decision]]:
    """Yield the decisions for all `gangs`, one sequence for each priority, as soon as that priority is planned.

    `standing`: plans from an earlier call that the snapshot does not contain yet. Their capacity is not free for gangs
    of the same or of a lower priority.
    """
    each_gang, taken = _EachGang(topologies, options), Taken(snapshot, options.usage, {})
    before = sorted(standing, key=_priority_of)
    ordered = in_order(with_priorities(each, snapshot) for each in gangs)
    for priority, same_priority in groupby(ordered, key=lambda each: each.priority):
        while before and _priority_of(before[-1]) >= priority:
            taken = _carried_out(before.pop(), taken)
        full_gangs = tuple(same_priority)
        start = taken
        found, taken = plan_same_priority(
            each_gang.same_priority(tuple(staying(each, start.snapshot) for each in full_gangs), start)
        )
        with_reasons = with_takers(found, start.snapshot, each_gang.framed)
        yield [with_evicted(each, whole, start.snapshot) for each, whole in zip(with_reasons, full_gangs, strict=True)]


@dataclass(frozen=True, slots=True)
class _EachGang:
    """Builds the problem of one gang of many and plans it, on the capacity that earlier gangs leave, until the
    deadline.
    """

    topologies: Sequence[Topology]
    options: PlanningOptions
    known: KnownAnswers = field(default_factory=KnownAnswers)

    def same_priority(self, gangs: tuple[Gang, ...], start: Taken) -> SamePriority:
        """Return the gangs of one priority, with the functions that state and solve their problems."""
        return SamePriority(
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
        """Return the gang's possible choices of flavors, each with the gang changed to these flavors.

        Empty if the gang has a queue and must still wait, for example for a missing pod.
        """
        if gang.account is not None and _reasons_to_wait(gang, now, None):
            return []
        return open_choices(gang, now)

    def framed_together(self, gangs: Sequence[Gang], now: Snapshot, like: Framing) -> Framing:
        """Return the joint problem of several gangs, in the topology of the given framing `like`."""
        options = self.options
        return frame_together(gangs, now, like.topology, running=options.running_gangs, preemption=options.preemption)

    def framed(self, gang: Gang, now: Snapshot) -> Framing | Decision:
        """Return the gang's problem, or a decision if there is nothing to solve or the deadline has passed."""
        return _too_late(gang) if self.options.deadline.over else _framed(gang, now, self.topologies, self.options)

    def step(self, gang: Gang, now: Taken, uncontested: bool) -> tuple[Decision, Taken]:  # noqa: FBT001 -- see SamePriority
        """Return the gang's decision on the remaining capacity, and the capacity and quota that are taken afterwards.

        If an earlier gang of the gang's strict queue has no plan, the gang waits behind that gang.
        """
        queue = strict_queue(gang)
        if ahead := now.closed.get(queue):
            return waits_behind(gang, ahead), now
        options = self.options.with_usage(now.usage)
        decision = plan_gang(gang, now.snapshot, self.topologies, options, uncontested=uncontested, known=self.known)
        closed = now.closed
        if queue and decision.outcome is not Outcome.PLACED and stands_in_line(gang, now.snapshot):
            closed = {**closed, queue: gang.key}
        return decision, _carried_out(decision, now._replace(closed=closed))


def _carried_out(decision: Decision, taken: Taken) -> Taken:
    """Return `taken` plus the capacity and quota that the decision's plan takes."""
    return taken._replace(snapshot=after(decision, taken.snapshot), usage=charged(decision, taken.usage))


def _priority_of(decision: Decision) -> int:
    return decision.gang.priority if decision.gang is not None else 0


def stands_in_line(gang: Gang, snapshot: Snapshot) -> bool:
    """Whether later gangs of the same strict queue must wait for this gang.

    True if the gang waits for no pod or object, and its queue accepts gangs of its namespace.
    """
    account = gang.account
    if account is None or not takes_namespace(account, gang.key.namespace, snapshot):
        return False
    return _waiting(staying(gang, snapshot), snapshot, None) is None


def behind_in_line(
    gangs: Iterable[Gang], snapshot: Snapshot, stands: Callable[[Gang, Snapshot], bool] = stands_in_line
) -> Iterator[Decision]:
    """Yield a decision for each gang that must wait until an earlier gang of its strict queue has a plan.

    `stands`: returns whether later gangs of the queue must wait for a gang.
    """
    strict = [with_priorities(each, snapshot) for each in gangs if strict_queue(each)]
    line = [each for each in in_order(strict) if stands(each, snapshot)] if len(strict) > 1 else []
    return (waits_behind(gang, ahead) for gang, ahead in behind_others(line))


def waiting(gang: Gang, snapshot: Snapshot, topologies: Sequence[Topology]) -> Decision | None:
    """Return the decision for a gang that cannot be planned yet: it waits for something or names a faulty topology.

    None if the gang can be planned.
    """
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
    """Return the solver's answer for the gang. If members have affinity or spread rules about each other, a plan is
    also checked against them.
    """
    if not framing.among_members and not framing.problem.spreads:
        if known is not None:
            return known.solved(framing.problem, lambda problem: _solved(problem, limits))
        return _solved(framing.problem, limits)
    return answer_with_member_rules(
        framing.problem,
        framing.spread_limits,
        lambda problem: _solved(problem, limits),
        lambda plan: stands(decided(gang, framing, plan, {}, {}), snapshot),
    )


def _solved(problem: Problem, limits: Limits) -> Answer:
    """Return the answer of a solver process. If the process fails, the answer is an unproven rejection of the gang
    of this problem. Other gangs are not affected.
    """
    return shared_workers().solve(problem, limits)


def is_pending(gang: Gang) -> bool:
    """Whether the gang needs a plan: a member has no node, or members do not exist yet."""
    return any(not member.pod.bound for member in gang.members) or bool(missing_members(gang))


def _reasons_to_wait(gang: Gang, snapshot: Snapshot, topology: Topology | None) -> list[str | Message]:
    """Return why the gang must wait, each reason as the end of a sentence; empty if it can be planned.

    In order: objects that the gang names and that do not exist, missing pods, pods that the stock scheduler holds up,
    and ResourceQuotas. The topology of a gang of a queue is not checked before its flavor is known.
    """
    named = None if gang.topology is None or gang.account is not None else one_line(gang.topology)
    mentioned = topology is not None or any(named in (each, *each.split()[1:2]) for each in gang.waiting_for)
    lacking = [] if named is None or mentioned else [f"{gang.topology_kind or 'Topology'} {named}"]
    claimed = missing_for_claims(gang, snapshot)
    objects = dict.fromkeys((*gang.waiting_for, *lacking, *_missing_classes(gang, snapshot), *claimed))
    members = missing_members(gang)
    missing = members if members or gang.members else ["members to be recreated"]
    return [*objects, *missing, *holdups(gang, snapshot), *quotas_in_the_way(gang, snapshot)]


def _missing_classes(gang: Gang, snapshot: Snapshot) -> list[str]:
    names = {missing_class(member.pod, snapshot.priority_classes) for member in gang.members} - {""}
    return [f"PriorityClass {name}" for name in sorted(names)]


def missing_members(gang: Gang) -> list[Message]:
    """Return the pods that must still be created before the gang and each of its pod sets reach their minimum.

    Each entry is the end of a sentence; empty if no pod is missing.
    """
    existing = Counter(member.pod_set for member in gang.counted)
    total = existing.total() + gang.succeeded
    if len(gang.pod_sets) > 1 and not gang.succeeded:
        short = [each for each in gang.pod_sets if existing[each.name] < each.min_count]
        if short:
            return [wording.more_pods(existing[each.name], each.min_count, each.name) for each in short]
    least = max([gang.min_member, *(each.min_count for each in gang.pod_sets[:1] if len(gang.pod_sets) == 1)])
    return [wording.more_pods(total, least)] if total < least else []


def _waiting(gang: Gang, snapshot: Snapshot, topology: Topology | None) -> Decision | None:
    """Return the decision that the gang waits, with every reason; None if the gang can be planned."""
    missing, devices = _reasons_to_wait(gang, snapshot, topology), unplanned_devices(gang, snapshot, topology)
    if devices is None:
        return _waiting_for(gang, missing) if missing else None
    if missing:
        decision = _waiting_for(gang, missing)
        return replace(decision, line=decision.line + f"; {unplanned(devices)}")
    return Decision(gang, gang.key, Outcome.WAITING, Message.of(unplanned(devices)), reason=devices.code)


def _waiting_for(gang: Gang, missing: Sequence[str | Message]) -> Decision:
    """Return the decision that the gang waits. `missing`: what the gang waits for, each entry as the end of a
    sentence.
    """
    remedy = wording.one_by_one(gang) if missing_members(gang) else ""
    return Decision(gang, gang.key, Outcome.WAITING, Message.of("waits for ", listed(missing), remedy))


def _too_late(gang: Gang) -> Decision:
    message = "the time was over before it was this gang's turn, so nothing is known of it, and nothing proven"
    return Decision(gang, gang.key, Outcome.UNPLACEABLE, Message.of(message), proof=Proof.UNPROVEN.value)


def _invalid(gang: Gang, fault: Fault) -> Decision:
    return Decision(gang=gang, key=gang.key, outcome=Outcome.INVALID, line=Message.of(str(fault)), faults=(fault,))
