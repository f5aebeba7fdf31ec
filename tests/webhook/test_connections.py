"""The connection that is closed when all places are taken."""

import pytest

from serving.connections import Connection, Connections, State

STATES = {"s": State.STRANGER, "i": State.IDLE, "b": State.ANSWERED, "h": State.SENDING}


def table(drawing: str) -> tuple[Connections, dict[str, Connection], list[str]]:
    """Fill a table of two places for strangers and two for other clients.

    In `a1s`, connection 1 of source a is a stranger. Connections arrive, or change their state, in the given order.
    """
    closed: list[str] = []
    connections, named = Connections(4), {}
    for name in drawing.split():
        named[name] = Connection(name[0], lambda name=name: closed.append(name), deadline=0.0)  # type: ignore[misc]
        connections.add(named[name])
        if STATES[name[2]] is not State.STRANGER:
            connections.enter(named[name], STATES[name[2]], 0.0)
    return connections, named, closed


@pytest.mark.parametrize(
    ("drawing", "closed"),
    [
        ("a1s a2s b1s", "a1s"),  # the oldest stranger of the source with the most
        ("b1s a1s a2s", "b1s"),  # both have one: the oldest
        ("a1i a2i b1s b2s c1s", "b1s"),  # strangers push out strangers only
        ("b1i b2i a1s c1i", "b1i"),  # and others others
        ("b1i a1i a2i", "b1i"),
        ("a1b a2b b1i", ""),  # a connection whose request is being answered stays open
        ("a1b a2h b1i", "a2h"),
    ],
)
def test_the_source_with_the_most_gives_its_most_dispensable_one(drawing: str, closed: str) -> None:
    assert table(drawing)[2] == closed.split()


def test_who_asked_last_is_kept_longest() -> None:
    connections, named, gone = table("a1i a2i")
    connections.enter(named["a1i"], State.ANSWERED, 0.0)
    connections.enter(named["a1i"], State.IDLE, 0.0)
    newcomer = Connection("z", lambda: None, 0.0)
    connections.add(newcomer)
    connections.enter(newcomer, State.ANSWERED, 0.0)
    assert gone == ["a2i"]


def test_overdue_are_those_whose_time_is_over() -> None:
    connections, named, _ = table("a1s a2s")
    connections.enter(named["a2s"], State.STRANGER, 5.0)
    assert connections.overdue(4.9) == [named["a1s"]]
    connections.remove(named["a1s"])
    assert connections.overdue(5.0) == [named["a2s"]]
