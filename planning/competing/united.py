"""Gangs of one priority as if they were one: what their members say of each other (host ports, affinity, spread) is
then a rule among members, which the solver knows. For gangs that were planned one after the other, and of which one
found no place: whether there is a plan for all, and what each of them gets in it.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cluster.snapshot import Snapshot
from gangs.model import Gang, GangKey, PodSet, TogetherRule
from planning.after_plan import after
from planning.competing.in_turn import No, is_no
from planning.competing.remaining import looks_around
from planning.competing.tier import Tier, share_as_plan
from planning.decision import Decision, Eviction, Outcome
from planning.framing.gang_problem import Framing
from planning.framing.priorities import may_preempt
from planning.messages.outcomes import decided
from solver.multi_gang.joint_problem import JointAnswer, Share
from solver.plan import Proof

MOST_MEMBERS = 512
"""Of all gangs together; with more, one gang of theirs takes longer than the wait is worth."""


@dataclass(frozen=True, slots=True)
class United:
    """`gang`: all of them as one. `owners`: by pod, whose member it is."""

    gang: Gang
    owners: dict[str, GangKey]

    def parts(self, decision: Decision) -> dict[GangKey, "GangPart"]:
        """What each gang gets of a plan for all. A victim goes for whoever comes to its node, else for the last."""
        keys = list(dict.fromkeys(self.owners.values()))
        nodes: dict[GangKey, dict[str, str]] = {key: {} for key in keys}
        for each in decision.assignments:
            pod = each.member.pod.key
            nodes[self.owners[pod]][pod] = each.node
        gone: dict[GangKey, list[Eviction]] = {key: [] for key in keys}
        for eviction in decision.evictions:
            comes = (key for key in keys if eviction.node in nodes[key].values())
            gone[next(comes, keys[-1])].append(eviction)
        return {key: GangPart(nodes[key], frozenset(f"{e.namespace}/{e.name}" for e in gone[key])) for key in keys}


@dataclass(frozen=True, slots=True)
class GangPart:
    """Of one gang: the node of each placed member, by pod, and the pods that are evicted for it."""

    nodes: dict[str, str]
    victims: frozenset[str]

    def share(self, framing: Framing) -> Share | None:
        """The same in the positions of the gang's framing; None where that lacks a node or a victim."""
        places = {name: position for position, name in enumerate(framing.nodes)}
        known = {tenant.pod.key for tenant in framing.victims}
        if not self.victims <= known or not places.keys() >= set(self.nodes.values()):
            return None
        rows = tuple(
            tuple(places[self.nodes[m.pod.key]] if m.pod.key in self.nodes else None for m in members)
            for members in framing.members
        )
        gone = (position for position, each in enumerate(framing.victims) if each.pod.key in self.victims)
        return Share(rows, tuple(gone))


def united(gangs: Sequence[Gang]) -> United | None:
    """None where one gang cannot say what they ask for: each has rules of its own for nodes, or for all its sets."""
    first = gangs[0]
    if not all(map(_sayable, gangs)) or any(_nodes(each) != _nodes(first) for each in gangs):
        return None
    merged = replace(
        first,
        members=tuple(
            replace(member, pod_set=_name(place, member.pod_set))
            for place, gang in enumerate(gangs)
            for member in gang.members
        ),
        pod_sets=tuple(_set(place, gang, each) for place, gang in enumerate(gangs) for each in gang.pod_sets),
        expected=sum(gang.expected for gang in gangs),
        min_member=sum(gang.min_member for gang in gangs),
        required=None,
        preferred=None,
        together=tuple(rule for place, gang in enumerate(gangs) for rule in _together(place, gang)),
    )
    return United(merged, {member.pod.key: gang.key for gang in gangs for member in gang.members})


def plan_as_one(tier: Tier, gangs: Sequence[Gang], end: float) -> tuple[list[Decision], Snapshot] | No:
    """See `planning.competing.in_turn.Together`. Where room is all that they take from each other it is not tried: that
    is for `planning.competing.planned_together`.
    """
    pods = [member.pod for gang in gangs for member in gang.members]
    merged = united(gangs) if len(pods) <= MOST_MEMBERS and any(map(looks_around, pods)) else None
    if merged is None:
        return No.UNKNOWN
    decision = tier.plan(merged.gang, tier.snapshot, False)  # noqa: FBT003 -- as `weighed`
    if decision.outcome is not Outcome.PLACED:
        return No.PROVEN if is_no(decision) else No.UNKNOWN
    for order in (gangs, gangs[::-1]):
        if time.monotonic() < end and (found := _taken_apart(tier, order, merged.parts(decision))):
            return found
    return No.UNKNOWN


def _taken_apart(
    tier: Tier, gangs: Sequence[Gang], parts: Mapping[GangKey, GangPart]
) -> tuple[list[Decision], Snapshot] | None:
    """A plan for all as one for each gang, stated and verified on what the gangs before it leave."""
    snapshot, decisions = tier.snapshot, list[Decision]()
    for gang in gangs:
        framing = tier.frame(gang, snapshot)
        share = None if isinstance(framing, Decision) else parts[gang.key].share(framing)
        if isinstance(framing, Decision) or share is None:
            return None
        plan = share_as_plan(framing.problem, share, JointAnswer((share,), Proof.FEASIBLE))
        if plan is None:
            return None
        decisions.append(decided(gang, framing, plan, tier.running, {}, in_turn=True))
        snapshot = after(decisions[-1], snapshot)
    return decisions, snapshot


def _sayable(gang: Gang) -> bool:
    """Whether its sets, each for itself, say how many must run, and nothing else counts over all of them."""
    sets = [each for each in gang.pod_sets if each.count]
    complete = len(sets) == 1 or sum(each.min_count for each in sets) >= gang.min_member
    return complete and not gang.multiples and not gang.succeeded and gang.account is None and not gang.waiting_for


def _nodes(gang: Gang) -> object:
    """What holds for all members of a gang, whatever they say themselves: nodes, topology, and whom it may evict."""
    tree = gang.topology, gang.topology_kind, gang.key.dialect
    return gang.node_affinity, gang.node_rules, gang.node_wishes, gang.near, tree, may_preempt(gang)


def _name(place: int, pod_set: str) -> str:
    return f"{place}/{pod_set}"


def _set(place: int, gang: Gang, pod_set: PodSet) -> PodSet:
    alone = sum(bool(each.count) for each in gang.pod_sets) == 1 and bool(pod_set.count)
    least = max(pod_set.min_count, gang.min_member) if alone else pod_set.min_count
    return replace(pod_set, name=_name(place, pod_set.name), min_count=least)


def _together(place: int, gang: Gang) -> list[TogetherRule]:
    rules = [TogetherRule(tuple(_name(place, each) for each in rule.pod_sets), rule.level) for rule in gang.together]
    if gang.required is not None:
        rules.append(TogetherRule(tuple(_name(place, each.name) for each in gang.pod_sets), gang.required))
    return rules
