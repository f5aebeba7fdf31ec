"""The worker process: reads requests from standard input and writes replies to standard output, until either ends.

The process may crash, hang or answer wrongly: `planning.solver_pool.pool` on the other side of the pipe expects that.
Messages are MessagePack. A rejection is sent twice: as soon as it is known, and again with its explanation. A plan that
is found quickly is sent before the best plan. Every long computation checks the deadline, so the process ends in time.
"""

import gc
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import msgspec

from planning.solver_pool.node_layouts import Receiver
from planning.solver_pool.pipes import read, write
from planning.solver_pool.tasks import (
    Compared,
    CompareTask,
    Failed,
    JointReply,
    JointTask,
    ManyTask,
    NotPlaced,
    Placed,
    Ready,
    Reply,
    Request,
)
from serving.memory import give_back
from solver.deadline import Deadline, OutOfTimeError
from solver.explain.alternatives import next_door
from solver.explain.remedies import explained
from solver.multi_gang.joint import solve_all_placed, solve_joint
from solver.multi_gang.joint_problem import JointAnswer
from solver.plan import Plan
from solver.solve import decide

MEMORY_BYTES = 2 << 30
"""The most memory that a worker may allocate. An allocation beyond it fails, in the worker alone."""
PARENT_POLL_SECONDS = 1.0
_LARGE = 1 << 18
"""Request size in bytes above which the worker returns free memory to the system after the answer."""
EXPLAINING = 0.1
"""By which share of its time limit a request may take longer if its rejection is found late and still has to be
explained.
"""


Tell = Callable[[Reply], None]
"""A function that sends a reply to the caller before the last reply."""
Answering = Callable[[Request, Tell], Iterator[Reply]]


def answers(request: Request, tell: Tell) -> Iterator[Reply]:
    """Yield the replies to a request, within its limits. `tell`: sends a plan before the best plan is known."""
    deadline = _deadline(request.limits.seconds)
    if isinstance(request, JointTask | ManyTask):
        yield JointReply(_together(request, deadline), _peak())
        return
    if isinstance(request, CompareTask):
        yield Compared(next_door(request.problem, request.plan, request.limits, deadline), _peak())
        return
    answer = decide(
        request.problem, request.limits, deadline=deadline, on_plan=lambda plan: tell(Placed(plan, last=False))
    )
    if isinstance(answer, Plan):
        yield Placed(answer, _peak())
        return
    yield NotPlaced(answer, last=False)
    later = _deadline(deadline.left() + EXPLAINING * request.limits.seconds)
    yield NotPlaced(explained(request.problem, answer, request.limits, later), last=True, peak=_peak())


def _deadline(seconds: float) -> Deadline:
    """Return the deadline `seconds` from now."""
    end = time.monotonic() + seconds
    return Deadline(lambda: end - time.monotonic())


def _together(request: JointTask | ManyTask, deadline: Deadline) -> JointAnswer | None:
    try:
        if isinstance(request, ManyTask):
            return solve_all_placed(request.many, request.limits, deadline)
        return solve_joint(request.problem, request.limits, deadline)
    except OutOfTimeError:
        return None


def serve(answering: Answering = answers) -> None:
    """Answer requests from standard input until it ends or the parent process is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    source, sink = _pipes()
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    decoder = msgspec.msgpack.Decoder(Request, dec_hook=Receiver().unpack)
    gc.freeze()
    # A garbage collection during an answer costs as much time as a small gang. It runs after the answer instead.
    gc.disable()
    _say(sink, Ready())
    while (body := read(source)) is not None:
        _answer(answering, _received(decoder, body), sink)
        large = len(body) > _LARGE
        del body
        gc.collect()
        if large:
            give_back()


def _received(decoder: msgspec.msgpack.Decoder[Request], body: bytes | bytearray) -> Request:
    """Return the decoded request, with its time limit reduced by the decoding time.

    A large request takes as long to decode as a small gang takes to solve.
    """
    began = time.monotonic()
    request = decoder.decode(body)
    left = max(0.0, request.limits.seconds - (time.monotonic() - began))
    return msgspec.structs.replace(request, limits=replace(request.limits, seconds=left))


def _answer(answering: Answering, request: Request, sink: BinaryIO) -> None:
    try:
        for reply in answering(request, lambda reply: _say(sink, reply)):
            _say(sink, reply)
    except MemoryError:
        _say(sink, Failed("out of memory"))
    except Exception as error:  # noqa: BLE001 -- the parent logs it and puts another worker in this one's place
        _say(sink, Failed(f"{type(error).__name__}: {error}"))


def _say(sink: BinaryIO, reply: Reply) -> None:
    write(sink, msgspec.msgpack.encode(reply))


def _pipes() -> tuple[BinaryIO, BinaryIO]:
    """Return the input and output pipes of the worker process.

    After this call, text that libraries print to standard output goes to standard error, because it would break the
    messages.
    """
    sink = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return sys.stdin.buffer, sink


def _end_with(parent: int) -> None:
    """End this process when its parent has ended. A busy worker does not read, so it would not notice a closed pipe."""
    while os.getppid() == parent:
        time.sleep(PARENT_POLL_SECONDS)
    os._exit(1)


def _peak() -> int:
    """Return the peak memory of this process in bytes: VmHWM of proc(5).

    The peak of getrusage is no substitute: it is at least the memory that the parent held when it started this process.
    """
    with Path("/proc/self/status").open(encoding="ascii") as status:
        held = next(line for line in status if line.startswith("VmHWM:"))
    return int(held.split()[1]) * 1024


if __name__ == "__main__":
    serve()
