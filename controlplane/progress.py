"""Reports the progress of long steps on standard error, one line for each step, with its duration."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

TICK_SECONDS = 30.0


class Progress:
    """Writes progress lines to the stream; writes nothing if the stream is None."""

    def __init__(self, stream: TextIO | None = sys.stderr) -> None:
        self._stream = stream

    def say(self, text: str, end: str = "\n") -> None:
        """Write a line; if `end` is no line break, only the beginning of a line."""
        if self._stream is not None:
            print(text, end=end, file=self._stream, flush=True)

    @contextmanager
    def step(self, text: str, estimate: object = "") -> Iterator[None]:
        """Print the name of a step when it begins, and its duration when it ends.

        `estimate`: its text, such as "40 %", is printed from time to time while the step lasts.
        """
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
        """Print the elapsed time of a step every `TICK_SECONDS`, so that the step does not look hung."""
        while not done.wait(TICK_SECONDS):
            text = f" ({estimate})" if str(estimate) else ""
            self.say(f"{time.monotonic() - started:.0f} s{text} …", end=" ")
