"""Gangs of which counting shows that they fit nowhere: planned where nobody else is, to learn what they are told."""

from collections.abc import Callable, Iterable

from controller.scheduling.questions import Question
from controller.scheduling.shares import Shares
from gangs.model import GangKey

BATCH = 2_148
"""What gangs cost together that are planned at once: one as large as may be, or some twenty small ones."""
OVERDUE_SECONDS = 5.0
"""Where others are planned all the time, these are so often all the same, beside them."""
_SHARE_OF_TIME = 2
"""So many times as long as the last ones took, nothing is planned aside: the processor is for others, too."""


class Aside:
    """Whose turn it is there, one namespace's after the other's, and when."""

    def __init__(self) -> None:
        self._shares = Shares()
        self._question: Question | None = None
        self._since = 0.0
        self._again: float | None = None
        """When the next ones are due; None before anybody was here."""
        self._seen: dict[GangKey, object] = {}
        self._planned: dict[GangKey, float] = {}

    def is_new(self, key: GangKey, request: object) -> bool:
        """Whether this gang has not been here with that request before."""
        known, self._seen[key] = self._seen.get(key), request
        return known is not request

    def forget(self, key: GangKey) -> None:
        """It is gone."""
        self._seen.pop(key, None)
        self._planned.pop(key, None)

    def planned(self, keys: Iterable[GangKey], at: float) -> None:
        """They were planned, here or elsewhere, or are about to be: others of their namespaces come first now."""
        self._planned |= dict.fromkeys(keys, at)

    def due(self, at: float) -> bool:
        """Whether the last ones are answered, and long enough ago, so that these may use a lane that is idle."""
        return self._question is None and at >= self._next(at)

    def overdue(self, at: float) -> bool:
        """Whether they need not wait for that lane to be idle any more."""
        return self._question is None and at >= self._next(at) + OVERDUE_SECONDS

    def _next(self, at: float) -> float:
        if self._again is None:
            self._again = at
        return self._again

    def next_ones(self, keys: Iterable[GangKey], cost: Callable[[GangKey], float]) -> list[GangKey]:
        """Those whose turn it is: within a namespace whoever was never told anything, then whoever was longest ago."""
        return self._shares.next_ones(sorted(keys, key=self._last_planned), cost, BATCH)

    def _last_planned(self, key: GangKey) -> float:
        return self._planned.get(key, float("-inf"))

    def sent(self, question: Question, at: float) -> None:
        """They are being planned. Whoever changes before the answer has had its turn, too."""
        self._question, self._since = question, at
        self.planned((gang.key for gang in question.gangs), at)

    def holds(self, question: Question) -> bool:
        """Whether these are the ones that are being planned."""
        return question is self._question

    def ended(self, question: Question, at: float) -> None:
        """All that was asked of these is answered."""
        if question is self._question:
            self._question, self._again = None, at + _SHARE_OF_TIME * (at - self._since)
