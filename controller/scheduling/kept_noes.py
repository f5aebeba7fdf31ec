"""A no that is remembered, and for how long it may stand."""

from dataclasses import dataclass
from zlib import crc32

from controller.scheduling.questions import Answer
from controller.scheduling.standing_noes import Basis, Fuller
from gangs.model import GangKey
from kube.objects import Pod
from planning.decision import Decision
from solver.plan import Proof
from timing.backoff import Backoff
from timing.duty_cycle import DutyCycle

PROMPT_SECONDS = 3.0
"""What one gang, or those of one priority that compete, may take where others wait."""
PROVEN_RETRIES = Backoff(first=0.1, longest=2.0)
HOLD_SECONDS = 2.0
"""Seconds between two plans for a gang that gets a no again and again in a cluster that keeps changing; the last one
for a gang whose plan was refused by a disruption budget."""
UNPROVEN_RETRIES = Backoff(first=5.0, longest=60.0)
"""The same after a no that could not be proven. It is at least four times as long as that took."""
FRESH_SECONDS = 60.0
"""About so long a no stands while the cluster only becomes fuller; then it is given anew, with the day's figures."""
_REST = DutyCycle(rest=4, longest=UNPROVEN_RETRIES.longest)


@dataclass(slots=True)
class KeptNo:
    """A no, the request and the premises it was given on, and when it may be asked again.

    `lasting`: it would come out the same again on the same premises. `final`: more time would not have helped. `tied`:
    members to be made again. `basis`: it stands until `fresh_until` on whatever is only fuller than that.
    """

    request: object
    premises: object
    decision: Decision
    again: float
    pause: float
    lasting: bool = True
    final: bool = True
    tied: tuple[Pod, ...] = ()
    basis: Basis | None = None
    fresh_until: float = 0.0
    paused: bool = False
    """Whether it was last kept for its pause alone: it is to be asked again when that is over, if nothing comes."""

    def holds(self, request: object, premises: object, now: Fuller, at: float) -> bool:
        """Whether it would come out the same again, or is too young to be asked again.

        One that stands in a fuller cluster goes on from there, so that only the last change is looked at next time.
        """
        self.paused = False
        if self.request != request:
            return False
        if self.lasting and self.premises == premises:
            return True
        if self.basis is not None and at < self.fresh_until and now.leaves(self.decision, self.basis):
            self.premises, self.basis = premises, now.basis
            return True
        self.basis = None  # a picture of the whole cluster, for each gang that waits
        self.paused = at < self.again
        return self.paused


def fresh_seconds(key: GangKey) -> float:
    """Not the same for all, so that they are not asked again all together."""
    return FRESH_SECONDS * (0.5 + crc32(str(key).encode()) % 1024 / 1024)


def next_pause(answer: Answer, before: KeptNo | None) -> float:
    """Seconds until a no may be asked again on another ground; longer each time."""
    if answer.failed:
        return HOLD_SECONDS
    last = before.pause if before is not None and before.final else 0.0
    if answer.decision.proof != Proof.UNPROVEN.value:
        return PROVEN_RETRIES.after(last)
    spent = min(answer.seconds, PROMPT_SECONDS)  # what others have waited for it
    return max(UNPROVEN_RETRIES.after(last), _REST.pause(spent))
