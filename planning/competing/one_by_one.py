"""Plans the gangs of one priority one after the other, and marks the rejections that this order does not prove.

If a gang has no plan after other gangs but would have one alone, its rejection is unproven: the earlier gangs could be
placed elsewhere.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from gangs.model import Gang, GangKey
from kube.objects import Pod
from planning.competing.affinity_between import depends_on_any
from planning.competing.same_priority import SamePriority, Taken
from planning.decision import Decision, Outcome
from planning.framing.member_traits import has_pod_rules
from planning.messages import wording
from solver.plan import Proof


@dataclass(frozen=True, slots=True)
class OneByOne:
    """Plans the gangs of one priority in their order, each on the capacity that the gangs before it leave."""

    same_priority: SamePriority
    known: dict[GangKey, Decision] = field(default_factory=dict)
    """Cached decisions of gangs when planned alone."""

    def planned(self, *, uncontested: bool) -> tuple[list[Decision], Taken]:
        """Return the decisions of all gangs in their order, and the cluster and quotas after their plans.

        `uncontested`: whether no two gangs compete for nodes or quotas. If False, no single plan is marked as the best
        for all gangs.
        """
        taken, decisions = self.same_priority.start, list[Decision]()
        for gang in self.same_priority.gangs:
            decision, taken = self.same_priority.plan(gang, taken, uncontested)
            decisions.append(decision)
        return decisions, taken

    def alone(self, gang: Gang) -> Decision:
        """Return the decision that the gang would get if there were no other gang of its priority."""
        if gang.key not in self.known:
            self.known[gang.key], _ = self.same_priority.plan(gang, self.same_priority.start, False)  # noqa: FBT003 -- as `uncontested`
        return self.known[gang.key]

    def displaced(self, decisions: Sequence[Decision]) -> list[Decision]:
        """Return the rejections among `decisions` that could change if other gangs of this priority were placed on
        other nodes.

        The search has proven such a rejection only for the present placement of the earlier gangs. A rejection is
        returned if the gang would not be proven infeasible when planned alone. It is also returned if the gang's pods
        have affinity to pods of another gang.
        """
        found, taken = list[Decision](), False
        for decision in decisions:
            gang = decision.gang if is_infeasible(decision) else None
            if gang is not None and (
                self._depended_on(gang, decisions) or (taken and not is_infeasible(self.alone(gang)))
            ):
                found.append(decision)
            taken = taken or takes_new_nodes(decision)
        return found

    def not_proven(self, decisions: Sequence[Decision], proven: Collection[GangKey] = ()) -> list[Decision]:
        """Return all decisions. The rejections of displaced gangs are marked as Unproven in them.

        `proven`: gangs that the joint model proves infeasible, wherever the earlier gangs are placed. Their rejections
        stay proven.
        """
        late = {each.key for each in self.displaced(decisions)}
        return [
            each
            if each.key not in late
            else _beside_others(each, decisions)
            if each.key in proven
            else self._not_proven(each, decisions)
            for each in decisions
        ]

    def _depended_on(self, gang: Gang, decisions: Iterable[Decision]) -> list[Gang]:
        """Return the other gangs to whose pods the gang has affinity or hard topology spread."""
        pods = [member.pod for member in gang.members]
        if not any(map(has_pod_rules, pods)):
            return []
        coming = ((each.gang, _coming(each)) for each in decisions if each.key != gang.key)
        namespaces = self.same_priority.start.snapshot.namespaces
        return [other for other, there in coming if other is not None and depends_on_any(pods, there, namespaces)]

    def _not_proven(self, decision: Decision, decisions: Sequence[Decision]) -> Decision:
        if decision.gang is None:
            return decision
        placed = [each.key for each in decisions if takes_new_nodes(each)]
        keys = placed or [gang.key for gang in self._depended_on(decision.gang, decisions)]
        line = (wording.planned_after if placed else wording.needs_unplaced)(wording.gangs(keys), decision.line)
        return replace(decision, line=line, proof=Proof.UNPROVEN.value)


def is_infeasible(decision: Decision) -> bool:
    """Whether the decision is a proven rejection."""
    return decision.outcome is Outcome.UNPLACEABLE and decision.proof == Proof.INFEASIBLE.value


def takes_new_nodes(decision: Decision) -> bool:
    """Whether the plan gives a node to a member that had no node before."""
    return any(not each.held for each in decision.assignments)


def _coming(decision: Decision) -> list[Pod]:
    """Return the pods that the plan newly places. For a gang that is rejected as unplaceable, return all its pods."""
    if decision.gang is not None and decision.outcome is Outcome.UNPLACEABLE:
        return [member.pod for member in decision.gang.members]
    return [each.member.pod for each in decision.assignments if not each.held]


def _beside_others(decision: Decision, decisions: Sequence[Decision]) -> Decision:
    """Return the decision of an infeasible gang, with a message that names the gangs of its priority that were placed
    before it.
    """
    before = decisions[: next(turn for turn, each in enumerate(decisions) if each.key == decision.key)]
    others = [each.key for each in before if takes_new_nodes(each)]
    if not others:
        return decision
    return replace(decision, line=wording.no_place_beside(wording.gangs(others), decision.line))
