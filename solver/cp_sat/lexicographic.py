"""Lexicographic search: goals are proven one after the other. Each result is fixed as a constraint before the next goal
is solved.

Neighbouring goals with few possible values are proven in one solve, as digits of one number. (CP-SAT has no
lexicographic objective; its maintainers recommend several objectives in sequence, google/or-tools#1344.)
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from math import inf

from solver.cp_model import (
    FEASIBLE,
    INFEASIBLE,
    MODEL_INVALID,
    OPTIMAL,
    UNKNOWN,
    CpModel,
    CpSolver,
)
from solver.cp_sat.linear import Sum
from solver.deadline import NO_DEADLINE, Deadline
from solver.objective import Reached
from solver.problem import Limits

SMALL = 600
"""Up to this number of variables, presolve costs more time than it saves."""
_DIGITS = 1 << 24
"""The largest product of the spans (numbers of possible values) of stages that are solved as one number."""
_SHARE = 0.5
"""The share of the remaining deterministic time that the solve of one stage may take."""
_PREFERENCE = 0.02
"""The most deterministic time for a preference that is no goal, such as first node names: a tenth of a second at most.
"""
_MOMENT = 1.0
"""The deterministic time, and the seconds, for a step without a search. The step gets this time even if the budget is
spent.
"""


class SolveStatus(Enum):
    """The outcome of one solve by CP-SAT: optimal or feasible with a solution, infeasible by proof, or unknown."""

    OPTIMAL = auto()
    FEASIBLE = auto()
    INFEASIBLE = auto()
    UNKNOWN = auto()


class SolverFaultError(Exception):
    """CP-SAT contradicts its contract or an earlier result, or no solution method gives a valid plan."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A sum to minimise, as one part of a goal. `least` and `most`: bounds of the sum that hold for every solution."""

    goal: str
    part: str
    sum: Sum
    least: int
    most: int


@dataclass(slots=True)
class Wall:
    """The remaining wall time. `seconds`: how long CP-SAT may still run. `deadline`: when all work must end."""

    seconds: float
    deadline: Deadline = NO_DEADLINE

    @property
    def left(self) -> float:
        """The seconds until `seconds` are used up or the deadline comes, whichever is earlier; 0 or less if this time
        has passed.
        """
        return min(self.seconds, self.deadline.left())


@dataclass(slots=True)
class TimeBudget:
    """The remaining time, shared by all searches of one solve.

    `deterministic`: in CP-SAT's deterministic time, the limit that normally ends a search. `wall` only stops a solve
    that takes too long. The wall time is never divided among searches: with a small share of it, results would depend
    on how busy the machine is.
    """

    deterministic: float
    wall: Wall

    @property
    def spent(self) -> bool:
        """Whether no time is left."""
        return self.deterministic <= 0 or self.wall.left <= 0

    def charge(self, solver: CpSolver) -> None:
        """Subtract the deterministic and the wall time that this solver has just used."""
        self.deterministic -= solver.deterministic_time
        self.wall.seconds -= solver.wall_time

    def portion(self, share: float) -> "TimeBudget":
        """Return a budget with the given share of the deterministic time. The wall time is not divided: both budgets
        have the same `wall`.
        """
        return TimeBudget(self.deterministic * share, self.wall)


def single_worker() -> CpSolver:
    """Return CP-SAT with one worker and no interleaving. With other settings CP-SAT 9.15 crashed, or its results
    varied.
    """
    solver = CpSolver()
    parameters = solver.parameters
    parameters.num_workers = 1
    parameters.interleave_search = False
    parameters.random_seed = 0
    parameters.log_search_progress = False
    parameters.catch_sigint_signal = False
    return solver


def time_budget_of(limits: Limits, deadline: Deadline = NO_DEADLINE) -> TimeBudget:
    """Return a budget of all the time that the limits allow, but no longer than until the deadline."""
    return TimeBudget(limits.deterministic, Wall(limits.seconds, deadline))


@dataclass(slots=True)
class Search:
    """A lexicographic search on one model. `solution`: the present solution, the best one so far, as values of all
    variables; empty if no solution is known.

    `reached`: value and bound of each stage solved so far. `proven`: whether the values of all these stages are proven
    to be optimal.
    """

    cp: CpModel
    budget: TimeBudget
    linearization: int = 1
    solution: list[int] = field(default_factory=list)
    reached: list[Reached] = field(default_factory=list)
    proven: bool = True
    presolve: bool = True

    def any_solution(self) -> SolveStatus:
        """Look for any solution, whatever its goal values. It becomes the present solution. Return CP-SAT's status."""
        self.cp.clear_objective()  # type: ignore[no-untyped-call]
        found, _ = self._solve(share=1.0)
        return found

    def adopt(self, values: dict[int, int]) -> SolveStatus:
        """Make a solution with the given values of some variables the present solution. `values`: by index of a
        variable; CP-SAT finds the values of all other variables.

        Return CP-SAT's status: `SolveStatus.INFEASIBLE` if no solution has these values.
        """
        self.cp.clear_objective()  # type: ignore[no-untyped-call]
        solver = self._solver(1.0)
        solver.parameters.max_deterministic_time = _MOMENT
        solver.parameters.max_time_in_seconds = max(_MOMENT, self.budget.wall.left)
        solver.parameters.fix_variables_to_their_hinted_value = True
        self._hint_at(values)
        found, _ = self._run(solver)
        self.cp.clear_hints()  # type: ignore[no-untyped-call]
        return found

    def accept(self, stages: Iterable[Stage], reached: Iterable[Reached]) -> None:
        """Fix the stages at the values in `reached`, which another search has proven. In the present solution, the
        stages must have these values already.
        """
        values = {(each.goal, each.part): each for each in reached}
        for stage in stages:
            known = values.get((stage.goal, stage.part))
            if known is not None:
                self.reached.append(known)
                self.hold(stage.sum, known.value)

    def minimise(self, stages: Iterable[Stage]) -> None:
        """Minimise the stages in their order, and fix each stage at its value. A solution must be known.

        If time runs out, a stage is fixed at the best value found, and `proven` becomes False.
        """
        batch: list[tuple[Stage, int]] = []
        size = 1
        for stage in stages:
            span = self._span(stage, first=size == 1)
            if size > 1 and span > 1 and (size * span > _DIGITS or not self._small()):
                self._close(batch)
                batch, size = [], 1
                span = self._span(stage, first=True)
            batch.append((stage, span))
            size *= span
        self._close(batch)

    def _span(self, stage: Stage, *, first: bool) -> int:
        """Return how many values a stage can have. `first`: all earlier stages of its batch (the stages that are
        proven in one solve) have only one possible value.

        If `first`, the stage's present solution bounds its optimum from above. Otherwise its optimum may exceed its
        present value, because an earlier stage may improve at its cost.
        """
        known = first and stage.sum.known(self.solution)
        return (stage.sum.value(self.solution) if known else stage.most) - stage.least + 1

    def try_improve(self, gain: Sum) -> bool:
        """Return whether some solution has a positive `gain` and the same values of all fixed stages. The solution with
        the largest gain becomes the present solution.

        If time runs out, `proven` becomes False.
        """
        if not gain.terms:
            return False
        before = self.solution
        self.cp.maximize(gain.expression())
        found, _ = self._solve(share=_SHARE)
        if found is not SolveStatus.OPTIMAL:
            self.proven = False
        if gain.known(self.solution) and gain.value(self.solution) > 0:
            return True
        self.solution = before
        return False

    def lower(self, number: Sum) -> None:
        """Minimise `number` among the solutions that keep the values of all fixed stages. The value that is reached is
        not fixed.
        """
        before = self.solution
        self.cp.minimize(number.expression())
        found, _ = self._solve(share=_SHARE)
        if found is not SolveStatus.OPTIMAL:
            self.proven = False
        if number.known(before) and number.value(before) < number.value(self.solution):
            self.solution = before

    def prefer(self, number: Sum) -> None:
        """Look, for a short deterministic time, for a smaller `number` among the solutions that keep the values of all
        fixed stages.

        `number` is not fixed, and the value reached may not be the optimum. `proven` stays as it is.
        """
        before = self.solution
        self.cp.minimize(number.expression())
        self._solve(share=1.0, most=_PREFERENCE)
        if number.known(before) and number.value(before) < number.value(self.solution):
            self.solution = before

    def hold(self, fixed: Sum, value: int) -> None:
        """Fix the sum `fixed` at `value` for all further solves. The present solution must have this value."""
        if fixed.terms:
            self.cp.add(fixed.expression() == value)

    def _close(self, batch: Sequence[tuple[Stage, int]]) -> None:
        """Finish a batch: stages that are proven in one solve. If a stage can still improve, minimise all stages of the
        batch as one number. Then record and fix the values of the stages.
        """
        if any(span > 1 or not stage.sum.known(self.solution) for stage, span in batch):
            self._prove(batch)
        else:
            self._note(batch, proven=True, bound=None)

    def _prove(self, batch: Sequence[tuple[Stage, int]]) -> None:
        """Minimise a batch of stages as one number whose digits are the stages' values (mixed radix: each digit has as
        many values as its stage). `batch`: pairs of a stage and how many values it can have.
        """
        weight, number = 1, Sum()
        for stage, span in reversed(batch):
            self.cp.add_linear_constraint(stage.sum.expression(), stage.least, stage.least + span - 1)
            number += stage.sum.times(weight)
            weight *= span
        self.cp.minimize(number.expression())
        before = self.solution
        found, bound = self._solve(share=_SHARE)
        if number.known(before) and number.value(before) < number.value(self.solution):
            self.solution = before
        self._note(batch, proven=found is SolveStatus.OPTIMAL, bound=bound if len(batch) == 1 else None)

    def _note(self, batch: Sequence[tuple[Stage, int]], *, proven: bool, bound: int | None) -> None:
        """Record the value and the bound of each stage of a batch (stages that are proven in one solve), and fix each
        stage at its value.

        `proven`: whether the values are proven optimal. `bound`: the bound that CP-SAT reports for a batch of one
        stage; else None.
        """
        proven = proven and self.proven
        for stage, _ in batch:
            if not stage.sum.known(self.solution):
                self.reached.append(Reached(stage.goal, stage.part, stage.most, stage.least))
                continue
            value = stage.sum.value(self.solution)
            least = value if proven else max(stage.least, stage.least if bound is None else bound)
            self.reached.append(Reached(stage.goal, stage.part, value, min(least, value)))
            self.hold(stage.sum, value)
        self.proven = proven

    def _small(self) -> bool:
        """Return whether the model has so few variables that CP-SAT's presolve takes longer than it saves."""
        return len(self.solution) <= SMALL

    def _solve(self, *, share: float, most: float = inf) -> tuple[SolveStatus, int | None]:
        """Run CP-SAT once, and make the solution that it finds the present solution. Return the status and, if the
        status is FEASIBLE, CP-SAT's bound of the objective; else None.

        Nothing runs if the budget is spent. `share`: the share of the remaining deterministic time that the run may
        take. `most`: an upper limit of the run's deterministic time.
        """
        if self.budget.spent:
            return SolveStatus.UNKNOWN, None
        if self.solution and not self._small():
            self._hint_at(dict(enumerate(self.solution)))
        solver = self._solver(share)
        solver.parameters.max_deterministic_time = min(most, solver.parameters.max_deterministic_time)
        return self._run(solver)

    def _run(self, solver: CpSolver) -> tuple[SolveStatus, int | None]:
        status = solver.solve(self.cp)
        self.budget.charge(solver)
        match status:
            case _ if status == OPTIMAL:
                self.solution = list(solver.response_proto.solution)
                return SolveStatus.OPTIMAL, None
            case _ if status == FEASIBLE:
                self.solution = list(solver.response_proto.solution)
                return SolveStatus.FEASIBLE, round(solver.best_objective_bound)
            case _ if status == INFEASIBLE:
                return SolveStatus.INFEASIBLE, None
            case _ if status == UNKNOWN:
                return SolveStatus.UNKNOWN, None
            case _ if status == MODEL_INVALID:
                raise SolverFaultError(f"CP-SAT refuses the model: {self.cp.validate()}")
            case _:
                raise SolverFaultError(f"CP-SAT answers with an unknown status {int(status)}")

    def _hint_at(self, values: dict[int, int]) -> None:
        self.cp.clear_hints()  # type: ignore[no-untyped-call]
        hint = self.cp.proto.solution_hint
        hint.vars.extend(list(values))
        hint.values.extend(list(values.values()))

    def _solver(self, share: float) -> CpSolver:
        solver = single_worker()
        parameters = solver.parameters
        parameters.max_deterministic_time = self.budget.deterministic * share
        parameters.max_time_in_seconds = max(0.0, self.budget.wall.left)  # CP-SAT refuses values below 0
        parameters.linearization_level = self.linearization
        parameters.symmetry_level = 0  # detecting symmetries took 5 s whatever the limit
        if self._small() or not self.presolve:
            parameters.cp_model_presolve = False
            parameters.cp_model_probing_level = 0
        return solver
