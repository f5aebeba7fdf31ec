"""CP-SAT is loaded by the processes that solve alone: it and what it brings are 60 MB and half a second of a core."""

import subprocess
import sys

import pytest

IN_WORKERS_ALONE = ("ortools", "pandas", "solver.cp_sat")


def loaded_with(module: str) -> list[str]:
    """Those of them that a process has which loads this module."""
    script = f"import sys, {module}\nprint(*(each for each in {IN_WORKERS_ALONE} if each in sys.modules))"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize("module", ["controller.serving", "webhook.app", "cli.solve", "cli.doctor", "cli.why"])
def test_who_asks_for_plans_does_not_load_the_solver(module: str) -> None:
    assert loaded_with(module) == []


def test_who_solves_does() -> None:
    assert loaded_with("planning.solver_pool.worker") == [*IN_WORKERS_ALONE]
