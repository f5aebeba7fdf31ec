"""Plans several gangs of one priority together that compete for the same nodes or quotas.

Gangs are accepted in their order. A gang is accepted if and only if a joint plan exists that places the minimums of
this gang and of all gangs accepted before. Then the goals are summed over the accepted gangs (docs/decisions/0002,
"Several gangs").
"""

from collections.abc import Collection, Sequence

from solver.cp_sat.joint_goal_terms import JointGoals
from solver.cp_sat.lexicographic import SolveStatus, TimeBudget, time_budget_of
from solver.cp_sat.solve import Solved, solve_within
from solver.deadline import NO_DEADLINE, Deadline
from solver.instance import Instance, instance_of
from solver.multi_gang.all_placed import place_all
from solver.multi_gang.joint_problem import JointAnswer, ManyGangs, Share, only
from solver.objective import Nodes, is_countable, terms
from solver.plan import Proof
from solver.problem import Limits, Problem


def solve_joint(problem: Problem, limits: Limits, deadline: Deadline = NO_DEADLINE) -> JointAnswer:
    """Return the best plan for the accepted gangs of a joint problem. Raises `SolverFaultError` if CP-SAT contradicts
    itself.
    """
    budget = time_budget_of(limits, deadline)
    placed: tuple[int, ...] = tuple(range(len(problem.gangs)))
    without, unknown = frozenset[int](), False
    solved = _best(problem, placed, budget)
    if not isinstance(solved, Solved):
        placed, without = _accepted(problem, budget)
        unknown = len(placed) + len(without) < len(problem.gangs)
        solved = _best(problem, placed, budget) if placed else SolveStatus.INFEASIBLE
    if not isinstance(solved, Solved):
        proof = Proof.FEASIBLE if placed or unknown else Proof.OPTIMAL
        return JointAnswer((None,) * len(problem.gangs), proof, without=frozenset() if placed else without)
    proof = Proof.OPTIMAL if solved.proven and not unknown else Proof.FEASIBLE
    return JointAnswer(tuple(_shares(problem, placed, solved.nodes, solved.victims)), proof, without=without)


def solve_all_placed(many: ManyGangs, limits: Limits, deadline: Deadline = NO_DEADLINE) -> JointAnswer | None:
    """Place all gangs whole and without evictions, except gangs that are proven not to fit beside earlier ones.

    The gangs are as compact together (goal 3) as is found by the deadline. The other goals are optimised for each gang
    alone. None if no such plan is found, or if the method does not apply, for example because the members of a gang are
    not alike (`solver.multi_gang.shared_nodes`).
    """
    if not is_countable():
        return None
    found = place_all(many.gangs, many.units, time_budget_of(limits, deadline), lambda: deadline.over)
    if found is None:
        return None
    shares = tuple(None if nodes is None else Share(nodes, ()) for nodes in found.nodes)
    without = frozenset(gang for gang, share in enumerate(shares) if share is None)
    return JointAnswer(shares, Proof.FEASIBLE, found.proven, without)


def _best(problem: Problem, gangs: Collection[int], budget: TimeBudget) -> Solved | SolveStatus:
    """Return the best plan with the minimums of all these gangs: without evictions if that is possible, else with
    evictions.
    """
    goals = JointGoals([problem.gangs[gang].pod_sets for gang in gangs])
    found: Solved | SolveStatus = SolveStatus.INFEASIBLE
    for instance in _instances(only(problem, gangs), budget):
        found = solve_within(instance, budget, terms() | {"precedence"}, where=goals.where)
        if found is not SolveStatus.INFEASIBLE:
            break
    return found


def _instances(problem: Problem, budget: TimeBudget) -> Sequence[Instance]:
    """Return the instance without evictions and, if the problem has victims, the instance with evictions after it."""
    ways = (False, True) if problem.victims else (False,)
    return [instance_of(problem, evicting=evicting, deadline=budget.wall.deadline) for evicting in ways]


def _accepted(problem: Problem, budget: TimeBudget) -> tuple[tuple[int, ...], frozenset[int]]:
    """Return the accepted gangs, and the gangs that are proven not to fit beside the accepted gangs before them.

    In a strict queue, no gang is accepted after the first gang of the queue that is not accepted.
    """
    placed, without, unknown = _one_pass(problem, (), budget)
    # a gang may have pod affinity to pods of a later gang, so it may fit once that gang is accepted
    while problem.affinities and without:
        more, without, unknown = _one_pass(problem, placed, budget)
        if more == placed:
            break
        placed = more
    return placed, frozenset() if unknown and problem.affinities else without


def _one_pass(
    problem: Problem, accepted: tuple[int, ...], budget: TimeBudget
) -> tuple[tuple[int, ...], frozenset[int], bool]:
    """Check each gang that is not in `accepted`, in order, and accept the gang if a joint plan exists for it and the
    gangs accepted so far.

    Return the accepted gangs, the gangs that are proven not to fit, and whether the result is unknown for some gang.
    """
    placed, without, unknown = accepted, set[int](), False
    closed = set[str]()
    for gang, rules in enumerate(problem.gangs):
        if gang in placed:
            continue
        found = SolveStatus.INFEASIBLE
        if rules.line not in closed:
            found = _fits(only(problem, (*placed, gang)), budget)
        if found is SolveStatus.FEASIBLE:
            placed = tuple(sorted((*placed, gang)))
            continue
        if found is SolveStatus.INFEASIBLE:
            without.add(gang)
        unknown = unknown or found is SolveStatus.UNKNOWN
        if rules.line:
            closed.add(rules.line)
    return placed, frozenset(without), unknown


def _fits(problem: Problem, budget: TimeBudget) -> SolveStatus:
    """Return FEASIBLE if the gangs of the problem have a joint plan for their minimums, INFEASIBLE if not, else
    UNKNOWN.
    """
    for instance in _instances(problem, budget):
        solved = solve_within(instance, budget, frozenset())
        if isinstance(solved, Solved):
            return SolveStatus.FEASIBLE
        if solved is not SolveStatus.INFEASIBLE:
            return solved
    return SolveStatus.INFEASIBLE


def _shares(problem: Problem, placed: Collection[int], nodes: Nodes, victims: Sequence[int]) -> list[Share | None]:
    """Return each gang's part of a plan for several gangs, by the gang's position; None for gangs not in `placed`."""
    owners = _owners(problem, placed, nodes, victims)
    return [
        Share(
            tuple(nodes[pod_set] for pod_set in gang.pod_sets),
            tuple(victim for victim in victims if owners[victim] == place),
        )
        if place in placed
        else None
        for place, gang in enumerate(problem.gangs)
    ]


def _owners(problem: Problem, placed: Collection[int], nodes: Nodes, victims: Sequence[int]) -> dict[int, int]:
    """Return, by victim, the gang for which the victim is evicted.

    This is the first gang that needs the eviction: it uses a node of the victim, or conflicts with the victim. If the
    victim belongs to a running gang, it is the first gang that needs the eviction of any victim of that running gang.
    """
    new = {gang: list(_new(problem, gang, nodes)) for gang in placed}
    used = {gang: {node for _, node in seats} for gang, seats in new.items()}
    obstacles = {gang: _obstacles(problem, seats) for gang, seats in new.items()}
    owners: dict[int, int] = {}
    for victim in victims:
        same_gang = _same_gang(problem, victim, victims)
        places = {problem.victims[each].node for each in same_gang}
        takers = (gang for gang in placed if used[gang] & places or not obstacles[gang].isdisjoint(same_gang))
        owners[victim] = next(takers, next(iter(placed)))
    return owners


def _new(problem: Problem, gang: int, nodes: Nodes) -> Sequence[tuple[int, int]]:
    """Return the shape and the node of each newly placed member of a gang."""
    return [
        (member.shape, node)
        for pod_set in problem.gangs[gang].pod_sets
        for member, node in zip(problem.sets[pod_set].members, nodes[pod_set], strict=True)
        if member.node is None and node is not None
    ]


def _obstacles(problem: Problem, seats: Sequence[tuple[int, int]]) -> frozenset[int]:
    """Return the victims that conflict with new members on their nodes. `seats`: shape and node of each new member."""
    return frozenset[int]().union(
        *(
            rule.victims
            for rule in problem.conflicts
            if any(shape in rule.shapes and node in rule.nodes for shape, node in seats)
        )
    )


def _same_gang(problem: Problem, victim: int, victims: Sequence[int]) -> list[int]:
    """Return all members of `victims` that are of the same running gang as `victim`. `victim` itself is included."""
    gang = problem.victims[victim].gang
    return [victim] if gang is None else [each for each in victims if problem.victims[each].gang == gang]
