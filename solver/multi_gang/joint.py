"""Several gangs of one priority that compete for the same nodes, planned together.

They become one problem whose sets are the sets of all gangs, with goals summed over the gangs (docs/decisions/0002,
"Several gangs"): minimums first, an earlier gang's never given up for a later one's; then the goals in their order.
"""

from collections.abc import Sequence

from solver.cp_sat.joint_goal_terms import JointGoals
from solver.cp_sat.lexicographic import Found, TimeBudget, time_budget_of
from solver.cp_sat.solve import Solved, solve_within
from solver.deadline import NO_DEADLINE, Deadline
from solver.instance import Instance, instance_of
from solver.multi_gang.all_placed import place_all
from solver.multi_gang.joint_problem import JointAnswer, JointProblem, Share, merged_problem
from solver.multi_gang.merge import Merged
from solver.objective import is_countable, terms
from solver.plan import Proof
from solver.problem import Limits, Problem


def solve_joint(joint: JointProblem, limits: Limits, deadline: Deadline = NO_DEADLINE) -> JointAnswer:
    """The best plan for all gangs together. Raises `SolverFaultError` where CP-SAT contradicts itself."""
    budget = time_budget_of(limits, deadline)
    everybody = tuple(range(len(joint.gangs)))
    proven = True
    solved = _best(joint, everybody, budget)
    placed = everybody
    if not isinstance(solved, tuple):
        placed, proven = _placeable(joint, budget)
        solved = _best(joint, placed, budget) if placed else Found.INFEASIBLE
        proven = proven and (isinstance(solved, tuple) or not placed)
    if not isinstance(solved, tuple):
        return JointAnswer((None,) * len(joint.gangs), Proof.OPTIMAL if proven else Proof.FEASIBLE)
    plan, merged = solved
    shares = dict(zip(placed, merged.shares(plan.nodes, plan.victims), strict=True))
    proof = Proof.OPTIMAL if proven and plan.proven else Proof.FEASIBLE
    return JointAnswer(
        tuple(Share(*shares[gang]) if gang in shares else None for gang in everybody),
        proof,
    )


def solve_all_placed(joint: JointProblem, limits: Limits, deadline: Deadline = NO_DEADLINE) -> JointAnswer | None:
    """Every member of every gang that has a place in its own without evictions, as compact as all of them together can
    be, or as is found by the deadline; the other goals are each gang's own. None where that is not found, or where it
    is not known how (`solver.multi_gang.all_placed`).
    """
    if not is_countable():
        return None
    found = place_all(joint.gangs, joint.units, time_budget_of(limits, deadline), lambda: deadline.over)
    if found is None:
        return None
    shares = tuple(None if nodes is None else Share(nodes, ()) for nodes in found.nodes)
    return JointAnswer(shares, Proof.FEASIBLE, found.proven)


def _best(joint: JointProblem, gangs: Sequence[int], budget: TimeBudget) -> tuple[Solved, Merged] | Found:
    """The best plan that has the minimum of all these gangs, without evictions where that is possible."""
    merged = merged_problem(joint, gangs)
    goals = JointGoals(merged.sets)
    found = Found.INFEASIBLE
    for evicting in (False, True) if merged.problem.victims else (False,):
        solved = solve_within(
            _instance(merged.problem, budget, evicting=evicting), budget, terms() | {"precedence"}, where=goals.where
        )
        if isinstance(solved, Solved):
            return solved, merged
        found = solved
        if solved is not Found.INFEASIBLE:
            break
    return found


def _instance(problem: Problem, budget: TimeBudget, *, evicting: bool) -> Instance:
    return instance_of(problem, evicting=evicting, deadline=budget.wall.deadline)


def _placeable(joint: JointProblem, budget: TimeBudget) -> tuple[tuple[int, ...], bool]:
    """The gangs whose minimums can be had together, the earlier ones first; and whether the others certainly cannot."""
    placed: tuple[int, ...] = ()
    proven = True
    for gang in range(len(joint.gangs)):
        found = _fits(merged_problem(joint, (*placed, gang)).problem, budget)
        if found is Found.FEASIBLE:
            placed = (*placed, gang)
        proven = proven and found is not Found.UNKNOWN
    return placed, proven


def _fits(problem: Problem, budget: TimeBudget) -> Found:
    for evicting in (False, True) if problem.victims else (False,):
        solved = solve_within(_instance(problem, budget, evicting=evicting), budget, frozenset())
        if isinstance(solved, Solved):
            return Found.FEASIBLE
        if solved is not Found.INFEASIBLE:
            return solved
    return Found.INFEASIBLE
