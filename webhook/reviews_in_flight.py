"""Counts the admission reviews that are being answered, so that optional work is left out while there are many."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ReviewsInFlight:
    """The number of admission reviews that are being answered now. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.count = 0
        """Reviews that have a thread and no answer yet."""

    @contextmanager
    def one_more(self) -> Iterator[None]:
        """Count one more review during the `with` block."""
        with self._lock:
            self.count += 1
        try:
            yield
        finally:
            with self._lock:
                self.count -= 1
