"""Whose turn it is where not everybody's can be: the namespace's that has had the least (start-time fair queueing)."""

from collections import deque
from collections.abc import Callable, Collection, Iterable
from heapq import nlargest

from gangs.model import GangKey

MOST_AWAY = 1_000
"""Of so many namespaces that do not wait now it is remembered what they have had; of those that were served last."""


class Shares:
    """What each namespace that waits has had so far."""

    def __init__(self) -> None:
        self._had: dict[str, tuple[float, int]] = {}
        """With the turn in which it was served last, or came: between equals it goes by that."""
        self._turns = 0
        self._least = 0.0

    def next_ones(self, keys: Iterable[GangKey], cost: Callable[[GangKey], float], most: float) -> list[GangKey]:
        """One gang after the other, always one of the namespace that has had the least, until they cost so much: it
        may be more by one gang. Of one namespace in the order given; between equals whoever was served longest ago.
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
        """What they have had who wait, and who is away and has had more than one of these: it comes back to that.

        Who comes anew begins with as much as the least of those who wait, and after them: nobody saves up turns, nobody
        is behind for ever, nor behind namespaces that are always new.
        """
        self._least = min((self._had[each][0] for each in waiting if each in self._had), default=self._least)
        self._turns += 1
        away = [each for each, (had, _) in self._had.items() if each not in waiting and had > self._least]
        if len(away) > MOST_AWAY:
            away = nlargest(MOST_AWAY, away, key=lambda each: self._had[each][1])
        new = (self._least, self._turns)
        return {each: self._had[each] for each in away} | {each: self._had.get(each, new) for each in waiting}
