"""Turns the solver's joint answer for several gangs into one decision for each gang.

Each decision is verified on the capacity that the other gangs leave.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gangs.model import Gang, GangKey, Member
from planning.after_plan import after, after_all
from planning.competing.affinity_between import any_pod_rules_between
from planning.competing.evicted import staying
from planning.competing.one_by_one import OneByOne
from planning.competing.remaining import Remaining, only_room_matters
from planning.competing.same_priority import GangPart, SamePriority, Taken, Variant, share_as_plan
from planning.decision import Decision
from planning.framing.gang_problem import Framing
from planning.messages.outcomes import decided
from planning.quota.queueing import charged, in_choice, within_quota
from planning.quota.usage import used_by
from planning.scheduler_rules.member_affinity import stands
from solver.multi_gang.joint_problem import JointAnswer
from solver.plan import Plan, Proof


@dataclass(frozen=True, slots=True)
class Joint:
    """The solver's joint answer for the gangs of one priority, with one choice of flavors for each gang.

    `variants`: each gang in its chosen flavors. `parts`: the nodes and victims of each accepted gang. `without`: the
    gangs that are proven infeasible beside the accepted gangs. `complete`: whether no other choice of flavors can be
    better. `seconds`: the time of each step, by the step's name.
    """

    same_priority: SamePriority
    variants: Mapping[GangKey, Variant]
    answer: JointAnswer
    parts: Mapping[GangKey, GangPart]
    without: frozenset[GangKey]
    complete: bool
    seconds: Mapping[str, float]

    @property
    def accepted(self) -> tuple[bool, ...]:
        """Whether each gang is accepted, in the order of the gangs."""
        return tuple(key in self.parts for key in self.variants)

    @property
    def all_decided(self) -> bool:
        """Whether every gang is either accepted or proven infeasible beside the accepted gangs."""
        return self.parts.keys() | self.without == self.variants.keys()

    @property
    def proven(self) -> bool:
        """Whether the answer is proven optimal in all goals that were optimised."""
        depth = len(next(iter(self.variants.values())).framing.problem.levels)
        best = self.answer.proof is Proof.OPTIMAL or self.answer.levels == depth
        return best and self.complete and self.all_decided


@dataclass(frozen=True, slots=True)
class JointDecisions:
    """The decisions of all gangs, made from a joint plan, and the cluster and quotas after it.

    `proven`: whether the plan is optimal in all goals that were optimised. `levels`: on how many levels the compactness
    is proven, if only compactness was optimised.
    """

    decisions: list[Decision]
    taken: Taken
    proven: bool
    levels: int


def carried_over(joint: Joint, one_by_one: OneByOne) -> JointDecisions | None:
    """Return the decisions of all gangs of one priority from a joint answer; None if a gang's part of the joint plan
    fails verification.

    Gangs that the joint plan does not place are planned alone after all others, because this explains their rejection.
    """
    same_priority = joint.same_priority
    accepted = [gang for gang in same_priority.gangs if gang.key in joint.parts]
    placed = _placed(joint, accepted) if accepted else []
    if placed is None or (placed and not _may_be_bound(joint, placed)):
        return None
    decisions = {decision.key: decision for decision in placed}
    taken = _all_taken(placed, same_priority.start)
    for gang in same_priority.gangs:
        if gang.key not in decisions:
            decisions[gang.key], taken = same_priority.plan(gang, taken, False)  # noqa: FBT003 -- as `uncontested`
    in_order = [decisions[gang.key] for gang in same_priority.gangs]
    if not joint.answer.levels:
        in_order = one_by_one.not_proven(in_order, joint.without if joint.complete else ())
    return JointDecisions(in_order, taken, joint.proven, joint.answer.levels)


def _all_taken(decisions: Sequence[Decision], start: Taken) -> Taken:
    usage = start.usage
    for decision in decisions:
        usage = charged(decision, usage)
    return Taken(after_all(decisions, start.snapshot), usage, start.closed)


def _placed(joint: Joint, gangs: Sequence[Gang]) -> list[Decision] | None:
    """Return the verified decisions of the accepted gangs; None if a gang's part of the joint plan fails
    verification.
    """
    if any_pod_rules_between(
        [gang for gang in joint.same_priority.gangs if gang.key in joint.variants],
        joint.same_priority.start.snapshot.namespaces,
    ):
        return _beside_all_others(joint, gangs)
    variants = _within_quotas(joint, gangs)
    evicting = any(joint.parts[gang.key].victims for gang in gangs)
    whole = variants == [joint.variants[gang.key] for gang in gangs]
    if whole and not evicting and only_room_matters(gangs, [each.framing for each in variants]):
        return _on_what_is_left(joint, variants) or _one_after_the_other(joint, variants)
    return _one_after_the_other(joint, variants)


def _within_quotas(joint: Joint, gangs: Sequence[Gang]) -> list[Variant]:
    """Return the accepted gangs in their flavors, without the members for which the quota does not suffice.

    A gang that is planned alone is planned without these members, too. So in both cases its decision gives the same
    reason why these members have no node.
    """
    usage = joint.same_priority.start.usage
    placed: dict[GangKey, list[Member]] = {}
    for gang in gangs:
        placed[gang.key] = [member for member in gang.members if member.pod.key in joint.parts[gang.key].nodes]
        if gang.account is not None:
            usage = usage.having(gang.key, used_by(gang, placed[gang.key], joint.variants[gang.key].choice))
    found = []
    for gang in gangs:
        variant = joint.variants[gang.key]
        stay = {each.pod.key for each in within_quota(gang, variant.choice, placed[gang.key], usage)}
        members = tuple(each for each in variant.in_flavors.members if each.pod.key in stay)
        if len(members) < len(gang.members):
            variant = replace(variant, in_flavors=replace(variant.in_flavors, members=members))
        found.append(variant)
    return found


def _on_what_is_left(joint: Joint, variants: Sequence[Variant]) -> list[Decision] | None:
    """Return one decision for each of these gangs, in their order, without framing any gang anew.

    Each gang's part of the joint plan is verified in the problem of its variant, with the free capacity reduced by what
    the earlier gangs take. None if a part fails verification, or cannot be stated in that problem.
    """
    left, decisions = Remaining(), list[Decision]()
    for variant in variants:
        framing = left.framing(variant.framing)
        decision = None if framing is None else _verified(joint, variant, framing)
        share = joint.parts[variant.gang.key].share(variant.framing)
        if decision is None or framing is None or share is None:
            return None
        decisions.append(decision)
        left.take(framing, share)
    return decisions


def _one_after_the_other(joint: Joint, variants: Sequence[Variant]) -> list[Decision] | None:
    """Return one decision for each of these gangs, in their order. Each gang is framed anew on the snapshot after the
    plans of the earlier gangs, and its part of the joint plan is verified in this new problem.

    None if a part fails verification, or if an earlier gang evicts members of a later gang.
    """
    snapshot, decisions = joint.same_priority.start.snapshot, list[Decision]()
    for variant in variants:
        if staying(variant.gang, snapshot) is not variant.gang:
            return None  # an earlier gang evicts members of this gang, which the joint problem still counts
        framing = joint.same_priority.frame(variant.in_flavors, snapshot)
        decision = _verified(joint, variant, framing) if isinstance(framing, Framing) else None
        if decision is None:
            return None
        decisions.append(decision)
        snapshot = after(decision, snapshot)
    return decisions


def _beside_all_others(joint: Joint, gangs: Sequence[Gang]) -> list[Decision] | None:
    """Return one decision for each of these gangs, in their order. Each gang is framed anew on the snapshot after the
    plans of all other gangs, and its part of the joint plan is verified in this new problem.

    The plans of later gangs are in the snapshot, because a gang's pods may have affinity to pods of later gangs. None
    if a part fails verification.
    """
    start, plans, decisions = joint.same_priority.start.snapshot, dict[GangKey, Decision](), list[Decision]()
    for gang in gangs:
        variant = joint.variants[gang.key]
        share = joint.parts[gang.key].share(variant.framing)
        if share is None:
            return None
        plan = Plan(share.nodes, share.victims, (), Proof.FEASIBLE)
        plans[gang.key] = decided(
            gang, variant.framing, plan, joint.same_priority.running, {}, devices=joint.parts[gang.key].devices
        )
    for variant in _within_quotas(joint, gangs):
        gang = variant.gang
        snapshot = after_all([plan for key, plan in plans.items() if key != gang.key], start)
        framing = joint.same_priority.frame(variant.in_flavors, snapshot)
        decision = _verified(joint, variant, framing) if isinstance(framing, Framing) else None
        if decision is None:
            return None
        decisions.append(decision)
    return decisions


def _may_be_bound(joint: Joint, decisions: Sequence[Decision]) -> bool:
    """Return whether the stock scheduler can bind the new members of all gangs in some order.

    If no member depends on another member by pod affinity, anti-affinity or topology spread, the result is True without
    a check.
    """
    framings = [variant.framing for variant in joint.variants.values()]
    gangs = [variant.gang for variant in joint.variants.values()]
    snapshot = joint.same_priority.start.snapshot
    alone = not any(each.among_members or each.problem.spreads for each in framings)
    if alone and not any_pod_rules_between(gangs, snapshot.namespaces):
        return True
    all_members = replace(
        decisions[0],
        gang=None,
        assignments=tuple(each for decision in decisions for each in decision.assignments),
        evictions=tuple(each for decision in decisions for each in decision.evictions),
    )
    return stands(all_members, snapshot)


def _verified(joint: Joint, variant: Variant, framing: Framing) -> Decision | None:
    """Return the decision of an accepted gang, whose part of the joint plan is verified in the problem of `framing`.
    None if the part breaks a constraint there.
    """
    share = joint.parts[variant.gang.key].share(framing)
    plan = None if share is None else share_as_plan(framing.problem, share, joint.answer)
    if plan is None:
        return None
    decision = decided(
        variant.in_flavors,
        framing,
        plan,
        joint.same_priority.running,
        joint.seconds,
        devices=joint.parts[variant.gang.key].devices,
    )
    return in_choice(decision, variant.gang, variant.choice)
