"""Long steps say that they are under way, and how long they took: on standard error, a line each."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

TICK_SECONDS = 30.0


class Progress:
    """Where the lines go; None says nothing."""

    def __init__(self, stream: TextIO | None = sys.stderr) -> None:
        self._stream = stream

    def say(self, text: str, end: str = "\n") -> None:
        """Write a line, or the beginning of one."""
        if self._stream is not None:
            print(text, end=end, file=self._stream, flush=True)

    @contextmanager
    def step(self, text: str, estimate: object = "") -> Iterator[None]:
        """Announce a step, and its time once it is done. `estimate`: its text says how far the step is."""
        self.say(f"  {text} …", end=" ")
        started = time.monotonic()
        done = threading.Event()
        ticking = threading.Thread(target=self._tick, args=(started, done, estimate), name="progress", daemon=True)
        ticking.start()
        try:
            yield
        except BaseException:
            done.set()
            ticking.join()
            self.say("failed")
            raise
        done.set()
        ticking.join()
        self.say(f"{time.monotonic() - started:.0f} s")

    def _tick(self, started: float, done: threading.Event, estimate: object) -> None:
        """Say how long a step has been going on, so that it does not look hung."""
        while not done.wait(TICK_SECONDS):
            text = f" ({estimate})" if str(estimate) else ""
            self.say(f"{time.monotonic() - started:.0f} s{text} …", end=" ")
