"""Where the time of an answer goes: a clock around the steps of the product itself, in this process and in the worker.

The worker runs as the product runs it; `serve` only counts, and writes before each reply one line of `Spent` into the
file that the environment names.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import msgspec

from planning import joining, planner, worker, workers
from planning.worker import Refused, Reply, Request
from solver import solving

FILE = "PHALANX_BENCHMARK_STAGES"
COMMAND = (sys.executable, "-m", "benchmarks.stages")


class Spent(msgspec.Struct, frozen=True):
    """Seconds up to one reply of the worker, from the one before: all of them, stating the cases, verifying. `peak`:
    bytes held at most so far. `last`: no other reply to the same request follows.
    """

    total: float
    model: float
    verify: float
    peak: int
    last: bool


@dataclass(slots=True)
class Clock:
    """Seconds by stage, and how often a step of it was taken."""

    seconds: dict[str, float] = field(default_factory=dict)
    steps: dict[str, int] = field(default_factory=dict)

    def around(self, stage: str, step: Callable[..., Any]) -> Callable[..., Any]:
        """The step, counted under that stage."""

        def counted(*arguments: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return step(*arguments, **named)
            finally:
                self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - began
                self.steps[stage] = self.steps.get(stage, 0) + 1

        return counted

    def take(self) -> "Clock":
        """What has been counted since the last time."""
        taken = Clock(self.seconds, self.steps)
        self.seconds, self.steps = {}, {}
        return taken


@contextmanager
def clocked(steps: dict[str, tuple[tuple[ModuleType, str], ...]]) -> Iterator[Clock]:
    """Count these steps, by stage and by the module that calls them. Raises AttributeError where there is none."""
    clock = Clock()
    with ExitStack() as stack:
        for stage, places in steps.items():
            for module, name in places:
                stack.enter_context(patch.object(module, name, clock.around(stage, getattr(module, name))))
        yield clock


def in_parent() -> Any:
    """A clock on stating problems from snapshots, on asking workers and on verifying what they answer."""
    return clocked(
        {
            "snapshot": ((planner, "frame"),),
            "ask": ((workers, "write"),),
            "verify": ((workers, "verify"), (workers, "faults_of"), (joining, "verify")),
        }
    )


def spent(file: Path) -> list[Spent]:
    """What the worker has written since the last time."""
    lines = file.read_bytes().splitlines()
    file.write_bytes(b"")
    return [msgspec.json.decode(line, type=Spent) for line in lines]


def serve() -> None:
    """Be a worker that counts."""
    file = Path(os.environ[FILE])
    with clocked({"model": ((solving, "case_of"),), "verify": ((solving, "verify"),)}) as clock:

        def answering(request: Request) -> Iterator[Reply]:
            began = time.perf_counter()
            for reply in worker.answers(request):
                _note(file, time.perf_counter() - began, clock.take().seconds, reply)
                yield reply
                began = time.perf_counter()

        worker.serve(answering)


def _note(file: Path, total: float, seconds: dict[str, float], reply: Reply) -> None:
    last = not isinstance(reply, Refused) or reply.last
    line = msgspec.json.encode(Spent(total, seconds.get("model", 0.0), seconds.get("verify", 0.0), _peak(), last))
    with file.open("ab") as log:
        log.write(line + b"\n")


def _peak() -> int:
    """The most memory that this process has held. getrusage would count what its parent held when it was started."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


if __name__ == "__main__":
    serve()
