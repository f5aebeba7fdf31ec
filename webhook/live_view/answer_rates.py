"""How soon each of many is answered again, where it would cost too much to answer at once every time."""

from collections import OrderedDict

MOST_KNOWN = 1_024
"""Of so many it is remembered; of those that asked last."""


class AnswerRates:
    """So many answers a second for each, and so many at once for whoever has not asked for a while (GCRA)."""

    def __init__(self, a_second: float, at_once: int) -> None:
        self._interval = 1 / a_second
        self._ahead = (at_once - 1) * self._interval
        self._due: OrderedDict[str, float] = OrderedDict()

    def pause(self, who: str, now: float) -> float:
        """Seconds for which the next answer is to be held back. It counts as given."""
        due = max(self._due.get(who, now), now)
        self._due[who] = due + self._interval
        self._due.move_to_end(who)
        while len(self._due) > MOST_KNOWN:
            self._due.popitem(last=False)
        return max(0.0, due - self._ahead - now)
