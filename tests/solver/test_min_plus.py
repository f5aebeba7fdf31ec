"""Tables of equal child domains together: computing some of the columns gives those columns of the whole table."""

import random

import numpy as np
import pytest

from solver.tree_dp.min_plus import INFEASIBLE_COST, Products, WordTable, merged, merged_at


def table(rng: random.Random, words: int, width: int) -> WordTable:
    """Small costs, so that many are equal in their first words; some numbers of members are impossible."""
    rows = [[rng.randint(0, 3) for _ in range(width)] for _ in range(words)]
    found = np.array(rows, dtype=np.int64)
    for column in range(1, width):
        if rng.random() < 0.2:
            found[:, column] = INFEASIBLE_COST
    return found


@pytest.mark.parametrize("seed", range(40))
def test_some_columns_are_those_of_the_whole(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - draws tables
    words = rng.randint(1, 3)
    one, other = (table(rng, words, rng.randint(1, 30)) for _ in range(2))
    whole = merged(one, other, most=10_000)
    counts = np.array(sorted(rng.sample(range(whole.shape[1]), rng.randint(1, whole.shape[1]))), dtype=np.int64)
    _same(merged_at(one, other, counts), whole[:, counts])


@pytest.mark.parametrize("most", [30, 90, 500])
@pytest.mark.parametrize("seed", range(20))
def test_children_that_are_taken_one_by_one_leave_what_the_rest_would_be_of_itself(seed: int, most: int) -> None:
    """Wide products too, whose columns are worked out without them."""
    rng = random.Random(seed)  # noqa: S311 - draws tables
    words = rng.randint(1, 3)
    tables = [table(rng, words, rng.choice((2, 9, 21, 300))) for _ in range(2)]
    products, apart = Products(words, most, tables=tables), Products(words, most, tables=tables)
    others = rng.randint(0, 3)
    for left in range(rng.randint(1, 40), -1, -1):
        groups = ((0, left), (1, others))
        width = products.width(groups)
        whole = apart.product(groups)
        assert width == whole.shape[1]
        counts = np.unique(np.array([rng.randrange(width) for _ in range(5)], dtype=np.int64))
        _same(products.columns(groups, counts), whole[:, counts])


def _same(found: WordTable, wanted: WordTable) -> None:
    """Check that two tables are equal in all feasible columns. An infeasible column has any cost from a bound on."""
    possible = wanted[0] < INFEASIBLE_COST
    assert ((found[0] < INFEASIBLE_COST) == possible).all()
    assert (found[:, possible] == wanted[:, possible]).all()
