"""Tables of the dynamic programme for alike members, and their (min, +) products.

The table of a domain holds, for every number n of members, the best vector of goal values with n members inside. The
vector has all goals that are sums over domains: touched domains per level (goal 3), preferences, terminating capacity,
and the parts (c) and (d) of waste (goal 4). Vectors are compared lexicographically. The table of a domain is the (min,
+) product of its children's tables (a tree knapsack). Alike children share one table, and their product is computed by
doubling.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from solver.capacity import Counts
from solver.deadline import NO_DEADLINE, Deadline

WordTable = NDArray[np.int64]
"""A table: words of a goal vector x numbers of members. Column n is the best vector for n members.

The values of the vector are packed into 59-bit words, the most important value first (`Layout`). A first word from
`INFEASIBLE_COST` on means that n members do not fit.
"""

INFEASIBLE_COST = 1 << 60
"""A cost, or the first word of a vector, of this value or more means that the number of members is impossible."""
COST_BITS = 59
"""The bits of a cost, or of one word of a vector.

A cost is below 2^59, so the sum of two feasible costs stays below `INFEASIBLE_COST`. The sum of two infeasible ones is
at most 2^61 and stays within 63 bits.
"""
_WORST = np.iinfo(np.int64).max
"""A value for words of goal vectors that are worse in an earlier word already, so that they lose every later
comparison. It is larger than every sum of two words.
"""
_NARROW, _AT_ONCE = 512, 32
"""Tables with at most `_NARROW` columns are merged for `_AT_ONCE` numbers of members in one call of numpy, because the
call itself takes longer than its additions.
"""
_FULL, _FEW = 64, 256
"""Limits of `Products.columns`, which computes single columns of a product of tables.

A product with at most `_FULL` columns is always computed whole. In wider products, some children of the first key stay
out of the shared whole table if they can hold at most `_FEW` members together.
"""


@dataclass(frozen=True)
class Layout:
    """Where each value of a goal vector is packed. `at[name]`: the word of the value, and the position of its lowest
    bit in the word.

    `words`: the number of words. The first `primary` words hold the goals before waste and are compared first.
    """

    words: int
    primary: int
    at: dict[str, tuple[int, int]]

    @property
    def primary_alone(self) -> "Layout":
        """The layout without the words after the primary words. It leaves out waste."""
        return Layout(
            self.primary, self.primary, {name: place for name, place in self.at.items() if place[0] < self.primary}
        )


def layout_of(primary: list[tuple[str, int]], secondary: list[tuple[str, int]]) -> Layout | None:
    """Pack the values of a goal vector into words. `primary` and `secondary`: pairs of a value's name and its largest
    sum, the most important value first. None if a value needs more than 59 bits.

    `secondary` begins a new word, so that other values can be compared between primary and secondary words.
    """
    at: dict[str, tuple[int, int]] = {}
    first = _pack(primary, 0, at)
    last = _pack(secondary, first, at)
    if any(most.bit_length() > COST_BITS for _, most in primary + secondary):
        return None
    return Layout(last, first, at)


def _pack(components: list[tuple[str, int]], word: int, at: dict[str, tuple[int, int]]) -> int:
    """Assign values to words from the number `word` on, each word from the upper bits down. `components`: pairs of a
    value's name and its largest sum. Add the result to `at`. Return the number of the next free word.
    """
    left = COST_BITS
    for name, most in components:
        bits = most.bit_length()
        if bits > left:
            word, left = word + 1, COST_BITS
        left -= bits
        at[name] = word, left
    return word + 1


def nothing(words: int) -> WordTable:
    """Return the table of a domain that can hold no member: one column, for 0 members, at no cost."""
    return np.zeros((words, 1), dtype=np.int64)


def merged(one: WordTable, other: WordTable, most: int) -> WordTable:
    """Return the table of two domains together, for up to `most` members: their (min, +) product.

    best[n] = min over i of one[n - i] + other[i], where goal vectors (columns) are compared word by word from the
    first. Words have spare bits, so the sum of two words neither overflows nor carries into the next word.
    """
    if one.shape[1] < other.shape[1]:
        one, other = other, one
    width = min(one.shape[1] + other.shape[1] - 2, most) + 1
    best = np.full((one.shape[0], width), INFEASIBLE_COST, dtype=np.int64)
    counts = np.flatnonzero(other[0, :width] < INFEASIBLE_COST)
    if one.shape[0] == 1:  # vectors of one word are plain numbers, so a minimum needs no word by word comparison
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


def _best_of_all(one: WordTable, others: WordTable, counts: Counts, width: int) -> WordTable:
    """Return, for each number of members below `width`, the best sum of a goal vector of `one` and a goal vector of
    `others`. A goal vector is one column of a table.

    `others`: some columns of another table. `counts`: the number of members of each of these columns, ascending.
    """
    pad = int(counts[-1])
    # `one` becomes words x counts x width: one[w, k, n] = one[w, n - counts[k]], infeasible where n < counts[k].
    padded = np.full((one.shape[0], pad + max(width, one.shape[1])), INFEASIBLE_COST, dtype=np.int64)
    padded[:, pad : pad + one.shape[1]] = one
    one = padded[:, (pad - counts)[:, None] + np.arange(width)]
    other = others[:, :, None]
    best = np.empty((one.shape[0], width), dtype=np.int64)
    # sums: counts x width. Only rows that tie for the least in all words so far are compared in the next word.
    sums = one[0] + other[0]
    for word in range(one.shape[0]):
        sums.min(axis=0, out=best[word])
        if word + 1 < one.shape[0]:
            sums = np.where(sums == best[word], one[word + 1] + other[word + 1], _WORST)
    return best


def merged_at(one: WordTable, other: WordTable, counts: Counts) -> WordTable:
    """Return some columns of the table of two domains together (`merged`): the columns for the numbers of members in
    `counts`. This is faster than the whole table if `counts` is short.
    """
    # `one` becomes words x counts x columns of `other`: one[w, k, i] = one[w, counts[k] - i]; infeasible outside `one`.
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


def _keep_better(best: WordTable, candidates: WordTable) -> None:
    """Replace each column of `best` by the same column of `candidates` if the latter is a better goal vector. Changes
    `best` in place.
    """
    # From the last word to the first: a column is better in this word, or equal in it and better in the words after it.
    better = candidates[-1] < best[-1]
    for word in range(best.shape[0] - 2, -1, -1):
        better = (candidates[word] < best[word]) | ((candidates[word] == best[word]) & better)
    np.copyto(best, candidates, where=better)


@dataclass(slots=True)
class Products:
    """(min, +) products of the tables of many children. Each product is computed once and kept.

    Alike children have one key, and `tables[key]` is their table. `words`: the number of rows of a table. `most`: the
    most members, so tables have at most `most` + 1 columns.
    """

    words: int
    most: int
    deadline: Deadline = NO_DEADLINE
    tables: list[WordTable] = field(default_factory=list)
    _powers: dict[tuple[int, int], WordTable] = field(default_factory=dict)
    _products: dict[tuple[tuple[int, int], ...], WordTable] = field(default_factory=dict)

    def power(self, key: int, times: int) -> WordTable:
        """Return the table of `times` alike children together. `key`: the number of the table of one child. Raises
        `OutOfTimeError`.
        """
        if times == 0:
            return nothing(self.words)
        if times == 1:
            return self.tables[key]
        known = self._powers.get((key, times))
        if known is None:
            # By doubling: log2(times) products instead of times, as alike children have one table.
            half = self.power(key, times // 2)
            self.deadline.check()
            known = merged(half, half, self.most)
            if times % 2:
                known = merged(known, self.tables[key], self.most)
            self._powers[key, times] = known
        return known

    def product(self, groups: tuple[tuple[int, int], ...]) -> WordTable:
        """Return the table of several children together. `groups`: pairs of a key (the number of a child's table) and
        the number of children with this table.

        Products of the last pairs that were computed before are reused. Raises `OutOfTimeError`.
        """
        start = next((place for place in range(len(groups)) if groups[place:] in self._products), len(groups))
        table = self._products[groups[start:]] if start < len(groups) else nothing(self.words)
        for place in range(start - 1, -1, -1):
            self.deadline.check()
            key, times = groups[place]
            table = merged(table, self.power(key, times), self.most) if times else table
            self._products[groups[place:]] = table
        return table

    def columns(self, groups: tuple[tuple[int, int], ...], counts: Counts) -> WordTable:
        """Return some columns of the table of several children together: the columns for the numbers of members in
        `counts`.

        If the whole product is large, only a part of it is computed and cached: the product of all children except a
        few of the first group. The few children are merged into it for the wanted columns only. So a caller that
        removes children one by one rarely causes a new whole product.

        :param groups: pairs of a key (the number of a child's table) and the number of children with this table.
        """
        if groups in self._products or self.width(groups) <= _FULL:
            return self.product(groups)[:, counts]
        key, times = groups[0]
        few = times % max(1, _FEW // max(1, self.tables[key].shape[1] - 1))
        return merged_at(self.product(((key, times - few), *groups[1:])), self.power(key, few), counts)

    def width(self, groups: tuple[tuple[int, int], ...]) -> int:
        """Return the number of columns of the table of several children together: the most members that fit, plus 1.
        `groups`: pairs of a key (the number of a child's table) and the number of children with this table.
        """
        columns: int = sum(times * (self.tables[key].shape[1] - 1) for key, times in groups)
        return min(columns, self.most) + 1
