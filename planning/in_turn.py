"""Gangs of one priority that are planned one after the other: what is known of them then, and another order where one
finds no place.

A gang that finds none after others, and would have one alone, is planned before those that may be in its way; that
order stands if everybody who had a place keeps one. Else nothing is proven of it: the others could be elsewhere.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from cluster.neighbours import Namespaces
from gangs.model import Gang
from kube.objects import Pod
from planning import wording
from planning.decision import Decision, Outcome
from planning.minding import leans_on
from solver.plan import Proof

Ground = TypeVar("Ground")


@dataclass(frozen=True, slots=True)
class Turns(Generic[Ground]):
    """`start`: what the first gang finds. `step`: plans one on what those before it leave, and says what it leaves; it
    is told whether its plan is the best for all.
    """

    start: Ground
    step: Callable[[Gang, Ground, bool], tuple[Decision, Ground]]
    namespaces: Namespaces

    def planned(self, gangs: Sequence[Gang], *, weighed: bool) -> tuple[list[Decision], Ground]:
        """Each on what those before it leave. `weighed` False: that is not proven to be the best for all."""
        ground, decisions = self.start, list[Decision]()
        for gang in gangs:
            decision, ground = self.step(gang, ground, weighed)
            decisions.append(decision)
        return decisions, ground

    def crowded_out(self, decisions: Sequence[Decision]) -> list[Decision]:
        """Those without a place of whom it is not known that they had none, were those before them elsewhere."""
        found, before = list[Decision](), list[Pod]()
        for decision in decisions:
            gang = decision.gang
            no = decision.outcome is Outcome.UNPLACEABLE and decision.proof == Proof.INFEASIBLE.value
            if no and gang is not None and before and not self._never(gang, before):
                found.append(decision)
            before += [each.member.pod for each in decision.assignments if not each.held]
        return found

    def _never(self, gang: Gang, others: Sequence[Pod]) -> bool:
        """Whether it has no place wherever the others are."""
        if leans_on([member.pod for member in gang.members], others, self.namespaces):
            return False
        alone, _ = self.step(gang, self.start, False)  # noqa: FBT003 -- as `weighed`
        return alone.outcome is Outcome.UNPLACEABLE and alone.proof == Proof.INFEASIBLE.value

    def settled(
        self, decisions: list[Decision], ground: Ground, crowded: Sequence[Decision], seconds: float
    ) -> tuple[list[Decision], Ground]:
        """The decisions with places for those who were crowded out, as far as these are found within `seconds`, in the
        order of their planning. Of the others nothing is proven.
        """
        end = time.monotonic() + seconds
        for each in crowded:
            found = self._with(each, decisions, end)
            decisions, ground = found or (decisions, ground)
        late = {each.key for each in crowded}
        return [_after_others(each, decisions) if each.key in late else each for each in decisions], ground

    def _with(self, late: Decision, decisions: Sequence[Decision], end: float) -> tuple[list[Decision], Ground] | None:
        """A plan for this gang, then for all who had a place; None where one of them has none. The rest comes last."""
        placed = [each.gang for each in decisions if each.outcome is Outcome.PLACED and each.gang is not None]
        if late.gang is None or late.key in {gang.key for gang in placed}:
            return None
        ground, found = self.start, list[Decision]()
        for gang in (late.gang, *placed):
            if time.monotonic() > end:
                return None
            decision, ground = self.step(gang, ground, False)  # noqa: FBT003 -- as `weighed`
            if decision.outcome is not Outcome.PLACED:
                return None
            found.append(decision)
        known = {each.key for each in found}
        return [*found, *(each for each in decisions if each.key not in known)], ground


def _after_others(decision: Decision, decisions: Sequence[Decision]) -> Decision:
    """A no that only holds after the others, called so."""
    if decision.outcome is not Outcome.UNPLACEABLE or decision.proof != Proof.INFEASIBLE.value:
        return decision
    others = [each.key for each in decisions if any(not one.held for one in each.assignments)]
    named, nameless = wording.gangs(others), wording.gangs_by_number(len(others))
    return replace(
        decision,
        message=wording.planned_after(named, decision.message),
        proof=Proof.UNPROVEN.value,
        naming=((named, nameless), *decision.naming),
    )
