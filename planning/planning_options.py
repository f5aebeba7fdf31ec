"""What gangs are planned with besides the snapshot: what is known of the others, and how hard to look."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from planning.framing.running_gangs import RunningGang
from planning.quota.usage import NO_USAGE, Usage
from solver.deadline import NO_DEADLINE, Deadline
from solver.problem import Limits

DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class PlanningOptions:
    """The same for all gangs of one call.

    `running_gangs`: the gangs of pods that run already (`planning.framing.running_gangs`), by the pod's
    `namespace/name`. `usage`: what gangs use of their queues. `limits`: of one solve; `deadline`: of all together.
    `preemption` False: nobody is evicted. `comparing`: say of each plan why it is better here than next door.
    """

    running_gangs: Mapping[str, RunningGang] = field(default_factory=dict)
    usage: Usage = NO_USAGE
    limits: Limits = DEFAULT_LIMITS
    preemption: bool = True
    comparing: bool = False
    deadline: Deadline = NO_DEADLINE

    def limits_now(self) -> Limits:
        """The limits of one solve that ends before the deadline."""
        return replace(self.limits, seconds=max(0.0, min(self.limits.seconds, self.deadline.left())))

    def with_usage(self, usage: Usage) -> "PlanningOptions":
        """The same once other gangs have been charged."""
        return replace(self, usage=usage)


DEFAULT_OPTIONS = PlanningOptions()
