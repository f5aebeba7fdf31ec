"""Threads that work beside the rounds, one piece of work at a time each."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Protocol

LOG = logging.getLogger(__name__)

Work = Callable[[], None]


class Lane(Protocol):
    """Does one piece of work at a time."""

    @property
    def idle(self) -> bool:
        """Whether all work that was given is done."""

    def do(self, work: Work) -> None:
        """Begin a piece of work. Only for a lane that is idle."""

    def close(self) -> None:
        """Begin nothing any more; what is under way is not waited for."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """Where questions are answered, beside the rounds."""

    prompt: Lane
    patient: Lane

    def close(self) -> None:
        """Answer no question any more."""
        self.prompt.close()
        self.patient.close()


class ThreadLane:
    """A lane with a thread of its own, which does not keep the process alive."""

    def __init__(self, name: str) -> None:
        self._works: SimpleQueue[Work | None] = SimpleQueue()
        self._idle = threading.Event()
        self._idle.set()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    @property
    def idle(self) -> bool:
        """Whether all work that was given is done."""
        return self._idle.is_set()

    def do(self, work: Work) -> None:
        """Begin a piece of work. Only for a lane that is idle."""
        self._idle.clear()
        self._works.put(work)

    def close(self) -> None:
        """Begin nothing any more; what is under way is not waited for."""
        self._works.put(None)

    def _run(self) -> None:
        while (work := self._works.get()) is not None:
            try:
                work()
            except Exception:
                LOG.exception("work in lane %s failed", threading.current_thread().name)
            finally:
                self._idle.set()
