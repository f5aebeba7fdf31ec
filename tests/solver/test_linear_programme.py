"""The linear programme by itself: what it answers, what its duals mean, and how it grows between solves."""

from typing import Any

import numpy as np
import pytest
from ortools.linear_solver import pywraplp  # type: ignore[import-untyped]  # it tells no types

from solver.multi_gang.column_generation.linear_programme import LinearProgramme, PrimalDual


def solved(programme: LinearProgramme) -> PrimalDual:
    """The best, which there must be."""
    found = programme.solved()
    assert found is not None
    return found


def test_the_cheapest_column_covers_a_row_with_a_least() -> None:
    programme = LinearProgramme()
    dear, cheap = programme.column(3), programme.column(2)
    row = programme.row(10, least=4)
    programme.put(row, dear, 1)
    programme.put(row, cheap, 1)
    found = solved(programme)
    assert found.cost == pytest.approx(8)
    assert found.values.tolist() == pytest.approx([0, 4])
    assert found.duals.tolist() == pytest.approx([2])


def test_a_dual_is_what_one_more_of_a_row_changes_the_cost_by() -> None:
    """Two goods are worth 3 and 1. At most five units fit in total, and at most two units of the first good."""
    programme = LinearProgramme()
    good, fair = programme.column(-3), programme.column(-1)
    both, first, loose = programme.row(5), programme.row(2), programme.row(100)
    for column in (good, fair):
        programme.put(both, column, 1)
        programme.put(loose, column, 1)
    programme.put(first, good, 1)
    found = solved(programme)
    assert found.cost == pytest.approx(-9)
    assert found.values.tolist() == pytest.approx([2, 3])
    assert found.duals[[both, first, loose]].tolist() == pytest.approx([-1, -2, 0])


def test_a_programme_that_no_columns_fulfil_has_no_solution_until_some_do() -> None:
    programme = LinearProgramme()
    row = programme.row(1, least=1)
    assert programme.solved() is None
    column = programme.column(7)
    assert programme.solved() is None
    programme.put(row, column, 0.5)
    assert solved(programme).values.tolist() == pytest.approx([2])


def test_a_programme_without_end_has_no_solution_until_there_is_one() -> None:
    programme = LinearProgramme()
    column = programme.column(-1)
    assert programme.solved() is None
    row = programme.row(4)
    programme.put(row, column, 2)
    found = solved(programme)
    assert found.cost == pytest.approx(-2)
    assert found.values.tolist() == pytest.approx([2])
    assert found.duals.tolist() == pytest.approx([-0.5])


def test_no_column_is_negative() -> None:
    programme = LinearProgramme()
    one, other = programme.column(1), programme.column(2)
    row = programme.row(-1, least=-1)
    programme.put(row, one, 1)
    programme.put(row, other, -1)
    assert solved(programme).values.tolist() == pytest.approx([0, 1])


def test_a_column_is_taken_as_far_as_its_lower_bound_says() -> None:
    programme = LinearProgramme()
    dear, cheap = programme.column(5), programme.column(1)
    row = programme.row(1, least=1)
    for column in (dear, cheap):
        programme.put(row, column, 1)
    assert solved(programme).values.tolist() == pytest.approx([0, 1])
    programme.set_least(dear, 1)
    assert solved(programme).values.tolist() == pytest.approx([1, 0])
    programme.set_least(cheap, 1)
    assert programme.solved() is None
    programme.set_least(dear, 0)
    programme.set_least(cheap, 0)
    assert solved(programme).values.tolist() == pytest.approx([0, 1])


def test_prices_and_amounts_may_change_and_columns_and_rows_be_added() -> None:
    programme = LinearProgramme()
    first = programme.column(1)
    row = programme.row(6, least=6)
    programme.put(row, first, 1)
    assert solved(programme).cost == pytest.approx(6)
    second = programme.column(1)
    programme.put(row, second, 3)
    assert solved(programme).values.tolist() == pytest.approx([0, 2])
    programme.price(second, 9)
    assert solved(programme).values.tolist() == pytest.approx([6, 0])
    programme.put(row, second, 12)
    assert solved(programme).values.tolist() == pytest.approx([0, 0.5])
    narrow = programme.row(0.25)
    programme.put(narrow, second, 1)
    found = solved(programme)
    assert found.values.tolist() == pytest.approx([3, 0.25])
    assert found.duals[[row, narrow]].tolist() == pytest.approx([1, -3])


def test_nothing_at_all_costs_nothing() -> None:
    found = solved(LinearProgramme())
    assert (found.cost, len(found.values), len(found.duals)) == (0, 0, 0)
    assert found.values.dtype == found.duals.dtype == np.float64


def test_a_solve_that_goes_wrong_is_begun_again_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second time from the beginning, with what was left out to be quick."""
    tried = list[tuple[bool, bool, bool]]()
    solve = pywraplp.Solver.Solve

    def failing_at_first(solver: Any, parameters: Any) -> Any:
        read = parameters.GetIntegerParam
        tried.append(
            (
                read(parameters.PRESOLVE) == parameters.PRESOLVE_ON,
                read(parameters.SCALING) == parameters.SCALING_ON,
                read(parameters.INCREMENTALITY) == parameters.INCREMENTALITY_ON,
            )
        )
        return pywraplp.Solver.ABNORMAL if len(tried) == 1 else solve(solver, parameters)

    monkeypatch.setattr(pywraplp.Solver, "Solve", failing_at_first)
    programme = LinearProgramme()
    programme.put(programme.row(3, least=3), programme.column(1), 1)
    assert solved(programme).cost == pytest.approx(3)
    assert tried == [(False, False, True), (True, True, False)]
