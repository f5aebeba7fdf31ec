"""The same problem gives the same plan: again, and in processes with other hash seeds."""

import os
import subprocess
import sys
from pathlib import Path
from random import Random

from random_problems import random_problem

from solver.nodes import Node, nodes_of
from solver.problem import Member, PodSet, Problem, Shape, Victim, VictimGang, victim_table
from solver.solve import solve

SEEDS = range(60)
WIDE_SEEDS = range(6)
SCRIPT = "from test_determinism import answers; print(answers())"


def answers() -> str:
    """All answers, explanations included, as text."""
    problems = [*map(random_problem, SEEDS), *map(wide_problem, WIDE_SEEDS)]
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
