"""A linear programme that can grow between two solves. Each solve starts from the result of the solve before (Google's
solver GLOP).

Its coefficients are small whole numbers, so it uses neither scaling nor presolve: they take longer than they save.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from ortools.linear_solver import pywraplp  # type: ignore[import-untyped]  # OR-Tools has no types here
from ortools.linear_solver.linear_solver_pb2 import MPSolutionResponse  # type: ignore[import-untyped]  # as above


@dataclass(frozen=True, slots=True)
class PrimalDual:
    """A primal and dual solution. `cost`: the minimum. `values`: by number of a variable, its value. `duals`: by number
    of a constraint, the change of the cost per unit of the constraint's limit.
    """

    cost: float
    values: NDArray[np.float64]
    duals: NDArray[np.float64]


class LinearProgramme:
    """Minimises the total cost of non-negative variables (columns) under constraints (rows). Columns and rows are each
    numbered from 0.
    """

    def __init__(self) -> None:
        self._lp = pywraplp.Solver.CreateSolver("GLOP")
        self._goal = self._lp.Objective()
        self._goal.SetMinimization()
        self._columns: list[pywraplp.Variable] = []
        self._rows: list[pywraplp.Constraint] = []

    def column(self, cost: float) -> int:
        """Add a variable that costs `cost` per unit. No constraint contains it yet. Return its number."""
        self._columns.append(self._lp.NumVar(0.0, self._lp.infinity(), ""))
        self.price(len(self._columns) - 1, cost)
        return len(self._columns) - 1

    def row(self, most: float, least: float | None = None) -> int:
        """Add a constraint without variables: its sum is at most `most` and, unless `least` is None, at least `least`.
        Return its number.
        """
        self._rows.append(self._lp.Constraint(-self._lp.infinity() if least is None else least, float(most)))
        return len(self._rows) - 1

    def price(self, column: int, cost: float) -> None:
        """Set the cost of one unit of the variable `column`."""
        self._goal.SetCoefficient(self._columns[column], float(cost))

    def put(self, row: int, column: int, amount: float) -> None:
        """Set how much one unit of the variable `column` adds to the sum of the constraint `row`."""
        self._rows[row].SetCoefficient(self._columns[column], float(amount))

    def set_least(self, column: int, least: float) -> None:
        """Set the lower bound of the variable `column`."""
        self._columns[column].SetLb(least)

    def solved(self) -> PrimalDual | None:
        """Return the optimum; None if GLOP does not find it, even in a second solve from scratch."""
        if not any(self._lp.Solve(_parameters(again=again)) == pywraplp.Solver.OPTIMAL for again in (False, True)):
            return None
        response = MPSolutionResponse()
        self._lp.FillSolutionResponseProto(response)
        return PrimalDual(self._goal.Value(), np.array(response.variable_value), np.array(response.dual_value))


def _parameters(*, again: bool) -> pywraplp.MPSolverParameters:
    """Return GLOP's parameters. `again`: for the solve from scratch, with presolve and scaling, because rounding errors
    may have misled the first solve.
    """
    found = pywraplp.MPSolverParameters()
    found.SetIntegerParam(found.PRESOLVE, found.PRESOLVE_ON if again else found.PRESOLVE_OFF)
    found.SetIntegerParam(found.SCALING, found.SCALING_ON if again else found.SCALING_OFF)
    if again:
        found.SetIntegerParam(found.INCREMENTALITY, found.INCREMENTALITY_OFF)
    return found
