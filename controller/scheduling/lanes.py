"""Background threads beside the reconciles. Each handles one piece of work at a time."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Protocol

LOG = logging.getLogger(__name__)

Work = Callable[[], None]


class Lane(Protocol):
    """A worker that handles one piece of work at a time."""

    @property
    def idle(self) -> bool:
        """Whether all accepted work is done."""

    def do(self, work: Work) -> None:
        """Start a piece of work. Call it only if the lane is idle."""

    def close(self) -> None:
        """Start no further work. Work that runs is not awaited."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """The two lanes that answer planning requests: `prompt` is the fast lane, `patient` the slow lane."""

    prompt: Lane
    patient: Lane

    def close(self) -> None:
        """Close both lanes."""
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
        """Whether all accepted work is done."""
        return self._idle.is_set()

    def do(self, work: Work) -> None:
        """Start a piece of work. Call it only if the lane is idle."""
        self._idle.clear()
        self._works.put(work)

    def close(self) -> None:
        """Start no further work. Work that runs is not awaited."""
        self._works.put(None)

    def _run(self) -> None:
        while (work := self._works.get()) is not None:
            try:
                work()
            except Exception:
                LOG.exception("work in lane %s failed", threading.current_thread().name)
            finally:
                self._idle.set()
