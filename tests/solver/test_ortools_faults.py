"""Known faults of CP-SAT 9.15, provoked with the parameters that Phalanx uses.

Another version of ortools may be pinned when these tests pass with it. Each test follows its issue at google/or-tools.
Models that crash run in a process of their own.
"""

import random
import subprocess
import sys
import tomllib
from importlib.metadata import version
from itertools import product
from pathlib import Path

import pytest
from ortools.sat.python.cp_model import INFEASIBLE, OPTIMAL, IntVar
from thorough import chunks

from solver.cp_model import CpModel
from solver.cp_sat.lexicographic import Search, SolveStatus, Stage, time_budget_of
from solver.cp_sat.linear import Sum, total
from solver.problem import Limits

ROOT = Path(__file__).parents[2]
Row = tuple[tuple[int, ...], int]


def test_one_version_is_pinned_and_it_is_this_one() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"ortools=={version('ortools')}" in project["dependencies"]


def random_rows(seed: int) -> tuple[list[int], list[Row]]:
    """Return the largest values of five numbers, and rows: the weights and the upper limit of a weighted sum."""
    dice = random.Random(seed)  # noqa: S311 -- not for secrets
    most = [dice.choice((1, 1, 2, 3)) for _ in range(5)]
    rows = [(tuple(dice.randint(-3, 3) for _ in most), dice.randint(-4, 6)) for _ in range(dice.randint(4, 8))]
    return most, rows


def holds(values: tuple[int, ...], rows: list[Row]) -> bool:
    """Whether all rows hold."""
    return all(sum(w * v for w, v in zip(weights, values, strict=True)) <= limit for weights, limit in rows)


def stated(most: list[int], rows: list[Row]) -> tuple[CpModel, list[IntVar]]:
    """Return a CP-SAT model of the rows, and its variables with the domains 0 to `most`."""
    cp = CpModel()
    numbers = [cp.new_int_var(0, each, "") for each in most]
    for weights, limit in rows:
        cp.add(Sum(tuple(zip(weights, numbers, strict=True))).expression() <= limit)
    return cp, numbers


@pytest.mark.parametrize("presolve", [True, False])
@pytest.mark.parametrize("seeds", chunks(300, 300, fast=60))
def test_nothing_that_is_possible_is_called_infeasible(presolve: bool, seeds: range) -> None:  # noqa: FBT001 -- a parameter
    """google/or-tools#5274: INFEASIBLE with presolve where there is a solution; #5295: without."""
    for seed in seeds:
        most, rows = random_rows(seed)
        possible = any(holds(values, rows) for values in product(*(range(each + 1) for each in most)))
        cp, _ = stated(most, rows)
        solver = Search(cp, time_budget_of(Limits()))._solver(1.0)  # noqa: SLF001 -- our parameters, but for one
        solver.parameters.cp_model_presolve = presolve
        solver.parameters.cp_model_probing_level = 2
        solver.parameters.symmetry_level = 2
        assert solver.solve(cp) == (OPTIMAL if possible else INFEASIBLE), seed


@pytest.mark.parametrize("seeds", chunks(200, 200, fast=40))
def test_goal_after_goal_gives_the_best_of_all_solutions(seeds: range) -> None:
    """google/or-tools#5003: a better solution is found that is none; with hints from one goal to the next."""
    for seed in seeds:
        most, rows = random_rows(seed)
        solutions = [values for values in product(*(range(each + 1) for each in most)) if holds(values, rows)]
        cp, numbers = stated(most, rows)
        search = Search(cp, time_budget_of(Limits()))
        if search.any_solution() is SolveStatus.INFEASIBLE:
            continue
        goals = [total(Sum(((1, each),)) for each in numbers), *(Sum(((-1, each),)) for each in numbers)]
        least = [0, *(-each for each in most)]
        highest = [sum(most), *(0 for _ in most)]
        search.minimise(
            Stage("goal", str(place), goal, low, high)
            for place, (goal, low, high) in enumerate(zip(goals, least, highest, strict=True))
        )
        best = min(solutions, key=lambda values: (sum(values), [-value for value in values]))
        assert tuple(search.solution[each.index] for each in numbers) == best, seed
        assert search.proven


def test_the_same_model_gives_the_same_solution_every_time() -> None:
    """google/or-tools#2159, #3948: parallel or interleaved search does not."""
    for seed in range(60):
        found = set()
        for _ in range(3):
            cp, _numbers = stated(*random_rows(seed))
            search = Search(cp, time_budget_of(Limits()))
            search.any_solution()
            found.add(tuple(search.solution))
        assert len(found) == 1


def test_search_is_never_parallel_nor_interleaved() -> None:
    """google/or-tools#5048, #5025: the heap is corrupted and the process dies; never with one worker."""
    cp, _numbers = stated([1], [((1,), 1)])
    parameters = Search(cp, time_budget_of(Limits()))._solver(1.0).parameters  # noqa: SLF001 -- nothing else tells
    assert (parameters.num_workers, parameters.interleave_search) == (1, False)


@pytest.mark.thorough
def test_a_large_model_is_built_without_a_crash() -> None:
    """google/or-tools#5297: writing more than about 16,000 variables as text corrupts memory.

    Phalanx never writes variables as text and gives them no names.
    """
    text = (
        "from ortools.sat.python.cp_model import CpModel\n"
        "from solver.cp_sat.linear import Sum, one\n"
        "from solver.problem import Limits\n"
        "from solver.cp_sat.lexicographic import Search, time_budget_of\n"
        "cp = CpModel()\n"
        "flags = [cp.new_bool_var('') for _ in range(60_000)]\n"
        "for before, after in zip(flags, flags[1:]): cp.add_implication(before, after)\n"
        "cp.add(Sum(tuple((1, each) for each in flags)).expression() >= 100)\n"
        "search = Search(cp, time_budget_of(Limits()))\n"
        "print(search.any_solution().name, len(search.solution))\n"
    )
    run = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, "OPTIMAL 60000\n"), run.stderr
