"""Decisions as the SolveReport of `phalanx solve -o json` and `POST /v1/solve`."""

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any

from kube.keys import API_VERSION
from planning.decision import Assignment, Decision, Explanation
from planning.devices.counts import DeviceCount
from solver.plan import Goal, NearDomain, Proof

KIND = "SolveReport"

Json = dict[str, Any]


def solve_report(decisions: Iterable[Decision], *, details: bool = False) -> Json:
    """Return the decisions as JSON data (a SolveReport), in the order in which the gangs were planned.

    :param details: whether explanations have the fields that only `-v` and `?why=true` add.
    """
    entries = [gang_report(each, details=details) for each in decisions]
    return {"apiVersion": API_VERSION, "kind": KIND, "gangs": entries}


def gang_report(decision: Decision, *, details: bool = True) -> Json:
    """Return the entry of one gang in the SolveReport. `details`: whether the explanation has the fields that only `-v`
    and `?why=true` add.
    """
    gang = decision.gang
    return {
        "namespace": decision.key.namespace,
        "name": name_of(decision),
        "dialect": decision.key.dialect,
        "outcome": decision.outcome.value,
        "members": members_of(decision),
        "minMember": gang.min_member if gang else 0,
        "placed": len(decision.assignments),
        "assignments": _assignments(decision),
        "levels": _levels(decision),
        "victims": _victims(decision),
        "objective": [_goal(each) for each in (*decision.goals, *decision.device_goals)],
        "proof": decision.proof or Proof.UNPROVEN.value,
        "message": decision.message,
        "explanation": _explanation(decision.explanation, details=details),
        "milliseconds": {step: round(seconds * 1000, 3) for step, seconds in decision.seconds.items()},
    }


def name_of(decision: Decision) -> str:
    """Return the name of the object that asks for the gang; if only its pods ask for it, the gang's own name."""
    gang = decision.gang
    return decision.key.name if gang is None else gang.shown_as


def members_of(decision: Decision) -> int:
    """Return the number of members that the gang expects, or the number that exist if that is higher; 0 without a
    gang.
    """
    return max(decision.gang.expected, len(decision.gang.members)) if decision.gang else 0


def _assignments(decision: Decision) -> list[Json]:
    return [
        {
            "namespace": each.member.pod.metadata.namespace,
            "pod": each.member.pod.metadata.name,
            "podSet": each.member.pod_set,
            "index": each.index,
            "node": each.node,
            **({"devices": devices_of(each)} if each.devices else {}),
        }
        for each in decision.assignments
    ]


def devices_of(assignment: Assignment) -> list[Json]:
    """Return the devices of one member as JSON. A claim that does not exist yet is named after its pod and entry."""
    pod = assignment.member.pod.metadata.name
    return [
        {
            "claim": claim.name or f"{pod}-{claim.pod_claim}",
            "request": each.request,
            "driver": each.device.driver,
            "pool": each.device.pool,
            "device": each.device.device,
            **({"adminAccess": True} if each.admin_access else {}),
            **({"consumedCapacity": dict(each.consumed)} if each.consumed else {}),
        }
        for claim in assignment.devices
        for each in claim.devices
    ]


def _levels(decision: Decision) -> list[Json]:
    return [
        {
            "level": level.level,
            "label": level.label,
            "mode": level.mode,
            "domains": [{"path": list(each.path), "pods": each.pods} for each in level.domains],
        }
        for level in (*decision.levels, *decision.device_levels)
    ]


def _victims(decision: Decision) -> list[Json]:
    return [
        {
            "namespace": each.namespace,
            "pod": each.name,
            "node": each.node,
            "priority": each.priority,
            "gang": None if each.gang is None else str(each.gang),
        }
        for each in decision.evictions
    ]


def _goal(goal: Goal) -> Json:
    entry: Json = {"goal": goal.name, "value": goal.value, "bound": goal.bound}
    if goal.parts:
        entry["parts"] = dict(goal.parts)
    return entry


def _explanation(explanation: Explanation, *, details: bool) -> Json:
    """Return the explanation as JSON.

    `whyHere` is present only if it was requested and there is a plan to compare. With `details`, `onlyIn` is present if
    a node selector or node affinity confines a rejected gang to few domains.
    """
    found = zip_longest(explanation.nearest, explanation.devices)
    entry: Json = {
        "nearest": [{**_near(near), **(_more(near, devices) if details else {})} for near, devices in found],
        "wouldFitIf": list(explanation.changes),
    }
    if explanation.why_here:
        entry["whyHere"] = explanation.why_here
    if explanation.only_in and details:
        entry["onlyIn"] = str(explanation.only_in)
    return entry


def _more(near: NearDomain, devices: Sequence[DeviceCount] | None) -> Json:
    """Return the fields `fitsWithoutEvictions` and `devices` of a near domain in a SolveReport.

    `fitsWithoutEvictions` is absent if the number is not known or no pod may be evicted. `devices` is absent if no
    member has claims.
    """
    entry: Json = {} if near.fits_now is None else {"fitsWithoutEvictions": near.fits_now}
    if devices:
        entry["devices"] = [device_count(each) for each in devices]
    return entry


def device_count(count: DeviceCount) -> Json:
    """Return the numbers of devices of one device kind in a domain as JSON."""
    return {
        "devices": count.devices,
        "requests": list(count.requests),
        **({"constraints": list(count.constraints)} if count.constraints else {}),
        "matching": count.matching,
        "free": count.free,
        "needed": count.needed,
    }


def _near(near: NearDomain) -> Json:
    return {
        "level": near.level,
        "path": list(near.path),
        "fits": near.fits,
        "needed": near.needed,
        "nodes": near.nodes,
        "excluded": dict(near.excluded),
    }
