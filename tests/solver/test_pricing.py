"""The tables of a pricing problem against every way to divide a gang, under any prices."""

import random
from collections.abc import Iterator

import numpy as np
import pytest

from solver.capacity import Counts
from solver.multi_gang.column_generation.pricing import (
    INFEASIBLE_COLUMN,
    GangDemand,
    PriceTables,
    PricingProblem,
    Use,
    node_classes_of,
)
from solver.nodes import Node, nodes_of
from solver.tree import ROOT, Tree, tree_of

MOST, SHAPES = 4, 2


class Instance:
    """A small pricing problem with prices by chance: two shapes on up to seven nodes in blocks and racks."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)  # noqa: S311 -- not for secrets
        depth = rng.choice((1, 2, 3))
        paths = sorted((rng.randrange(2), rng.randrange(2)) for _ in range(rng.randint(1, 7)))
        nodes = nodes_of(
            Node(f"n{number}", (f"b{block}", f"b{block}r{rack}")[: depth - 1], (0,), (0,))
            for number, (block, rack) in enumerate(paths)
        )
        self.tree: Tree = tree_of(nodes, depth)
        holds = np.array([[rng.randint(0, 2) for _ in paths] for _ in range(SHAPES)], dtype=np.int64)
        self.pricing = PricingProblem(self.tree, node_classes_of(self.tree, holds, holds), MOST)
        classes = self.pricing.classes
        self.count = len(classes.domain)
        self.weights = [rng.randint(0, 50) for _ in range(depth)]
        self.unit = np.array([[rng.randint(0, 9) for _ in range(self.count)] for _ in range(SHAPES)], dtype=np.int64)
        less = np.array([[rng.randint(0, 1) for _ in range(self.count)] for _ in range(SHAPES)], dtype=np.int64)
        self.limit: Counts = np.maximum(classes.holds * classes.nodes - less.reshape(SHAPES, -1), 0)
        within = [[[rng.randint(0, 20) for _ in self.pricing.inner] for _ in range(SHAPES)] for _ in range(MOST + 1)]
        within[0] = [[0] * len(self.pricing.inner) for _ in range(SHAPES)]
        self.within: Counts = np.array(within, dtype=np.int64)

    def prices(self) -> PriceTables:
        """The tables of all shapes."""
        return self.pricing.prices(self.weights, self.unit, self.limit, within=self.within)

    def uses(self, shape: int, members: int, first: int = 0) -> Iterator[Use]:
        """Every way to divide so many members over the classes from `first` on."""
        if first == self.count:
            if not members:
                yield {}
            return
        for count in range(min(members, int(self.limit[shape, first])) + 1):
            for rest in self.uses(shape, members - count, first + 1):
                yield {first: count, **rest} if count else rest

    def cost(self, demand: GangDemand, use: Use, *, within: bool = True) -> int:
        """Return the cost of a division of a gang, from the gang's own level inward."""
        cost = sum(int(self.unit[demand.shape, each]) * count for each, count in use.items())
        spread = self.pricing.spread(demand, use)
        cost += sum(self.weights[level] * spread[level] for level in range(max(demand.level, 0), self.tree.depth))
        if within:
            places = self.pricing.inner.tolist()
            cost += sum(
                int(self.within[count, demand.shape, places.index(domain)])
                for domain, count in self.pricing.inside(use).items()
            )
        return cost

    def home(self, level: int, use: Use) -> int | None:
        """The domain of a level that holds all of a plan."""
        around = self.tree.around(self.tree.depth - 2, level)
        homes = {int(around[self.pricing.classes.domain[each]]) for each in use}
        return homes.pop() if len(homes) == 1 else None

    def cheapest(self, demand: GangDemand, *, within: bool = True) -> list[int]:
        """Return the cost of the best plan in each domain of the gang's level that has a plan, in ascending order."""
        costs: dict[int, int] = {}
        for use in self.uses(demand.shape, demand.members):
            home = self.home(demand.level, use)
            if home is not None:
                cost = self.cost(demand, use, within=within)
                costs[home] = min(costs.get(home, cost), cost)
        return sorted(costs.values())

    def demands(self) -> Iterator[GangDemand]:
        """Yield the demands of every shape, number of members and level."""
        for shape in range(SHAPES):
            for members in range(1, MOST + 1):
                for level in range(ROOT, self.tree.depth - 1):
                    yield GangDemand(shape, members, level)


@pytest.mark.parametrize("seed", range(60))
def test_tables_know_the_best_of_all_ways_to_divide_a_gang(seed: int) -> None:
    instance = Instance(seed)
    if not instance.count:
        return
    prices = instance.prices()
    for demand in instance.demands():
        costs = instance.cheapest(demand)
        uses = instance.pricing.best(prices, demand, 99)
        assert [instance.cost(demand, use) for use in uses] == costs
        assert [sum(use.values()) for use in uses] == [demand.members] * len(costs)
        assert len({instance.home(demand.level, use) for use in uses}) == len(costs)
        assert all(count <= instance.limit[demand.shape, each] for use in uses for each, count in use.items())
        assert prices.least(demand) == costs[0] if costs else prices.least(demand) >= INFEASIBLE_COLUMN


@pytest.mark.parametrize("seed", range(60))
def test_tables_of_one_shape_are_those_of_all_shapes(seed: int) -> None:
    instance = Instance(seed)
    problem = instance.pricing
    for demand in instance.demands():
        unit, limit = instance.unit[demand.shape][None], instance.limit[demand.shape][None]
        prices = problem.prices(instance.weights, unit, limit, shape=demand.shape)
        uses = problem.best(prices, GangDemand(0, demand.members, demand.level), 99)
        assert [instance.cost(demand, use, within=False) for use in uses] == instance.cheapest(demand, within=False)


def test_asking_for_prices_twice_changes_neither() -> None:
    instance = Instance(3)
    first = instance.prices()
    before = [table.copy() for table in first.after]
    instance.unit += 5
    instance.prices()
    assert all((table == kept).all() for table, kept in zip(first.after, before, strict=True))


def test_where_nobody_can_run_nothing_is_for_sale() -> None:
    """Without usable nodes there is no node class, and no gang has a plan."""
    tree = tree_of(nodes_of([Node("a", ("b",), (0,), (0,))]), 2)
    none = np.zeros((1, 1), dtype=np.int64)
    problem = PricingProblem(tree, node_classes_of(tree, none, none), 2)
    assert problem.classes.node_class.tolist() == [-1]
    empty = np.zeros((1, 0), dtype=np.int64)
    prices = problem.prices([1, 1], empty, empty)
    assert problem.best(prices, GangDemand(0, 1, ROOT)) == []
