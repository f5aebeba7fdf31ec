"""Plans the gangs of one priority one after the other, and marks the rejections that this does not prove.

If a gang has no plan after other gangs but would have one alone, its rejection is unproven: the earlier gangs could be
placed elsewhere.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from gangs.model import Gang, GangKey
from kube.objects import Pod
from planning.competing.affinity_between import leans_on
from planning.competing.same_priority import SamePriority, Taken
from planning.decision import Decision, Outcome
from planning.framing.member_traits import minds_others
from planning.messages import wording
from solver.plan import Proof


@dataclass(frozen=True, slots=True)
class OneByOne:
    """Planning of the gangs of one priority in order, each on the capacity that the gangs before it leave."""

    same_priority: SamePriority
    known: dict[GangKey, Decision] = field(default_factory=dict)
    """Cached decisions of gangs when planned alone."""

    def planned(self, *, weighed: bool) -> tuple[list[Decision], Taken]:
        """Return the decisions in order, and what all gangs take. `weighed` False: no plan is proven best for all."""
        taken, decisions = self.same_priority.start, list[Decision]()
        for gang in self.same_priority.gangs:
            decision, taken = self.same_priority.plan(gang, taken, weighed)
            decisions.append(decision)
        return decisions, taken

    def alone(self, gang: Gang) -> Decision:
        """Return the decision for a gang if there were no other gang of its priority."""
        if gang.key not in self.known:
            self.known[gang.key], _ = self.same_priority.plan(gang, self.same_priority.start, False)  # noqa: FBT003 -- as `weighed`
        return self.known[gang.key]

    def displaced(self, decisions: Sequence[Decision]) -> list[Decision]:
        """Return the rejections of gangs that may have a plan if other gangs were placed elsewhere."""
        found, taken = list[Decision](), False
        for decision in decisions:
            gang = decision.gang if is_infeasible(decision) else None
            if gang is not None and (self._leaning(gang, decisions) or (taken and not is_infeasible(self.alone(gang)))):
                found.append(decision)
            taken = taken or takes_new_nodes(decision)
        return found

    def not_proven(self, decisions: Sequence[Decision], proven: Collection[GangKey] = ()) -> list[Decision]:
        """Return the decisions, with the rejections of displaced gangs marked as Unproven.

        `proven`: gangs whose rejection is proven in another way: they have no plan wherever the earlier gangs are.
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

    def _leaning(self, gang: Gang, decisions: Iterable[Decision]) -> list[Gang]:
        """Return the other gangs whose pods the gang may need near it, by its affinity or hard spread."""
        pods = [member.pod for member in gang.members]
        if not any(map(minds_others, pods)):
            return []
        coming = ((each.gang, _coming(each)) for each in decisions if each.key != gang.key)
        namespaces = self.same_priority.start.snapshot.namespaces
        return [other for other, there in coming if other is not None and leans_on(pods, there, namespaces)]

    def _not_proven(self, decision: Decision, decisions: Sequence[Decision]) -> Decision:
        if decision.gang is None:
            return decision
        placed = [each.key for each in decisions if takes_new_nodes(each)]
        keys = placed or [gang.key for gang in self._leaning(decision.gang, decisions)]
        line = (wording.planned_after if placed else wording.leans_on)(wording.gangs(keys), decision.line)
        return replace(decision, line=line, proof=Proof.UNPROVEN.value)


def is_infeasible(decision: Decision) -> bool:
    """Whether the decision is a proven rejection."""
    return decision.outcome is Outcome.UNPLACEABLE and decision.proof == Proof.INFEASIBLE.value


def takes_new_nodes(decision: Decision) -> bool:
    """Whether the plan gives a node to a member that had none."""
    return any(not each.held for each in decision.assignments)


def _coming(decision: Decision) -> list[Pod]:
    """Return the pods that the plan places; for an unplaceable gang all its pods."""
    if decision.gang is not None and decision.outcome is Outcome.UNPLACEABLE:
        return [member.pod for member in decision.gang.members]
    return [each.member.pod for each in decision.assignments if not each.held]


def _beside_others(decision: Decision, decisions: Sequence[Decision]) -> Decision:
    """Return an infeasible gang's decision with a message that names the earlier gangs."""
    before = decisions[: next(turn for turn, each in enumerate(decisions) if each.key == decision.key)]
    others = [each.key for each in before if takes_new_nodes(each)]
    if not others:
        return decision
    return replace(decision, line=wording.no_place_beside(wording.gangs(others), decision.line))
