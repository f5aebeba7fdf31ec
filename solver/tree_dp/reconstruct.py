"""From the tables of alike members back to nodes: of all best plans, the plan whose node names come first, rank by
rank.

Members are placed in order of rank. The next member stays on the node of the member before it, or moves on to the
smallest node name that still allows a best plan. A domain is open while members are being placed in it. For each open
domain, the search keeps the numbers of members with which the domain may end. The tables of children without members
decide whether a child can be used at all.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from solver.tree_dp.min_plus import INFEASIBLE_COST, WordTable, nothing
from solver.tree_dp.single_class_tables import Domain, DomainTables

Totals = NDArray[np.bool_]
"""Flags by number of members, from 0 on: whether a domain may have this number of members at the end in a best plan."""


@dataclass(slots=True)
class _Open:
    """A domain in which members are being placed.

    `count` and `sum`: the number of members in its finished children, which get no further members, and their cost.
    `totals`: for each number of members, whether the domain may have it at the end in a best plan. `waiting`: the
    children that have no member yet, by key. Children with one key have equal tables.
    """

    domain: Domain
    totals: Totals
    sum: WordTable
    count: int = 0
    waiting: dict[int, tuple[Domain, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Move:
    """A possible node for the next member, and the domains to close and open on the way to this node.

    `name`: the place of the node's name in natural order. `depth`: how many of the open domains stay open, counted from
    the widest. `path`: the domains to open, the widest first, each with the numbers of members that it may have at the
    end. `unusable`: keys of children in which no best plan places members after this move.
    """

    name: int
    depth: int
    path: tuple[tuple[Domain, Totals], ...]
    unusable: tuple[int, ...] = ()


def first_node(tables: DomainTables, domain: Domain, members: int) -> int:
    """Return the place, in natural order of names, of the first node of the best plan inside `domain`."""
    move = _Seating(tables).enter(domain, _exactly(members), bound=None)
    if move is None:
        raise ValueError("the domain cannot hold this number of members")
    return move.name


def seated(tables: DomainTables, domain: Domain, members: int) -> list[int]:
    """Return the nodes of all members in order of rank: the best plan inside `domain` whose node names come first."""
    seating = _Seating(tables)
    move = seating.enter(domain, _exactly(members), bound=None)
    nodes: list[int] = []
    while move is not None:
        seating.make(move)
        nodes.append(seating.node())
        move = seating.next_move() if len(nodes) < members else None
    return nodes


def _exactly(members: int) -> Totals:
    """Return flags by number of members that are True only at `members`."""
    totals = np.zeros(members + 1, dtype=np.bool_)
    totals[members] = True
    return totals


class _Seating:
    """The state of the search for the plan whose node names come first, among plans of equal value.

    `open`: the domains in which members are being placed, from the widest domain to a node.
    """

    def __init__(self, tables: DomainTables) -> None:
        self.tables = tables
        self.open: list[_Open] = []
        self.fresh: dict[tuple[int, bytes, int], Totals] = {}

    def node(self) -> int:
        """Return the node of the member that was placed last."""
        return self.open[-1].domain.number

    def make(self, move: _Move) -> None:
        """Place one member on the node of the move. Open domains that the move leaves are closed, and the domains on
        the way to the node are opened.
        """
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
        """Return the move to the smallest node name that still allows a best plan; None if there is none."""
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
        """Return the move to the smallest node name inside a domain that is not open yet; None if no node name is
        before `bound`.

        `totals`: the numbers of members that the domain may have at the end. `bound`: a place in natural order of
        names; None: any name is allowed.
        """
        if not domain.groups:
            smaller = bound is None or domain.first_name < bound
            return _Move(domain.first_name, 0, ((domain, totals),)) if smaller else None
        opened = self._opened(domain, totals)
        move = self._into(opened, 0, nothing(self.tables.layout.words), bound)
        return None if move is None else _Move(move.name, 0, ((domain, totals), *move.path))

    def _into(self, around: _Open, count: int, done: WordTable, bound: int | None) -> _Move | None:
        """Return the move to the smallest node name in a child of `around` that has no member yet; None if no such name
        is before `bound`.

        `count` and `done`: the members in the children of `around` that are finished, and their cost.
        """
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
        """Yield moves into `children`, alike domains of one parent. Each move goes to a smaller node name than the move
        before it, and the first one to a name before `bound`.

        `totals`: by number of members, whether a child may have so many at the end. `bound`: a place in natural order
        of names; None: any name is allowed.
        """
        for child in children:
            if bound is not None and child.first_name >= bound:
                return
            move = self.enter(child, totals, bound)
            if move is not None:
                bound = move.name
                yield move

    def _usable(self, around: _Open, count: int, done: WordTable, key: int, kept: list[int]) -> Totals:
        """Return, by number of members, whether one child of `around` can have so many members at the end in a best
        plan. All False: no best plan uses such a child.

        The child has the table `key` and no members yet. `count` and `done`: the members in the finished children of
        `around`, and their cost. Children with a smaller first name that are not in `kept` are known to be in no best
        plan.
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

    def _may_end(self, around: _Open, count: int, done: WordTable) -> bool:
        """Return whether a best plan may put no more members into the domain `around`. `count`: the members that the
        domain has now. `done`: their cost.
        """
        if not around.totals[count] or any(self._must_have(key) for key in around.waiting):
            return False
        return bool((done == self.tables.raw[around.domain.key][:, count : count + 1]).all())

    def _must_have(self, key: int) -> bool:
        """Return whether each child with the table `key` must have members: the table has no feasible plan for 0
        members.
        """
        return bool(self.tables.products.tables[key][0, 0] >= INFEASIBLE_COST)

    def _opened(self, domain: Domain, totals: Totals) -> _Open:
        """Return a new record of `domain`, in which no member is placed yet."""
        return _Open(domain, totals, nothing(self.tables.layout.words), 0, dict(domain.groups))

    def _take(self, around: _Open, child: Domain) -> None:
        """Remove `child` from the children of `around` that have no member, because it is being opened."""
        rest = tuple(each for each in around.waiting[child.key] if each is not child)
        if rest:
            around.waiting[child.key] = rest
        else:
            del around.waiting[child.key]

    def _finished(self, left: _Open, count: int) -> WordTable:
        """Return the cost of a domain that gets no more members: the column of its table for `count` members. It
        becomes a part of the cost of the domain's parent.
        """
        return self.tables.table(left.domain)[:, count : count + 1]
