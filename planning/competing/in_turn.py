"""Gangs of one priority that are planned one after the other: what is known of them then, and another order where one
finds no place.

A gang that finds none after others, and would have one alone, is planned before those that may be in its way; that
order stands if everybody who had a place keeps one. Else they are planned as one gang where that can be said
(`planning.competing.united`): they get what that finds, and where there is no plan for all, the no is proven. Of the
others nothing is: those before them could be elsewhere.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Generic, TypeVar

from cluster.neighbours import Namespaces
from gangs.model import Gang, GangKey
from kube.objects import Pod
from planning.competing.affinity_between import leans_on
from planning.decision import Decision, Outcome
from planning.messages import wording
from solver.plan import Proof

Ground = TypeVar("Ground")
Done = tuple[list[Decision], Ground]


class No(Enum):
    """There is no plan for all of several gangs, or none is known."""

    PROVEN = "proven"
    UNKNOWN = "unknown"


Together = Callable[[Sequence[Gang], float], Done[Ground] | No]
"""A plan for all of these gangs, looked for until a time of `time.monotonic`."""


@dataclass(frozen=True, slots=True)
class Turns(Generic[Ground]):
    """`start`: what the first gang finds. `step`: plans one on what those before it leave, and says what it leaves; it
    is told whether its plan is the best for all. `together`: plans several as one.
    """

    start: Ground
    step: Callable[[Gang, Ground, bool], tuple[Decision, Ground]]
    namespaces: Namespaces
    together: Together[Ground] | None = None
    known: dict[GangKey, Decision] = field(default_factory=dict)
    """What each gang would have alone, of those of whom that was asked."""

    def planned(self, gangs: Sequence[Gang], *, weighed: bool) -> tuple[list[Decision], Ground]:
        """Each on what those before it leave. `weighed` False: that is not proven to be the best for all."""
        ground, decisions = self.start, list[Decision]()
        for gang in gangs:
            decision, ground = self.step(gang, ground, weighed)
            decisions.append(decision)
        return decisions, ground

    def crowded_out(self, decisions: Sequence[Decision]) -> list[Decision]:
        """Those without a place of whom it is not known that they had none, were the others elsewhere."""
        coming = [[each.member.pod for each in decision.assignments if not each.held] for decision in decisions]
        found = list[Decision]()
        for turn, decision in enumerate(decisions):
            if decision.gang is None or not is_no(decision):
                continue
            before, later = ([pod for pods in part for pod in pods] for part in (coming[:turn], coming[turn + 1 :]))
            if (before and not self._never(decision.gang, before)) or self._leans_on(decision.gang, later):
                found.append(decision)
        return found

    def alone(self, gang: Gang) -> Decision:
        """What it would have if there were no other."""
        if gang.key not in self.known:
            self.known[gang.key], _ = self.step(gang, self.start, False)  # noqa: FBT003 -- as `weighed`
        return self.known[gang.key]

    def _never(self, gang: Gang, others: Sequence[Pod]) -> bool:
        """Whether it has no place wherever the others are."""
        if self._leans_on(gang, others):
            return False
        return is_no(self.alone(gang))

    def _leans_on(self, gang: Gang, others: Sequence[Pod]) -> bool:
        return bool(others) and leans_on([member.pod for member in gang.members], others, self.namespaces)

    def settled(
        self, decisions: list[Decision], ground: Ground, crowded: Sequence[Decision], seconds: float
    ) -> tuple[list[Decision], Ground]:
        """The decisions with places for those who were crowded out, as far as these are found within `seconds`, in the
        order of their planning. Of the others nothing is proven.
        """
        end = time.monotonic() + seconds
        never = set[GangKey]()
        order = {each.key: place for place, each in enumerate(decisions)}
        for each in crowded:
            found = self._with(each, decisions, order, end)
            if found is No.PROVEN:
                never.add(each.key)
            elif not isinstance(found, No):
                decisions, ground = found
        late = {each.key for each in crowded} - never
        told = [_after_others(each, decisions) if each.key in late else each for each in decisions]
        return [_beside_others(each, decisions) if each.key in never else each for each in told], ground

    def _with(
        self, late: Decision, decisions: Sequence[Decision], order: Mapping[GangKey, int], end: float
    ) -> Done[Ground] | No:
        """A plan for this gang and all who had a place, beside those whose turn is before its own and near the one of
        the others that it may need. The rest comes last.
        """
        placed = [each.gang for each in decisions if each.outcome is Outcome.PLACED and each.gang is not None]
        if late.gang is None or late.key in {gang.key for gang in placed}:
            return No.UNKNOWN
        found = self._in_order((late.gang, *placed), (self.start, []), end)
        if found is No.UNKNOWN and self.together is not None and time.monotonic() < end:
            before = [gang for gang in placed if order[gang.key] < order[late.key]]
            after = [gang for gang in placed if gang not in before]
            needed = [gang for gang in after if self._leans_on(late.gang, [member.pod for member in gang.members])]
            found = self.together([*before, *needed, late.gang], end)
            if found is No.PROVEN and len(needed) > 1:
                return No.UNKNOWN  # it may have a place near some of them, were the others elsewhere
            if not isinstance(found, No):
                found = self._in_order([gang for gang in after if gang not in needed], (found[1], found[0]), end)
        if isinstance(found, No):
            return found
        known = {each.key for each in found[0]}
        return [*found[0], *(each for each in decisions if each.key not in known)], found[1]

    def _in_order(self, gangs: Sequence[Gang], left: tuple[Ground, list[Decision]], end: float) -> Done[Ground] | No:
        """What is there and decided already, with these gangs after it; unknown where one of them finds no place."""
        ground, found = left
        for gang in gangs:
            if time.monotonic() > end:
                return No.UNKNOWN
            decision, ground = self.step(gang, ground, False)  # noqa: FBT003 -- as `weighed`
            if decision.outcome is not Outcome.PLACED:
                return No.UNKNOWN
            found.append(decision)
        return found, ground


def is_no(decision: Decision) -> bool:
    """Whether it certainly has no place."""
    return decision.outcome is Outcome.UNPLACEABLE and decision.proof == Proof.INFEASIBLE.value


def _beside_others(decision: Decision, decisions: Sequence[Decision]) -> Decision:
    """A no that holds wherever the gangs before it are, said with these."""
    before = decisions[: next(turn for turn, each in enumerate(decisions) if each.key == decision.key)]
    others = [each.key for each in before if any(not one.held for one in each.assignments)]
    if not others:
        return decision
    named, nameless = wording.gangs(others), wording.gangs_by_number(len(others))
    message = wording.no_place_beside(named, decision.message)
    return replace(decision, message=message, naming=((named, nameless), *decision.naming))


def _after_others(decision: Decision, decisions: Sequence[Decision]) -> Decision:
    """A no that only holds after the others, called so."""
    if not is_no(decision):
        return decision
    others = [each.key for each in decisions if any(not one.held for one in each.assignments)]
    named, nameless = wording.gangs(others), wording.gangs_by_number(len(others))
    return replace(
        decision,
        message=wording.planned_after(named, decision.message),
        proof=Proof.UNPROVEN.value,
        naming=((named, nameless), *decision.naming),
    )
