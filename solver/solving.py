"""The way from a problem to a verified answer: without evictions where that is possible, by counting where counting
tells the whole truth, else by CP-SAT; and an explanation where the answer is no.
"""

from collections.abc import Callable
from dataclasses import dataclass

from solver.bounds import deciding_level
from solver.case import Case, case_of
from solver.covers import too_few
from solver.domains import solve_by_domains
from solver.evicting import solve_evicting
from solver.explain import explained
from solver.modelling import ALL_GOALS, Solved, solve_model
from solver.plan import Answer, NoPlan, Plan, Proof
from solver.problem import Limits, Problem
from solver.scoring import goals_of
from solver.search import Found, SolverFaultError
from solver.tallying import no_room, solve_by_counting
from solver.verify import verify

Way = Callable[[Case], Solved | Found | None]
"""Solves a case; None where this way does not know how."""


def solve(problem: Problem, limits: Limits = Limits()) -> Answer:  # noqa: B008 - limits are immutable
    """The best plan for one gang, verified, or why there is none.

    The order of goals is contract section 4 with docs/decisions/0002. The same problem gives the same answer in every
    process, as long as `limits.deterministic` and not `limits.seconds` ends the search. Raises `SolverFaultError`
    where CP-SAT contradicts itself or no way gives a plan that passes the verifier.
    """
    answer = decide(problem, limits)
    return answer if isinstance(answer, Plan) else explained(problem, answer, limits)


def decide(problem: Problem, limits: Limits, wanted: frozenset[str] = ALL_GOALS) -> Answer:
    """The answer without an explanation. `wanted`: the goals to be heeded; leaving one out is for tests."""
    if wanted != ALL_GOALS:
        return by_model(problem, limits, wanted)
    ways: list[Way] = [
        _bounded,
        solve_by_counting,
        lambda case: solve_by_domains(case, limits),
        lambda case: solve_evicting(case, limits),
        lambda case: solve_model(case, limits),
    ]
    return _decided(problem, ways)


def by_model(problem: Problem, limits: Limits, wanted: frozenset[str] = ALL_GOALS) -> Answer:
    """The answer that CP-SAT alone gives."""
    return _decided(problem, [lambda case: solve_model(case, limits, wanted)])


def _decided(problem: Problem, ways: list[Way]) -> Answer:
    """Without evictions where that is possible, else with them."""
    answer = _attempt(case_of(problem, evicting=False), ways)
    if isinstance(answer, Plan) or answer is Found.UNKNOWN or not problem.victims:
        return _said(answer)
    return _said(_attempt(case_of(problem, evicting=True), ways))


def certainly_none(problem: Problem) -> bool:
    """Whether counting tells at once that there is no plan, whoever is evicted. False: there may be one, or amounts are
    too large to be counted.
    """
    try:
        return _too_small(case_of(problem, evicting=bool(problem.victims)))
    except OverflowError:
        return False


def _too_small(case: Case) -> bool:
    """Whether by counting no domain of the required level can hold the minimum."""
    return bool(too_few(case, deciding_level(case.problem)).all())


def _bounded(case: Case) -> Found | None:
    """No, where by counting no domain of the required level can hold the minimum, whoever is evicted."""
    if _too_small(case):
        return Found.NONE
    return Found.NONE if case.evicting and no_room(case) else None


def _said(answer: Plan | Found) -> Answer:
    if isinstance(answer, Plan):
        return answer
    return NoPlan(Proof.INFEASIBLE if answer is Found.NONE else Proof.UNPROVEN)


@dataclass(frozen=True, slots=True)
class _Faulty:
    """A plan that did not pass."""

    faults: tuple[str, ...]


def _attempt(case: Case, ways: list[Way]) -> Plan | Found:
    """The answer of the first way that knows one and whose plan passes the verifier."""
    faults: list[str] = []
    for way in ways:
        solved = way(case)
        if isinstance(solved, Found):
            return solved
        if solved is not None:
            checked = _checked(case, solved)
            if isinstance(checked, Plan):
                return checked
            faults.extend(checked.faults)
    raise SolverFaultError("no plan passes the verifier: " + "; ".join(faults))


def _checked(case: Case, solved: Solved) -> Plan | _Faulty:
    proof = Proof.OPTIMAL if solved.proven else Proof.FEASIBLE
    goals = goals_of(case, solved.nodes, solved.victims, solved.reached)
    plan = Plan(solved.nodes, solved.victims, goals, proof)
    faults = verify(case.problem, plan)
    return _Faulty(faults) if faults else plan
