"""Measures where the time of a solve goes: clocks around the controller's own steps, in this process and in the worker.

The worker runs as in the controller; `serve` adds only the clocks. Before the last reply it writes one line of `Spent`
for each reply into a file, in the folder that the environment variable `FOLDER` names. Another file holds the most
memory of each worker so far, because a worker that is stopped writes no `Spent`.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import msgspec

from planning import planner
from planning.competing import same_priority
from planning.solver_pool import pipes, worker
from planning.solver_pool import pool as workers
from planning.solver_pool.tasks import NotPlaced, Reply, Request
from planning.solver_pool.worker import Tell
from solver import solve as solving

FOLDER = "PHALANX_BENCHMARK_PHASES"
_SPENT, _PEAK = "spent", ".peak"
_LOOK_SECONDS = 0.1
COMMAND = (sys.executable, "-m", "benchmarks.step_times")


class Spent(msgspec.Struct, frozen=True):
    """The seconds that a worker spent from its previous reply to this one.

    `total`: all these seconds. `model`: the part spent on building models. `verify`: the part spent on verifying plans.
    `last`: whether this was the last reply to its request.
    """

    total: float
    model: float
    verify: float
    last: bool


@dataclass(slots=True)
class Clock:
    """Counts the seconds that planning spends in each of its phases, such as "snapshot" or "verify".

    A phase consists of steps, which are functions of the planner or solver. `seconds`: by phase, the seconds in its
    steps. `steps`: by phase, how often one of its steps ran.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    steps: dict[str, int] = field(default_factory=dict)

    def around(self, phase: str, step: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that calls `step` and adds the time of the call to the phase."""

        def counted(*arguments: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return step(*arguments, **named)
            finally:
                self.seconds[phase] = self.seconds.get(phase, 0.0) + time.perf_counter() - began
                self.steps[phase] = self.steps.get(phase, 0) + 1

        return counted

    def take(self) -> "Clock":
        """Return the counts since the last call, and start again from zero."""
        taken = Clock(self.seconds, self.steps)
        self.seconds, self.steps = {}, {}
        return taken


@contextmanager
def clocked(steps: dict[str, tuple[tuple[ModuleType | type, str], ...]]) -> Iterator[Clock]:
    """Count the time of these steps, by phase of planning, until the `with` block ends.

    Each step is a function, given by the module that calls it, or the class that has it, and the function's name.
    Raises AttributeError if there is no such step.
    """
    clock = Clock()
    with ExitStack() as stack:
        for phase, places in steps.items():
            for module, name in places:
                stack.enter_context(patch.object(module, name, clock.around(phase, getattr(module, name))))
        yield clock


def in_parent() -> Any:
    """Return a context manager with a clock around this process's own steps of planning.

    The steps are building problems from snapshots, requests to workers, and the verification of replies.
    """
    return clocked(
        {
            "snapshot": ((planner, "frame"),),
            "count": ((workers, "certainly_none"),),
            "ask": ((pipes.Channel, "send"),),
            "verify": (
                (workers, "verify"),
                (workers, "faults_of"),
                (workers, "faults_of_all_placed"),
                (same_priority, "verify"),
            ),
        }
    )


def spent(folder: Path) -> list[Spent]:
    """Return the entries that workers have written into the folder since the last call."""
    file = folder / _SPENT
    lines = file.read_bytes().splitlines() if file.exists() else []
    file.write_bytes(b"")
    return [msgspec.json.decode(line, type=Spent) for line in lines]


def peak(folder: Path) -> int:
    """Return the most memory that any worker has held, in bytes."""
    return max((int(file.read_bytes()) for file in folder.glob("*" + _PEAK)), default=0)


def serve() -> None:
    """Run a worker process of the solver that counts the time of its steps."""
    folder = Path(os.environ[FOLDER])
    threading.Thread(target=_watch_memory, args=(folder / f"{os.getpid()}{_PEAK}",), daemon=True).start()
    with clocked({"model": ((solving, "instance_of"),), "verify": ((solving, "verify"),)}) as clock:

        def answering(request: Request, tell: Tell) -> Iterator[Reply]:
            began, notes = time.perf_counter(), []
            for reply in worker.answers(request, tell):
                notes.append(_spent(time.perf_counter() - began, clock.take().seconds, reply))
                if notes[-1].last:
                    _note(folder / _SPENT, notes)
                yield reply
                began = time.perf_counter()

        worker.serve(answering)


def _spent(total: float, seconds: dict[str, float], reply: Reply) -> Spent:
    last = not isinstance(reply, NotPlaced) or reply.last
    return Spent(total, seconds.get("model", 0.0), seconds.get("verify", 0.0), last)


def _note(file: Path, notes: list[Spent]) -> None:
    with file.open("ab") as log:
        log.writelines(msgspec.json.encode(each) + b"\n" for each in notes)


def _watch_memory(file: Path) -> None:
    """Write the most memory that this process has held into the file, again and again.

    The value is read from /proc, because getrusage would include the memory of the parent process.
    """
    new = file.with_suffix(".new")
    while True:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        new.write_text(str(int(status.partition("VmHWM:")[2].split()[0]) * 1024), encoding="utf-8")
        new.replace(file)
        time.sleep(_LOOK_SECONDS)


if __name__ == "__main__":
    serve()
