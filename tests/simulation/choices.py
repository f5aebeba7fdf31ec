"""Every decision of a schedule, derived from its seed."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from hashlib import blake2b

_SCALE = 1 << 32


class Choices:
    """Answers the questions of a simulation. Equal seeds give equal answers, whatever was asked at other sites.

    A question has a site, such as "c1/write"; the n-th question of a site has the name "c1/write#n". Option 0 of every
    question is the harmless one. `allowed`: names of questions that may be answered otherwise; None: all. That is how a
    schedule is minimised.
    """

    def __init__(self, seed: int, allowed: Collection[str] | None = None) -> None:
        self._key = seed.to_bytes(8, "big")
        self._allowed = frozenset(allowed) if allowed is not None else None
        self._asked: defaultdict[str, int] = defaultdict(int)
        self.taken: dict[str, int] = {}
        """The questions with another answer than option 0, by name."""

    def pick(self, site: str, weights: Sequence[int]) -> int:
        """Return the position of one of the options, with a probability in proportion to its weight."""
        count = self._asked[site] = self._asked[site] + 1
        if weights[0] == (total := sum(weights)):
            return 0
        name = f"{site}#{count}"
        if self._allowed is not None and name not in self._allowed:
            return 0
        place = self._number(name) * total // _SCALE
        option = 0
        while place >= weights[option]:
            place -= weights[option]
            option += 1
        if option:
            self.taken[name] = option
        return option

    def one_of(self, site: str, options: Sequence[float], weights: Sequence[int] | None = None) -> float:
        """Return one of the options; the first is the harmless one."""
        return options[self.pick(site, weights or [1] * len(options))]

    def number(self, site: str, count: int) -> int:
        """Return a number below `count`, each as likely."""
        return self.pick(site, [1] * count) if count > 1 else 0

    def _number(self, name: str) -> int:
        return int.from_bytes(blake2b(name.encode(), digest_size=4, key=self._key).digest(), "big")
