"""How much of a round goes to what is not urgent, and in whose turn."""

from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from typing import NamedTuple, TypeVar

from controller.gang_round import GangRound

T = TypeVar("T")


class Turn(NamedTuple):
    """How long a round may write what is not urgent, and for how many gangs at a time."""

    seconds: float
    batch: int


LEISURELY = Turn(0.2, 16)
"""Those on their way wait for the next round."""
HURRIED = Turn(0.04, 4)
"""In a round that some gang waits for: what tells how others wait must not keep it, nor the API server from it."""


def turn_of(gang_rounds: Iterable[GangRound]) -> Turn:
    """What a round may spend on what is not urgent."""
    hurried = any(gang_round.on_its_way or gang_round.deferred for gang_round in gang_rounds)
    return HURRIED if hurried else LEISURELY


def in_turns(some: Iterable[T], namespace: Callable[[T], str]) -> Iterator[T]:
    """One of each namespace after the other, so that nobody's many keep others waiting."""
    by_namespace: dict[str, list[T]] = {}
    for each in some:
        by_namespace.setdefault(namespace(each), []).append(each)
    turns = zip_longest(*by_namespace.values())
    return (each for turn in turns for each in turn if each is not None)
