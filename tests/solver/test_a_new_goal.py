"""A new goal needs four additions: its row in the objective, its CP-SAT term, the verifier's count and the reference's.

Joint planning of several gangs and its reference read the same tables.

The tests add one of two toy goals after the preferences. ODD minimises the members on nodes of odd position. EVEN
maximises the members on nodes of even position, so its bounds are upper bounds.

    rack r1: n0 n1      rack r2: n2 n3          one member goes to n0 or n2, whatever the waste
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import brute_force
import pytest
from brute_force import Outcome, World
from claimed_bounds import bounds_hold
from joint_brute_force import best_together, is_as_good, whole_of
from random_problems import random_joint, random_problem
from thorough import chunks

from solver import objective
from solver.capacity import pending
from solver.cp_sat import goal_terms
from solver.cp_sat.lexicographic import Stage
from solver.cp_sat.linear import Sum
from solver.cp_sat.variables import Model
from solver.heuristics.greedy import unproven
from solver.instance import instance_of
from solver.multi_gang.joint import solve_all_placed, solve_joint
from solver.objective import Criterion, GoalTerm, SolvePhase, goals_of
from solver.plan import NoPlan, Plan, Proof
from solver.problem import Limits
from solver.solve import decide
from solver.verify import goals as verifying
from solver.verify.goals import Count, Recount
from solver.verify.rules import verify

T = TypeVar("T")
INSTANCES = 200
JOINT_INSTANCES = 40
PATIENT = Limits(deterministic=60.0, seconds=600.0)
HURRIED = [0.0, 2.0**-12, 2.0**-8]


@dataclass(frozen=True)
class Toy:
    """The four additions of a goal: objective row, CP-SAT term, the verifier's count and the reference's value."""

    row: Criterion
    term: Callable[[Model, goal_terms.Solution], Iterator[Stage]]
    recount: Callable[[Recount], Iterator[Count]]
    reference: Callable[[World, Outcome], int]

    @property
    def name(self) -> str:
        """The name of the goal."""
        return self.row.name


def seats_on(model: Model, parity: int, sign: int) -> Sum:
    """The new members on nodes of odd or even position, times a sign."""
    variables = [(node, seat) for seats in model.seats for node, seat in seats.items()]
    return Sum(tuple((sign, seat) for node, seat in variables if node % 2 == parity))


def odd_nodes(model: Model, _solution: goal_terms.Solution) -> Iterator[Stage]:
    """The term."""
    yield Stage("oddNodes", "", seats_on(model, 1, 1), 0, len(model.instance.pending))


def even_nodes(model: Model, _solution: goal_terms.Solution) -> Iterator[Stage]:
    """The term: what is had, times -1."""
    yield Stage("evenNodes", "", seats_on(model, 0, -1), -len(model.instance.pending), 0)


def recount_odd(of: Recount) -> Iterator[Count]:
    """The verifier's."""
    yield Count("oddNodes", sum(each.node % 2 for each in of.view.placed if each.new), {})


def recount_even(of: Recount) -> Iterator[Count]:
    """The verifier's."""
    even = sum(each.node % 2 == 0 for each in of.view.placed if each.new)
    yield Count("evenNodes", even, {}, more_is_better=True)


def on_odd(world: World, outcome: Outcome) -> int:
    """The reference's."""
    return sum(node % 2 for _, node in world.fresh(outcome))


def on_even(world: World, outcome: Outcome) -> int:
    """The reference's: what is had, times -1."""
    return -sum(node % 2 == 0 for _, node in world.fresh(outcome))


ODD = Toy(
    Criterion(
        "oddNodes",
        (GoalTerm("odd_nodes", SolvePhase.SPREAD),),
        lambda score, _: {"": sum(node % 2 for node in score.fresh.values())},
        "would take {both} odd nodes",
        by_counting=False,
    ),
    odd_nodes,
    recount_odd,
    on_odd,
)
EVEN = Toy(
    Criterion(
        "evenNodes",
        (GoalTerm("even_nodes", SolvePhase.SPREAD),),
        lambda score, _: {"": sum(node % 2 == 0 for node in score.fresh.values())},
        "would take {both} even nodes",
        most=lambda problem: len(pending(problem)),
        by_counting=False,
    ),
    even_nodes,
    recount_even,
    on_even,
)


@pytest.fixture(params=[ODD, EVEN], ids=lambda each: each.name)
def toy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Toy:
    """Add one of the two toy goals to all four tables."""
    new: Toy = request.param
    rows = _after("preferences", objective.CRITERIA, new.row, lambda each: each.name)
    monkeypatch.setattr(objective, "CRITERIA", rows)
    monkeypatch.setitem(goal_terms.TERMS, new.term.__name__, new.term)
    order = _after(Recount.preferences, verifying.IN_ORDER, new.recount, lambda each: each)
    monkeypatch.setattr(verifying, "IN_ORDER", list(order))
    goals = _after("preferences", brute_force.PLACE_GOALS, (new.name, new.reference), lambda each: each[0])
    monkeypatch.setattr(brute_force, "PLACE_GOALS", goals)
    return new


def _after(key: object, rows: Sequence[T], new: T, key_of: Callable[[T], object]) -> tuple[T, ...]:
    place = [key_of(each) for each in rows].index(key) + 1
    return (*rows[:place], new, *rows[place:])


@pytest.mark.parametrize("seeds", chunks(INSTANCES, INSTANCES, fast=30))
def test_a_new_goal_decides_as_the_reference_says(toy: Toy, seeds: range) -> None:
    for seed in seeds:
        problem = random_problem(seed)
        answer, expected = decide(problem, Limits(seconds=600.0)), brute_force.best(problem)
        assert isinstance(answer, NoPlan) == (expected is None), seed
        if isinstance(answer, Plan):
            assert expected is not None
            assert brute_force.is_as_good(problem, (answer.nodes, answer.victims), expected), seed
            assert answer.proof is Proof.OPTIMAL
            assert verify(problem, answer) == ()
            names = [goal.name for goal in answer.goals]
            assert names.index(toy.name) == names.index("preferences") + 1


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("seeds", chunks(INSTANCES, INSTANCES, fast=12, fresh=3))
def test_what_is_claimed_of_a_new_goal_holds_however_little_time_there_is(seeds: range) -> None:
    for seed in seeds:
        problem = random_problem(seed)
        expected = brute_force.best(problem)
        for work in HURRIED:
            answer = decide(problem, Limits(deterministic=work, seconds=600.0))
            if isinstance(answer, Plan):
                assert expected is not None, seed
                assert verify(problem, answer) == (), seed
                assert bounds_hold(problem, answer, expected), (seed, answer.goals)


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("seeds", chunks(INSTANCES, INSTANCES, fast=30))
def test_of_any_plan_bounds_can_be_told_of_which_nothing_is_known(seeds: range) -> None:
    for seed in seeds:
        problem = random_problem(seed)
        expected = brute_force.best(problem)
        if expected is not None:
            goals = goals_of(instance_of(problem, evicting=bool(expected.victims)), expected.rows, expected.victims)
            plan = Plan(expected.rows, expected.victims, unproven(problem, goals), Proof.FEASIBLE)
            assert verify(problem, plan) == (), seed
            assert bounds_hold(problem, plan, expected), (seed, plan.goals)


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("seeds", chunks(JOINT_INSTANCES, JOINT_INSTANCES, fast=8))
def test_a_new_goal_decides_for_several_gangs_as_the_reference_says(seeds: range) -> None:
    """Joint planning reads the new goal from the table of the objective."""
    for seed in seeds:
        joint = random_joint(seed)
        answer, expected = solve_joint(joint.problem, PATIENT), best_together(joint)
        assert answer.proof is Proof.OPTIMAL, seed
        assert is_as_good(joint, whole_of(answer), expected), seed
        assert solve_all_placed(joint.many, PATIENT) is None, "it knows compactness alone"


@pytest.mark.long
@pytest.mark.thorough
def test_the_toy_would_be_missed_for_several_gangs(toy: Toy) -> None:
    joints = [random_joint(seed) for seed in range(JOINT_INSTANCES)]
    assert sum(best_together(each) != best_together(each, leaving_out=toy.name) for each in joints) >= 1


@pytest.mark.long
@pytest.mark.thorough
def test_the_toy_would_be_missed(toy: Toy) -> None:
    """It decides, so that the test above can fail."""
    assert sum(toy.name in brute_force.deciding(random_problem(seed)) for seed in range(INSTANCES)) >= 3


def test_every_goal_has_its_term_its_counts_and_its_words() -> None:
    stated = {term.name for each in objective.CRITERIA for term in each.terms if term.phase is not SolvePhase.NAMES}
    assert stated <= goal_terms.TERMS.keys()
    assert all(each.loss for each in objective.CRITERIA)
    answers = (decide(random_problem(seed), Limits()) for seed in range(100))
    plan = next(each for each in answers if isinstance(each, Plan))
    names = [goal.name.partition("/")[0] for goal in plan.goals]
    assert list(dict.fromkeys(names)) == [each.name for each in objective.CRITERIA]
