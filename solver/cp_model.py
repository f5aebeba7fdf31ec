"""CP-SAT's model and solver, loaded without pandas and without the method names from before PEP 8.

OR-Tools imports pandas for variables that are created over an index, which this project never does. The import takes a
quarter of a worker's start time and 40 of its 100 MB (docs/decisions/0020). While CP-SAT is imported, empty classes
replace those of pandas. A process that has loaded pandas before keeps it.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

_NAMED = ("Index", "Series")
"""The pandas classes that OR-Tools names when it is imported. OR-Tools only checks whether an argument is an instance
of one of them, so empty classes can take their place.
"""


@contextmanager
def _without_pandas() -> Iterator[None]:
    if "pandas" in sys.modules:
        yield
        return
    stand_in = ModuleType("pandas")
    for each in _NAMED:
        setattr(stand_in, each, type(each, (), {}))
    sys.modules["pandas"] = stand_in
    try:
        yield
    finally:
        del sys.modules["pandas"]


with _without_pandas():
    from ortools.sat.python.cp_model import (
        FEASIBLE,
        INFEASIBLE,
        MODEL_INVALID,
        OPTIMAL,
        UNKNOWN,
        BoundedLinearExpression,
        CpSolver,
        IntVar,
        LinearExpr,
    )
    from ortools.sat.python.cp_model import CpModel as OrToolsModel


class CpModel(OrToolsModel):
    """A model of CP-SAT without the 61 aliases that OR-Tools sets on every model: its methods under their names from
    before PEP 8.

    Setting the aliases takes a quarter of a millisecond. Each alias refers back to the model, so the model's memory
    would stay until Python's next collection of cycles.
    """

    def _add_pre_pep8_methods(self) -> None:
        """Do nothing. OR-Tools calls this method when a model is created, to set 61 old names of its own methods."""


__all__ = [
    "FEASIBLE",
    "INFEASIBLE",
    "MODEL_INVALID",
    "OPTIMAL",
    "UNKNOWN",
    "BoundedLinearExpression",
    "CpModel",
    "CpSolver",
    "IntVar",
    "LinearExpr",
]
