"""Solves an instance by CP-SAT: all goals in their order. Among equally good plans, it prefers nodes whose names come
first.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from solver.bounds.member_classes import MemberClass, alike, by_shape, each_alone
from solver.cp_sat import goal_terms as goals
from solver.cp_sat.constraint_model import all_placed, member_solution, model_of, solution_of
from solver.cp_sat.lexicographic import Search, SolverFaultError, SolveStatus, Stage, TimeBudget, time_budget_of
from solver.cp_sat.linear import one, total
from solver.cp_sat.variables import Model
from solver.cp_sat.victim_tie_break import prefer_started_last
from solver.deadline import OutOfTimeError
from solver.instance import Instance
from solver.objective import Nodes, Reached, SolvePhase, in_order, terms
from solver.plan import Plan
from solver.problem import Limits

Stated = tuple[goals.GoalStages, ...]
"""The functions that state the goal terms of one `SolvePhase` as stages. The stages of the next phase depend on the
values that this phase reaches.
"""

_MOST_SEATS = 400_000
"""The most variables for members on nodes in a model. A larger model would take seconds to state, and too much
memory.
"""
_HOW_MANY = (SolvePhase.PRICE, SolvePhase.SIZE)
_WHERE = (SolvePhase.SPREAD, SolvePhase.START, SolvePhase.ROOM)


@dataclass(frozen=True, slots=True)
class Solved:
    """The best placement of an instance that was found: nodes by set and rank, victims, and the value and bound of each
    stage.

    `proven`: all stages are proven optimal. `cut`: the solve ended before all goals were solved, because time ran out
    or the model would have been too large. Then goals without a stage in `reached` are not proven.
    """

    nodes: Nodes
    victims: tuple[int, ...]
    reached: tuple[Reached, ...]
    proven: bool
    cut: bool = False


@dataclass(frozen=True, slots=True)
class _Asked:
    """The options of one solve.

    `wanted`: the names of the goal terms to optimise. `where`: the functions that state the terms from compactness to
    waste, by phase. `start`: the plan from which the search starts; None: any solution. `least`: lower bounds of stages
    that are known already, by goal and part.
    """

    wanted: frozenset[str]
    where: tuple[Stated, ...]
    start: Plan | None
    least: Mapping[tuple[str, str], int]


def stated(*phases: SolvePhase) -> tuple[Stated, ...]:
    """Return the functions that state the terms of these phases, in the order of the goals."""
    return tuple(tuple(goals.TERMS[name] for name in names) for names in in_order(*phases))


def solve_model(
    instance: Instance, limits: Limits, wanted: frozenset[str] | None = None, start: Plan | None = None
) -> Solved | SolveStatus:
    """Return the best placement of an instance by CP-SAT.

    `SolveStatus.INFEASIBLE`: it is confirmed that no placement exists. `SolveStatus.UNKNOWN`: time ran out, or the
    model would be too large. `wanted`: the names of the terms to optimise (`solver.objective`); None: all. `start`: a
    plan from which the search starts, if the model allows this plan.
    """
    return solve_within(instance, time_budget_of(limits, instance.deadline), wanted, start=start)


def solve_within(
    instance: Instance,
    budget: TimeBudget,
    wanted: frozenset[str] | None = None,
    *,
    where: tuple[Stated, ...] | None = None,
    start: Plan | None = None,
    least: Mapping[tuple[str, str], int] = MappingProxyType({}),
) -> Solved | SolveStatus:
    """Return the best placement of an instance by CP-SAT, within a time budget that several searches share.

    `SolveStatus.INFEASIBLE`: it is confirmed that no placement exists. `SolveStatus.UNKNOWN`: time ran out, or the
    model would be too large. `wanted`: the names of the goal terms to optimise; None: all. `where`: functions that
    state the terms from compactness to waste, by phase; None: those for one gang. `start`: a plan from which the search
    starts; None: any solution. `least`: lower bounds of stages that are known already, by goal and part.
    """
    asked = _Asked(terms() if wanted is None else wanted, where or stated(*_WHERE), start, least)
    try:
        return _solved_within(instance, budget, asked)
    except OutOfTimeError:
        return SolveStatus.UNKNOWN


def _solved_within(instance: Instance, budget: TimeBudget, asked: _Asked) -> Solved | SolveStatus:
    """Return the best placement under the options `asked`. Raises `OutOfTimeError` if time runs out before a solution
    is known.
    """
    together = alike(instance)
    counted = by_shape(instance) if together is None else None
    if counted is not None:
        return _counted_first(instance, counted, budget, asked)
    started = _started(instance, together or each_alone(instance), budget, asked.start)
    if isinstance(started, SolveStatus):
        return started
    return _continued(*started, (*stated(*_HOW_MANY, SolvePhase.WHO), *asked.where), asked)


def seat_count(instance: Instance) -> int:
    """Return the number of variables for members on nodes in the instance's model. It measures a solve's effort."""
    return _seats_of(instance, alike(instance) or by_shape(instance) or each_alone(instance))


def _seats_of(instance: Instance, kinds: Sequence[MemberClass]) -> int:
    """Return how many variables for members on nodes a model with the member classes `kinds` has."""
    open_nodes = np.count_nonzero(instance.capacity, axis=1).tolist()
    return sum(open_nodes[kind.shape] for kind in kinds)


def _started(
    instance: Instance, kinds: tuple[MemberClass, ...], budget: TimeBudget, start: Plan | None
) -> tuple[Model, Search] | SolveStatus:
    """Return a model and a search with a first solution: the plan `start` if the model allows it, else any solution. If
    no solution is found, return INFEASIBLE or UNKNOWN.
    """
    if _seats_of(instance, kinds) > _MOST_SEATS:
        return SolveStatus.UNKNOWN
    model = model_of(instance, kinds)
    search = Search(model.cp, budget, linearization=2)
    values = None if start is None else solution_of(start, model)
    if values is not None and search.adopt(values) in {SolveStatus.OPTIMAL, SolveStatus.FEASIBLE}:
        return model, search
    match search.any_solution():
        case SolveStatus.INFEASIBLE:
            return _confirmed(instance, kinds, budget)
        case SolveStatus.UNKNOWN:
            return SolveStatus.UNKNOWN
        case SolveStatus.OPTIMAL | SolveStatus.FEASIBLE:
            return model, search


def _counted_first(
    instance: Instance,
    kinds: tuple[MemberClass, ...],
    budget: TimeBudget,
    asked: _Asked,
) -> Solved | SolveStatus:
    """Solve the goals that depend only on counts of members first, on a model over member classes. Then solve the other
    goals on a model over single members.

    The model over member classes has far fewer solutions, because it does not distinguish members of one class. The
    search over single members starts from its solution.
    """
    started = _started(instance, kinds, budget, asked.start)
    if isinstance(started, SolveStatus):
        return started
    counts, search = started
    wanted, where = asked.wanted, asked.where
    how_many = phases = stated(*_HOW_MANY)
    try:
        for phase in how_many:
            search.minimise(_stages(counts, search, phase, asked))
        if all_placed(counts, search.solution):
            phases = (*how_many, *where)
            for phase in where:
                search.minimise(_stages(counts, search, phase, asked))
        if wanted <= terms(counted=True) and (len(phases) > len(how_many) or "compactness" not in wanted):
            return _continued(counts, search, (), asked)
        members, single = _member_model(counts, search, budget)
        for phase in phases:
            single.accept(_stages(members, single, phase, asked), search.reached)
    except OutOfTimeError:
        return _cut(counts, search)
    left = () if len(phases) > len(how_many) else (*stated(SolvePhase.WHO), *where)
    return _continued(members, single, left, asked)


def _member_model(counts: Model, search: Search, budget: TimeBudget) -> tuple[Model, Search]:
    """Return a model with one class per member, and a search on it that starts from the solution of `search`, a search
    on the model `counts`.

    The classes of `counts` may have several members. Raises `OutOfTimeError`, also if the new model would be too
    large.
    """
    instance, kinds = counts.instance, each_alone(counts.instance)
    if _seats_of(instance, kinds) > _MOST_SEATS:
        raise OutOfTimeError
    members = model_of(instance, kinds)
    single = Search(members.cp, budget, linearization=2, proven=search.proven)
    match single.adopt(member_solution(counts, search.solution, members)):
        case SolveStatus.INFEASIBLE:
            raise SolverFaultError("a solution over counts is none over members")
        case SolveStatus.UNKNOWN:
            raise OutOfTimeError
    return members, single


def _continued(model: Model, search: Search, phases: Iterable[Stated], asked: _Asked) -> Solved:
    """Optimise the goal terms of these phases, then goal 5 (ranks) and the start times of victims (goal 6). If time
    runs out, return the present solution.

    Among equally good solutions, the first node names are preferred. Node names are no goal, so the preference is not
    proven.
    """
    try:
        for phase in (*phases, *stated(SolvePhase.ORDER)):
            search.minimise(_stages(model, search, phase, asked))
        if "started" in asked.wanted:
            prefer_started_last(model, search)
        if "names" in asked.wanted:
            _prefer_first_names(model, search)
    except OutOfTimeError:
        return _cut(model, search)
    return Solved(_nodes_in_order(model, search), _victims(model, search), tuple(search.reached), search.proven)


def _prefer_first_names(model: Model, search: Search) -> None:
    """Look for an equally good solution on nodes whose names come earlier in the natural order of all names.

    Earlier sets and ranks weigh more. So of two alike gangs or sets, the first gets the first names.
    """
    position, classes = model.instance.name_rank, len(model.seats)
    search.prefer(
        total(
            one(count).times(position[node] * (classes - place))
            for place, nodes in enumerate(model.seats)
            for node, count in nodes.items()
        )
    )


def _cut(model: Model, search: Search) -> Solved:
    """Return the present solution as the result of a solve that ended early, so that its later goals are not proven."""
    nodes, victims = _nodes_in_order(model, search), _victims(model, search)
    return Solved(nodes, victims, tuple(search.reached), proven=False, cut=True)


def _victims(model: Model, search: Search) -> tuple[int, ...]:
    return tuple(victim for victim, flag in sorted(model.evict.items()) if search.solution[flag.index])


def _stages(model: Model, search: Search, phase: Stated, asked: _Asked) -> Iterator[Stage]:
    """Yield the stages of the terms of a phase that are wanted (`asked.wanted`). Raises `OutOfTimeError`."""
    for goal in phase:
        if goal.__name__ in asked.wanted:
            for stage in model.instance.deadline.iterate(goal(model, search.solution), every=1):
                yield replace(stage, least=max(stage.least, asked.least.get((stage.goal, stage.part), stage.least)))


def _confirmed(instance: Instance, kinds: tuple[MemberClass, ...], budget: TimeBudget) -> SolveStatus:
    """Solve again without presolve, to confirm that there is no plan. Return INFEASIBLE if this is confirmed, else
    UNKNOWN.

    CP-SAT 9.15 has reported feasible models as infeasible (google/or-tools#5274), but not without presolve.
    """
    model = model_of(instance, kinds)
    search = Search(model.cp, budget, linearization=0, presolve=False)
    found = search.any_solution()
    return SolveStatus.INFEASIBLE if found is SolveStatus.INFEASIBLE else SolveStatus.UNKNOWN


def _nodes_in_order(model: Model, search: Search) -> Nodes:
    """Return the node of every member, by set and rank. The members of a class, by rank, get the nodes of the class in
    the order of the tree.

    Nodes of one domain are neighbours in this order, so goal 5 (ranks) keeps its value.
    """
    order = model.instance.tree.order
    rows = [sorted(_nodes_of(model, search, kind), key=order.__getitem__) for kind in range(len(model.kinds))]
    return _by_rank(model, rows)


def _by_rank(model: Model, rows: Sequence[Sequence[int]]) -> Nodes:
    """Return the node of every member, by set and rank. `rows`: for each member class, the nodes of its placed members
    by rank.
    """
    problem = model.instance.problem
    nodes: list[list[int | None]] = [[member.node for member in pod_set.members] for pod_set in problem.sets]
    for kind, row in zip(model.kinds, rows, strict=True):
        for rank, node in zip(kind.ranks, row, strict=False):
            nodes[kind.pod_set][rank] = node
    return tuple(map(tuple, nodes))


def _nodes_of(model: Model, search: Search, kind: int) -> list[int]:
    """Return the nodes of a member class in the present solution. A node occurs once for every member of the class on
    it.
    """
    solution = search.solution
    return [node for node, variable in model.seats[kind].items() for _ in range(solution[variable.index])]
