"""Turns the solver's answer into a `Decision`: members, levels, domains and pods instead of positions."""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from cluster.devices.allocation import ClaimAllocation
from gangs.model import Gang
from planning.decision import Assignment, Decision, DomainUse, Eviction, Explanation, LevelUse, Outcome
from planning.devices.allotment import AllotmentError, allotted
from planning.devices.fewest_domains import Counts
from planning.devices.verifying import PlacedPod, faults
from planning.devices.verifying_levels import level_faults, levels_by_pod
from planning.framing.gang_problem import Framing, level_at
from planning.framing.running_gangs import RunningGangs
from planning.framing.stranded import Stranded
from planning.message import Message, Shortfall
from planning.messages import wording
from planning.messages.device_domains import domains_used
from planning.messages.shortfalls import (
    devices_near,
    left_out,
    limiting_budgets,
    misfits,
    overruling_budgets,
    whole_gangs,
)
from planning.pins import left_behind
from planning.scheduler_rules.member_affinity import UNFULFILLED
from solver.capacity import needed_members, scarcest
from solver.objective import criterion
from solver.plan import Answer, Goal, NearDomain, NoPlan, Plan, Proof

log = logging.getLogger(__name__)

Allocations = Mapping[str, tuple[ClaimAllocation, ...]]
"""The devices of members' claims, by the pod's `namespace/name`."""


def decided(
    gang: Gang,
    framing: Framing,
    answer: Answer,
    running: RunningGangs,
    seconds: Mapping[str, float],
    *,
    in_turn: bool = False,
    devices: Allocations | None = None,
    fewest: Counts = (),
) -> Decision:
    """Return the decision for a solver's answer.

    `in_turn`: the plan is the best for the gang alone, but gangs of its priority compete and were planned before it.
    `devices`: the devices of each newly placed member, if they are chosen already, for several gangs together.
    `fewest`: by level below the node, the fewest domains of any plan that is as good in the goals of the solver.
    Empty if unknown (`planning.messages.device_domains`).
    """
    if isinstance(answer, NoPlan):
        return _unplaceable(gang, framing, answer, seconds)
    try:
        if devices is None:
            devices = devices_of_members(framing, [(range(len(answer.nodes)), answer.nodes)], answer.victims)
        _check_devices(gang, framing, answer, devices)
    except AllotmentError:
        log.exception("gang %s: the devices of its plan are not valid, so the plan is dropped", gang.key)
        return _unplaceable(gang, framing, NoPlan(Proof.UNPROVEN), seconds)
    return _placed(gang, framing, answer, running, seconds, in_turn=in_turn, devices=devices, fewest=fewest)


def _check_devices(gang: Gang, framing: Framing, plan: Plan, devices: Allocations) -> None:
    """Raise `AllotmentError` if the devices of the newly placed members are not a valid allocation."""
    if not framing.devices.demands:
        return
    placed = [
        PlacedPod(member.pod, framing.nodes[node], devices.get(member.pod.key, ()))
        for pod_set, members, nodes in zip(framing.problem.sets, framing.members, plan.nodes, strict=True)
        for place, (member, node) in enumerate(zip(members, nodes, strict=True))
        if node is not None and pod_set.members[place].node is None and member.pod.key in framing.devices.demands
    ]
    gone = framing.devices.gone | {framing.victims[each].pod.key for each in plan.victims}
    levels = levels_by_pod(gang, framing.topology)
    devices_given = framing.devices.devices
    if wrong := [*faults(placed, gone, devices_given), *level_faults(placed, levels, devices_given)]:
        raise AllotmentError("; ".join(wrong))


def _placed(
    gang: Gang,
    framing: Framing,
    plan: Plan,
    running: RunningGangs,
    seconds: Mapping[str, float],
    *,
    in_turn: bool,
    devices: Allocations,
    fewest: Counts,
) -> Decision:
    assignments = _assignments(framing, plan, devices)
    domains = domains_used(gang, framing, plan, assignments, fewest)
    levels = _levels(gang, framing, plan)
    evictions = tuple(_eviction(framing, position, running) for position in plan.victims)
    unmodelled = (*framing.unmodelled, *domains.not_proven)
    proof = Proof.FEASIBLE if unmodelled else plan.proof
    in_part = unmodelled and (plan.proof is Proof.OPTIMAL or not framing.exact)
    message = wording.placed(gang, assignments, levels, evictions, proof, in_turn=in_turn, in_part=bool(in_part))
    count, reasons = left_out(framing, plan)
    return Decision(
        gang=gang,
        key=gang.key,
        outcome=Outcome.PLACED,
        line=Message.of(
            message,
            *((Shortfall(count, tuple(reasons.items())),) if count else ()),
            _and(wording.stranded(_still_stranded(framing, assignments))),
            _and(domains.text),
            wording.unmodelled(unmodelled),
        ),
        assignments=assignments,
        levels=levels,
        device_levels=domains.levels,
        device_goals=domains.goals,
        evictions=evictions,
        goals=_in_base_units(framing, plan.goals),
        proof=proof.value,
        topology=framing.topology.name,
        notes=unmodelled,
        seconds=seconds,
    )


def _unplaceable(gang: Gang, framing: Framing, answer: NoPlan, seconds: Mapping[str, float]) -> Decision:
    nearest = tuple(_with_outside(framing, each) for each in answer.nearest or _whole_cluster(framing))
    explanation = Explanation(
        nearest=nearest,
        devices=tuple(devices_near(framing, each) for each in nearest) if framing.devices.names else (),
        would_fit_if=answer.would_fit_if,
        example_victims=answer.example_victims,
        offered=_offered(framing, answer),
    )
    needed = needed_members(framing.problem)
    required = None if framing.problem.required is None else framing.problem.levels[framing.problem.required]
    if answer is UNFULFILLED:
        message = Message.of(wording.unfulfilled(needed, framing.among_members))
    else:
        answered = replace(answer, nearest=explanation.nearest)
        near = answered.nearest
        keeping = (each(framing, near) for each in (limiting_budgets, overruling_budgets, whole_gangs))
        kept = tuple(wording.kept(*keeping))
        message = wording.refused(needed, answered, required, misfits(framing), kept, in_part=not framing.exact)
    return Decision(
        gang=gang,
        key=gang.key,
        outcome=Outcome.UNPLACEABLE,
        line=Message.of(
            message,
            _and(wording.short_of_devices(nearest, explanation.devices)),
            _and(wording.stranded(framing.stranded)),
            wording.left_behind([pod.metadata.name for pod in left_behind(gang)]),
            wording.unmodelled(framing.unmodelled),
        ),
        proof=answer.proof.value,
        topology=framing.topology.name,
        explanation=explanation,
        notes=framing.unmodelled,
        seconds=seconds,
    )


def _and(text: str) -> str:
    return f"; {text}" if text else ""


def _still_stranded(framing: Framing, assignments: Sequence[Assignment]) -> list[Stranded]:
    """Return the stranded members for which the plan evicts nothing, so that they still have no capacity on their
    nodes.
    """
    placed = {id(each.member) for each in assignments}
    return [each for each in framing.stranded if id(each.member) not in placed]


def _assignments(framing: Framing, plan: Plan, devices: Allocations) -> tuple[Assignment, ...]:
    """Return every placed member, in the order of pod set and rank.

    A member whose workload gives no index gets its position in the set.
    """
    found = []
    for pod_set, members, nodes in zip(framing.problem.sets, framing.members, plan.nodes, strict=True):
        for place, (member, node) in enumerate(zip(members, nodes, strict=True)):
            if node is not None:
                index = place if member.index is None else member.index
                held = pod_set.members[place].node is not None
                got = () if held else devices.get(member.pod.key, ())
                found.append(Assignment(member, index, framing.nodes[node], held, got))
    return tuple(found)


def devices_of_members(
    framing: Framing, placed: Iterable[tuple[Sequence[int], Sequence[Sequence[int | None]]]], victims: Iterable[int]
) -> Allocations:
    """Return the devices that the claims of each newly placed member get, by `namespace/name`.

    `placed`: positions of pod sets, and for each of these sets the node of each member. `victims`: the evicted pods.
    """
    if not framing.devices.demands:
        return {}
    new = [
        (member.pod.key, framing.nodes[node])
        for pod_sets, rows in placed
        for pod_set, row in zip(pod_sets, rows, strict=True)
        for place, (member, node) in enumerate(zip(framing.members[pod_set], row, strict=True))
        if node is not None and framing.problem.sets[pod_set].members[place].node is None
    ]
    return allotted(new, [framing.victims[each].pod.key for each in victims], framing.devices)


def _levels(gang: Gang, framing: Framing, plan: Plan) -> tuple[LevelUse, ...]:
    used = Counter(node for nodes in plan.nodes for node in nodes if node is not None)
    modes = _modes(gang, framing)
    uses = []
    for position, level in enumerate(framing.topology.levels):
        domains: Counter[tuple[str, ...]] = Counter()
        for node in sorted(used):
            node_path = (*framing.problem.nodes[node].path, framing.nodes[node])
            domains[node_path[: position + 1]] += used[node]
        uses.append(
            LevelUse(
                level=level.name,
                label=level.label_keys[0],
                mode=modes.get(position, "none"),
                domains=tuple(DomainUse(path, pods) for path, pods in domains.items()),
            )
        )
    return tuple(uses)


def _modes(gang: Gang, framing: Framing) -> dict[int, str]:
    """Return the mode of each level that the gang or one of its pod sets names. "required" overrides "preferred"."""
    modes: dict[int, str] = {}
    for name in (gang.preferred, *(each.preferred for each in gang.pod_sets)):
        if name is not None and framing.topology.find_below(name) is None:
            modes[level_at(framing.topology, name)] = "preferred"
    for name in (gang.required, *(each.required for each in gang.pod_sets)):
        if name is not None and framing.topology.find_below(name) is None:
            modes[level_at(framing.topology, name)] = "required"
    return modes


def _eviction(framing: Framing, position: int, running: RunningGangs) -> Eviction:
    tenant = framing.victims[position]
    metadata = tenant.pod.metadata
    member = running.get(tenant.pod.key)
    return Eviction(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        node=tenant.node,
        priority=tenant.priority,
        gang=None if member is None else member.key,
    )


def _in_base_units(framing: Framing, goals: tuple[Goal, ...]) -> tuple[Goal, ...]:
    """Return the goals with amounts of the scarcest resource in its base unit (millicores, bytes or pieces)."""
    unit = framing.units[scarcest(framing.problem)]
    return tuple(_times(goal, unit) if criterion(goal.name).amount else goal for goal in goals)


def _times(goal: Goal, unit: int) -> Goal:
    counting = criterion(goal.name).counting
    parts = {
        name: value if counting and name.startswith(counting) else value * unit for name, value in goal.parts.items()
    }
    return Goal(goal.name, goal.value * unit, goal.bound * unit, parts)


def _whole_cluster(framing: Framing) -> tuple[NearDomain, ...]:
    """Return the whole cluster as the nearest domain if the topology contains no node; otherwise nothing."""
    if len(framing.nodes) > len(framing.guests) or not framing.outside:
        return ()
    return (NearDomain("", (), 0, needed_members(framing.problem), len(framing.guests), {}),)


def _with_outside(framing: Framing, near: NearDomain) -> NearDomain:
    """Return the near domain. If it is the whole cluster, add the nodes outside the topology, each counted by the label
    that it lacks.
    """
    if near.path or not framing.outside:
        return near
    lacking = Counter(map(wording.lacking, framing.outside.values()))
    guests = len(framing.guests)
    nodes = near.nodes - guests + len(framing.outside)
    return replace(near, nodes=nodes, excluded={**near.excluded, **lacking})


def _offered(framing: Framing, answer: NoPlan) -> tuple[tuple[str, tuple[str, ...], int], ...]:
    required = framing.problem.required
    level = "" if required is None else framing.problem.levels[required]
    outside = {framing.problem.nodes[guest].path[:1] for guest in framing.guests}
    return tuple(
        (level, path, fits) for path, fits in answer.fits_without_eviction if not path or path[:1] not in outside
    )
