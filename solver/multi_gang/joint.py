"""Several gangs of one priority that compete for the same nodes, planned together.

They become one problem whose sets are the sets of all gangs, with goals summed over the gangs (docs/decisions/0002,
"Several gangs"): minimums first, an earlier gang's never given up for a later one's; then the goals in their order.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from solver.cp_sat.joint_goal_terms import JointGoals
from solver.cp_sat.lexicographic import Found, TimeBudget, time_budget_of
from solver.cp_sat.solve import Solved, solve_within
from solver.deadline import NO_DEADLINE, Deadline
from solver.instance import Instance, instance_of
from solver.multi_gang.all_placed import crowded_out, place_all
from solver.multi_gang.merge import Merged, merged
from solver.objective import Nodes, is_countable, terms
from solver.plan import Plan, Proof
from solver.problem import Limits, Problem
from solver.verify.rules import broken_rules


@dataclass(frozen=True, slots=True)
class JointProblem:
    """Gangs in the order of their precedence, each stated alone on the same picture and the same tree of levels.

    Nodes, resources and victims of the gangs are the same where they have the same name. `units[g][r]`: the size of
    one unit of resource r of gang g, in a base unit that all gangs share. Not for gangs with several sets whose own
    minimums do not add up to the gang's (`can_join`).
    """

    gangs: tuple[Problem, ...]
    units: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Share:
    """What one gang got: nodes by set and rank, and the victims whose going it needs; positions of its own problem."""

    nodes: Nodes
    victims: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class JointAnswer:
    """A share for every gang, None for one whose minimum cannot be had beside those of the gangs before it.

    `proof`: OPTIMAL where all goals are proven for the gangs that have a share, and that no other could have one;
    else FEASIBLE. `levels`: where all gangs that have room (`solver.multi_gang.all_placed.crowded_out`) are placed
    whole and without evictions, on so many levels, the widest first, the domains of all gangs together are proven to be
    as few as can be.
    """

    shares: tuple[Share | None, ...]
    proof: Proof
    levels: int = 0


def can_join(problem: Problem) -> bool:
    """Whether a gang can be part of a joint problem."""
    filled = [pod_set for pod_set in problem.sets if pod_set.members]
    if problem.multiples or problem.spreads:
        return False
    return len(filled) == 1 or sum(pod_set.minimum for pod_set in filled) >= problem.minimum


def size(joint: JointProblem) -> int:
    """A measure of the effort: members that must be told apart, times the nodes that they may go to."""
    return sum(_kinds(problem) * len(problem.nodes) for problem in joint.gangs)


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


def faults_of(joint: JointProblem, answer: JointAnswer) -> tuple[str, ...]:
    """The hard rules that an answer breaks, gang by gang and together, as sentences; empty where it is fine."""
    if len(answer.shares) != len(joint.gangs) or answer.proof not in (Proof.OPTIMAL, Proof.FEASIBLE):
        return ("the answer does not speak of every gang",)
    placed = [gang for gang, share in enumerate(answer.shares) if share is not None]
    shares = [share for share in answer.shares if share is not None]
    faults: list[str] = []
    for gang, share in zip(placed, shares, strict=True):
        problem = joint.gangs[gang]
        alone = Plan(share.nodes, tuple(_known(joint, answer, problem)), (), Proof.FEASIBLE)
        faults += broken_rules(problem, alone)
    if faults or not placed:
        return tuple(faults)
    if answer.levels and not _everybody(joint, answer):
        return ("the answer speaks of levels, and not everybody is placed without evictions",)
    if not any(share.victims for share in shares):
        return tuple(_overfull(joint, answer))
    merged = _merged(joint, placed)
    nodes, victims = merged.joined([share.nodes for share in shares], [share.victims for share in shares])
    return broken_rules(merged.problem, Plan(nodes, victims, (), Proof.FEASIBLE))


def _everybody(joint: JointProblem, answer: JointAnswer) -> bool:
    """Whether all gangs are placed whole and nobody has to go; those without a share must have no room."""
    missing = {gang for gang, share in enumerate(answer.shares) if share is None}
    if missing and missing != crowded_out(joint.gangs, joint.units):
        return False
    return not any(
        share.victims or any(node is None for row in share.nodes for node in row)
        for share in answer.shares
        if share is not None
    )


def _overfull(joint: JointProblem, answer: JointAnswer) -> Iterator[str]:
    """Nodes on which the new members of all gangs ask for more than is free to each of them; nobody is evicted."""
    asked: Counter[tuple[str, str]] = Counter()
    free: dict[tuple[str, str], int] = {}
    for problem, units, share in zip(joint.gangs, joint.units, answer.shares, strict=True):
        for pod_set, row in zip(problem.sets, share.nodes if share is not None else (), strict=share is not None):
            for member, node in zip(pod_set.members, row, strict=True):
                if node is None or member.node is not None:
                    continue
                for name, unit, wants, has in zip(
                    problem.resources,
                    units,
                    problem.shapes[member.shape].requests,
                    problem.nodes[node].free,
                    strict=True,
                ):
                    place = problem.nodes[node].name, name
                    asked[place] += wants * unit
                    free[place] = min(has * unit, free.get(place, has * unit))
    for (node_name, name), amount in asked.items():
        if amount > 0 and amount > free[node_name, name]:
            yield f"{node_name} has too little {name}"


def _known(joint: JointProblem, answer: JointAnswer, problem: Problem) -> list[int]:
    """All victims of the joint plan that a gang's own problem knows."""
    keys = {
        joint.gangs[gang].victims.keys[victim]
        for gang, share in enumerate(answer.shares)
        if share is not None
        for victim in share.victims
    }
    return [position for position, key in enumerate(problem.victims.keys) if key in keys] if keys else []


def _merged(joint: JointProblem, gangs: Sequence[int]) -> Merged:
    return merged([joint.gangs[gang] for gang in gangs], [joint.units[gang] for gang in gangs])


def _best(joint: JointProblem, gangs: Sequence[int], budget: TimeBudget) -> tuple[Solved, Merged] | Found:
    """The best plan that has the minimum of all these gangs, without evictions where that is possible."""
    merged = _merged(joint, gangs)
    goals = JointGoals(merged.sets)
    found = Found.INFEASIBLE
    for evicting in (False, True) if merged.problem.victims else (False,):
        solved = solve_within(
            _instance(merged.problem, budget, evicting=evicting), budget, terms() | {"precedence"}, goals.where
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
        found = _fits(_merged(joint, (*placed, gang)).problem, budget)
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


def _kinds(problem: Problem) -> int:
    """Members of a set that are all alike are counted, others are told apart."""
    return sum(
        1 if len({member.shape for member in pod_set.members}) == 1 else len(pod_set.members)
        for pod_set in problem.sets
        if pod_set.members
    )
