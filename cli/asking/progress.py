"""Shows a line of progress on the terminal during steps that take long."""

import contextlib
import sys
import threading
from collections.abc import Iterator

from rich.console import Console

PATIENCE = 2.0
"""Seconds until the line appears. A shorter step shows none."""


@contextlib.contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show the text on standard error if the `with` block takes longer than `PATIENCE`. Only on a terminal."""
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
