"""A worker that fails in one way, named on its command line. For the tests of `planning.solver_pool.pool` only."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from planning.solver_pool.tasks import JointReply, NotPlaced, Placed, Reply, Request
from planning.solver_pool.worker import MEMORY_BYTES, Answering, Tell, answers, serve
from solver.plan import NoPlan, Plan, Proof

_PIECE = 64 << 20


def killed(_request: Request, _tell: Tell) -> Iterator[Reply]:
    """Dies like a process that the kernel kills."""
    os.kill(os.getpid(), signal.SIGKILL)
    yield from ()


def hung(_request: Request, _tell: Tell) -> Iterator[Reply]:
    """Never answers. Reports when it begins to wait."""
    sys.stderr.write("hung\n")
    sys.stderr.flush()
    time.sleep(3600)
    yield from ()


def stopped(_request: Request, _tell: Tell) -> Iterator[Reply]:
    """Stops its own process (SIGSTOP) instead of answering."""
    os.kill(os.getpid(), signal.SIGSTOP)
    yield from ()


def greedy_for_memory(request: Request, tell: Tell) -> Iterator[Reply]:
    """Allocates more memory than its limit. It does not write to the memory, so that the machine does not swap."""
    held = [np.empty(_PIECE, dtype=np.uint8) for _ in range(MEMORY_BYTES // _PIECE + 1)]
    yield from answers(request, tell)
    held.clear()


def lying(request: Request, tell: Tell) -> Iterator[Reply]:
    """Puts all members onto the first node, and claims that this plan is optimal."""
    for reply in answers(request, tell):
        if isinstance(reply, Placed):
            nodes = tuple(tuple(0 for _ in row) for row in reply.plan.nodes)
            yield replace_plan(reply, replace(reply.plan, nodes=nodes))
        else:
            yield reply


def boasting(request: Request, tell: Tell) -> Iterator[Reply]:
    """Gives a sound plan and counts its goals wrongly."""
    for reply in answers(request, tell):
        assert isinstance(reply, Placed)
        goals = tuple(replace(goal, value=0, bound=0, parts={}) for goal in reply.plan.goals)
        yield replace_plan(reply, replace(reply.plan, goals=goals))


def giving_twice(request: Request, tell: Tell) -> Iterator[Reply]:
    """Gives every gang the nodes of the first gang."""
    for reply in answers(request, tell):
        assert isinstance(reply, JointReply)
        assert reply.answer
        shares = tuple(reply.answer.shares[0] for _ in reply.answer.shares)
        yield JointReply(replace(reply.answer, shares=shares))


def contradicting(_request: Request, _tell: Tell) -> Iterator[Reply]:
    """Returns a rejection with the proof Optimal."""
    yield NotPlaced(NoPlan(Proof.OPTIMAL), last=True)


def raising(_request: Request, _tell: Tell) -> Iterator[Reply]:
    """Raises an unexpected exception."""
    yield from ()
    raise ZeroDivisionError("once upon a time")


def denying(_request: Request, _tell: Tell) -> Iterator[Reply]:
    """Claims that infeasibility is proven."""
    yield NotPlaced(NoPlan(Proof.INFEASIBLE), last=False)
    yield NotPlaced(NoPlan(Proof.INFEASIBLE), last=True)


def killed_after_no(_request: Request, _tell: Tell) -> Iterator[Reply]:
    """Reports that there is no plan, and is killed while it looks for reasons."""
    yield NotPlaced(NoPlan(Proof.INFEASIBLE), last=False)
    os.kill(os.getpid(), signal.SIGKILL)


def replace_plan(reply: Placed, plan: Plan) -> Placed:
    """Return the reply with another plan."""
    return Placed(plan, reply.peak)


FAULTS: dict[str, Answering] = {
    each.__name__: each
    for each in (
        killed,
        hung,
        stopped,
        greedy_for_memory,
        lying,
        boasting,
        giving_twice,
        contradicting,
        raising,
        denying,
        killed_after_no,
    )
}


if __name__ == "__main__":
    serve(FAULTS[sys.argv[1]])
