"""The way from a problem to a verified result.

A plan without evictions is sought first. If counting describes the problem exactly, dynamic programming solves it. Else
the domains are solved one by one (branch and bound), or CP-SAT solves the whole problem. A rejection gets an
explanation.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from solver.bounds.domain_cover import too_small
from solver.branch_and_bound.by_domain import solve_by_domains
from solver.capacity import work
from solver.cp_sat.lexicographic import SolverFaultError, SolveStatus
from solver.cp_sat.solve import Solved, solve_model
from solver.deadline import NO_DEADLINE, Deadline, OutOfTimeError
from solver.eviction.solve import solve_evicting
from solver.explain.remedies import explained
from solver.heuristics.greedy import unproven
from solver.heuristics.incumbent import LARGE, LARGE_EVICTING, STARTING, Incumbent, PlanCallback, ignore_plan
from solver.instance import Instance, instance_of
from solver.objective import Nodes, goals_of, is_countable
from solver.plan import Answer, Goal, NoPlan, Plan, Proof
from solver.problem import Limits, Problem
from solver.tree_dp.single_class import solve_tree_dp
from solver.tree_dp.single_class_counts import no_room
from solver.verify.rules import verify

SolutionMethod = Callable[[Instance], Solved | SolveStatus | None]
"""A solution method: a function that solves an instance. It returns None if the method does not apply to this instance.
"""

_RESERVE = 0.1
"""The share of the time limit that is reserved for a greedy plan, in case no other step finds a plan."""
_HALF = 0.5
"""The share of the time that is spent on plans without evictions, as long as no plan without evictions is known."""


def solve(problem: Problem, limits: Limits = Limits()) -> Answer:  # noqa: B008 - limits are immutable
    """Return the best plan for one gang, verified, or the reasons why there is none.

    The goals and their order are those of docs/decisions/0002. A problem gives equal results in every process, as long
    as `limits.deterministic` ends the search and not `limits.seconds`. Raises `SolverFaultError` if CP-SAT contradicts
    itself, or if no method gives a plan that passes the verifier.
    """
    answer = decide(problem, limits)
    return answer if isinstance(answer, Plan) else explained(problem, answer, limits)


def decide(
    problem: Problem,
    limits: Limits,
    wanted: frozenset[str] | None = None,
    *,
    deadline: Deadline = NO_DEADLINE,
    on_plan: PlanCallback = ignore_plan,
) -> Answer:
    """Return the best plan, or a rejection without an explanation, before the deadline.

    `wanted`: the names of the goal terms to optimise (`solver.objective`); None: all. Only tests leave out terms.
    `on_plan` is called with plans that are known before the result, each better than the one before.
    """
    if wanted is not None or not is_countable():
        return by_model(problem, limits, wanted)
    return _as_answer(_Course(problem, limits, deadline, Incumbent(problem, on_plan)).answer())


def by_model(problem: Problem, limits: Limits, wanted: frozenset[str] | None = None) -> Answer:
    """Return the result of CP-SAT alone: a plan without evictions if such a plan exists, else a plan with evictions.

    `wanted`: the names of the goal terms to optimise; None: all.
    """
    answer: Plan | SolveStatus | None = SolveStatus.INFEASIBLE
    for evicting in (False, True) if problem.victims else (False,):
        answer = _attempt(
            instance_of(problem, evicting=evicting), [lambda instance: solve_model(instance, limits, wanted)]
        )
        if answer is not SolveStatus.INFEASIBLE:
            break
    return _as_answer(answer or SolveStatus.UNKNOWN)


class _Course:
    """The course of one solve: the solution methods are tried in order, and `known` keeps the best plan so far.

    `without`: the instance in which no pod may be evicted.
    """

    def __init__(self, problem: Problem, limits: Limits, deadline: Deadline, known: Incumbent) -> None:
        self.problem, self.limits, self.deadline, self.known = problem, limits, deadline, known
        soon = deadline.before(limits.seconds * _RESERVE)
        self.without = instance_of(problem, evicting=False, deadline=soon)

    def answer(self) -> Plan | SolveStatus:
        """Return the best plan, or the best known plan if time runs out. INFEASIBLE if no plan exists, UNKNOWN if no
        plan was found in time.
        """
        answer = self._decided()
        if answer is SolveStatus.UNKNOWN:
            for instance in (self.without, self.evicting) if self.problem.victims else (self.without,):
                if self.known.plan is None:
                    self.known.seek(instance, self.deadline)
        return self.known.or_better(answer)

    @cached_property
    def evicting(self) -> Instance:
        """The instance in which victims may be evicted. Its scarcest resource is the resource that is scarcest without
        evictions.
        """
        return instance_of(self.problem, evicting=True, scarce=self.without.scarce, deadline=self.without.deadline)

    def _decided(self) -> Plan | SolveStatus:
        """Return the best plan without evictions. If no such plan exists, return the result with evictions. UNKNOWN if
        time runs out.
        """
        answer = self._without_evictions()
        if isinstance(answer, Plan) or not self.problem.victims:
            return answer
        if self._without_is_known():
            return SolveStatus.UNKNOWN
        found = _attempt(self.evicting, [_bounded, self._by_search, self._by_model])
        if answer is SolveStatus.UNKNOWN and isinstance(found, Plan):
            return _as_feasible(self.problem, found)
        return found or SolveStatus.UNKNOWN

    def _without_evictions(self) -> Plan | SolveStatus:
        """Return the result without evictions: that of the first method that gives a result."""
        answer = _attempt(self.without, [_bounded, solve_tree_dp])
        if answer is not None:
            return answer
        if work(self.problem) >= LARGE:
            # if pods may be evicted, a greedy plan with evictions is sought first, because it is found sooner
            if self.problem.victims:
                self.known.seek(self.evicting, self.deadline, most=1)
            self.known.seek(self.without, self.without.deadline.share(_HALF))
        instance = replace(self.without, deadline=self._until_known()) if self.problem.victims else self.without
        return _attempt(instance, [self._by_domains, self._by_model]) or SolveStatus.UNKNOWN

    def _early(self, instance: Instance) -> Plan | None:
        """Return the best known plan; None if none is known. If no plan is known and the search may take long, a greedy
        plan is sought first.
        """
        if self.known.plan is None and work(self.problem) >= (LARGE_EVICTING if instance.evicting else LARGE):
            self.known.seek(instance, self.deadline)
        return self.known.plan

    def _until_known(self) -> Deadline:
        """Return the deadline of the search for a plan without evictions: half the remaining time, because the other
        half is for the search with evictions.

        Once a plan without evictions is known, the other search is not needed, and the deadline extends to the whole
        time.
        """
        end = self.without.deadline
        half = end.share(_HALF)

        def left() -> float:
            return end.left() if self._without_is_known() else half.left()

        return Deadline(left)

    def _without_is_known(self) -> bool:
        """Whether the best known plan evicts no pod."""
        return self.known.plan is not None and not self.known.plan.victims

    def _by_domains(self, instance: Instance) -> Solved | SolveStatus | None:
        """Return the best plan by branch and bound over domains; None if the method does not apply. Every plan found on
        the way becomes the incumbent if it is better.
        """
        return solve_by_domains(instance, self.limits, on_plan=lambda nodes: self._offer(instance, nodes))

    def _offer(self, instance: Instance, nodes: Nodes) -> None:
        """Make a plan without evictions the incumbent if it is better than the incumbent. `nodes`: the node of each
        member, by set and rank. Its goals count as not proven.
        """
        goals = unproven(self.problem, goals_of(instance, nodes, ()))
        self.known.offer(Plan(nodes, (), goals, Proof.FEASIBLE))

    def _by_search(self, instance: Instance) -> Solved | SolveStatus | None:
        """Return the best plan with evictions by the search over prices of victims (`solver.eviction`). If the problem
        is large, a greedy plan is sought first.
        """
        return solve_evicting(instance, self.limits, early=lambda: self._early(instance))

    def _by_model(self, instance: Instance) -> Solved | SolveStatus:
        """Solve the whole problem by CP-SAT. If the problem is large, CP-SAT starts from a greedy plan."""
        if self._early(instance) is None and work(self.problem) >= STARTING:
            self.known.seek(instance, self.deadline.share(_RESERVE), most=1)
        return solve_model(instance, self.limits, start=self.known.plan)


def _as_feasible(problem: Problem, plan: Plan) -> Plan:
    """Return the plan with the proof Feasible, because the plan evicts pods and no proof rules out a plan without
    evictions.
    """
    return replace(plan, goals=unproven(problem, plan.goals), proof=Proof.FEASIBLE)


def _bounded(instance: Instance) -> SolveStatus | None:
    """Return INFEASIBLE if counting proves that no domain of the required level can hold the minimum; else None. If the
    instance allows evictions, all victims count as evicted.
    """
    if too_small(instance):
        return SolveStatus.INFEASIBLE
    return SolveStatus.INFEASIBLE if instance.evicting and no_room(instance) else None


def _as_answer(answer: Plan | SolveStatus) -> Answer:
    if isinstance(answer, Plan):
        return answer
    return NoPlan(Proof.INFEASIBLE if answer is SolveStatus.INFEASIBLE else Proof.UNPROVEN)


@dataclass(frozen=True, slots=True)
class _Faulty:
    """A plan that failed the verifier. `faults`: one sentence for each broken rule or wrong goal."""

    faults: tuple[str, ...]


def _attempt(instance: Instance, methods: list[SolutionMethod]) -> Plan | SolveStatus | None:
    """Return the result of the first of `methods` that gives one and whose plan passes the verifier; None if no
    method gives a result.

    UNKNOWN if a method runs out of time. Raises `SolverFaultError` if methods gave plans and none of the plans passes
    the verifier.
    """
    faults: list[str] = []
    for method in methods:
        try:
            solved = method(instance)
        except OutOfTimeError:
            return SolveStatus.UNKNOWN
        if isinstance(solved, SolveStatus):
            return solved
        if solved is not None:
            checked = _checked(instance, solved)
            if isinstance(checked, Plan):
                return checked
            faults.extend(checked.faults)
    if faults:
        raise SolverFaultError("no plan passes the verifier: " + "; ".join(faults))
    return None


def _checked(instance: Instance, solved: Solved) -> Plan | _Faulty:
    """Return the placement `solved` as a plan with its goals and proof. If the verifier finds faults in it, return
    these.
    """
    proof = Proof.OPTIMAL if solved.proven else Proof.FEASIBLE
    goals = goals_of(instance, solved.nodes, solved.victims, solved.reached)
    if solved.cut:
        goals = _as_far_as_reached(instance.problem, goals, solved)
    plan = Plan(solved.nodes, solved.victims, goals, proof)
    faults = verify(instance.problem, plan)
    return _Faulty(faults) if faults else plan


def _as_far_as_reached(problem: Problem, goals: tuple[Goal, ...], solved: Solved) -> tuple[Goal, ...]:
    """Return the goals of a plan whose search stopped early. The goals that the search did not reach get the weakest
    bound, which holds for any plan, so none of them counts as proven.
    """
    reached = {each.goal for each in solved.reached}
    return tuple(
        goal if goal.name in reached else open_goal
        for goal, open_goal in zip(goals, unproven(problem, goals), strict=True)
    )
