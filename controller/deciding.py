"""Which gangs are planned in this round, in which order, and what is remembered of a no.

Nothing here outlives a round but answers that would come out the same again: they are forgotten as soon as the room
in the cluster or the request changes.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic

from controller.metrics import Metrics
from controller.picture import Picture
from gangs.model import Gang, GangKey
from kube.objects import Pod
from planning.decision import Decision, Outcome
from planning.pins import left_behind, made_again, untied
from planning.planner import plan_all
from planning.quotas import usage_of
from planning.victims import running_gangs
from solver.plan import Proof
from solver.problem import Limits

LOG = logging.getLogger(__name__)

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
HOLD_SECONDS = 2.0
"""Seconds between two plans for a gang that gets a no again and again in a cluster that keeps changing; the last one
for a gang whose plan was refused by a disruption budget."""


@dataclass(slots=True)
class _Refusal:
    """A no, the request and the ground it was given on, and when it may be asked again."""

    request: object
    ground: object
    decision: Decision
    again: float
    pause: float
    tied: tuple[Pod, ...] | None = None
    """Members without whose tie to siblings that are gone it would be a yes; None: not looked at."""


class Planner:
    """Plans gangs that need it, the most deserving first."""

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        self._limits = limits
        self._metrics = metrics
        self._refusals: dict[GangKey, _Refusal] = {}

    def decide(self, gangs: Sequence[Gang], picture: Picture) -> Mapping[GangKey, Decision]:
        """Answer for every gang given; those that compete see what the ones before them were given."""
        ground = _ground(picture)
        answers = {gang.key: kept.decision for gang in gangs if (kept := self._kept(gang, ground)) is not None}
        new = self._plan([gang for gang in gangs if gang.key not in answers], picture)
        self._metrics.decided(new)
        for decision in new:
            answers[decision.key] = decision
            if not self._held(decision):
                self._remember(decision, ground)
        return answers

    def forget_others(self, keys: Sequence[GangKey]) -> None:
        """Forget gangs that are not among `keys` any more."""
        for key in self._refusals.keys() - set(keys):
            del self._refusals[key]

    def hold_off(self, gang: Gang, message: str, picture: Picture) -> Decision:
        """Do not plan this gang for a while: its last plan could not be carried out."""
        decision = Decision(gang, gang.key, Outcome.UNPLACEABLE, message, proof=Proof.UNPROVEN.value)
        again = monotonic() + HOLD_SECONDS
        ground = _ground(picture)
        self._refusals[gang.key] = _Refusal(_request(gang), ground, decision, again, HOLD_SECONDS)
        return decision

    def held_back(self, decision: Decision, picture: Picture) -> tuple[Pod, ...]:
        """Members that may be made again at no price and whose old tie alone keeps their gang from a place.

        None where the no is not proven, or was not given by the solver, or would be one without the tie as well.
        """
        kept = self._refusals.get(decision.key)
        proven = decision.outcome is Outcome.UNPLACEABLE and decision.proof == Proof.INFEASIBLE.value
        if kept is None or kept.decision is not decision or decision.gang is None or not proven:
            return ()
        if kept.tied is None:
            pods = tuple(pod for pod in left_behind(decision.gang) if made_again(pod))
            kept.tied = pods if pods and self._fits(untied(decision.gang, pods), picture) else ()
        return kept.tied

    def _fits(self, gang: Gang, picture: Picture) -> bool:
        try:
            (decision,) = self._plan_together([gang], picture)
        except Exception:
            LOG.exception("gang %s cannot be planned without its old ties", gang.key)
            return False
        return decision.outcome is Outcome.PLACED

    def _plan(self, gangs: Sequence[Gang], picture: Picture) -> Sequence[Decision]:
        """Plan them all; a gang on which the planning itself fails is set aside, so that it stops no other."""
        try:
            return self._plan_together(gangs, picture)
        except Exception:
            LOG.exception("planning failed; looking for the gang on which it does")
        faulty = [gang for gang in gangs if not self._plans(gang, picture)]
        message = "could not be planned: an error of Phalanx itself, told in the controller's log"
        sound = [gang for gang in gangs if gang not in faulty]
        return [*(self.hold_off(gang, message, picture) for gang in faulty), *self._plan_together(sound, picture)]

    def _plans(self, gang: Gang, picture: Picture) -> bool:
        try:
            self._plan_together([gang], picture)
        except Exception:
            LOG.exception("gang %s cannot be planned", gang.key)
            return False
        return True

    def _plan_together(self, gangs: Sequence[Gang], picture: Picture) -> Sequence[Decision]:
        if not gangs:
            return ()
        return plan_all(
            gangs,
            picture.snapshot,
            picture.topologies,
            running_gangs=running_gangs(picture.reading.gangs),
            usage=usage_of(picture.reading.gangs, picture.snapshot),
            limits=self._limits,
            comparing=True,
        )

    def _kept(self, gang: Gang, ground: object) -> _Refusal | None:
        kept = self._refusals.get(gang.key)
        if kept is None or kept.request != _request(gang):
            return None
        unchanged = kept.ground == ground and kept.decision.proof != Proof.UNPROVEN.value
        return kept if unchanged or monotonic() < kept.again else None

    def _held(self, decision: Decision) -> bool:
        kept = self._refusals.get(decision.key)
        return kept is not None and kept.decision is decision

    def _remember(self, decision: Decision, ground: object) -> None:
        before = self._refusals.pop(decision.key, None)
        if decision.outcome is Outcome.PLACED or decision.gang is None:
            return
        pause = min(before.pause * 2, LONGEST_PAUSE) if before else FIRST_PAUSE
        self._refusals[decision.key] = _Refusal(_request(decision.gang), ground, decision, monotonic() + pause, pause)


def _request(gang: Gang) -> object:
    """What the gang asks for, without what the controller itself writes on its members."""
    members = tuple((m.pod.metadata.uid, m.pod.spec, m.pod_set, m.index) for m in gang.members)
    return replace(gang, members=()), members


def _ground(picture: Picture) -> object:
    """What an answer rests on besides the request: equal as long as nothing that was looked at has changed."""
    return picture.snapshot.version, tuple(picture.topologies)
