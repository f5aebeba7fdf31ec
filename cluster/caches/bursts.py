"""Decides when the reader of a watch pauses during a burst of events, so that several events are read together.

An event that is read alone needs its own system call, lock and thread wake-up, and finds the processor's cache cold. It
costs 0.2 to 0.3 ms; an event in a batch costs 0.03 to 0.05 ms. So during a burst the reader pauses to let events
gather. It pauses only after it has read all events that had arrived, so even in a busy process no backlog builds up
(docs/decisions/0029).
"""

APART = 0.1
"""Seconds without an event after which a burst is over."""
SHARE = 0.1
"""The length of a pause as a share of the burst's duration so far, so a short burst is hardly delayed."""
SHORTEST_PAUSE, LONGEST_PAUSE = 0.001, 0.025
"""The bounds of a pause in seconds. A shorter pause is skipped, because no events would gather in it."""


class Burst:
    """Measures the bursts of events of one watch, and says when to pause. Only the reading thread may use it.

    All times are in monotonic seconds.
    """

    def __init__(self) -> None:
        self._began: float | None = None
        self._waiting: float | None = None
        """The time since which the reader waits for an event; None: an event was available at once."""

    def came(self, now: float) -> None:
        """Record that an event has been read. It begins a new burst if none has come for `APART` seconds."""
        if self._began is None or (self._waiting is not None and now - self._waiting > APART):
            self._began = now
        self._waiting = None

    def pause(self, now: float) -> float:
        """Return the seconds to pause before waiting for the next event, after all arrived events have been read."""
        gathering = min(SHARE * (now - self._began), LONGEST_PAUSE) if self._began is not None else 0.0
        seconds = gathering if gathering >= SHORTEST_PAUSE else 0.0
        self._waiting = now + seconds
        return seconds
