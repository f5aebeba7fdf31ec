"""The same problem gives the same plan: again, and in processes with other hash seeds."""

import os
import subprocess
import sys
from pathlib import Path

from random_problems import random_problem

from solver.solving import solve

SEEDS = range(60)
SCRIPT = "from test_determinism import answers; print(answers())"


def answers() -> str:
    """All answers, explanations included, as text."""
    return "\n".join(repr(solve(random_problem(seed))) for seed in SEEDS)


def in_a_process(hash_seed: str) -> str:
    here = Path(__file__).parent
    path = os.pathsep.join((str(here), str(here.parents[1])))
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.rstrip("\n")


def test_three_runs_give_the_same_answers() -> None:
    first = answers()
    assert answers() == first
    assert answers() == first


def test_three_processes_give_the_same_answers() -> None:
    assert {in_a_process(seed) for seed in ("0", "1", "4711")} == {answers()}
