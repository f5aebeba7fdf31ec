"""Gangs of one priority that are planned one after the other: what is known of them then, and another order where one
finds no place.

A gang that finds none after others, and would have one alone, is planned before those that may be in its way; that
order stands if everybody who had a place keeps one. Else they are planned as one gang where that can be said
(`planning.competing.united`): they get what that finds, and where there is no plan for all, the no is proven. Of the
others nothing is: those before them could be elsewhere.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Generic, TypeVar

from cluster.eligibility.pod_affinity import Namespaces
from gangs.model import Gang, GangKey
from kube.objects import Pod
from planning.competing.affinity_between import leans_on
from planning.decision import Decision, Outcome
from planning.framing.member_traits import minds_others
from planning.messages import wording
from solver.plan import Proof

State = TypeVar("State")
Done = tuple[list[Decision], State]


class No(Enum):
    """There is no plan for all of several gangs, or none is known."""

    PROVEN = "proven"
    UNKNOWN = "unknown"


Together = Callable[[Sequence[Gang], float], Done[State] | No]
"""A plan for all of these gangs, looked for until a time of `time.monotonic`."""


@dataclass(frozen=True, slots=True)
class InTurn(Generic[State]):
    """`start`: what the first gang finds. `step`: plans one on what those before it leave, and says what it leaves; it
    is told whether its plan is the best for all. `together`: plans several as one.
    """

    start: State
    step: Callable[[Gang, State, bool], tuple[Decision, State]]
    namespaces: Namespaces
    together: Together[State] | None = None
    known: dict[GangKey, Decision] = field(default_factory=dict)
    """What each gang would have alone, of those of whom that was asked."""

    def planned(self, gangs: Sequence[Gang], *, weighed: bool) -> tuple[list[Decision], State]:
        """Each on what those before it leave. `weighed` False: that is not proven to be the best for all."""
        state, decisions = self.start, list[Decision]()
        for gang in gangs:
            decision, state = self.step(gang, state, weighed)
            decisions.append(decision)
        return decisions, state

    def crowded_out(self, decisions: Sequence[Decision]) -> list[Decision]:
        """Those without a place of whom it is not known that they had none, were the others elsewhere."""
        found, taken = list[Decision](), False
        for decision in decisions:
            gang = decision.gang if is_no(decision) else None
            if gang is not None and (self._leaning(gang, decisions) or (taken and not is_no(self.alone(gang)))):
                found.append(decision)
            taken = taken or any(not each.held for each in decision.assignments)
        return found

    def alone(self, gang: Gang) -> Decision:
        """What it would have if there were no other."""
        if gang.key not in self.known:
            self.known[gang.key], _ = self.step(gang, self.start, False)  # noqa: FBT003 -- as `weighed`
        return self.known[gang.key]

    def _leaning(self, gang: Gang, decisions: Iterable[Decision]) -> list[Gang]:
        """Those of the others that it may need near it: they come, or would come if somebody were near them."""
        pods = [member.pod for member in gang.members]
        if not any(map(minds_others, pods)):
            return []
        coming = ((each.gang, _coming(each)) for each in decisions if each.key != gang.key)
        return [other for other, there in coming if other is not None and leans_on(pods, there, self.namespaces)]

    def settled(
        self, decisions: list[Decision], state: State, crowded: Sequence[Decision], seconds: float
    ) -> tuple[list[Decision], State]:
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
                decisions, state = found
        late = {each.key for each in crowded} - never
        marked = [self._not_proven(each, decisions) if each.key in late else each for each in decisions]
        return [_beside_others(each, decisions) if each.key in never else each for each in marked], state

    def _with(
        self, late: Decision, decisions: Sequence[Decision], order: Mapping[GangKey, int], end: float
    ) -> Done[State] | No:
        """A plan for this gang and all who had a place, beside those whose turn is before its own and near the one of
        the others that it may need. The rest comes last.
        """
        placed = [each.gang for each in decisions if each.outcome is Outcome.PLACED and each.gang is not None]
        if late.gang is None or late.key in {gang.key for gang in placed}:
            return No.UNKNOWN
        found = self._in_order((late.gang, *placed), (self.start, []), end)
        if found is No.UNKNOWN and self.together is not None and time.monotonic() < end:
            before = [gang for gang in placed if order[gang.key] < order[late.key]]
            needed = self._needed(late.gang, [each for each in decisions if each.gang not in (*before, late.gang)])
            found = self.together([*before, *needed, late.gang], end)
            if found is No.PROVEN and len(needed) > 1:
                return No.UNKNOWN  # it may have a place near some of them, were the others elsewhere
            if not isinstance(found, No):
                rest = [gang for gang in placed if gang not in before and gang not in needed]
                found = self._in_order(rest, (found[1], found[0]), end)
        if isinstance(found, No):
            return found
        known = {each.key for each in found[0]}
        return [*found[0], *(each for each in decisions if each.key not in known)], found[1]

    def _not_proven(self, decision: Decision, decisions: Sequence[Decision]) -> Decision:
        """A no that only holds for where the others are, called so."""
        if decision.gang is None or not is_no(decision):
            return decision
        placed = [each.key for each in decisions if any(not one.held for one in each.assignments)]
        keys = placed or [gang.key for gang in self._leaning(decision.gang, decisions)]
        named, nameless = wording.gangs(keys), wording.gangs_by_number(len(keys))
        message = (wording.planned_after if placed else wording.leans_on)(named, decision.message)
        naming = ((named, nameless), *decision.naming)
        return replace(decision, message=message, proof=Proof.UNPROVEN.value, naming=naming)

    def _needed(self, late: Gang, others: Sequence[Decision]) -> list[Gang]:
        """Those of the others that it may need near it, and whom these may need again."""
        needed, looked_at = self._leaning(late, others), 0
        while looked_at < len(needed):
            left = [each for each in others if each.gang not in needed]
            needed += self._leaning(needed[looked_at], left)
            looked_at += 1
        return needed

    def _in_order(self, gangs: Sequence[Gang], left: tuple[State, list[Decision]], end: float) -> Done[State] | No:
        """What is there and decided already, with these gangs after it; unknown where one of them finds no place."""
        state, found = left
        for gang in gangs:
            if time.monotonic() > end:
                return No.UNKNOWN
            decision, state = self.step(gang, state, False)  # noqa: FBT003 -- as `weighed`
            if decision.outcome is not Outcome.PLACED:
                return No.UNKNOWN
            found.append(decision)
        return found, state


def is_no(decision: Decision) -> bool:
    """Whether it certainly has no place."""
    return decision.outcome is Outcome.UNPLACEABLE and decision.proof == Proof.INFEASIBLE.value


def _coming(decision: Decision) -> list[Pod]:
    """The pods that its gang brings, or would bring if it had a place."""
    if decision.gang is not None and decision.outcome is Outcome.UNPLACEABLE:
        return [member.pod for member in decision.gang.members]
    return [each.member.pod for each in decision.assignments if not each.held]


def _beside_others(decision: Decision, decisions: Sequence[Decision]) -> Decision:
    """A no that holds wherever the gangs before it are, said with these."""
    before = decisions[: next(turn for turn, each in enumerate(decisions) if each.key == decision.key)]
    others = [each.key for each in before if any(not one.held for one in each.assignments)]
    if not others:
        return decision
    named, nameless = wording.gangs(others), wording.gangs_by_number(len(others))
    message = wording.no_place_beside(named, decision.message)
    return replace(decision, message=message, naming=((named, nameless), *decision.naming))
