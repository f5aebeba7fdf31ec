"""CP-SAT's model and solver, loaded without pandas and without old names.

OR-Tools imports pandas for variables that are made by an index, which nothing here makes: a quarter of a worker's start
and 40 of its 100 MB (docs/decisions/0020). While CP-SAT is loaded, empty classes stand for it. A process that
has pandas already keeps it.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

_NAMED = ("Index", "Series")
"""The classes that OR-Tools names where it is loaded; it asks only whether what it is given is one of them."""


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
    """A model that has its methods by one name each.

    OR-Tools gives every single model 61 attributes with the names from before PEP 8: a quarter of a millisecond, and
    references to itself, so that its memory is free when Python next looks for cycles only.
    """

    def _add_pre_pep8_methods(self) -> None:
        """Add none."""


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
