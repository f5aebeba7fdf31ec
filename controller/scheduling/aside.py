"""Gangs of which counting shows that they fit nowhere: planned where nobody else is, to learn what they are told."""

from collections.abc import Callable, Collection, Container, Iterable

from controller.scheduling.questions import Question
from controller.scheduling.shares import Shares
from gangs.model import GangKey
from timing.duty_cycle import DutyCycle

BATCH = 2_148
"""What gangs cost together that are planned in one turn beside others: one as large as may be, or some twenty small
ones. In the prompt lane it is one gang's turn: somebody who may have a place may come at any time.
"""
OVERDUE_SECONDS = 5.0
"""Where others are planned all the time, these are so often all the same, beside them."""
_REST = DutyCycle(rest=2)
"""So many times as long as the last one took, nothing is planned aside: the processor is for others, too."""
_REST_BEFORE_RENEWAL = DutyCycle(rest=19)
"""The same before one is told anew what it was told before: figures of a twentieth of a core."""


class Aside:
    """Whose turn it is there, one namespace's after the other's, and when."""

    def __init__(self) -> None:
        self._shares = Shares()
        self._question: Question | None = None
        self._since, self._renewing = 0.0, False
        self._again: float | None = None
        """When the next one is due; None before anybody was here."""
        self._anew = 0.0
        """When the next one is that has been told before."""
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

    def ready(self, keys: Collection[GangKey], answered: Container[GangKey], at: float) -> Collection[GangKey]:
        """Those of the gangs that may use a lane that is idle: the last one is answered, and long enough ago. For those
        that are `answered` something already it has to be longer ago.
        """
        if self._question is not None or at < self._next(at):
            return ()
        return keys if at >= self._anew else [key for key in keys if key not in answered]

    def next_due(self, keys: Iterable[GangKey], answered: Container[GangKey], at: float) -> float:
        """When the next one of these is due, if nothing comes before it."""
        if self._question is not None:
            return float("inf")
        return self._next(at) if any(key not in answered for key in keys) else max(self._next(at), self._anew)

    def overdue(self, at: float) -> bool:
        """Whether they need not wait for that lane to be idle any more."""
        return at >= self._next(at) + OVERDUE_SECONDS

    def _next(self, at: float) -> float:
        if self._again is None:
            self._again = at
        return self._again

    def next_ones(self, keys: Iterable[GangKey], cost: Callable[[GangKey], float], *, promptly: bool) -> list[GangKey]:
        """Whose turn it is: within a namespace whoever was never told anything, then whoever was longest ago."""
        return self._shares.next_ones(sorted(keys, key=self._last_planned), cost, 1 if promptly else BATCH)

    def _last_planned(self, key: GangKey) -> float:
        return self._planned.get(key, float("-inf"))

    def sent(self, question: Question, at: float, *, renewing: bool) -> None:
        """They are being planned. Whoever changes before the answer has had its turn, too."""
        self._question, self._since, self._renewing = question, at, renewing
        self.planned((gang.key for gang in question.gangs), at)

    def holds(self, question: Question) -> bool:
        """Whether these are the ones that are being planned."""
        return question is self._question

    def ended(self, question: Question, at: float) -> None:
        """All that was asked of these is answered."""
        if question is self._question:
            took = at - self._since
            self._question, self._again = None, at + _REST.pause(took)
            if self._renewing:
                self._anew = at + _REST_BEFORE_RENEWAL.pause(took)
