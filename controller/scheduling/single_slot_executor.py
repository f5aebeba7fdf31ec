"""Executors that run planning and other work in background threads. Each runs one piece of work at a time.

An executor has no queue. A caller submits work only to an idle executor, so all work waits in the caller's queues.
There, priorities and round-robin shares decide which work is next.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Protocol

LOG = logging.getLogger(__name__)

Work = Callable[[], None]


class SingleSlotExecutor(Protocol):
    """An executor that runs one piece of work at a time."""

    @property
    def idle(self) -> bool:
        """Whether all accepted work is done."""

    def submit(self, work: Work) -> None:
        """Start a piece of work. Call it only if the executor is idle."""

    def close(self) -> None:
        """Start no further work. Work that runs is not awaited."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """The executors of the two lanes that answer planning requests."""

    fast: SingleSlotExecutor
    slow: SingleSlotExecutor

    def close(self) -> None:
        """Close both lanes."""
        self.fast.close()
        self.slow.close()


class ThreadExecutor:
    """A `SingleSlotExecutor` with a daemon thread, which does not keep the process alive."""

    def __init__(self, name: str) -> None:
        self._works: SimpleQueue[Work | None] = SimpleQueue()
        self._idle = threading.Event()
        self._idle.set()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    @property
    def idle(self) -> bool:
        """Whether all accepted work is done."""
        return self._idle.is_set()

    def submit(self, work: Work) -> None:
        """Start a piece of work. Call it only if the executor is idle."""
        self._idle.clear()  # cleared before the thread takes the work, because the thread sets the event at its end
        self._works.put(work)

    def close(self) -> None:
        """Start no further work. Work that runs is not awaited."""
        self._works.put(None)  # ends the thread

    def _run(self) -> None:
        while (work := self._works.get()) is not None:
            try:
                work()
            except Exception:
                LOG.exception("work in lane %s failed", threading.current_thread().name)
            finally:
                self._idle.set()
