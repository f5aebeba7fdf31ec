"""A pool of solver processes. The caller gets a verified plan or a rejection in time, even if a process fails.

A worker is killed if it does not answer in time. It is replaced if it dies, fails, answers wrongly or has grown too
large. The caller then gets a greedy plan that passes the verifier and is not proven optimal, or an unproven rejection.
"""

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count

from planning.solver_pool.idle import IdleWorkers
from planning.solver_pool.process import COMMAND, Worker, WorkerError
from planning.solver_pool.tasks import (
    Compared,
    CompareTask,
    JointReply,
    JointTask,
    ManyTask,
    NotPlaced,
    Placed,
    Reply,
    Request,
    Task,
)
from solver.bounds.domain_cover import certainly_none
from solver.capacity import work
from solver.deadline import NO_DEADLINE, Deadline, OutOfTimeError
from solver.heuristics.greedy import greedy_plans
from solver.multi_gang.joint_problem import JointAnswer, ManyGangs, faults_of, faults_of_all_placed
from solver.plan import Answer, NextDoor, NoPlan, Plan, Proof
from solver.problem import Limits, Problem
from solver.verify.rules import verify

log = logging.getLogger(__name__)

GROWN_BYTES = 1 << 30
"""A worker that has held more than this is replaced."""
SOLVER_SHARE = 0.75
"""The share of a caller's time after which the solver stops by itself and returns its best result."""
WORKER_SHARE = 0.9
"""The share of a caller's time after which the worker is killed. In the rest of the time the calling process looks for
a greedy plan.
"""
_GRACE = 0.1
"""If a worker has sent no answer, the greedy search of the calling process may exceed the caller's time by this share
of it.
"""

_TRIES = 8
"""In how many domains the calling process looks for a greedy plan of a small problem even after the time limit."""
_MOMENT = 50_000
"""The size of a problem (members times nodes) up to which a greedy search takes a moment only. So the calling process
checks a worker's rejection of such a problem by a greedy search.
"""


class Workers:
    """A thread-safe pool of at most `most` solver processes. A process is started when a caller needs one, and kept for
    the next caller.
    """

    def __init__(self, most: int = 2, command: Sequence[str] = COMMAND) -> None:
        self._command = tuple(command)
        self._free = threading.BoundedSemaphore(most)
        self._idle = IdleWorkers()
        self._closings = 0

    def start(self) -> None:
        """Start one worker now, so that the first caller need not wait."""
        if not len(self._idle):
            self._idle.put(Worker(self._command))

    def await_started(self) -> None:
        """Wait until a worker process has started, so that the next caller's time does not include the start."""
        worker, sound = self._taken(), False
        try:
            worker.await_ready()
            sound = True
        except WorkerError as error:
            log.warning("%s; another takes its place", error)
        finally:
            self._back(worker, sound=sound, stays=True)

    def close(self) -> None:
        """End all idle workers. A busy worker ends when its caller has the answer. A later call starts new workers."""
        self._closings += 1
        self._idle.close()

    def solve(self, problem: Problem, limits: Limits) -> Answer:
        """Return the best plan within `limits`, verified, or a rejection. No failure of the solver makes it raise.

        Counting alone may prove a rejection before a worker is asked. The worker then only explains the rejection.
        """
        began = time.monotonic()
        answers: list[Answer] = [NoPlan(Proof.INFEASIBLE)] if certainly_none(problem) else []

        def last(reply: Reply) -> bool:
            if isinstance(reply, Placed):
                answers.append(_verified(problem, reply.plan))
                return reply.last
            if isinstance(reply, NotPlaced):
                answers.append(_plausible(reply.answer))
                if not reply.last and (plan := _refuting(problem)) is not None:
                    answers.append(plan)
                    raise WorkerError("the worker's no is wrong: there is a plan")
                return reply.last
            raise WorkerError("the worker answers something else")

        counted = time.monotonic() - began
        end = self._ask(Task(problem, _shared(limits, counted)), max(0.0, limits.seconds - counted), last)
        certain = [each for each in answers if isinstance(each, Plan) or each.proof is Proof.INFEASIBLE]
        if certain:
            return certain[-1]
        if answers:
            return _greedy(problem, end - 2 * counted) or answers[-1]
        return _greedy(problem, end + _GRACE * limits.seconds) or NoPlan(Proof.UNPROVEN)

    def solve_joint(self, problem: Problem, limits: Limits) -> JointAnswer | None:
        """Return the verified joint plan of several competing gangs; None if none is found in time."""
        return self._together(JointTask(problem, _shared(limits)), limits, lambda answer: faults_of(problem, answer))

    def place_many(self, many: ManyGangs, limits: Limits) -> JointAnswer | None:
        """Return verified plans for all members of all gangs, without evictions; None if none are found in time."""
        task = ManyTask(many, _shared(limits))
        return self._together(task, limits, lambda answer: faults_of_all_placed(many, answer))

    def _together(
        self, task: JointTask | ManyTask, limits: Limits, faults_in: Callable[[JointAnswer], Sequence[str]]
    ) -> JointAnswer | None:
        answers: list[JointAnswer] = []

        def last(reply: Reply) -> bool:
            if not isinstance(reply, JointReply):
                raise WorkerError("the worker answers something else")
            if reply.answer is None:
                return True
            if faults := faults_in(reply.answer):
                raise WorkerError(f"the worker's plans are wrong: {'; '.join(faults)}")
            answers.append(reply.answer)
            return True

        self._ask(task, limits.seconds, last)
        return answers[0] if answers else None

    def next_door(self, problem: Problem, plan: Plan, limits: Limits) -> NextDoor | None:
        """Return the best plan outside the domain of the given plan; None if it is not known in time."""
        answers: list[NextDoor | None] = []

        def last(reply: Reply) -> bool:
            if not isinstance(reply, Compared):
                raise WorkerError("the worker answers something else")
            answers.append(reply.found)
            return True

        self._ask(CompareTask(problem, plan, _shared(limits)), limits.seconds, last)
        return answers[0] if answers else None

    def _ask(self, request: Request, seconds: float, last: Callable[[Reply], bool]) -> float:
        """Send a request to a worker, and pass each of its replies to `last` until `last` returns True. Return when the
        caller's time limit ends.

        `seconds`: the time limit, from now. The time that a new worker needs to start is added to it. A worker that
        fails, or for whose reply `last` raises `WorkerError`, is replaced.
        """
        end = time.monotonic() + seconds
        if not self._free.acquire(timeout=seconds):
            log.warning("no worker was free in time")
            return end
        try:
            worker, sound, closings = self._taken(), False, self._closings
            try:
                end += worker.await_ready()
                for reply in worker.replies(request, (end - time.monotonic()) * WORKER_SHARE):
                    worker.note(reply)
                    if last(reply):
                        sound = True
                        break
            finally:
                self._back(worker, sound=sound, stays=closings == self._closings)
        except WorkerError as error:
            log.warning("%s; another takes its place", error)
        finally:
            self._free.release()
        return end

    def _taken(self) -> Worker:
        return self._idle.take() or Worker(self._command)

    def _back(self, worker: Worker, *, sound: bool, stays: bool) -> None:
        """Put a sound worker back for the next caller; replace a faulty or large one. `stays` False: the pool was
        closed meanwhile, so end the worker.
        """
        if stays and sound and worker.peak <= GROWN_BYTES:
            self._idle.put(worker)
            return
        worker.close()
        if stays:
            self.start()


def _shared(limits: Limits, gone: float = 0.0) -> Limits:
    """Return the limits for the solver: its share (`SOLVER_SHARE`) of the caller's time limit, less the time that has
    passed. `gone`: seconds of the caller's time that have passed already.
    """
    return replace(limits, seconds=max(0.0, limits.seconds * SOLVER_SHARE - gone))


def _verified(problem: Problem, plan: Plan) -> Plan:
    """Return the plan if the verifier accepts it. Raises `WorkerError` if not."""
    if faults := verify(problem, plan):
        raise WorkerError(f"the worker's plan is wrong: {'; '.join(faults)}")
    return plan


def _plausible(answer: NoPlan) -> NoPlan:
    if answer.proof not in (Proof.INFEASIBLE, Proof.UNPROVEN):
        raise WorkerError(f"a no cannot be proven {answer.proof.value}")
    return answer


def _refuting(problem: Problem) -> Plan | None:
    """Return a greedy plan that refutes the worker's rejection; None if none is found or the problem is large.

    It is searched while the worker explains its rejection.
    """
    return _greedy(problem, 0.0) if _takes_a_moment(problem) else None


def _greedy(problem: Problem, end: float) -> Plan | None:
    """Return the first greedy plan that the verifier accepts, searched until `end`; None if none is found.

    In a small problem at least `_TRIES` domains are tried, even after `end`.
    """
    tries = count()

    def left() -> float:
        return end - time.monotonic()

    def over() -> bool:
        return next(tries) >= _TRIES and left() <= 0

    deadline = NO_DEADLINE if _takes_a_moment(problem) else Deadline(left)
    try:
        deadline.check()
        return next((plan for plan in greedy_plans(problem, over, deadline) if not verify(problem, plan)), None)
    except OutOfTimeError:
        return None


def _takes_a_moment(problem: Problem) -> bool:
    return work(problem) <= _MOMENT


class _Shared:
    """The pool of workers of this process, created on first use. A forked process creates its own pool."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._workers: Workers | None = None

    def workers(self) -> Workers:
        with self._lock:
            if self._workers is None:
                self._workers = Workers()
                atexit.register(self._workers.close)
            return self._workers

    def forget(self) -> None:
        """Forget the workers in a forked child process: they belong to the parent."""
        self._lock, self._workers = threading.Lock(), None


_SHARED = _Shared()
os.register_at_fork(after_in_child=_SHARED.forget)


def shared_workers() -> Workers:
    """Return the pool of workers that all callers in this process share."""
    return _SHARED.workers()
