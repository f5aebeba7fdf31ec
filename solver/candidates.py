"""Which domains may hold a whole gang of alike members, and what that costs in each at best: bounds by counting."""

import numpy as np
from numpy.typing import NDArray

from solver.bounds import Counts
from solver.tables import Book
from solver.tree import ROOT

Score = tuple[int, ...]
"""The goals of a domain in their order: the head of its vector, the room of it and of those around it, the tail."""


def candidates(book: Book, level: int, members: int) -> list[tuple[int, Score]]:
    """The domains of a level (or ROOT) that have room for so many members, the best bound first.

    The bound is the beginning of the score that a plan there has at best.
    """
    tree, layout = book.case.tree, book.layout
    rooms = _rooms(book, level)
    fitting = rooms[level] >= members
    if not fitting.any():
        return []
    head = np.zeros((layout.head, tree.count(level)), dtype=np.int64)
    for narrower in range(max(level, 0), tree.depth):
        touched, enough = _fewest(tree.around(narrower, level), rooms[narrower], tree.count(level), members)
        fitting &= enough
        word, shift = layout.at[f"touched {narrower}"]
        head[word] += touched << shift
    word, shift = layout.at["preferences"]
    head[word] += members * _least_displeasure(book, level) << shift
    outward = range(level, ROOT - 1, -1)
    room = [np.array(book.case.potentials[each + 1], dtype=np.int64)[tree.around(level, each)] for each in outward]
    found = np.flatnonzero(fitting)
    bounds = np.concatenate([head, room])[:, found]
    order = np.lexsort(bounds[::-1])
    return [
        (number, tuple(bound)) for number, bound in zip(found[order].tolist(), bounds.T[order].tolist(), strict=True)
    ]


def _rooms(book: Book, level: int) -> dict[int, Counts]:
    """By level from `level` (or ROOT) to the node: for how many members each domain has room, within its rules about
    numbers and those of all domains inside.
    """
    tree, rules = book.case.tree, book.rules
    room = book.case.capacity[book.kind.shape]
    rooms = {}
    for each in range(tree.depth - 1, level - 1, -1):
        if each < tree.depth - 1:
            inside, room = room, np.zeros(tree.count(each), dtype=np.int64)
            np.add.at(room, tree.around(each + 1, each), inside)
        if each > ROOT:
            room = room.copy()
            for domain, most in rules.caps[each].items():
                room[domain] = min(room[domain], most)
            for of in rules.multiple[each]:
                room -= room % of
        rooms[each] = room
    return rooms


def _fewest(around: Counts, room: Counts, count: int, members: int) -> tuple[Counts, NDArray[np.bool_]]:
    """By domain (of which there are `count`, `around` those that have `room`): the fewest inside that hold so many
    members, and whether all of them together do. The largest first are the fewest.
    """
    order = np.lexsort((-room, around))
    room, around = room[order], around[order]
    before = np.cumsum(room) - room
    starts = np.searchsorted(around, np.arange(count))
    needed = (before - before[starts][around] < members) & (room > 0)
    whole, fewest = np.zeros((2, count), dtype=np.int64)
    np.add.at(whole, around, room)
    np.add.at(fewest, around, needed)
    return fewest, whole >= members


def _least_displeasure(book: Book, level: int) -> Counts:
    """By domain of `level`: what its best node lacks of the best weight of node preferences."""
    tree, liked = book.case.tree, book.weights
    best = np.full(tree.count(level), liked.min(initial=0), dtype=np.int64)
    np.maximum.at(best, tree.domains(level), liked)
    return book.best_weight - best
