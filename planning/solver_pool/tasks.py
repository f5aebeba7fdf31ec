"""Messages between a caller and a worker process: requests and replies."""

import msgspec

from solver.multi_gang.joint_problem import JointAnswer, ManyGangs
from solver.plan import NextDoor, NoPlan, Plan
from solver.problem import Limits, Problem


class Task(msgspec.Struct, frozen=True, tag=True):
    """Place one gang."""

    problem: Problem
    limits: Limits


class JointTask(msgspec.Struct, frozen=True, tag=True):
    """Place several gangs that compete."""

    problem: Problem
    limits: Limits


class ManyTask(msgspec.Struct, frozen=True, tag=True):
    """Place all members of many gangs, without evictions."""

    many: ManyGangs
    limits: Limits


class CompareTask(msgspec.Struct, frozen=True, tag=True):
    """Find the best plan outside a plan's domain."""

    problem: Problem
    plan: Plan
    limits: Limits


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The worker has started and can take a task."""


class Placed(msgspec.Struct, frozen=True, tag=True):
    """A plan for one gang. `last` False: the worker searches for a better plan. `peak`: the peak memory of the worker,
    in bytes.
    """

    plan: Plan
    peak: int = 0
    last: bool = True


class NotPlaced(msgspec.Struct, frozen=True, tag=True):
    """A rejection. `last` False: its explanation follows."""

    answer: NoPlan
    last: bool
    peak: int = 0


class JointReply(msgspec.Struct, frozen=True, tag=True):
    """The answer for several gangs; None if no plan is found in time."""

    answer: JointAnswer | None
    peak: int = 0


class Compared(msgspec.Struct, frozen=True, tag=True):
    """The best plan outside a plan's domain; None if it is not known."""

    found: NextDoor | None
    peak: int = 0


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The solver failed; the worker should not be used again."""

    reason: str


Request = Task | JointTask | ManyTask | CompareTask
Reply = Ready | Placed | NotPlaced | JointReply | Compared | Failed
