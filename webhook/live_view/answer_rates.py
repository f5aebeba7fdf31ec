"""Limits how many expensive answers each caller gets per second."""

from collections import OrderedDict

MOST_KNOWN = 1_024
"""The most callers whose rate is recorded: those with the most recent requests."""


class AnswerRates:
    """A rate limit for each caller, by the generic cell rate algorithm (GCRA).

    :param a_second: the answers per second that a caller gets in the long run.
    :param at_once: the answers that a caller gets at once after a pause.
    """

    def __init__(self, a_second: float, at_once: int) -> None:
        self._interval = 1 / a_second
        self._ahead = (at_once - 1) * self._interval
        self._due: OrderedDict[str, float] = OrderedDict()

    def pause(self, who: str, now: float) -> float:
        """Return how many seconds to delay the next answer to the caller `who`. The answer is counted as given.

        :param now: the present time, in monotonic seconds.
        """
        due = max(self._due.get(who, now), now)
        self._due[who] = due + self._interval
        self._due.move_to_end(who)
        while len(self._due) > MOST_KNOWN:
            self._due.popitem(last=False)
        return max(0.0, due - self._ahead - now)
