"""Gangs of one kind, exactly, by counting: dynamic programming over the domain tree, without CP-SAT.

For every domain: the best that n members inside it can come to, for each n. "Best" is a vector of all goals that add
up over domains (domains touched per level, preferences, terminating capacity, room of the touched domains, domains with
room left), compared lexicographically; a domain's table is the (min, +) product of its children's (a tree
knapsack). Children that are alike have one table, merged by doubling.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from solver.capacity import Counts
from solver.deadline import NO_DEADLINE, Deadline

Table = NDArray[np.int64]
"""Rows: the words of the vector; columns: how many members. A first word of `INFEASIBLE_COST` or more: impossible."""

INFEASIBLE_COST = 1 << 60
_WORST = np.iinfo(np.int64).max
_NARROW, _AT_ONCE = 512, 32
"""So wide tables are merged for so many numbers of members at a time: what numpy does costs less than telling it to."""
_FULL, _FEW = 64, 256
"""Products so wide at most are always worked out as a whole; of wider ones, children for so many members at most are
merged column by column.
"""
_WORD = 59
"""Bits of a word: two words can be added, and a word to `INFEASIBLE_COST`, within 64 bits."""


@dataclass(frozen=True)
class Layout:
    """Which bits of which word each component of the vector has; the first `primary` words are compared first."""

    words: int
    primary: int
    at: dict[str, tuple[int, int]]

    @property
    def primary_alone(self) -> "Layout":
        """The same places without the secondary."""
        return Layout(
            self.primary, self.primary, {name: place for name, place in self.at.items() if place[0] < self.primary}
        )


def layout_of(primary: list[tuple[str, int]], secondary: list[tuple[str, int]]) -> Layout | None:
    """Pack components, each with the largest sum it can come to, most important first. None: one is too large.

    `secondary` begins a new word, so that something else can be compared between primary and secondary.
    """
    at: dict[str, tuple[int, int]] = {}
    first = _pack(primary, 0, at)
    last = _pack(secondary, first, at)
    if any(most.bit_length() > _WORD for _, most in primary + secondary):
        return None
    return Layout(last, first, at)


def _pack(components: list[tuple[str, int]], word: int, at: dict[str, tuple[int, int]]) -> int:
    """Fill words from `word` on, from their upper bits down; the number of the next free word."""
    left = _WORD
    for name, most in components:
        bits = most.bit_length()
        if bits > left:
            word, left = word + 1, _WORD
        left -= bits
        at[name] = word, left
    return word + 1


def nothing(words: int) -> Table:
    """The table of no room at all: only 0 members."""
    return np.zeros((words, 1), dtype=np.int64)


def merged(one: Table, other: Table, most: int) -> Table:
    """The best of both together, for up to `most` members.

    best[n] = min over i of one[n - i] + other[i], columns compared word by word from the first: the (min, +) product of
    lexicographic vectors. Words are so narrow that the sum of two neither overflows nor carries into the next one.
    """
    if one.shape[1] < other.shape[1]:
        one, other = other, one
    width = min(one.shape[1] + other.shape[1] - 2, most) + 1
    best = np.full((one.shape[0], width), INFEASIBLE_COST, dtype=np.int64)
    counts = np.flatnonzero(other[0, :width] < INFEASIBLE_COST)
    if one.shape[0] == 1:  # one word is compared as it is
        for count, cost in zip(counts.tolist(), other[0, counts].tolist(), strict=True):
            into = best[0, count : count + one.shape[1]]
            np.minimum(into, one[0, : len(into)] + cost, out=into)
        return best
    if width <= _NARROW:
        for first in range(0, len(counts), _AT_ONCE):
            some = counts[first : first + _AT_ONCE]
            _keep_better(best, _best_of_all(one, other[:, some], some, width))
        return best
    for count in counts.tolist():
        columns = min(one.shape[1], width - count)
        _keep_better(best[:, count : count + columns], one[:, :columns] + other[:, count : count + 1])
    return best


def _best_of_all(one: Table, offers: Table, counts: Counts, width: int) -> Table:
    """By column, the least of what several numbers of members in the other domain come to (`offers`) with `one`."""
    pad = int(counts[-1])
    # one becomes words x counts x width: one[w, k, n] = one[w, n - counts[k]], impossible where that is negative.
    padded = np.full((one.shape[0], pad + max(width, one.shape[1])), INFEASIBLE_COST, dtype=np.int64)
    padded[:, pad : pad + one.shape[1]] = one
    one = padded[:, (pad - counts)[:, None] + np.arange(width)]
    other = offers[:, :, None]
    best = np.empty((one.shape[0], width), dtype=np.int64)
    # sums: counts x width. Only rows that tie for the least in all words so far stay in the race for the next word.
    sums = one[0] + other[0]
    for word in range(one.shape[0]):
        sums.min(axis=0, out=best[word])
        if word + 1 < one.shape[0]:
            sums = np.where(sums == best[word], one[word + 1] + other[word + 1], _WORST)
    return best


def merged_at(one: Table, other: Table, counts: Counts) -> Table:
    """The columns of `merged` for these numbers of members alone."""
    # one becomes words x counts x other's columns: one[w, k, i] = one[w, counts[k] - i], impossible where it ends.
    places = counts[:, None] - np.arange(other.shape[1])
    there = (places >= 0) & (places < one.shape[1])
    found = np.where(there, one[:, np.where(there, places, 0)], INFEASIBLE_COST)
    best = np.empty((one.shape[0], len(counts)), dtype=np.int64)
    sums = found[0] + other[0]
    for word in range(one.shape[0]):
        sums.min(axis=1, out=best[word])
        if word + 1 < one.shape[0]:
            sums = np.where(sums == best[word][:, None], found[word + 1] + other[word + 1], _WORST)
    return best


def _keep_better(best: Table, offer: Table) -> None:
    """Replace the columns of `best` that are worse than those of `offer`."""
    # From the last word to the first: better in this word, or equal here and better in those after it.
    better = offer[-1] < best[-1]
    for word in range(best.shape[0] - 2, -1, -1):
        better = (offer[word] < best[word]) | ((offer[word] == best[word]) & better)
    np.copyto(best, offer, where=better)


@dataclass(slots=True)
class Products:
    """Tables of many children together, each worked out once. `tables[key]` is that of one child."""

    words: int
    most: int
    deadline: Deadline = NO_DEADLINE
    tables: list[Table] = field(default_factory=list)
    _powers: dict[tuple[int, int], Table] = field(default_factory=dict)
    _products: dict[tuple[tuple[int, int], ...], Table] = field(default_factory=dict)

    def power(self, key: int, times: int) -> Table:
        """`times` children of one key together."""
        if times == 0:
            return nothing(self.words)
        if times == 1:
            return self.tables[key]
        known = self._powers.get((key, times))
        if known is None:
            # By doubling: log2(times) products instead of times, as alike children have one table.
            half = self.power(key, times // 2)
            self.deadline.look()
            known = merged(half, half, self.most)
            if times % 2:
                known = merged(known, self.tables[key], self.most)
            self._powers[key, times] = known
        return known

    def product(self, groups: tuple[tuple[int, int], ...]) -> Table:
        """Children of several keys together: pairs of key and number. Ends that were seen before are reused."""
        start = next((place for place in range(len(groups)) if groups[place:] in self._products), len(groups))
        table = self._products[groups[start:]] if start < len(groups) else nothing(self.words)
        for place in range(start - 1, -1, -1):
            self.deadline.look()
            key, times = groups[place]
            table = merged(table, self.power(key, times), self.most) if times else table
            self._products[groups[place:]] = table
        return table

    def columns(self, groups: tuple[tuple[int, int], ...], counts: Counts) -> Table:
        """The columns of `product` for these numbers of members. Of the first key all but a few children are merged,
        the same ones for several numbers of them: whoever takes these one by one needs a whole table now and then only.
        """
        if groups in self._products or self.width(groups) <= _FULL:
            return self.product(groups)[:, counts]
        key, times = groups[0]
        few = times % max(1, _FEW // max(1, self.tables[key].shape[1] - 1))
        return merged_at(self.product(((key, times - few), *groups[1:])), self.power(key, few), counts)

    def width(self, groups: tuple[tuple[int, int], ...]) -> int:
        """How many columns `product` has."""
        columns: int = sum(times * (self.tables[key].shape[1] - 1) for key, times in groups)
        return min(columns, self.most) + 1
