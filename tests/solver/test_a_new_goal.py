"""A goal is added in four places of code and nowhere else: the objective with its count, its term, the verifier's count
and the reference's.
Gangs that are planned together take it from there, and so does their reference.

The toy: after the preferences, the fewest members on nodes of odd position.

    rack r1: n0 n1      rack r2: n2 n3          one member goes to n0 or n2, whatever the waste
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import brute_force
import pytest
from brute_force import Outcome, World
from joint_brute_force import best_together
from random_problems import random_joint, random_problem
from thorough import chunks

from solver import objective
from solver.cp_sat import objectives
from solver.cp_sat.lexicographic import Stage
from solver.cp_sat.linear import Sum
from solver.cp_sat.variables import Model
from solver.multi_gang.joint import solve_all_placed, solve_joint
from solver.objective import Criterion, GoalTerm, Score, SolvePhase
from solver.plan import NoPlan, Plan, Proof
from solver.problem import Limits
from solver.solve import decide
from solver.verify import goals as verifying
from solver.verify.goals import Count, Recount
from solver.verify.rules import verify

T = TypeVar("T")
TOY = "oddNodes"
INSTANCES = 400
JOINT_INSTANCES = 40
PATIENT = Limits(deterministic=60.0, seconds=600.0)


def odd_nodes(model: Model, _solution: objectives.Solution) -> Iterator[Stage]:
    """The term."""
    variables = [(node, seat) for seats in model.seats for node, seat in seats.items()]
    odd = tuple((1, seat) for node, seat in variables if node % 2)
    yield Stage(TOY, "", Sum(odd), 0, len(model.instance.pending))


def count(score: Score, _level: int) -> dict[str, int]:
    """Its count."""
    return {"": sum(node % 2 for node in score.fresh.values())}


def recount(of: Recount) -> Iterator[Count]:
    """The verifier's."""
    yield TOY, sum(each.node % 2 for each in of.picture.placed if each.new), {}


def reference(world: World, outcome: Outcome) -> int:
    """The reference's."""
    return sum(node % 2 for _, node in world.fresh(outcome))


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Criterion(
        TOY, (GoalTerm("odd_nodes", SolvePhase.SPREAD),), count, "would take {both} odd nodes", by_counting=False
    )
    monkeypatch.setattr(objective, "CRITERIA", _after("preferences", objective.CRITERIA, row, lambda each: each.name))
    monkeypatch.setitem(objectives.TERMS, "odd_nodes", odd_nodes)
    order = _after(Recount.preferences, verifying.IN_ORDER, recount, lambda each: each)
    monkeypatch.setattr(verifying, "IN_ORDER", list(order))
    goals = _after("preferences", brute_force.PLACE_GOALS, (TOY, reference), lambda each: each[0])
    monkeypatch.setattr(brute_force, "PLACE_GOALS", goals)


def _after(key: object, rows: Sequence[T], new: T, key_of: Callable[[T], object]) -> tuple[T, ...]:
    place = [key_of(each) for each in rows].index(key) + 1
    return (*rows[:place], new, *rows[place:])


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("seeds", chunks(INSTANCES, INSTANCES, fast=60))
def test_a_new_goal_decides_as_the_reference_says(seeds: range) -> None:
    for seed in seeds:
        problem = random_problem(seed)
        answer, expected = decide(problem, Limits(seconds=600.0)), brute_force.best(problem)
        assert isinstance(answer, NoPlan) == (expected is None), seed
        if isinstance(answer, Plan):
            assert (answer.nodes, answer.victims) == expected, seed
            assert answer.proof is Proof.OPTIMAL
            assert verify(problem, answer) == ()
            names = [goal.name for goal in answer.goals]
            assert names.index(TOY) == names.index("preferences") + 1


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("seeds", chunks(JOINT_INSTANCES, JOINT_INSTANCES, fast=12))
def test_a_new_goal_decides_for_several_gangs_as_the_reference_says(seeds: range) -> None:
    """What weighs gangs against each other takes it from the same table."""
    for seed in seeds:
        joint = random_joint(seed)
        answer, expected = solve_joint(joint, PATIENT), best_together(joint)
        assert answer.proof is Proof.OPTIMAL, seed
        nodes = tuple(None if share is None else share.nodes for share in answer.shares)
        assert nodes == expected.gangs, seed
        assert solve_all_placed(joint, PATIENT) is None, "it knows compactness alone"


@pytest.mark.thorough
def test_the_toy_would_be_missed_for_several_gangs(toy: None) -> None:  # noqa: ARG001 - what it tests
    joints = [random_joint(seed) for seed in range(JOINT_INSTANCES)]
    assert sum(best_together(each) != best_together(each, leaving_out=TOY) for each in joints) >= 1


@pytest.mark.thorough
def test_the_toy_would_be_missed(toy: None) -> None:  # noqa: ARG001 - what it tests
    """It decides, so that the test above can fail."""
    assert sum(TOY in brute_force.deciding(random_problem(seed)) for seed in range(INSTANCES)) >= 3


def test_every_goal_has_its_term_its_counts_and_its_words() -> None:
    stated = {term.name for each in objective.CRITERIA for term in each.terms if term.phase is not SolvePhase.NAMES}
    assert stated <= objectives.TERMS.keys()
    assert all(each.loss for each in objective.CRITERIA)
    answers = (decide(random_problem(seed), Limits()) for seed in range(100))
    plan = next(each for each in answers if isinstance(each, Plan))
    names = [goal.name.partition("/")[0] for goal in plan.goals]
    assert list(dict.fromkeys(names)) == [each.name for each in objective.CRITERIA]
