"""A cached rejection, and how long it holds."""

from dataclasses import dataclass
from zlib import crc32

from controller.scheduling.monotonicity_check import Basis, MonotonicityCheck
from controller.scheduling.planning_requests import PlanningResult
from gangs.model import GangKey
from kube.objects import Pod
from planning.decision import Decision
from solver.plan import Proof
from timing.backoff import Backoff
from timing.duty_cycle import DutyCycle

FAST_LANE_SECONDS = 3.0
"""The most seconds in the fast lane for one gang, or for the competing gangs of one priority."""
PROVEN_RETRIES = Backoff(first=0.1, longest=2.0)
"""The back-off, in seconds, of a gang with a proven rejection whose inputs keep changing."""
HOLD_SECONDS = 2.0
"""Seconds before a gang is replanned after its planning failed, or after its plan could not be carried out.

A plan cannot be carried out if, for example, a disruption budget refuses an eviction.
"""
UNPROVEN_RETRIES = Backoff(first=5.0, longest=60.0)
"""The back-off, in seconds, after an unproven rejection. The pause is at least four times as long as planning took."""
FRESH_SECONDS = 60.0
"""About how long a rejection holds while the cluster only fills up. Then the gang is replanned for new figures."""
_REST = DutyCycle(rest=4, longest=UNPROVEN_RETRIES.longest)


@dataclass(slots=True)
class CachedRejection:
    """A rejection with the request and the inputs of its planning, and the time from which the gang may be replanned.

    `lasting`: the rejection holds while request and inputs are equal. `final`: more time would not have helped.
    `tied`: members that may be recreated to free the gang from its tie to a domain. `basis`: the rejection also holds
    until `fresh_until` in a cluster that differs from this basis only by more pods. None means that it does not.
    """

    request: object
    inputs: object
    decision: Decision
    again: float
    pause: float
    lasting: bool = True
    final: bool = True
    tied: tuple[Pod, ...] = ()
    basis: Basis | None = None
    fresh_until: float = 0.0
    paused: bool = False
    """Whether the rejection holds only because its pause is not over. The gang is replanned when the pause ends."""

    def holds(self, request: object, inputs: object, now: MonotonicityCheck, at: float) -> bool:
        """Return whether the rejection still holds, or its pause is not over.

        If it holds because the cluster only gained pods, the present cluster becomes its basis. So the next call
        compares only the changes since this one.
        """
        self.paused = False
        if self.request != request:
            return False
        if self.lasting and self.inputs == inputs:
            return True
        if self.basis is not None and at < self.fresh_until and now.still_holds(self.decision, self.basis):
            self.inputs, self.basis = inputs, now.basis
            return True
        self.basis = None  # frees memory: the basis of each waiting gang holds a snapshot of the whole cluster
        self.paused = at < self.again
        return self.paused


def fresh_seconds(key: GangKey) -> float:
    """Return for how many seconds a gang's rejection holds. The hash of its key spreads replanning over time."""
    return FRESH_SECONDS * (0.5 + crc32(str(key).encode()) % 1024 / 1024)


def next_pause(result: PlanningResult, before: CachedRejection | None) -> float:
    """Return the seconds before a rejected gang may be replanned with changed inputs. They grow with each rejection."""
    if result.failed:
        return HOLD_SECONDS
    last = before.pause if before is not None and before.final else 0.0
    if result.decision.proof != Proof.UNPROVEN.value:
        return PROVEN_RETRIES.after(last)
    spent = min(result.seconds, FAST_LANE_SECONDS)  # the time for which other gangs waited
    return max(UNPROVEN_RETRIES.after(last), _REST.pause(spent))
