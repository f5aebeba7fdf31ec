"""Answers one planning request: plans its gangs, the highest priority first. Runs in the thread of a lane."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from controller.cluster_view import ClusterView
from controller.scheduling.cluster_changes import Basis, basis_of
from gangs.model import Gang
from kube.objects import Pod
from planning.after_plan import after_all
from planning.decision import Decision, Outcome
from planning.framing.running_gangs import running_gangs
from planning.message import Message
from planning.pins import left_behind, made_again, untied
from planning.planner import plan_in_turn
from planning.planning_options import PlanningOptions
from planning.quota.usage import usage_of
from solver.plan import Proof
from solver.problem import Limits
from timing.clock import Clock

LOG = logging.getLogger(__name__)

FAULTY = "could not be planned: an error of Phalanx itself, told in the controller's log"

_PROVEN = (Proof.OPTIMAL.value, Proof.INFEASIBLE.value)
_TIME_WAS_OVER = 0.7
"""If a solve used at least this share of its time limit, the limit is assumed to have ended it."""


@dataclass(frozen=True, slots=True, eq=False)
class PlanningRequest:
    """A planning request: the gangs to plan, and all inputs of their plans."""

    gangs: tuple[Gang, ...]
    cluster_view: ClusterView
    standing: tuple[Decision, ...]
    """Plans that were found before and that the cluster view does not show yet. Their capacity stays reserved."""
    limits: Limits
    full: Limits
    """The limits of the slow lane. If they are wider than `limits`, more time might help a gang without a proof."""


@dataclass(frozen=True, slots=True)
class PlanningResult:
    """The decision for one gang of a planning request, with what the queue must know to cache it.

    `final`: whether more time would not help. `seconds`: the planning time of all gangs of this priority together.
    `tied`: members that cause the rejection only by their pin to the domain of siblings that are gone. They can be
    recreated at no cost. Empty if there are none. `failed`: whether planning the gang failed with an internal error, or
    its plan could not be carried out. `basis`: the inputs of planning, with the plans that the request found before;
    None if `failed`.
    """

    decision: Decision
    final: bool
    seconds: float
    tied: tuple[Pod, ...] = ()
    failed: bool = False
    basis: Basis | None = None


def planning_results(request: PlanningRequest, clock: Clock) -> Iterator[PlanningResult]:
    """Yield the result of every gang of the request.

    If planning raises an error, each gang that has no result yet is planned alone, to find the gangs that cause the
    error. The other gangs are then planned together.
    """
    left, found = {gang.key: gang for gang in request.gangs}, list[Decision]()
    try:
        for result in _in_turn(request, clock):
            del left[result.decision.key]
            found.append(result.decision)
            yield result
    except Exception:
        LOG.exception("planning failed; looking for the gang on which it does")
        rest = replace(request, gangs=tuple(left.values()), standing=(*request.standing, *found))
        yield from _planned_apart(rest, clock)


def _planned_apart(request: PlanningRequest, clock: Clock) -> Iterator[PlanningResult]:
    faulty = [gang for gang in request.gangs if not _plans(gang, request)]
    for gang in faulty:
        decision = Decision(gang, gang.key, Outcome.UNPLACEABLE, Message.of(FAULTY), proof=Proof.UNPROVEN.value)
        yield PlanningResult(decision, final=True, seconds=0.0, failed=True)
    sound = tuple(gang for gang in request.gangs if gang not in faulty)
    if sound:
        yield from _in_turn(replace(request, gangs=sound), clock)


def _in_turn(request: PlanningRequest, clock: Clock) -> Iterator[PlanningResult]:
    started = clock.monotonic()
    beside = after_all(request.standing, request.cluster_view.snapshot)
    for decisions in _planned(request.gangs, request):
        seconds = clock.monotonic() - started
        beside = after_all([each for each in decisions if each.outcome is Outcome.PLACED], beside)
        basis = basis_of(request.cluster_view)._replace(snapshot=beside)
        for decision in decisions:
            yield PlanningResult(
                decision,
                final=_is_final(decision, decisions, seconds, request),
                seconds=seconds,
                tied=_tied(decision, request),
                basis=basis,
            )
        started = clock.monotonic()


def _planned(gangs: Sequence[Gang], request: PlanningRequest) -> Iterable[Sequence[Decision]]:
    cluster_view = request.cluster_view
    options = PlanningOptions(
        running_gangs=running_gangs(cluster_view.reading),
        usage=usage_of(cluster_view.charged, cluster_view.snapshot),
        limits=request.limits,
        comparing=True,
    )
    return plan_in_turn(gangs, cluster_view.snapshot, cluster_view.topologies, options, standing=request.standing)


def _is_final(decision: Decision, decisions: Sequence[Decision], seconds: float, request: PlanningRequest) -> bool:
    """Return whether the decision is final: the gang is not planned again in the slow lane, where it would get more
    time.

    A decision is final if it is proven, did not use up its time, or comes from the slow lane. The plan of a gang that
    competed with other gangs of its priority is final, too.

    :param decisions: the decisions of all gangs of the same priority.
    """
    if request.limits.seconds >= request.full.seconds or seconds < _TIME_WAS_OVER * request.limits.seconds:
        return True
    if decision.outcome is Outcome.PLACED and len(decisions) > 1:
        return True
    return decision.outcome not in (Outcome.PLACED, Outcome.UNPLACEABLE) or decision.proof in _PROVEN


def _tied(decision: Decision, request: PlanningRequest) -> tuple[Pod, ...]:
    """Return the members whose pins alone cause the rejection, and that can be recreated at no cost.

    Empty if the rejection is not proven, or if it would also hold without the pins.
    """
    gang = decision.gang
    if gang is None or decision.outcome is not Outcome.UNPLACEABLE or decision.proof != Proof.INFEASIBLE.value:
        return ()
    pods = tuple(pod for pod in left_behind(gang) if made_again(pod))
    return pods if pods and _plans(untied(gang, pods), request, Outcome.PLACED) else ()


def asked_alone(gang: Gang, request: PlanningRequest) -> Decision | None:
    """Plan the gang alone and return the decision; None if planning it raises an error, which is logged."""
    try:
        (decision,) = (each for decisions in _planned([gang], request) for each in decisions)
    except Exception:
        LOG.exception("gang %s cannot be planned", gang.key)
        return None
    return decision


def _plans(gang: Gang, request: PlanningRequest, outcome: Outcome | None = None) -> bool:
    """Return whether planning the gang alone raises no error and has this outcome. `outcome` None: any outcome."""
    decision = asked_alone(gang, request)
    return decision is not None and outcome in (None, decision.outcome)
