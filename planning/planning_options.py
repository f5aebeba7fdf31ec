"""`PlanningOptions`: the inputs of planning besides the snapshot, such as the use of quotas and the limits."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from planning.framing.running_gangs import RunningGang
from planning.quota.usage import NO_USAGE, Usage
from solver.deadline import NO_DEADLINE, Deadline
from solver.problem import Limits

DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class PlanningOptions:
    """Options that hold for all gangs of one planning call.

    `running_gangs`: the gangs of pods that run already (`planning.framing.running_gangs`), by the pod's
    `namespace/name`. `usage`: the quota that gangs use in their queues. `limits`: limits of one solve. `deadline`: the
    end of all solves together. `preemption` False: no pod is evicted. `comparing`: explain for each plan why another
    domain is worse.
    """

    running_gangs: Mapping[str, RunningGang] = field(default_factory=dict)
    usage: Usage = NO_USAGE
    limits: Limits = DEFAULT_LIMITS
    preemption: bool = True
    comparing: bool = False
    deadline: Deadline = NO_DEADLINE

    def limits_now(self) -> Limits:
        """Return the limits of one solve, with its time shortened so that it ends before the deadline."""
        return replace(self.limits, seconds=max(0.0, min(self.limits.seconds, self.deadline.left())))

    def with_usage(self, usage: Usage) -> "PlanningOptions":
        """Return these options with `usage` as the quota that gangs use in their queues."""
        return replace(self, usage=usage)


DEFAULT_OPTIONS = PlanningOptions()
