"""All gangs as they were read a moment ago, for forecasts: these look at one gang and need the others around it."""

import threading
import time
from collections.abc import Callable

from gangs.dialects.reading import read_all
from gangs.model import Reading
from webhook.picture import Picture

CHEAP_SECONDS = 0.1
"""A reading that costs less than this is made anew every time."""
SHARE = 10
"""One that costs more is kept for so many times its cost: a tenth of a core at most is spent on reading."""


class RecentGangs:
    """Every gang of the cluster, read anew only as often as that is cheap. Safe to share between threads."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, spent: Callable[[], float] = time.thread_time
    ) -> None:
        """`clock` tells seconds, `spent` the seconds that the calling thread has used of a processor."""
        self._clock = clock
        self._spent = spent
        self._lock = threading.Lock()
        self._reading = Reading()
        self._until = -1.0

    def of(self, picture: Picture) -> Reading:
        """The reading, at most `SHARE` times as old as it takes to read them."""
        with self._lock:
            if self._clock() > self._until:
                before = self._spent()
                self._reading = read_all(picture.sources())
                cost = self._spent() - before
                self._until = self._clock() + SHARE * cost if cost > CHEAP_SECONDS else -1.0
            return self._reading
