"""Computes the status of a Gang object from the gang's decision and its members. Pure functions.

Equal states give equal statuses, including the times of the conditions, so a writer can skip equal statuses. The plan
stays in the status while it is in force, so that a restarted controller can continue from it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from controller.release.records import claims_entry
from controller.release.wholeness import (
    WHOLE,
    Withdrawal,
    bound_members,
    bound_when_whole,
    release_is_marked,
    status_says_whole,
    still_withdrawn,
    wholeness,
)
from gangs.findings import said_of
from gangs.mirrors import MARK
from gangs.model import RESTART, Fault, Gang, Member
from kube.conditions import kept_conditions
from kube.keys import PLANNED_NODE
from kube.nulls import without_nulls
from kube.text import one_line
from planning.decision import Decision, Outcome, Refusal, WaitReason
from planning.message import Message
from planning.messages.solve_report import gang_report
from planning.messages.wording import compressed, delayed, listed, more_pods, one_by_one, pods
from solver.plan import Proof

Status = Mapping[str, Any]

_VICTIMS_SHOWN = 3
_PLAN_FIELDS = ("planId", "flavors", "assignments", "claims", "levels", "victims", "objective", "proof", "explanation")


class Phase(Enum):
    """The phase of a gang, from its creation until all its members are bound. It is shown in the Gang's status."""

    WAITING = "Waiting"
    UNPLACEABLE = "Unplaceable"
    INVALID = "Invalid"
    NOMINATED = "Nominated"
    EVICTING = "Evicting"
    RELEASED = "Released"
    PLACED = "Placed"

    @classmethod
    def shown_by(cls, status: Status) -> "Phase":
        """Return the phase in this status of a Gang; WAITING if it has none, or one of another version of Phalanx."""
        known = {each.value: each for each in cls}
        return known.get(str(status.get("phase")), cls.WAITING)

    @property
    def planned(self) -> bool:
        """Whether a gang in this phase has a plan that is carried out or completed."""
        return self in (Phase.NOMINATED, Phase.EVICTING, Phase.RELEASED, Phase.PLACED)

    @property
    def released(self) -> bool:
        """Whether the members of a gang in this phase have been released."""
        return self in (Phase.RELEASED, Phase.PLACED)


NOT_TRIED = "NotTried"
ROOM_TAKEN = "RoomTaken"
"""The reason of a gang of which a member was released to a node that has no capacity for it any more. The status then
omits the plan's proof.
"""
CLAIMS_MISSING = "ClaimsMissing"
"""The reason of a gang of which a planned member waits for a ResourceClaim that does not exist yet."""
DEVICES_LEAVING = "DevicesLeaving"
"""The reason of a gang whose planned devices are still allocated to other claims, whose pods are ending."""
PODS_TO_COME = "PodsToCome"
"""The reason of a gang whose existing members are all bound, and for which capacity is reserved for members that the
workload creates later.
"""

REASONS: Mapping[Phase, tuple[str, ...]] = {
    Phase.WAITING: ("NotPlannedYet", "MembersMissing", "ObjectsMissing", *(each.value for each in WaitReason)),
    Phase.UNPLACEABLE: tuple(each.value for each in Refusal),
    Phase.INVALID: ("Contradiction",),
    Phase.NOMINATED: ("RoomHeld", CLAIMS_MISSING, DEVICES_LEAVING),
    Phase.EVICTING: ("VictimsLeaving",),
    Phase.RELEASED: ("Binding", NOT_TRIED, ROOM_TAKEN, PODS_TO_COME),
    Phase.PLACED: ("AllBound",),
}
"""The reasons for each phase. The first reason of a phase is the default."""
_PROVEN_FIELDS = ("objective", "proof")
_DECIDED = (Phase.WAITING, Phase.UNPLACEABLE, Phase.INVALID, Phase.NOMINATED)
"""Phases whose message is the message of the decision. In other phases the message reports the plan's progress."""
_FIXED_MESSAGES = {Phase.UNPLACEABLE: "fits nowhere now", Phase.INVALID: "the request contradicts itself"}
"""The messages without a decision in phases that have only one message."""


@dataclass(frozen=True, slots=True)
class PresentObject:
    """The Gang object whose status is computed, as last read."""

    status: Status = field(default_factory=dict)
    """The present status. Conditions that stay equal keep their `lastTransitionTime` from it."""
    generation: int | None = None
    """`metadata.generation` of the object, which becomes `observedGeneration`; None if unknown."""
    mirrors: str = ""
    """For a mirror, the object whose gang it shows (`controller.status.mirrors.mark_of`)."""


@dataclass(frozen=True, slots=True)
class Notes:
    """Facts that a reconcile found about a gang besides its plan, for the gang's status."""

    reason: str = ""
    """The reason to show, in CamelCase; "" selects the reason of the phase."""
    message: str = ""
    """The message to show, as one line; "" selects the message of the phase."""
    untried: str = ""
    """The message about released members that no scheduler tries; "" if there are none."""
    devices: str = ""
    """The message about devices that cannot be allocated now, or that are not reserved for the gang; "" if there is
    none."""
    timed_out: bool | None = None
    """Whether the gang's schedule timeout is over. None: the condition TimedOut keeps its value until the gang is
    released, and is False from then on.
    """
    withdrawal: Withdrawal | None = None
    """Why members that had started are evicted now. The status shows it until the gang is released again."""


def gang_status(
    gang: Gang,
    phase: Phase,
    *,
    now: str,
    decision: Decision | None = None,
    plan_id: str = "",
    present: PresentObject = PresentObject(),
    notes: Notes = Notes(),
) -> dict[str, Any]:
    """Return the wanted status of the gang's Gang object.

    :param now: the present time (RFC 3339), for conditions that change with this status.
    :param decision: a new decision. None keeps the plan of the present status, or drops it in a phase without a plan.
    :param plan_id: the identity of the decision's plan (`PlanRecord.plan_id`); "" if it has none.
    """
    before, withdrawal = present.status, notes.withdrawal
    plan, counts = _plan_and_counts(gang, phase, decision, plan_id, before, room_taken=notes.reason == ROOM_TAKEN)
    untried = NOT_TRIED if notes.untried and phase is Phase.RELEASED else ""
    reason = notes.reason or untried or _reason(gang, phase, decision)
    restart = withdrawal if withdrawal is not None and withdrawal.restarts else None
    withdrawal = withdrawal or still_withdrawn(before, released=phase.released)
    why_withdrawn = withdrawal.in_full if withdrawal is not None else ""
    message = notes.message or _message(gang, phase, decision, plan)
    message = _all_on_one_line(message, notes.untried, notes.devices, why_withdrawn)
    timed_out = _timed_out(phase, before, reported=notes.timed_out)
    conditions = _conditions(gang, phase, reason, message, timed_out=timed_out)
    conditions += _ever_complete(gang, phase, before, withdrawal)
    status = {
        "phase": phase.value,
        "reason": reason,
        "message": message,
        "observedGeneration": present.generation,
        MARK: present.mirrors,
        "topology": gang.topology or _topology(decision, before),
        "conditions": kept_conditions(conditions, before.get("conditions") or (), now, present.generation),
        "members": counts,
        **_of_restarts(gang, before, restart, now),
        "summary": _summary(counts, plan.get("levels") or ()),
        **plan,
    }
    return {key: value for key, value in status.items() if value not in (None, "")}


def waiting_line(gang: Gang, decision: Decision | None) -> Message:
    """Return the message of a gang in phase Waiting: what it waits for. Without a decision: its missing members."""
    return decision.line if decision is not None else _missing(gang) or Message.of("waits to be planned")


def invalid_status(
    faults: Sequence[Fault], *, now: str, previous: Status | None = None, generation: int | None = None
) -> dict[str, Any]:
    """Return the status of a Gang whose request contradicts itself, so that no `Gang` could be read from it."""
    message = said_of(faults)
    conditions = [_condition("Planned", holds=False, reason="Contradiction", message=message)]
    before = previous or {}
    status = {
        "phase": Phase.INVALID.value,
        "reason": "Contradiction",
        "message": message,
        "observedGeneration": generation,
        MARK: before.get(MARK),
        "conditions": kept_conditions(conditions, before.get("conditions") or (), now, generation),
        "members": before.get("members"),
    }
    return {key: value for key, value in status.items() if value is not None}


def status_patch(previous: Status | None, wanted: Status) -> dict[str, Any]:
    """Return the `status` of a merge patch that turns `previous` into `wanted`; empty if they are equal.

    Fields are replaced as a whole or removed. In nested objects, keys that are not wanted any more are removed, too.
    """
    before = previous or {}
    patch: dict[str, Any] = dict.fromkeys(before.keys() - wanted.keys())
    for key, value in wanted.items():
        if key not in before or before[key] != value:
            old = before.get(key)
            nested = isinstance(value, Mapping) and isinstance(old, Mapping)
            patch[key] = status_patch(old, value) if nested else value
    return patch


def _of_restarts(gang: Gang, before: Status, restart: Withdrawal | None, now: str) -> dict[str, Any]:
    """Return the status fields `restarts`, `lastRestart` and `boundWhenWhole`; empty for a gang that does not ask for
    restarts.

    `boundWhenWhole` is how many members were bound when the gang was last whole. If fewer are bound now, a member has
    been lost.

    :param restart: the restart that begins now; None if none begins.
    """
    if gang.on_failure != RESTART:
        return {}
    bound = bound_members(gang)
    most = len(bound) if gang.suffice(bound) else bound_when_whole(gang, before) or None
    last = before.get("lastRestart")
    if restart is not None:
        left = {} if restart.left is None else {"from": restart.left.path, "closedNodes": restart.left.closed}
        last = {"at": now, **{key: text for key, text in left.items() if text}}
    restarts = restart.restarts if restart is not None else before.get("restarts")
    return {"restarts": restarts, "lastRestart": last, "boundWhenWhole": most}


def _plan_and_counts(
    gang: Gang, phase: Phase, decision: Decision | None, plan_id: str, before: Status, *, room_taken: bool
) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the status fields of the plan, and the counts of members (`members` in the status).

    :param room_taken: whether another pod has taken capacity of the plan. Then its proof and objective are left out.
    """
    plan = _plan(gang, phase, decision, plan_id, before)
    counts = _counts(gang, phase, plan)
    if room_taken:
        plan = {key: value for key, value in plan.items() if key not in _PROVEN_FIELDS}
        counts["placed"] = counts["bound"]
    return plan, counts


def _plan(gang: Gang, phase: Phase, decision: Decision | None, plan_id: str, before: Status) -> dict[str, Any]:
    """Return the status fields about the plan (`_PLAN_FIELDS`), or for a rejected gang about the rejection.

    :param decision: the new decision; None keeps the plan in `before`.
    :param before: the present status.
    """
    if decision is None and phase is Phase.PLACED:
        return _settled_plan(gang, before)
    if decision is None and phase.planned:
        kept = {key: before[key] for key in _PLAN_FIELDS if key in before}
        return kept if "assignments" in kept else {**kept, "assignments": _assigned(gang.members)}
    if decision is None:
        return {"flavors": _flavors(gang, (), before), "assignments": _assigned(m for m in gang.members if m.pod.bound)}
    report = gang_report(decision)
    assignments = [
        entry if each.member.pod.bound else {**entry, "uid": each.member.pod.metadata.uid}
        for entry, each in zip(report["assignments"], decision.assignments, strict=True)
    ]
    victims = [{**entry, "uid": each.uid} for entry, each in zip(report["victims"], decision.evictions, strict=True)]
    claims = claims_entry(claim for each in decision.assignments for claim in each.devices) or None
    plan = {
        "planId": plan_id,
        "flavors": _flavors(gang, decision.flavors, before),
        "assignments": assignments if phase.planned else _assigned(m for m in gang.members if m.pod.bound),
        "claims": claims if phase.planned else None,
        "levels": report["levels"],
        "victims": victims,
        "objective": report["objective"],
        "proof": report["proof"],
        "explanation": _explanation(decision, report, planned=phase.planned),
    }
    return {key: without_nulls(value) for key, value in plan.items()}


def _explanation(decision: Decision, report: Status, *, planned: bool) -> Status | None:
    """Return the status field `explanation`: why a planned gang got its nodes, or why another gang was rejected.

    Users of the gang's namespace read the status. So the pods that a change evicts, and the gangs in the domains to
    which a node selector confines the gang, are counted and not named. None if a planned gang needs no explanation.
    """
    if not planned:
        known = decision.explanation
        nameless: dict[str, Any] = {"wouldFitIf": list(known.would_fit_if)}
        nameless |= {"onlyIn": known.only_in.nameless} if known.only_in else {}
        return {**report["explanation"], **nameless}
    return {"whyHere": decision.explanation.why_here} if decision.explanation.why_here else None


def _flavors(gang: Gang, planned: Sequence[str], before: Status) -> list[str] | None:
    """Return the quota flavors of the gang: those of the new plan, or else the previous ones while a member is bound.

    None if there are none.
    """
    kept = before.get("flavors") or () if any(member.pod.bound for member in gang.members) else ()
    return list(planned or kept) or None


def _topology(decision: Decision | None, before: Status) -> str | None:
    """Return the topology in which the gang was last planned; None if there is none."""
    searched = decision is not None and decision.outcome in (Outcome.PLACED, Outcome.UNPLACEABLE)
    return decision.topology if decision is not None and searched else before.get("topology")


def _settled_plan(gang: Gang, before: Status) -> dict[str, Any]:
    """Return the plan fields of the status of a placed gang, recounted over the members that are still bound."""
    kept = {key: before[key] for key in _PLAN_FIELDS if key in before and key != "claims"}
    bound = [member for member in gang.members if member.pod.bound]
    if (levels := _levels_used(kept.get("levels") or (), [each.pod.spec.node_name for each in bound])) is not None:
        kept["levels"] = levels
    return {**kept, "assignments": _assigned(bound)}


def _levels_used(levels: Sequence[Mapping[str, Any]], nodes: Sequence[str]) -> list[dict[str, Any]] | None:
    """Return the status field `levels`, recounted for these nodes: by level, how many pods run in each domain.

    None if there are no nodes, or if the plan does not contain the domain of a node.

    :param levels: the field as the plan recorded it.
    :param nodes: the node of each bound member; a node occurs once for each member.
    """
    paths = {domain["path"][-1]: domain["path"] for domain in levels[-1]["domains"]} if levels else {}
    if not nodes or not all(node in paths for node in nodes):
        return None
    used = []
    for depth, level in enumerate(levels, start=1):
        counts = Counter(tuple(paths[node][:depth]) for node in nodes)
        order = dict.fromkeys(tuple(domain["path"]) for domain in level["domains"])
        domains = [{"path": list(path), "pods": counts[path]} for path in order if counts[path]]
        used.append({**level, "domains": domains})
    return used


def _assigned(members: Iterable[Member]) -> list[dict[str, Any]]:
    """Return the status field `assignments` from the pods themselves: the node of each member that has one.

    The node is the one on which the pod is bound, or else the one that the annotation of its plan names.
    """
    return [
        without_nulls(
            {
                "namespace": each.pod.metadata.namespace,
                "pod": each.pod.metadata.name,
                "podSet": each.pod_set,
                "index": each.index,
                "node": node,
            }
        )
        for each in members
        if (node := _node_of(each))
    ]


def _node_of(member: Member) -> str:
    return member.pod.spec.node_name or member.pod.metadata.annotations.get(PLANNED_NODE, "")


def _counts(gang: Gang, phase: Phase, plan: Mapping[str, Any]) -> dict[str, int]:
    bound = sum(member.pod.bound for member in gang.members)
    return {
        "expected": max(gang.expected, len(gang.members)),
        "existing": len(gang.members) - len(gang.to_come),
        "placed": min(len(gang.members), max(bound, len(plan["assignments"]))) if phase.planned else bound,
        "bound": bound,
    }


def _summary(counts: Mapping[str, int], levels: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the status field `summary`, the columns of `kubectl get gangs`.

    `pods`: bound members / expected members. `level` and `domain`: the narrowest domain that holds the whole plan.
    """
    summary = {"pods": f"{counts['bound']}/{counts['expected']}"}
    shared = [level for level in levels if len(level["domains"]) == 1]
    if shared:
        summary |= {"level": shared[-1]["level"], "domain": "/".join(shared[-1]["domains"][0]["path"])}
    return summary


def _missing(gang: Gang) -> Message:
    """Return what the gang lacks to be complete, objects or members; an empty message if it is complete."""
    if gang.waiting_for:
        return Message.of(f"waits for {listed(gang.waiting_for)}")
    existing = Counter(member.pod_set for member in gang.counted)
    for pod_set in gang.pod_sets:
        if len(gang.pod_sets) > 1 and not gang.succeeded and existing[pod_set.name] < pod_set.min_count:
            more = more_pods(existing[pod_set.name], pod_set.min_count, pod_set.name)
            return Message.of("waits for ", more, one_by_one(gang))
    least = max(gang.min_member, sum(each.min_count for each in gang.pod_sets))
    total = existing.total() + gang.succeeded
    return Message.of("waits for ", more_pods(total, least), one_by_one(gang)) if total < least else Message()


def _reason(gang: Gang, phase: Phase, decision: Decision | None) -> str:
    if phase is Phase.WAITING:
        if decision is not None and decision.reason is not None:
            return str(decision.reason.value)
        return REASONS[phase][2 if gang.waiting_for else 1 if _missing(gang) else 0]
    if phase is Phase.UNPLACEABLE and decision is not None and decision.refusal is not None:
        return decision.refusal.value
    if phase is Phase.UNPLACEABLE and decision is not None and decision.proof == Proof.UNPROVEN.value:
        return Refusal.NOT_PROVEN.value
    if phase is Phase.RELEASED and gang.to_come and len(gang.to_come) == sum(not m.pod.bound for m in gang.members):
        return PODS_TO_COME
    return REASONS[phase][0]


def _all_on_one_line(*messages: str) -> str:
    return one_line("; ".join(filter(None, messages)))


def _message(gang: Gang, phase: Phase, decision: Decision | None, plan: Mapping[str, Any]) -> str:
    if decision is not None and phase in _DECIDED:
        return decision.message
    if phase is Phase.WAITING:
        return str(waiting_line(gang, None))
    if phase in _FIXED_MESSAGES:
        return _FIXED_MESSAGES[phase]
    if phase is Phase.EVICTING:
        return f"waits for {_victims(plan.get('victims') or ())} to go"
    nodes, planned = compressed(entry["node"] for entry in plan["assignments"]), pods(len(plan["assignments"]))
    if phase is Phase.NOMINATED:
        return f"capacity is reserved for {planned} on {nodes}{_held(gang)}"
    bound = sum(member.pod.bound for member in gang.members)
    released = phase is Phase.RELEASED
    return f"{bound} of {planned} are bound on {nodes}{_held(gang)}" if released else _settled(gang, bound, nodes)


def _held(gang: Gang) -> str:
    """Return the end of a message that lists the expected pods with reserved capacity; "" if there are none."""
    names = [member.pod.metadata.name for member in gang.to_come]
    creates, them = "recreates" if gang.made_again else "creates", "it" if len(names) == 1 else "them"
    return f"; capacity is reserved for {compressed(names)} until {gang.source} {creates} {them}" if names else ""


def _settled(gang: Gang, bound: int, nodes: str) -> str:
    ended = f"{pods(gang.succeeded)} {'has' if gang.succeeded == 1 else 'have'} succeeded" if gang.succeeded else ""
    running = f"{pods(bound)} {'is' if bound == 1 else 'are'} bound on {nodes}" if bound else ""
    waiting = len(gang.members) - bound - len(gang.to_come)  # beyond the minimum; their pods say what they wait for
    return ", ".join(filter(None, (running, ended, f"{waiting} more wait{'s' * (waiting == 1)}" * (waiting > 0))))


def _victims(victims: Sequence[Mapping[str, Any]]) -> str:
    names = [f"{each['namespace']}/{each['pod']}" for each in victims[:_VICTIMS_SHOWN]]
    rest = len(victims) - len(names)
    return f"{', '.join(names)} and {rest} more" if rest else listed(names or ["its victims"])


def _timed_out(phase: Phase, before: Status, *, reported: bool | None) -> bool | None:
    """Return the value of the condition TimedOut. None: the condition has never been set and is omitted."""
    if reported is not None:
        return reported
    known = [each.get("status") == "True" for each in before.get("conditions") or () if each.get("type") == "TimedOut"]
    return (known[0] and not phase.released) if known else None


def _conditions(gang: Gang, phase: Phase, reason: str, message: str, *, timed_out: bool | None) -> list[dict[str, Any]]:
    missing = _missing(gang)
    complete = "ObjectsMissing" if gang.waiting_for else "MembersMissing" if missing else "MembersExist"
    held = message if phase.planned and not phase.released else "a plan is in force" if phase.planned else message
    coming = len(gang.to_come)
    exist = f"{pods(len(gang.members) - coming)} of {max(gang.expected, len(gang.members))} exist"
    exist += ", the others are recreated" if gang.made_again else ", the others come when they run" if coming else ""
    exist += delayed(gang) if coming else ""
    conditions = [
        _condition("Complete", holds=not missing, reason=complete, message=str(missing) or exist),
        _condition("Planned", holds=phase.planned, reason="PlanFound" if phase.planned else reason, message=held),
        _condition(
            "Released",
            holds=phase.released,
            reason="AllIsReady" if phase.released else reason,
            message="the members were released" if phase.released else message,
        ),
        _condition("Placed", holds=phase is Phase.PLACED, reason=reason, message=message),
    ]
    if timed_out is not None:
        why = "ScheduleTimeout" if timed_out else "InTime"
        text = f"not placed within {gang.schedule_timeout_seconds} s" if timed_out else "the gang is within its time"
        conditions.append(_condition("TimedOut", holds=timed_out, reason=why, message=text))
    return conditions


def _ever_complete(gang: Gang, phase: Phase, before: Status, withdrawal: Withdrawal | None) -> list[dict[str, Any]]:
    """Return the condition Whole: whether the gang's minimum of members has run together.

    Empty as long as that is not known, for example before the gang's first plan.
    """
    bound = bound_members(gang)
    known = phase.planned or status_says_whole(before) is not None or (bool(bound) and release_is_marked(bound))
    return [_condition(WHOLE, **wholeness(gang, before, withdrawal))] if known or withdrawal is not None else []


def _condition(type_: str, *, holds: bool, reason: str, message: str) -> dict[str, Any]:
    return {"type": type_, "status": "True" if holds else "False", "reason": reason, "message": message}
