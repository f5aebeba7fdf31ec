"""Messages between a caller and a worker process: requests and replies."""

import msgspec

from solver.multi_gang.joint_problem import JointAnswer, ManyGangs
from solver.plan import NextDoor, NoPlan, Plan
from solver.problem import Limits, Problem


class Task(msgspec.Struct, frozen=True, tag=True):
    """Request to a worker process: place one gang."""

    problem: Problem
    limits: Limits


class JointTask(msgspec.Struct, frozen=True, tag=True):
    """Request to a worker process: place several gangs that compete."""

    problem: Problem
    limits: Limits


class ManyTask(msgspec.Struct, frozen=True, tag=True):
    """Request to a worker process: place all members of many gangs, without evictions."""

    many: ManyGangs
    limits: Limits


class CompareTask(msgspec.Struct, frozen=True, tag=True):
    """Request to a worker process: find the best plan outside the domain of `plan`."""

    problem: Problem
    plan: Plan
    limits: Limits


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The worker process has started and can take a request."""


class Placed(msgspec.Struct, frozen=True, tag=True):
    """Reply with a plan for one gang. `last` False: the worker searches for a better plan.

    `peak`: the peak memory of the worker process, in bytes.
    """

    plan: Plan
    peak: int = 0
    last: bool = True


class NotPlaced(msgspec.Struct, frozen=True, tag=True):
    """Reply with a rejection of one gang. `last` False: the same rejection with an explanation follows."""

    answer: NoPlan
    last: bool
    peak: int = 0


class JointReply(msgspec.Struct, frozen=True, tag=True):
    """Reply with the joint plan of several gangs; `answer` is None if no plan is found in time."""

    answer: JointAnswer | None
    peak: int = 0


class Compared(msgspec.Struct, frozen=True, tag=True):
    """Reply with the best plan outside a plan's domain; `found` is None if it is not known in time."""

    found: NextDoor | None
    peak: int = 0


class Failed(msgspec.Struct, frozen=True, tag=True):
    """Reply that the solver failed; the worker process should not be used again."""

    reason: str


Request = Task | JointTask | ManyTask | CompareTask
Reply = Ready | Placed | NotPlaced | JointReply | Compared | Failed
