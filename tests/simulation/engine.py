"""The queue of what happens next, in logical time."""

from collections.abc import Callable
from heapq import heappop, heappush

from simulation.clock import LogicalClock

Action = Callable[[], None]


class Engine:
    """Runs actions in the order of their times; actions of one time run in the order in which they were added.

    An action may call `run_until` itself: the rest of the simulation then goes on while that action waits. That is how
    a request takes time, and how a process freezes in the middle of a round.
    """

    def __init__(self, clock: LogicalClock) -> None:
        self.clock = clock
        self.after_each: Action = lambda: None
        """Runs after each action: checks the invariants."""
        self._queue: list[tuple[float, int, Action]] = []
        self._count = 0

    @property
    def now(self) -> float:
        """Seconds since the simulation began."""
        return self.clock.now

    def at(self, time: float, action: Action) -> None:
        """Run the action at `time`, or now if that is over."""
        self._count += 1
        heappush(self._queue, (max(time, self.clock.now), self._count, action))

    def after(self, seconds: float, action: Action) -> None:
        """Run the action after so many seconds."""
        self.at(self.now + seconds, action)

    def run_until(self, time: float) -> None:
        """Run everything that is due up to `time`, which is the present afterwards."""
        clock, waiting = self.clock, self._queue
        while waiting and waiting[0][0] <= time:
            at, _, action = heappop(waiting)
            clock.now = max(at, clock.now)
            action()
            self.after_each()
        clock.now = max(time, clock.now)
