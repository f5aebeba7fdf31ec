"""How much time of a reconcile goes to writes that are not urgent, and the order of namespaces for them."""

from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from typing import NamedTuple, TypeVar

from controller.reconcile_state import ReconcileState

T = TypeVar("T")


class Turn(NamedTuple):
    """How many seconds a reconcile may spend on writes that are not urgent, and for how many gangs at a time."""

    seconds: float
    batch: int


LEISURELY = Turn(0.2, 16)
"""For a reconcile that no gang waits for. It is short, because gangs with new plans wait for the next reconcile."""
HURRIED = Turn(0.04, 4)
"""For a reconcile that some gang waits for: reports about other gangs must not delay it or load the API server."""


def turn_of(gang_states: Iterable[ReconcileState]) -> Turn:
    """Return the limits of this reconcile for writes that are not urgent."""
    hurried = any(gang_state.on_its_way or gang_state.deferred for gang_state in gang_states)
    return HURRIED if hurried else LEISURELY


def in_turns(some: Iterable[T], namespace: Callable[[T], str]) -> Iterator[T]:
    """Yield the items in turns of their namespaces, so that a namespace with many items does not delay others."""
    by_namespace: dict[str, list[T]] = {}
    for each in some:
        by_namespace.setdefault(namespace(each), []).append(each)
    turns = zip_longest(*by_namespace.values())
    return (each for turn in turns for each in turn if each is not None)
