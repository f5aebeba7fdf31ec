"""The way from a problem to a verified answer: without evictions where that is possible; by dynamic programming where
counting tells the whole truth, else domain by domain (branch and bound) or by CP-SAT as a whole; and an explanation
where the answer is no.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from solver.bounds.domain_cover import too_small
from solver.branch_and_bound.by_domain import solve_by_domains
from solver.capacity import work
from solver.cp_sat.lexicographic import Found, SolverFaultError
from solver.cp_sat.solve import Solved, solve_model
from solver.deadline import NO_DEADLINE, Deadline, OutOfTimeError
from solver.eviction.solve import solve_evicting
from solver.explain.remedies import explained
from solver.heuristics.greedy import unproven
from solver.heuristics.incumbent import LARGE, LARGE_EVICTING, STARTING, Incumbent, Tell, to_nobody
from solver.instance import Instance, instance_of
from solver.objective import Nodes, goals_of, is_countable
from solver.plan import Answer, Goal, NoPlan, Plan, Proof
from solver.problem import Limits, Problem
from solver.tree_dp.single_class import solve_tree_dp
from solver.tree_dp.single_class_counts import no_room
from solver.verify.rules import verify

Way = Callable[[Instance], Solved | Found | None]
"""Solves an instance; None where this way does not know how."""

_RESERVE = 0.1
"""The share of the time that is kept for a quick plan, where nothing else has led to one."""
_HALF = 0.5
"""The share of the time in which a plan without evictions is sought, where no quick one is known."""


def solve(problem: Problem, limits: Limits = Limits()) -> Answer:  # noqa: B008 - limits are immutable
    """The best plan for one gang, verified, or why there is none.

    The goals and their order are those of docs/decisions/0002. The same problem gives the same answer in every
    process, as long as `limits.deterministic` and not `limits.seconds` ends the search. Raises `SolverFaultError`
    where CP-SAT contradicts itself or no way gives a plan that passes the verifier.
    """
    answer = decide(problem, limits)
    return answer if isinstance(answer, Plan) else explained(problem, answer, limits)


def decide(
    problem: Problem,
    limits: Limits,
    wanted: frozenset[str] | None = None,
    *,
    deadline: Deadline = NO_DEADLINE,
    tell: Tell = to_nobody,
) -> Answer:
    """The answer without an explanation, before the deadline. `wanted`: the terms to be heeded; leaving one out is for
    tests. `tell` is given plans that are known before the answer, each better than the one before.
    """
    if wanted is not None or not is_countable():
        return by_model(problem, limits, wanted)
    return _as_answer(_Course(problem, limits, deadline, Incumbent(problem, tell)).answer())


def by_model(problem: Problem, limits: Limits, wanted: frozenset[str] | None = None) -> Answer:
    """The answer that CP-SAT alone gives."""
    answer: Plan | Found | None = Found.INFEASIBLE
    for evicting in (False, True) if problem.victims else (False,):
        answer = _attempt(
            instance_of(problem, evicting=evicting), [lambda instance: solve_model(instance, limits, wanted)]
        )
        if answer is not Found.INFEASIBLE:
            break
    return _as_answer(answer or Found.UNKNOWN)


class _Course:
    """One solve: what is tried, in which order, and the best plan known so far."""

    def __init__(self, problem: Problem, limits: Limits, deadline: Deadline, known: Incumbent) -> None:
        self.problem, self.limits, self.deadline, self.known = problem, limits, deadline, known
        soon = deadline.before(limits.seconds * _RESERVE)
        self.without = instance_of(problem, evicting=False, deadline=soon)

    def answer(self) -> Plan | Found:
        """The best plan, or any where there is no time for that, or that there is none."""
        answer = self._decided()
        if answer is Found.UNKNOWN:
            for instance in (self.without, self.evicting) if self.problem.victims else (self.without,):
                if self.known.plan is None:
                    self.known.seek(instance, self.deadline)
        return self.known.or_better(answer)

    @cached_property
    def evicting(self) -> Instance:
        """The instance with evictions."""
        return instance_of(self.problem, evicting=True, scarce=self.without.scarce, deadline=self.without.deadline)

    def _decided(self) -> Plan | Found:
        """Without evictions where that is possible, else with them."""
        answer = self._without_evictions()
        if isinstance(answer, Plan) or not self.problem.victims:
            return answer
        if self._without_is_known():
            return Found.UNKNOWN
        found = _attempt(self.evicting, [_bounded, self._by_search, self._by_model])
        if answer is Found.UNKNOWN and isinstance(found, Plan):
            return _unsure(self.problem, found)
        return found or Found.UNKNOWN

    def _without_evictions(self) -> Plan | Found:
        answer = _attempt(self.without, [_bounded, solve_tree_dp])
        if answer is not None:
            return answer
        if work(self.problem) >= LARGE:
            if self.problem.victims:  # with them more is possible: such a plan is there sooner
                self.known.seek(self.evicting, self.deadline, most=1)
            self.known.seek(self.without, self.without.deadline.share(_HALF))
        instance = replace(self.without, deadline=self._until_known()) if self.problem.victims else self.without
        return _attempt(instance, [self._by_domains, self._by_model]) or Found.UNKNOWN

    def _early(self, instance: Instance) -> Plan | None:
        """A quick plan before a search that may take long."""
        if self.known.plan is None and work(self.problem) >= (LARGE_EVICTING if instance.evicting else LARGE):
            self.known.seek(instance, self.deadline)
        return self.known.plan

    def _until_known(self) -> Deadline:
        """Half of the time, as long as no plan without evictions is known: then they are not looked at any more."""
        end = self.without.deadline
        half = end.share(_HALF)

        def left() -> float:
            return end.left() if self._without_is_known() else half.left()

        return Deadline(left)

    def _without_is_known(self) -> bool:
        return self.known.plan is not None and not self.known.plan.victims

    def _by_domains(self, instance: Instance) -> Solved | Found | None:
        return solve_by_domains(instance, self.limits, tell=lambda nodes: self._offer(instance, nodes))

    def _offer(self, instance: Instance, nodes: Nodes) -> None:
        """Take a plan without evictions that is known to be one, of which not everything is proven yet."""
        goals = unproven(self.problem, goals_of(instance, nodes, ()))
        self.known.offer(Plan(nodes, (), goals, Proof.FEASIBLE))

    def _by_search(self, instance: Instance) -> Solved | Found | None:
        return solve_evicting(instance, self.limits, early=lambda: self._early(instance))

    def _by_model(self, instance: Instance) -> Solved | Found:
        if self._early(instance) is None and work(self.problem) >= STARTING:
            self.known.seek(instance, self.deadline.share(_RESERVE), most=1)
        return solve_model(instance, self.limits, start=self.known.plan)


def _unsure(problem: Problem, plan: Plan) -> Plan:
    """A plan with evictions where it is not known whether there is one without."""
    return replace(plan, goals=unproven(problem, plan.goals), proof=Proof.FEASIBLE)


def _bounded(instance: Instance) -> Found | None:
    """No, where by counting no domain of the required level can hold the minimum, whoever is evicted."""
    if too_small(instance):
        return Found.INFEASIBLE
    return Found.INFEASIBLE if instance.evicting and no_room(instance) else None


def _as_answer(answer: Plan | Found) -> Answer:
    if isinstance(answer, Plan):
        return answer
    return NoPlan(Proof.INFEASIBLE if answer is Found.INFEASIBLE else Proof.UNPROVEN)


@dataclass(frozen=True, slots=True)
class _Faulty:
    """A plan that did not pass."""

    faults: tuple[str, ...]


def _attempt(instance: Instance, ways: list[Way]) -> Plan | Found | None:
    """The answer of the first way that knows one and whose plan passes the verifier; None where no way knows."""
    faults: list[str] = []
    for way in ways:
        try:
            solved = way(instance)
        except OutOfTimeError:
            return Found.UNKNOWN
        if isinstance(solved, Found):
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
    proof = Proof.OPTIMAL if solved.proven else Proof.FEASIBLE
    goals = goals_of(instance, solved.nodes, solved.victims, solved.reached)
    if solved.cut:
        goals = _as_far_as_reached(instance.problem, goals, solved)
    plan = Plan(solved.nodes, solved.victims, goals, proof)
    faults = verify(instance.problem, plan)
    return _Faulty(faults) if faults else plan


def _as_far_as_reached(problem: Problem, goals: tuple[Goal, ...], solved: Solved) -> tuple[Goal, ...]:
    """The goals with bounds that hold for any plan for those that were not looked at any more."""
    reached = {each.goal for each in solved.reached}
    return tuple(
        goal if goal.name in reached else open_goal
        for goal, open_goal in zip(goals, unproven(problem, goals), strict=True)
    )
