"""The order of goals stands once: if the rows of the objective change places, every method follows.

The tests exchange two neighbouring goals in `solver.objective.CRITERIA`. Methods that prove plans by counting must then
return the plan that CP-SAT returns.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest
from random_problems import random_problem
from thorough import chunks, has_rare_cases

from solver import objective
from solver.branch_and_bound.by_domain import solve_by_domains
from solver.cp_sat.solve import Solved, solve_model
from solver.eviction.dynamic_programme import solve_eviction_dp
from solver.eviction.lower_bounds import prices_of
from solver.eviction.solve import solve_evicting
from solver.instance import Instance, instance_of
from solver.nodes import Node, nodes_of
from solver.objective import Criterion, GoalTerm, criterion, goals_of, ordered, precedes
from solver.problem import Limits, Member, PodSet, Problem, Shape, Victim, VictimGang, victim_table
from solver.tree import ROOT
from solver.tree_dp.single_class import solve_tree_dp

LIMITS = Limits(deterministic=60.0, seconds=600.0)

PAIRS = [("gangsBroken", "evicted"), ("preferences", "terminating")]


@pytest.fixture(params=PAIRS, ids="-".join)
def exchanged(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Exchange two neighbouring goals. Each gets the phase of the other, because phases have an order as well."""
    names: tuple[str, str] = request.param
    _exchange(names, monkeypatch)
    return names


def _exchange(names: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = map(criterion, names)
    rows = {first.name: _in_phase_of(second, first), second.name: _in_phase_of(first, second)}
    monkeypatch.setattr(objective, "CRITERIA", tuple(rows.get(row.name, row) for row in objective.CRITERIA))


def _in_phase_of(row: Criterion, other: Criterion) -> Criterion:
    phase = other.terms[0].phase
    return replace(row, terms=tuple(GoalTerm(term.name, phase, term.counted) for term in row.terms))


def _by_eviction_dp(instance: Instance) -> object:
    required = instance.problem.required
    prices = prices_of(instance, ROOT if required is None else required)
    return None if prices is None else solve_eviction_dp(instance, prices)


METHODS: dict[bool, tuple[Callable[[Instance], object], ...]] = {
    False: (solve_tree_dp, lambda instance: solve_by_domains(instance, LIMITS, worthwhile=0)),
    True: (_by_eviction_dp, lambda instance: solve_evicting(instance, LIMITS, worthwhile=0)),
}
"""Methods that know the goals, without and with evictions."""


@pytest.mark.parametrize("seeds", chunks(600, 150, fast=30, fresh=5))
def test_every_method_follows_the_rows_of_the_objective(seeds: range, exchanged: tuple[str, str]) -> None:
    """A method that repeats the order returns plans that are worse in the goal that has become the earlier one."""
    compared = 0
    for seed in seeds:
        problem = random_problem(seed)
        evicting = exchanged[0] == "gangsBroken"
        if evicting and not problem.victims:
            continue
        instance = instance_of(problem, evicting=evicting)
        if not instance.pending or (evicting and not instance.evicting):
            continue
        found = [solved for method in METHODS[evicting] if isinstance(solved := method(instance), Solved)]
        if not found:
            continue
        expected = solve_model(instance, LIMITS)
        assert isinstance(expected, Solved), f"seed {seed}"
        for solved in found:
            compared += 1
            goals = (goals_of(instance, each.nodes, each.victims) for each in (solved, expected))
            own, best = ([(goal.name, goal.digits) for goal in each] for each in goals)
            assert own == best, f"seed {seed}"
    assert compared or not has_rare_cases(seeds)


def _two_domains(*, evicting: bool) -> Problem:
    """Return a problem of one member and two nodes, n0 and n1, in racks of their own.

    Evicting: n0 evicts a smaller pod but breaks its gang. Else the member prefers n0, whose capacity a terminating pod
    still holds.
    """
    free = (0 if evicting else 4,)
    nodes = nodes_of([Node("n0", ("r0",), free, free), Node("n1", ("r1",), free, (0,))])
    shape = Shape((2,), frozenset((0, 1)), preferences={0: 1})
    one = PodSet("main", (Member("m0", 0),), 1)
    victims = (Victim("v/0", 0, 0, (2,), gang=0), Victim("v/1", 1, 0, (3,))) if evicting else ()
    gangs = (VictimGang("g0", 1, 1),) if evicting else ()
    return Problem(
        ("rack", "node"),
        ("cpu",),
        nodes,
        (shape,),
        (one,),
        1,
        victims=victim_table(victims),
        victim_gangs=gangs,
    )


@pytest.mark.parametrize(("evicting", "pair", "first"), [(True, PAIRS[0], 1), (False, PAIRS[1], 0)])
def test_of_two_domains_the_better_one_in_the_earlier_goal(
    evicting: bool,  # noqa: FBT001 -- a parameter of the test
    pair: tuple[str, str],
    first: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of the two nodes is better in one of two goals. Once these are exchanged, the plan uses the other node."""
    instance = instance_of(_two_domains(evicting=evicting), evicting=evicting)
    for expected in (first, 1 - first):
        for method in METHODS[evicting]:
            solved = method(instance)
            assert isinstance(solved, Solved)
            assert solved.nodes == ((expected,),)
        _exchange(pair, monkeypatch)


def test_values_come_in_the_order_of_the_goals() -> None:
    """The keys of a mapping have any order. A term that no goal has is an error."""
    values = {"names": 7, "waste/d": 6, "waste/a": 5, "compactness": 4, "lowest_ranks": 3, "extras": 2, "victims": 1}
    assert ordered(values) == (1, 2, 3, 4, 5, 6, 7)
    assert precedes("waste/b", "waste/c")
    assert not precedes("ranks", "waste")
    with pytest.raises(ValueError, match=r"no goal has these terms or parts: \['gangsBroken', 'waste/e'\]"):
        ordered({"victims": 0, "gangsBroken": 0, "waste/e": 0})
