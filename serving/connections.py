"""The table of open connections, and the choice of the connection to close if there are too many.

Half of the table is for strangers: connections that have never sent a whole request. The other half is for all other
connections, so that neither kind can displace the other. If one half is full, the client address with the most
connections in it loses one: its oldest stranger, or the connection that has been idle for longest. A connection whose
request is being answered is never closed for another one.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto


class State(Enum):
    """The state of a connection."""

    STRANGER = auto()
    """The client has never sent a whole request: it is in its handshake, silent, or sending its first request."""
    SENDING = auto()
    """The client has sent whole requests before, and is sending another."""
    ANSWERED = auto()
    """A request of the client has been received and is being answered."""
    IDLE = auto()
    """All requests of the client are answered. The connection is kept for the next one."""


@dataclass(slots=True, eq=False)
class Connection:
    """An entry of the table of connections.

    `source`: the client's address. `deadline`: the time, by the loop's clock, by which the state must have changed;
    else the connection is closed. `close`: ends the connection at once. `finish`: closes it now if it is idle, else
    after its answer; None during the handshake and after the end.
    """

    source: str
    close: Callable[[], None]
    deadline: float
    state: State = State.STRANGER
    finish: Callable[[], None] | None = None


class Connections:
    """The table of a port's open connections, at most about `most` in all.

    Half of the table is for strangers: connections that have not sent a whole request yet. The other half is for all
    other connections. Each half is ordered by the last change of state.
    """

    def __init__(self, most: int) -> None:
        self.half = max(1, most // 2)
        self._strangers: dict[Connection, None] = {}
        self._known: dict[Connection, None] = {}

    def __len__(self) -> int:
        """Return the number of connections."""
        return len(self._strangers) + len(self._known)

    def __contains__(self, connection: Connection) -> bool:
        """Return whether the connection is still in the table. A connection that is closed or has ended is not."""
        return connection in self._strangers or connection in self._known

    def __iter__(self) -> Iterator[Connection]:
        """Iterate over all connections. The table may change meanwhile."""
        return iter((*self._strangers, *self._known))

    def add(self, stranger: Connection) -> None:
        """Add a new connection. If the strangers' half is full, close another stranger for it."""
        self._make_room(self._strangers, State.STRANGER)
        self._strangers[stranger] = None

    def remove(self, connection: Connection) -> None:
        """Remove a connection that has ended."""
        self._strangers.pop(connection, None)
        self._known.pop(connection, None)

    def enter(self, connection: Connection, state: State, deadline: float) -> None:
        """Change the state of a connection. After its first whole request it moves to the other half.

        :param deadline: the time by which the new state must have changed, by the loop's clock.
        """
        connection.state, connection.deadline = state, deadline
        if state is State.STRANGER:
            return
        if connection in self._strangers:
            del self._strangers[connection]
            self._make_room(self._known, State.IDLE, State.SENDING)
        elif self._known.pop(connection, self) is self:
            return  # the connection has ended meanwhile
        self._known[connection] = None

    def overdue(self, now: float) -> list[Connection]:
        """Return the connections whose deadline has passed at the time `now`, by the loop's clock."""
        return [each for each in self if each.deadline <= now]

    def _make_room(self, half: dict[Connection, None], *dispensable: State) -> None:
        """If this half of the table is full, close one of its connections that are in a dispensable state.

        The client address with the most such connections loses one: the connection whose state has not changed for the
        longest time.
        """
        if len(half) < self.half:
            return
        candidates = [each for each in half if each.state in dispensable]
        counts = Counter(each.source for each in candidates)
        most = max(counts.values(), default=0)
        leaver = next((each for each in candidates if counts[each.source] == most), None)
        if leaver is not None:
            del half[leaver]
            leaver.close()
