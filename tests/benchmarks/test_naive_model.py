"""The reference is worth something only if it answers the same question: equal optima on small cases."""

import sys
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from thorough import parts

from benchmarks.naive import Proven, can_state, solve, values_of
from solver import solve as solving
from solver.capacity import scarcest
from solver.multi_gang.joint import solve_joint
from solver.plan import Plan, Proof
from solver.problem import Limits, Problem

sys.path.insert(0, str(Path(__file__).parents[1] / "solver"))
from joining import Several, several
from random_problems import random_problem


@cache
def seeds() -> list[int]:
    """Of the problems that the naive model can state."""
    return [seed for seed in range(1_500) if can_state(random_problem(seed))]


def test_many_of_the_random_problems_can_be_stated() -> None:
    problems = [random_problem(seed) for seed in seeds()]
    assert len(problems) > 140
    assert any(each.slices for problem in problems for each in problem.sets)
    assert any(problem.together for problem in problems)
    assert any(problem.victim_gangs and problem.budgets for problem in problems)
    assert any(problem.required is not None for problem in problems)


@pytest.mark.parametrize("part", parts(8))
def test_the_naive_model_and_the_solver_come_to_equal_optima(part: int) -> None:
    for seed in seeds()[part::8]:
        problem = random_problem(seed)
        answer, found = solving.solve(problem), solve(problem, 60)
        assert isinstance(found, Proven), seed
        if isinstance(answer, Plan):
            assert found.values == values_of(problem, answer), seed
        else:
            assert (found.values, answer.proof) == (None, Proof.INFEASIBLE), seed


@pytest.mark.parametrize("part", parts(4))
def test_they_do_for_several_gangs_too(part: int) -> None:
    for joint in [_joint(seed) for seed in seeds()[::3] if len(random_problem(seed).sets) == 1][part::4]:
        whole = joint.problem
        found = solve(whole, 60, apart=True)
        assert isinstance(found, Proven)
        assert found.values == _values(joint, whole)


def _joint(seed: int) -> Several:
    """Return two gangs with similar demands. The later gang has one member less if it has more than one."""
    first = random_problem(seed)
    (asked,) = first.sets
    members = tuple(replace(each, key=f"later-{each.key}") for each in asked.members[: max(1, len(asked.members) - 1)])
    later = replace(asked, name="later", members=members, minimum=min(asked.minimum, len(members)), slices=())
    second = replace(first, sets=(later,), minimum=len(members))
    return several(first, second)


def _values(joint: Several, whole: Problem) -> tuple[int, ...]:
    """Return the goal values of the solver's joint plan, computed from the nodes of the members."""
    answer = solve_joint(whole, Limits())
    assert answer.proof is Proof.OPTIMAL
    keys = {whole.victims[each].key for share in answer.shares if share is not None for each in share.victims}
    gone = [victim for victim in whole.victims if victim.key in keys]
    priorities = sorted({each.priority for each in whole.victims}, reverse=True)
    by_priority, by_gang = Counter(each.priority for each in gone), Counter(each.gang for each in gone)
    lost = {each.key for each in gone}
    broken = sum(
        gang.running - by_gang[each] < gang.minimum
        or any(
            part.running - sum(whole.victims[victim].key in lost for victim in part.victims) < part.minimum
            for part in gang.sets
        )
        for each, gang in enumerate(whole.victim_gangs)
    )
    evicted = sum(each.requests[scarcest(whole)] for each in gone)
    domains = [
        sum(
            len({(*gang.nodes[node].path, gang.nodes[node].name)[: level + 1] for node in row if node is not None})
            for gang, share in zip(joint.gangs, answer.shares, strict=True)
            if share is not None
            for row in share.nodes
        )
        for level in range(len(whole.levels))
    ]
    return (
        *(int(share is None) for share in answer.shares),
        *(by_priority[each] for each in priorities),
        broken,
        evicted,
        *domains,
    )
