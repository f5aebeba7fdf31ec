"""A progress line for steps that take long, on a terminal only."""

import contextlib
import sys
import threading
from collections.abc import Iterator

from rich.console import Console

PATIENCE = 2.0
"""Seconds before the line appears. Shorter steps need no progress line."""


@contextlib.contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show `what` on standard error if the block takes longer than `PATIENCE`, and standard error is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    status = Console(stderr=True).status(what)
    timer = threading.Timer(PATIENCE, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()
