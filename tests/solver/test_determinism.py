"""Equal problems give equal plans: in repeated solves, and in processes with other hash seeds."""

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from random_problems import random_problem
from thorough import mostly

from solver.nodes import Node, nodes_of
from solver.problem import Member, PodSet, Problem, Shape, Victim, VictimGang, victim_table
from solver.solve import solve

FEW, MANY = (6, 2), (60, 6)
"""How many problems, and how many wide ones."""
SCRIPT = "from test_determinism import answers; print(answers({}, {}))"


def answers(count: int, wide: int) -> str:
    """All answers, explanations included, as text."""
    problems = [*map(random_problem, range(count)), *map(wide_problem, range(wide))]
    return "\n".join(repr(solve(problem)) for problem in problems)


def wide_problem(seed: int) -> Problem:
    """24 nodes in 8 racks of 2 blocks, enough to look at domains, covers and prices; every other seed needs victims."""
    draw = Random(seed)  # noqa: S311 -- instances are to be repeatable, not secret
    full = seed % 2 == 1
    nodes = tuple(
        Node(f"n{number}", (f"b{number // 12}", f"r{number // 3}"), (draw.randint(0, 1 if full else 4),), (0,))
        for number in range(24)
    )
    victims = tuple(
        Victim(f"v{number}", draw.randrange(24), draw.choice((0, 5)), (draw.randint(1, 3),), draw.choice((None, 0, 1)))
        for number in range(30 if full else 0)
    )
    counts = [sum(victim.gang == gang for victim in victims) for gang in (0, 1)] if full else []
    everywhere = frozenset(range(24))
    sets = tuple(
        PodSet(f"set{shape}", tuple(Member(f"m{shape}-{rank}", shape) for rank in range(count)), count)
        for shape, count in enumerate((4, 5))
    )
    return Problem(
        levels=("block", "rack", "node"),
        resources=("slots",),
        nodes=nodes_of(nodes),
        shapes=(Shape((2,), everywhere), Shape((1,), everywhere)),
        sets=sets,
        minimum=9,
        victims=victim_table(victims),
        victim_gangs=tuple(VictimGang(f"g{gang}", count, count) for gang, count in enumerate(counts)),
    )


def in_a_process(hash_seed: str, size: tuple[int, int]) -> str:
    here = Path(__file__).parent
    path = os.pathsep.join(map(str, (here, here.parent, here.parents[1])))
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(*size)], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.rstrip("\n")


@pytest.mark.parametrize("size", mostly([FEW], [(MANY,)]))
def test_three_runs_give_the_same_answers(size: tuple[int, int]) -> None:
    first = answers(*size)
    assert answers(*size) == first
    assert answers(*size) == first


@pytest.mark.thorough
@pytest.mark.parametrize(("size", "hash_seeds"), mostly([(FEW, ("4711",))], [(MANY, ("0", "1", "4711"))]))
def test_other_processes_give_the_same_answers(size: tuple[int, int], hash_seeds: tuple[str, ...]) -> None:
    assert {in_a_process(seed, size) for seed in hash_seeds} == {answers(*size)}
