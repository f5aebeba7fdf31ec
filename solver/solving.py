"""The way from a problem to a verified answer."""

from solver.case import case_of
from solver.modelling import ALL_GOALS, Solved, solve_model
from solver.plan import Answer, NoPlan, Plan, Proof
from solver.problem import Limits, Problem
from solver.scoring import goals_of
from solver.search import Found


def solve(problem: Problem, limits: Limits = Limits()) -> Answer:  # noqa: B008 - limits are immutable
    """The best plan for one gang, or why there is none."""
    return solve_for(problem, limits, ALL_GOALS)


def solve_for(problem: Problem, limits: Limits, wanted: frozenset[str]) -> Answer:
    case = case_of(problem, evicting=False)
    solved = solve_model(case, limits, wanted)
    if solved is Found.NONE and problem.victims:
        case = case_of(problem, evicting=True)
        solved = solve_model(case, limits, wanted)
    if not isinstance(solved, Solved):
        return NoPlan(Proof.INFEASIBLE if solved is Found.NONE else Proof.UNPROVEN)
    proof = Proof.OPTIMAL if solved.proven else Proof.FEASIBLE
    return Plan(solved.nodes, solved.victims, goals_of(case, solved.nodes, solved.victims, solved.reached), proof)
