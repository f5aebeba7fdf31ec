"""Who is connected, and who has to go when there are too many.

A connection costs no thread, only a place in this table. Half of the places are for strangers, who have never sent a
whole request, half for all others, so that neither can push out the other. Where one half is full, the source (address)
that holds the most of it gives a place back: the oldest stranger, or who has been idle for longest. A connection whose
request is being answered is never closed for another.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto


class State(Enum):
    """What a connection is doing."""

    STRANGER = auto()
    """It has never sent a whole request: it shakes hands, is silent, or is sending its first one."""
    SENDING = auto()
    """It has sent whole requests before, and is sending another."""
    ANSWERED = auto()
    """A request of it waits for its answer."""
    IDLE = auto()
    """Its requests are answered; it is kept for the next one."""


@dataclass(slots=True, eq=False)
class Connection:
    """A place in the table. `deadline`: the time by which its state must have changed, by the loop's clock.

    `close` ends the connection at once; `finish` ends it politely where it is idle, else after its answer.
    """

    source: str
    close: Callable[[], None]
    deadline: float
    state: State = State.STRANGER
    finish: Callable[[], None] | None = None


class Connections:
    """All connections of one port, about `most` of them. In both halves whose state changed last is at the end."""

    def __init__(self, most: int) -> None:
        self.half = max(1, most // 2)
        self._strangers: dict[Connection, None] = {}
        self._known: dict[Connection, None] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._strangers) + len(self._known)

    def __contains__(self, connection: Connection) -> bool:
        """Whether it has its place still."""
        return connection in self._strangers or connection in self._known

    def __iter__(self) -> Iterator[Connection]:
        """All of them, as they are now."""
        return iter((*self._strangers, *self._known))

    def add(self, stranger: Connection) -> None:
        """Give a new connection a place, if need be another stranger's."""
        self._make_room(self._strangers, State.STRANGER)
        self._strangers[stranger] = None

    def remove(self, connection: Connection) -> None:
        """It has ended."""
        self._strangers.pop(connection, None)
        self._known.pop(connection, None)

    def enter(self, connection: Connection, state: State, deadline: float) -> None:
        """It does something else now. It is no stranger any more once it has sent a whole request."""
        connection.state, connection.deadline = state, deadline
        if state is State.STRANGER:
            return
        if connection in self._strangers:
            del self._strangers[connection]
            self._make_room(self._known, State.IDLE, State.SENDING)
        elif self._known.pop(connection, self) is self:
            return  # it has ended meanwhile
        self._known[connection] = None

    def overdue(self, now: float) -> list[Connection]:
        """Those whose time is over."""
        return [each for each in self if each.deadline <= now]

    def _make_room(self, half: dict[Connection, None], *dispensable: State) -> None:
        """Where the half is full, close the first dispensable one of the sources that have the most of them."""
        if len(half) < self.half:
            return
        candidates = [each for each in half if each.state in dispensable]
        counts = Counter(each.source for each in candidates)
        most = max(counts.values(), default=0)
        leaver = next((each for each in candidates if counts[each.source] == most), None)
        if leaver is not None:
            del half[leaver]
            leaver.close()
