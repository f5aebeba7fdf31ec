"""The tables of a market against every way to divide a gang, under any prices."""

import random
from collections.abc import Iterator

import numpy as np
import pytest

from solver.bounds import Counts
from solver.market import NEVER, Buyer, Market, Prices, Use, stock_of
from solver.nodes import Node, nodes_of
from solver.tree import ROOT, Tree, tree_of

MOST, SHAPES = 4, 2


class Bazaar:
    """A small market with prices by chance: two shapes on up to seven nodes in blocks and racks."""

    def __init__(self, seed: int) -> None:
        dice = random.Random(seed)  # noqa: S311 -- not for secrets
        depth = dice.choice((1, 2, 3))
        paths = sorted((dice.randrange(2), dice.randrange(2)) for _ in range(dice.randint(1, 7)))
        nodes = nodes_of(
            Node(f"n{number}", (f"b{block}", f"b{block}r{rack}")[: depth - 1], (0,), (0,))
            for number, (block, rack) in enumerate(paths)
        )
        self.tree: Tree = tree_of(nodes, depth)
        holds = np.array([[dice.randint(0, 2) for _ in paths] for _ in range(SHAPES)], dtype=np.int64)
        self.market = Market(self.tree, stock_of(self.tree, holds, holds), MOST)
        stock = self.market.stock
        self.classes = len(stock.domain)
        self.weights = [dice.randint(0, 50) for _ in range(depth)]
        self.unit = np.array([[dice.randint(0, 9) for _ in range(self.classes)] for _ in range(SHAPES)], dtype=np.int64)
        less = np.array([[dice.randint(0, 1) for _ in range(self.classes)] for _ in range(SHAPES)], dtype=np.int64)
        self.limit: Counts = np.maximum(stock.holds * stock.nodes - less.reshape(SHAPES, -1), 0)
        within = [[[dice.randint(0, 20) for _ in self.market.inner] for _ in range(SHAPES)] for _ in range(MOST + 1)]
        within[0] = [[0] * len(self.market.inner) for _ in range(SHAPES)]
        self.within: Counts = np.array(within, dtype=np.int64)

    def prices(self) -> Prices:
        """The tables of all shapes."""
        return self.market.prices(self.weights, self.unit, self.limit, within=self.within)

    def uses(self, shape: int, members: int, first: int = 0) -> Iterator[Use]:
        """Every way to divide so many members over the classes from `first` on."""
        if first == self.classes:
            if not members:
                yield {}
            return
        for count in range(min(members, int(self.limit[shape, first])) + 1):
            for rest in self.uses(shape, members - count, first + 1):
                yield {first: count, **rest} if count else rest

    def cost(self, buyer: Buyer, use: Use, *, within: bool = True) -> int:
        """What a gang pays from its own level inward."""
        cost = sum(int(self.unit[buyer.shape, each]) * count for each, count in use.items())
        spread = self.market.spread(buyer, use)
        cost += sum(self.weights[level] * spread[level] for level in range(max(buyer.level, 0), self.tree.depth))
        if within:
            places = self.market.inner.tolist()
            cost += sum(
                int(self.within[count, buyer.shape, places.index(domain)])
                for domain, count in self.market.inside(use).items()
            )
        return cost

    def home(self, level: int, use: Use) -> int | None:
        """The domain of a level that holds all of a plan."""
        around = self.tree.around(self.tree.depth - 2, level)
        homes = {int(around[self.market.stock.domain[each]]) for each in use}
        return homes.pop() if len(homes) == 1 else None

    def cheapest(self, buyer: Buyer, *, within: bool = True) -> list[int]:
        """What the best plan in each domain of the gang's level costs, where there is one; the cheapest first."""
        costs: dict[int, int] = {}
        for use in self.uses(buyer.shape, buyer.members):
            home = self.home(buyer.level, use)
            if home is not None:
                cost = self.cost(buyer, use, within=within)
                costs[home] = min(costs.get(home, cost), cost)
        return sorted(costs.values())

    def buyers(self) -> Iterator[Buyer]:
        """One of every sort."""
        for shape in range(SHAPES):
            for members in range(1, MOST + 1):
                for level in range(ROOT, self.tree.depth - 1):
                    yield Buyer(shape, members, level)


@pytest.mark.parametrize("seed", range(60))
def test_tables_know_the_best_of_all_ways_to_divide_a_gang(seed: int) -> None:
    bazaar = Bazaar(seed)
    if not bazaar.classes:
        return
    prices = bazaar.prices()
    for buyer in bazaar.buyers():
        costs = bazaar.cheapest(buyer)
        uses = bazaar.market.best(prices, buyer, 99)
        assert [bazaar.cost(buyer, use) for use in uses] == costs
        assert [sum(use.values()) for use in uses] == [buyer.members] * len(costs)
        assert len({bazaar.home(buyer.level, use) for use in uses}) == len(costs)
        assert all(count <= bazaar.limit[buyer.shape, each] for use in uses for each, count in use.items())
        assert prices.least(buyer) == costs[0] if costs else prices.least(buyer) >= NEVER


@pytest.mark.parametrize("seed", range(60))
def test_tables_of_one_shape_are_those_of_all_shapes(seed: int) -> None:
    bazaar = Bazaar(seed)
    market = bazaar.market
    for buyer in bazaar.buyers():
        unit, limit = bazaar.unit[buyer.shape][None], bazaar.limit[buyer.shape][None]
        prices = market.prices(bazaar.weights, unit, limit, shape=buyer.shape)
        uses = market.best(prices, Buyer(0, buyer.members, buyer.level), 99)
        assert [bazaar.cost(buyer, use, within=False) for use in uses] == bazaar.cheapest(buyer, within=False)


def test_asking_for_prices_twice_changes_neither() -> None:
    bazaar = Bazaar(3)
    first = bazaar.prices()
    before = [table.copy() for table in first.after]
    bazaar.unit += 5
    bazaar.prices()
    assert all((table == kept).all() for table, kept in zip(first.after, before, strict=True))


def test_where_nobody_can_run_nothing_is_for_sale() -> None:
    """No class, and no plan for anybody."""
    tree = tree_of(nodes_of([Node("a", ("b",), (0,), (0,))]), 2)
    none = np.zeros((1, 1), dtype=np.int64)
    market = Market(tree, stock_of(tree, none, none), 2)
    assert market.stock.node_class.tolist() == [-1]
    empty = np.zeros((1, 0), dtype=np.int64)
    prices = market.prices([1, 1], empty, empty)
    assert market.best(prices, Buyer(0, 1, ROOT)) == []
