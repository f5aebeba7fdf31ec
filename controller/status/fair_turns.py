"""Limits the writes of a reconcile that are not urgent, such as status updates, and orders them by namespace."""

from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from typing import NamedTuple, TypeVar

from controller.reconcile_state import ReconcileState

T = TypeVar("T")


class Turn(NamedTuple):
    """The limits of one reconcile for writes that are not urgent.

    `seconds`: no further batch of writes begins after this time. `batch`: how many gangs are written at a time.
    """

    seconds: float
    batch: int


LEISURELY = Turn(0.2, 16)
"""The limits while no gang's plan is being carried out. The time is short, because new plans wait for the next
reconcile.
"""
HURRIED = Turn(0.04, 4)
"""The limits while some gang's plan is being carried out: reports on other gangs must not delay that gang."""


def turn_of(gang_states: Iterable[ReconcileState]) -> Turn:
    """Return the limits of this reconcile for writes that are not urgent: `HURRIED` if some gang waits for the next
    reconcile, else `LEISURELY`.
    """
    hurried = any(gang_state.on_its_way or gang_state.deferred for gang_state in gang_states)
    return HURRIED if hurried else LEISURELY


def in_turns(some: Iterable[T], namespace: Callable[[T], str]) -> Iterator[T]:
    """Yield one item of each namespace, then a second one of each, and so on.

    So a namespace with many items does not delay other namespaces.
    """
    by_namespace: dict[str, list[T]] = {}
    for each in some:
        by_namespace.setdefault(namespace(each), []).append(each)
    turns = zip_longest(*by_namespace.values())
    return (each for turn in turns for each in turn if each is not None)
