"""Only solver processes load CP-SAT, and they load it without pandas: with its dependencies it takes 60 MB."""

import subprocess
import sys

import pytest

IN_WORKERS_ALONE = ("ortools", "solver.cp_sat")
WATCHED = (*IN_WORKERS_ALONE, "pandas")


def loaded_by(statement: str) -> list[str]:
    """Run the statement in a new process, and return the modules of `WATCHED` that it has loaded."""
    script = f"import sys\n{statement}\nprint(*(each for each in {WATCHED} if each in sys.modules))"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize("module", ["controller.serving", "webhook.app", "cli.solve", "cli.doctor", "cli.why"])
def test_who_asks_for_plans_does_not_load_the_solver(module: str) -> None:
    assert loaded_by(f"import {module}") == []


def test_who_solves_does_and_has_no_pandas() -> None:
    assert loaded_by("import planning.solver_pool.worker") == [*IN_WORKERS_ALONE]


@pytest.mark.parametrize("first", ["import pandas; import solver.solve", "import solver.solve; import pandas"])
def test_a_process_that_wants_pandas_has_all_of_it(first: str) -> None:
    made = "assert list(pandas.Series([1, 2])) == [1, 2]"
    assert loaded_by(f"{first}; {made}") == [*WATCHED]


def test_a_process_that_had_it_can_make_variables_by_an_index() -> None:
    made = "assert len(CpModel().new_bool_var_series('each', pandas.Index([1, 2]))) == 2"
    assert "pandas" in loaded_by(f"import pandas; from solver.cp_model import CpModel; {made}")
