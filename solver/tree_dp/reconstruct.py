"""Ties by name where members are alike and the tables are known: the first of all best plans, rank by rank.

The next member stays on its predecessor's node or moves on to the smallest name that still allows a best plan. Which
numbers of members a domain may end with is carried along; whether a child can be used at all follows from the tables
of the children that nobody has touched yet.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from solver.tree_dp.min_plus import INFEASIBLE_COST, Table, nothing
from solver.tree_dp.single_class_tables import Domain, DomainTables

Totals = NDArray[np.bool_]
"""Which numbers of members are possible; position 0 is 0 members."""


@dataclass(slots=True)
class _Open:
    """A domain in which members are being seated. `count` and `sum`: the children that are finished.

    `totals`: the numbers that the domain may end with in a best plan. `waiting`: untouched children by key.
    """

    domain: Domain
    totals: Totals
    sum: Table
    count: int = 0
    waiting: dict[int, tuple[Domain, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Move:
    """A way on: the place in natural order of the node it leads to, and the domains to be opened on the way there,
    each with the numbers it may end with. `depth`: how many open domains stay open. `unusable`: keys of children
    that are in no best plan once this move has been weighed.
    """

    name: int
    depth: int
    path: tuple[tuple[Domain, Totals], ...]
    unusable: tuple[int, ...] = ()


def first_node(tables: DomainTables, domain: Domain, members: int) -> int:
    """The place in natural order of the first node of the first best plan inside `domain`."""
    move = _Seating(tables).enter(domain, _exactly(members), bound=None)
    if move is None:
        raise ValueError("no plan to be seated")
    return move.name


def seated(tables: DomainTables, domain: Domain, members: int) -> list[int]:
    """The nodes of all members in order of rank."""
    seating = _Seating(tables)
    move = seating.enter(domain, _exactly(members), bound=None)
    nodes: list[int] = []
    while move is not None:
        seating.make(move)
        nodes.append(seating.node())
        move = seating.next_move() if len(nodes) < members else None
    return nodes


def _exactly(members: int) -> Totals:
    totals = np.zeros(members + 1, dtype=np.bool_)
    totals[members] = True
    return totals


class _Seating:
    """The open domains from the widest to the node, and the moves that are possible."""

    def __init__(self, tables: DomainTables) -> None:
        self.tables = tables
        self.open: list[_Open] = []
        self.fresh: dict[tuple[int, bytes, int], Totals] = {}

    def node(self) -> int:
        """The node of the member that was seated last."""
        return self.open[-1].domain.number

    def make(self, move: _Move) -> None:
        """Leave what has to be left, then open the way to the node and seat one member there."""
        while len(self.open) > move.depth:
            left = self.open.pop()
            if self.open:
                self.open[-1].count += left.count
                self.open[-1].sum = self.open[-1].sum + self._finished(left, left.count)
        if self.open and move.path:
            around = self.open[-1]
            for key in move.unusable:
                del around.waiting[key]
            self._take(around, move.path[0][0])
        for place, (domain, totals) in enumerate(move.path):
            opened = self._opened(domain, totals)
            if place + 1 < len(move.path):
                self._take(opened, move.path[place + 1][0])
            self.open.append(opened)
        self.open[-1].count += 1

    def next_move(self) -> _Move | None:
        """The way on to the smallest name."""
        node = self.open[-1]
        best: _Move | None = None
        if node.totals[node.count + 1 :].any():
            best = _Move(node.domain.first_name, len(self.open), ())
        count, done = node.count, self._finished(node, node.count)
        if not node.totals[node.count]:
            return best
        for depth in range(len(self.open) - 1, 0, -1):
            around = self.open[depth - 1]
            count, done = around.count + count, around.sum + done
            move = self._into(around, count, done, None if best is None else best.name)
            if move is not None:
                best = _Move(move.name, depth, move.path, move.unusable)
            if not self._may_end(around, count, done):
                break
            done = self.tables.table(around.domain)[:, count : count + 1]
        return best

    def enter(self, domain: Domain, totals: Totals, bound: int | None) -> _Move | None:
        """The way to the smallest name inside a domain that is to be opened; None where none is below `bound`."""
        if not domain.groups:
            smaller = bound is None or domain.first_name < bound
            return _Move(domain.first_name, 0, ((domain, totals),)) if smaller else None
        opened = self._opened(domain, totals)
        move = self._into(opened, 0, nothing(self.tables.layout.words), bound)
        return None if move is None else _Move(move.name, 0, ((domain, totals), *move.path))

    def _into(self, around: _Open, count: int, done: Table, bound: int | None) -> _Move | None:
        """The way to the smallest name in an untouched child, if it is below `bound`."""
        best: _Move | None = None
        unusable: list[int] = []
        kept: list[int] = []
        for key in sorted(around.waiting, key=lambda each: around.waiting[each][0].first_name):
            children = around.waiting[key]
            if bound is not None and children[0].first_name >= bound:
                break
            totals = self._usable(around, count, done, key, kept)
            if not totals.any():
                unusable.append(key)
                continue
            kept.append(key)
            for move in self._ways(children, totals, bound):
                best, bound = move, move.name
        if best is None:
            return None
        return _Move(best.name, 0, best.path, tuple(unusable))

    def _ways(self, children: tuple[Domain, ...], totals: Totals, bound: int | None) -> Iterator[_Move]:
        """Better and better ways into children that are alike."""
        for child in children:
            if bound is not None and child.first_name >= bound:
                return
            move = self.enter(child, totals, bound)
            if move is not None:
                bound = move.name
                yield move

    def _usable(self, around: _Open, count: int, done: Table, key: int, kept: list[int]) -> Totals:
        """The numbers that one untouched child of a key may end with; none of them: it is in no best plan.

        Children with a smaller first name that are not in `kept` have been found to be in none.
        """
        first = around.waiting[key][0].first_name
        later = [each for each, children in around.waiting.items() if children[0].first_name > first]
        later.sort(key=lambda each: around.waiting[each][0].first_name)
        groups = tuple((each, len(around.waiting[each]) - (each == key)) for each in (*kept, key, *later))
        products = self.tables.products
        own, raw = products.tables[key], self.tables.raw[around.domain.key]
        ends = np.flatnonzero(around.totals)
        others = ends[:, None] - count - np.arange(own.shape[1])
        fits = (others >= 0) & (others < products.width(groups)) & (own[0] < INFEASIBLE_COST)
        fits[:, 0] = False
        end, members = np.nonzero(fits)
        rests, rest_of = np.unique(others[end, members], return_inverse=True)
        total = done + own[:, members] + products.columns(groups, rests)[:, rest_of]
        usable = np.zeros(own.shape[1], dtype=np.bool_)
        usable[members[(total == raw[:, ends[end]]).all(axis=0)]] = True
        return usable

    def _may_end(self, around: _Open, count: int, done: Table) -> bool:
        if not around.totals[count] or any(self._must_have(key) for key in around.waiting):
            return False
        return bool((done == self.tables.raw[around.domain.key][:, count : count + 1]).all())

    def _must_have(self, key: int) -> bool:
        """Whether somebody must be in a child."""
        return bool(self.tables.products.tables[key][0, 0] >= INFEASIBLE_COST)

    def _opened(self, domain: Domain, totals: Totals) -> _Open:
        return _Open(domain, totals, nothing(self.tables.layout.words), 0, dict(domain.groups))

    def _take(self, around: _Open, child: Domain) -> None:
        """A child is no longer untouched."""
        rest = tuple(each for each in around.waiting[child.key] if each is not child)
        if rest:
            around.waiting[child.key] = rest
        else:
            del around.waiting[child.key]

    def _finished(self, left: _Open, count: int) -> Table:
        """What a finished domain adds to the one around it."""
        return self.tables.table(left.domain)[:, count : count + 1]
