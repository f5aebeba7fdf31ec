"""Round-robin shares: the namespace with the least service so far is served next.

Source: start-time fair queueing (Goyal, Vin and Cheng, 1996).
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable
from heapq import nlargest

from gangs.model import GangKey

MOST_AWAY = 1_000
"""The most namespaces without waiting gangs whose service is remembered: the ones that were served last."""


class Shares:
    """The service that each namespace has received so far: the total cost of its gangs that were served."""

    def __init__(self) -> None:
        self._had: dict[str, tuple[float, int]] = {}
        """By namespace: its service, and the turn in which it was served last or arrived, as the tie-break."""
        self._turns = 0
        self._least = 0.0

    def next_ones(self, keys: Iterable[GangKey], cost: Callable[[GangKey], float], most: float) -> list[GangKey]:
        """Return the gangs to serve next: one after the other, each from the namespace with the least service so far.

        The list ends when the total cost of its gangs reaches `most`.

        The last gang may exceed `most`. The gangs of one namespace keep the given order. Of namespaces with equal
        service, the one that was served longest ago comes first.
        """
        lines: dict[str, deque[GangKey]] = {}
        for key in keys:
            lines.setdefault(key.namespace, deque()).append(key)
        had = self._had = self._arrived(lines)
        found, spent = list[GangKey](), 0.0
        while lines and spent < most:
            namespace = min(lines, key=had.__getitem__)
            found.append(key := lines[namespace].popleft())
            spent += (price := cost(key))
            self._turns += 1
            had[namespace] = had[namespace][0] + price, self._turns
            if not lines[namespace]:
                del lines[namespace]
        return found

    def _arrived(self, waiting: Collection[str]) -> dict[str, tuple[float, int]]:
        """Return the service of each namespace, with an entry for each namespace in `waiting`, those that have waiting
        gangs.

        A new namespace starts with the least service of the waiting ones, and after them in the tie-break. So a
        namespace cannot gain an advantage by waiting idle, and new namespaces cannot delay an old one for ever. A
        namespace without waiting gangs is remembered only while it has more service than that least one.
        """
        self._least = min((self._had[each][0] for each in waiting if each in self._had), default=self._least)
        self._turns += 1
        away = [each for each, (had, _) in self._had.items() if each not in waiting and had > self._least]
        if len(away) > MOST_AWAY:
            away = nlargest(MOST_AWAY, away, key=lambda each: self._had[each][1])
        new = (self._least, self._turns)
        return {each: self._had[each] for each in away} | {each: self._had.get(each, new) for each in waiting}
