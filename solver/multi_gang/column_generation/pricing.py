"""The pricing problem: each gang's most compact plan when capacity has a price, for all gangs at once.

The nodes of one narrowest domain above the node that hold equally many members of every shape form a class. A class has
a price per member. In addition, a gang pays a weight for every domain that it touches. By dynamic programming over the
tree,

    table[class][m]  = m * price + weight of a node * nodes that m members touch
    table[domain][m] = min over m1 + m2 + ... = m of the sum of its children's tables, + weight of the domain if m > 0

The minimum over divisions is a (min, +) product. It is computed two children at a time, for all domains at once. The
arrays are (members + 1) x shapes x positions. A position is a class at first, and a domain once its children are
merged.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from solver.capacity import Counts
from solver.tree import ROOT, Tree

INFEASIBLE_COLUMN = 1 << 50
"""The cost of a column, a plan of one gang, that is impossible. `_merged` caps sums at it, so that tables never
overflow.
"""

_OVERHEAD = 64
"""The fixed time of adding two rows of a table, counted in additions."""

Use = Mapping[int, int]
"""A plan of one gang: the number of its members by class of nodes. Classes without members have no entry."""


@dataclass(frozen=True, slots=True)
class GangDemand:
    """A gang of alike members: their shape and number. `level`: one domain of this level must hold all of them; ROOT:
    they may be anywhere.
    """

    shape: int
    members: int
    level: int


@dataclass(frozen=True)
class NodeClasses:
    """Classes of nodes: the nodes of one narrowest domain above the node that hold equally many members of every shape
    form a class.

    By class: `domain`, the domain that contains it, and `nodes`, the number of its nodes. `holds[shape, class]`:
    members that may run on one of its nodes. `room[shape, class]`: members that would fit on one of its nodes if every
    node were eligible for them. `node_class[node]`: the class of a node; -1 if no member can run on the node.
    """

    domain: Counts
    nodes: Counts
    holds: Counts
    room: Counts
    node_class: Counts


def node_classes_of(tree: Tree, holds: Counts, room: Counts) -> NodeClasses:
    """Return the classes of nodes of a tree (a class: the nodes of one narrowest domain that can hold equally many
    members of every shape). `holds` and `room` (shapes x nodes): how many members may run on a node, and how many would
    fit if every node were eligible, respectively.
    """
    around = tree.domains(tree.depth - 2)
    usable = np.flatnonzero(holds.max(axis=0) > 0)
    rows = np.concatenate([around[usable, None], holds[:, usable].T, room[:, usable].T], axis=1)
    classes, inverse, counts = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    shapes = len(holds)
    node_class = np.full(holds.shape[1], -1, dtype=np.int64)
    node_class[usable] = inverse.reshape(-1)
    return NodeClasses(
        domain=classes[:, 0],
        nodes=counts.astype(np.int64),
        holds=np.ascontiguousarray(classes[:, 1 : 1 + shapes].T),
        room=np.ascontiguousarray(classes[:, 1 + shapes :].T),
        node_class=node_class,
    )


@dataclass(frozen=True)
class _Round:
    """One step of the dynamic programme: pairs of tables are merged, many pairs at once.

    A position is the place of a table in an array of tables, first of a class of nodes, later of a domain.
    `left` and `right`: the positions of each pair before the step. A -1 in `right` means that the left table has no
    partner and stays as it is.
    """

    left: Counts
    right: Counts


@dataclass(frozen=True)
class _Closing:
    """A step of the dynamic programme that ends the merging for `level`: each table is then that of a whole domain of
    this level. `order`: sorts the tables by domain.
    """

    level: int
    order: Counts


@dataclass(frozen=True)
class PriceTables:
    """Tables of least costs under given prices. Entry [m, h, p] is the cost of m members of shape h at position p.

    `after[s]`: the table after s steps; at first, positions are classes of nodes, and each step merges some positions
    of one domain. `at[level]`: the number of steps after which the positions are the domains of that level that have
    capacity.
    """

    after: tuple[Counts, ...]
    at: Mapping[int, int]

    def least(self, demand: GangDemand) -> int:
        """Return the least cost of a gang in one domain of its required level. The costs of the touched domains of
        wider levels are not included.
        """
        return int(self.after[self.at[demand.level]][demand.members, demand.shape].min())


class PricingProblem:
    """The steps of the dynamic programme for a cluster and its gangs. They do not depend on prices and are computed
    once.

    `most`: the largest gang's number of members. `inner`: the narrowest domains above the node that have capacity,
    ascending.
    """

    def __init__(self, tree: Tree, classes: NodeClasses, most: int) -> None:
        self.tree, self.classes, self.most = tree, classes, most
        self.inner: Counts = np.unique(classes.domain)
        self._steps = tuple(_steps(tree, classes.domain))
        self._around = {level: tree.around(tree.depth - 2, level) for level in range(tree.depth - 1)}
        self._members: Counts = np.reshape(np.arange(most + 1), (-1, 1, 1))
        self._touched: Counts = -(-self._members // np.maximum(classes.holds, 1))

    def cells(self, shapes: int) -> int:
        """Return how many numbers the tables of all classes of nodes have together, for this number of shapes."""
        return shapes * len(self.classes.domain) * (self.most + 1)

    def work(self, shapes: int) -> int:
        """Return about how many additions a call of `prices` for this number of shapes takes. Every class is merged
        once.
        """
        return self.cells(shapes) * (self.most + 1 + _OVERHEAD)

    def prices(
        self,
        weights: Sequence[int],
        unit: Counts,
        limit: Counts,
        *,
        shape: int | None = None,
        within: Counts | None = None,
    ) -> PriceTables:
        """Return the tables under given prices.

        `weights[level]`: the cost of a touched domain; the last one is that of a node. By shape and class, `unit` is
        the price of a member and `limit` the most members there. `shape`: the only shape to price, as row 0; None: all.
        `within[members, shape, domain]`: an additional cost of all members in a narrowest domain above the node,
        numbered as in `inner`.
        """
        touched = self._touched if shape is None else self._touched[:, shape : shape + 1]
        table = unit * self._members
        table += touched * weights[-1]
        table[self._members > limit] = INFEASIBLE_COLUMN
        tables, at = [table], dict[int, int]()
        for step in self._steps:
            if isinstance(step, _Round):
                table = _merged(table, step)
            else:
                table = table.take(step.order, axis=2)
                if within is not None and step.level == self.tree.depth - 2:
                    table += within
                if step.level != ROOT:
                    table[1:] += weights[step.level]
                at[step.level] = len(tables)
            tables.append(table)
        return PriceTables(tuple(tables), at)

    def best(self, prices: PriceTables, demand: GangDemand, most: int = 1) -> list[Use]:
        """Return plans of least cost for a gang: one plan in each of the `most` best domains of the gang's required
        level.

        Empty if the gang fits in no domain. `demand.shape` is the row of the tables that the gang uses. If the tables
        were computed for one shape only, this is row 0.
        """
        costs = prices.after[prices.at[demand.level]][demand.members, demand.shape]
        order = np.argsort(costs, kind="stable")[:most]
        feasible = (position for position in order.tolist() if costs[position] < INFEASIBLE_COLUMN)
        return [self._use(prices, demand, position) for position in feasible]

    def spread(self, demand: GangDemand, use: Use) -> tuple[int, ...]:
        """Return, by level, the number of domains that a plan touches. `use`: the plan's members by class."""
        inner = {int(self.classes.domain[each]) for each in use}
        wide = [len({int(around[each]) for each in inner}) for around in self._around.values()]
        return (*wide, sum(-(-count // int(self.classes.holds[demand.shape, each])) for each, count in use.items()))

    def inside(self, use: Use) -> Mapping[int, int]:
        """Return how many members a plan has in each narrowest domain above the node. `use`: the plan's members by
        class.
        """
        members: dict[int, int] = {}
        for where, count in use.items():
            domain = int(self.classes.domain[where])
            members[domain] = members.get(domain, 0) + count
        return members

    def _use(self, prices: PriceTables, demand: GangDemand, position: int) -> Use:
        """Return the gang's plan of least cost in one domain of its required level, as members by class of nodes.
        `position`: the domain's position in the tables.
        """
        counts = {position: demand.members}
        for step in range(prices.at[demand.level], 0, -1):
            done, before = self._steps[step - 1], prices.after[step - 1][:, demand.shape]
            if isinstance(done, _Closing):
                counts = {int(done.order[each]): count for each, count in counts.items()}
            else:
                counts = _parted(done, before, counts)
        return counts


def _steps(tree: Tree, domain: Counts) -> list[_Round | _Closing]:
    """Return the steps that merge the tables of the classes into tables of domains, level by level from the narrowest
    domains to the root. `domain`: by class, the domain of its nodes.
    """
    steps: list[_Round | _Closing] = []
    inside = domain
    for level in range(tree.depth - 2, ROOT - 1, -1):
        while len(np.unique(inside)) < len(inside):
            order = np.argsort(inside, kind="stable")
            sorted_inside = inside[order]
            place = np.arange(len(order)) - np.searchsorted(sorted_inside, sorted_inside)
            left = np.flatnonzero(place % 2 == 0)
            after = np.minimum(left + 1, len(order) - 1)
            paired = (after > left) & (sorted_inside[after] == sorted_inside[left])
            steps.append(_Round(order[left], np.where(paired, order[after], -1)))
            inside = sorted_inside[left]
        order = np.argsort(inside, kind="stable")
        steps.append(_Closing(level, order))
        if level > ROOT:
            inside = tree.around(level, level - 1)[inside[order]]
    return steps


def _merged(table: Counts, step: _Round) -> Counts:
    """Return the table after a step: the (min, +) products of its pairs, with all other positions unchanged."""
    merged = table.take(step.left, axis=2)
    pairs = np.flatnonzero(step.right >= 0)
    one, other = merged[:, :, pairs], table.take(step.right[pairs], axis=2)
    best = one + other[0]
    offer = np.empty_like(best)
    for count in range(1, len(table)):
        np.add(one[:-count], other[count], out=offer[count:])
        np.minimum(best[count:], offer[count:], out=best[count:])
    merged[:, :, pairs] = np.minimum(best, INFEASIBLE_COLUMN)
    return merged


def _parted(step: _Round, before: Counts, counts: Mapping[int, int]) -> dict[int, int]:
    """Return how many members each position has before a merge, if `counts` gives the members by position after the
    merge.

    The members at a merged position are divided between its two tables at the least cost. `before`: the costs before
    the merge, members x positions. A table without a partner keeps its members.
    """
    parted: dict[int, int] = {}
    for position, count in counts.items():
        left, right = int(step.left[position]), int(step.right[position])
        share = count
        if right >= 0:
            share = int((before[: count + 1, left] + before[count::-1, right]).argmin())
        if share:
            parted[left] = share
        if count - share:
            parted[right] = count - share
    return parted
