"""Something moves where something takes long: on a terminal only, and only after a while."""

import contextlib
import sys
import threading
from collections.abc import Iterator

from rich.console import Console

PATIENCE = 2.0
"""Seconds that nobody minds."""


@contextlib.contextmanager
def waiting(what: str) -> Iterator[None]:
    """While this lasts longer than `PATIENCE`, say on standard error what is being done, where that is a terminal."""
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
