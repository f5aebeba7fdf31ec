"""How a watch is read while much changes: some events together, since each alone costs most.

An event that is read alone has a system call, a lock and the waking of a thread to itself, and a processor's cache that
holds other things by then: 0.2 to 0.3 ms, and 0.03 to 0.05 ms among others. So while events come closely one after the
other the reader lets some of them gather, whenever it has read all that had come and never before: however busy the
process is, it does not fall behind for that (docs/decisions/0029).
"""

APART = 0.1
"""Seconds of silence after which a burst is over."""
SHARE = 0.1
"""A pause is so much of what the burst has taken until now: what is over soon is hardly held up."""
SHORTEST_PAUSE, LONGEST_PAUSE = 0.001, 0.025
"""Seconds. A pause that would be shorter is none: nothing gathers in it."""


class Burst:
    """The events of one watch as they come. For the thread that reads it. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._waiting: float | None = None
        """Since when an event is waited for; None: one was at hand."""

    def came(self, now: float) -> None:
        """An event is there."""
        if self._began is None or (self._waiting is not None and now - self._waiting > APART):
            self._began = now
        self._waiting = None

    def pause(self, now: float) -> float:
        """Seconds to let pass before the next event is waited for, now that all that had come has been read."""
        gathering = min(SHARE * (now - self._began), LONGEST_PAUSE) if self._began is not None else 0.0
        seconds = gathering if gathering >= SHORTEST_PAUSE else 0.0
        self._waiting = now + seconds
        return seconds
