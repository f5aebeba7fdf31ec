"""Long steps say that they are under way, and how long they took: on standard error, a line each."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


class Progress:
    """Where the lines go; None says nothing."""

    def __init__(self, stream: TextIO | None = sys.stderr) -> None:
        self._stream = stream

    def say(self, text: str, end: str = "\n") -> None:
        """Write a line, or the beginning of one."""
        if self._stream is not None:
            print(text, end=end, file=self._stream, flush=True)

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Announce a step, and its time once it is done."""
        self.say(f"  {text} …", end=" ")
        started = time.monotonic()
        try:
            yield
        except BaseException:
            self.say("failed")
            raise
        self.say(f"{time.monotonic() - started:.0f} s")
