"""A linear programme that grows between solves, each of which begins where the last one ended (GLOP).

Its numbers are small and whole, so they are neither scaled nor presolved: that takes longer than it saves.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from ortools.linear_solver import pywraplp  # type: ignore[import-untyped]  # it tells no types
from ortools.linear_solver.linear_solver_pb2 import MPSolutionResponse  # type: ignore[import-untyped]  # as above


@dataclass(frozen=True, slots=True)
class PrimalDual:
    """`cost`: what was minimised. `values` by column; `duals` by row: what one more of it would change the cost by."""

    cost: float
    values: NDArray[np.float64]
    duals: NDArray[np.float64]


class LinearProgramme:
    """Minimises the cost of its columns, none of which is negative. Columns and rows are numbered from 0."""

    def __init__(self) -> None:
        self._lp = pywraplp.Solver.CreateSolver("GLOP")
        self._goal = self._lp.Objective()
        self._goal.SetMinimization()
        self._columns: list[pywraplp.Variable] = []
        self._rows: list[pywraplp.Constraint] = []

    def column(self, cost: float) -> int:
        """A new column, in no row yet."""
        self._columns.append(self._lp.NumVar(0.0, self._lp.infinity(), ""))
        self.price(len(self._columns) - 1, cost)
        return len(self._columns) - 1

    def row(self, most: float, least: float | None = None) -> int:
        """A new row, with no columns yet."""
        self._rows.append(self._lp.Constraint(-self._lp.infinity() if least is None else least, float(most)))
        return len(self._rows) - 1

    def price(self, column: int, cost: float) -> None:
        """What one of a column costs."""
        self._goal.SetCoefficient(self._columns[column], float(cost))

    def put(self, row: int, column: int, amount: float) -> None:
        """What one of a column adds to a row."""
        self._rows[row].SetCoefficient(self._columns[column], float(amount))

    def set_least(self, column: int, least: float) -> None:
        """No less of a column than this."""
        self._columns[column].SetLb(least)

    def solved(self) -> PrimalDual | None:
        """The best; None where GLOP does not find it, even from the beginning."""
        if not any(self._lp.Solve(_parameters(again=again)) == pywraplp.Solver.OPTIMAL for again in (False, True)):
            return None
        response = MPSolutionResponse()
        self._lp.FillSolutionResponseProto(response)
        return PrimalDual(self._goal.Value(), np.array(response.variable_value), np.array(response.dual_value))


def _parameters(*, again: bool) -> pywraplp.MPSolverParameters:
    """`again`: from the beginning, as rounding may have led astray."""
    found = pywraplp.MPSolverParameters()
    found.SetIntegerParam(found.PRESOLVE, found.PRESOLVE_ON if again else found.PRESOLVE_OFF)
    found.SetIntegerParam(found.SCALING, found.SCALING_ON if again else found.SCALING_OFF)
    if again:
        found.SetIntegerParam(found.INCREMENTALITY, found.INCREMENTALITY_OFF)
    return found
