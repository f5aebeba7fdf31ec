"""What a process that solves is asked, and what it answers."""

import msgspec

from solver.multi_gang.joint_problem import JointAnswer, JointProblem
from solver.plan import NextDoor, NoPlan, Plan
from solver.problem import Limits, Problem


class Task(msgspec.Struct, frozen=True, tag=True):
    """Place one gang."""

    problem: Problem
    limits: Limits


class JointTask(msgspec.Struct, frozen=True, tag=True):
    """Place several gangs that compete. `all_members`: all their members, without evictions, or not at all."""

    problem: JointProblem
    limits: Limits
    all_members: bool = False


class CompareTask(msgspec.Struct, frozen=True, tag=True):
    """Say what is next door to a plan."""

    problem: Problem
    plan: Plan
    limits: Limits


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The worker has started and can take a task."""


class Placed(msgspec.Struct, frozen=True, tag=True):
    """A plan for one gang. `last` False: a better one is looked for. `peak`: the most memory that the worker has held,
    in bytes.
    """

    plan: Plan
    peak: int = 0
    last: bool = True


class NotPlaced(msgspec.Struct, frozen=True, tag=True):
    """A no. `last` False: its explanation follows."""

    answer: NoPlan
    last: bool
    peak: int = 0


class JointReply(msgspec.Struct, frozen=True, tag=True):
    """The answer for several gangs; None where they are not all placed whole, which was asked for."""

    answer: JointAnswer | None
    peak: int = 0


class Compared(msgspec.Struct, frozen=True, tag=True):
    """What is next door, as far as it is known."""

    found: NextDoor | None
    peak: int = 0


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The solver failed; the worker should not be used again."""

    reason: str


Request = Task | JointTask | CompareTask
Reply = Ready | Placed | NotPlaced | JointReply | Compared | Failed
