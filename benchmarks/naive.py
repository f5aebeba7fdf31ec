"""The naive reference model: an integer variable per node and an indicator per domain, solved goal by goal by CP-SAT.

The benchmark compares the solver with it. It states the first three goals of docs/decisions/0002 over all nodes at
once. These are victims, extra members (none here), and compactness. It has no classes of nodes, no bounds by counting
and no search domain by domain. Tests check that it reaches the same values as the solver.
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from ortools.sat.python.cp_model import INFEASIBLE, OPTIMAL, CpModel, CpSolver, IntVar, LinearExpr

from solver.capacity import capacities, room, scarcest
from solver.objective import is_of_level
from solver.plan import Plan
from solver.problem import PodSet, Problem
from solver.tree import Tree, tree_of

Values = tuple[int, ...]
"""The values of the first three goals. They are victims by priority, the highest first; broken gangs; and the evicted
amount of the scarcest resource. By level follow the domains of the gang and, if it has several sets, the sum over sets.
For several gangs, the first values are 0 for each gang with a place and 1 for each gang without one."""


@dataclass(frozen=True, slots=True)
class Proven:
    """A result that the naive model has proven, and the seconds that the proof took. `values`: the goal values of the
    best plan; None: it is proven that there is no plan.
    """

    values: Values | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Open:
    """The result of a run in which the naive model has proven neither a plan nor its absence within `seconds`."""

    seconds: float


def can_state(problem: Problem) -> bool:
    """Whether the naive model can state the problem.

    The model states only problems that need all members, and in which no member is bound. Sets with slices must have
    members of one shape and complete slices. The problem must have no multiples, caps, conflicts, or rules between
    members.
    """
    all_needed = sum(len(pod_set.members) for pod_set in problem.sets) == problem.minimum
    among_members = problem.exclusions or problem.separations or problem.affinities or problem.spreads
    rules = bool(problem.multiples or among_members or problem.conflicts)
    return all_needed and not rules and all(map(_plain, problem.sets))


def _plain(pod_set: PodSet) -> bool:
    shapes = {member.shape for member in pod_set.members}
    bound = any(member.node is not None for member in pod_set.members)
    complete = all(len(pod_set.members) % each.size == 0 for each in pod_set.slices)
    alike = not pod_set.slices or (len(shapes) == 1 and complete)
    return alike and not (bound or pod_set.multiples or pod_set.caps)


def solve(problem: Problem, seconds: float, *, apart: bool = False) -> Proven | Open:
    """Return the values of the best plan of the naive model, found in about `seconds` at most.

    `apart`: every pod set is a gang of its own, the earlier before the later, and may be left out.
    """
    began = time.perf_counter()
    model = _Model(problem, apart=apart)
    values = []
    for goal in model.goals():
        model.cp.minimize(goal)
        solver = CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.max_time_in_seconds = max(0.01, seconds - (time.perf_counter() - began))
        status = solver.solve(model.cp)
        if status == INFEASIBLE:
            return Proven(None, time.perf_counter() - began)
        if status != OPTIMAL:
            return Open(time.perf_counter() - began)
        values.append(round(solver.objective_value))
        model.cp.add(goal == values[-1])
    return Proven(tuple(values), time.perf_counter() - began)


def values_of(problem: Problem, plan: Plan) -> Values:
    """Return the values of the first three goals of a plan that the solver found, in the order of `Values`."""
    found: list[int] = []
    for goal in plan.goals:
        if goal.name == "victims":
            evicted = Counter(problem.victims[each].priority for each in plan.victims)
            found += [evicted[priority] for priority in _priorities(problem)]
        elif goal.name in ("gangsBroken", "evicted"):
            found.append(goal.value)
        elif is_of_level(goal.name):
            found += goal.parts.values() if goal.parts else [goal.value]
    return tuple(found)


def _priorities(problem: Problem) -> list[int]:
    """Return the priorities of the victims, the highest first."""
    return sorted({each.priority for each in problem.victims}, reverse=True)


class _Model:
    """The naive model of one problem, with all variables and rules."""

    def __init__(self, problem: Problem, *, apart: bool) -> None:
        self.problem, self.cp, self.apart = problem, CpModel(), apart
        self.tree: Tree = tree_of(problem.nodes, len(problem.levels))
        evicting_all = room(problem, range(len(problem.victims)))
        self.capacity = np.maximum(capacities(problem, evicting_all), 0).tolist()
        self.filled = [position for position, pod_set in enumerate(problem.sets) if pod_set.members]
        self.evict = [self.cp.new_bool_var("") for _ in problem.victims]
        self.broken = [self.cp.new_bool_var("") for _ in problem.victim_gangs]
        self.placed = {each: self.cp.new_int_var(0 if apart else 1, 1, "") for each in self.filled}
        self.seats = {each: self._seats(each) for each in self.filled}
        self.used = {each: self._indicators((each,)) for each in self.filled}
        self.complete = not apart and len(self.filled) > 1
        self.gang = self._indicators(tuple(self.filled)) if self.complete else self.used[self.filled[0]]
        self._room()
        self._levels()
        self._slices()
        self._protection()

    def goals(self) -> Iterator[LinearExpr]:
        """Yield the sums to minimise, one after the other, in the order of `Values`."""
        if self.apart:
            for each in self.filled:
                yield 1 - self.placed[each]
        victims = self.problem.victims
        for priority in _priorities(self.problem):
            yield _sum([flag for each, flag in zip(victims, self.evict, strict=True) if each.priority == priority])
        yield _sum(self.broken)
        scarce = scarcest(self.problem)
        yield LinearExpr.weighted_sum(self.evict, [each.requests[scarce] for each in victims])
        for level in range(len(self.problem.levels)):
            if self.complete:
                yield _sum(self.gang[level])
            yield _sum([flag for each in self.filled for flag in self.used[each][level]])

    def _seats(self, position: int) -> dict[int, list[IntVar | None]]:
        """Create the variables of one pod set: by shape and node, the number of members there.

        The entry is None for a node that cannot take a member of the shape.
        """
        members = self.problem.sets[position].members
        found: dict[int, list[IntVar | None]] = {}
        for shape in sorted({member.shape for member in members}):
            count = sum(member.shape == shape for member in members)
            most = [min(count, capacity) for capacity in self.capacity[shape]]
            found[shape] = [self.cp.new_int_var(0, each, "") if each else None for each in most]
            self.cp.add(_sum([seat for seat in found[shape] if seat is not None]) == count * self.placed[position])
        return found

    def _indicators(self, sets: tuple[int, ...]) -> list[list[IntVar]]:
        """Create an indicator for each domain of each level: a variable that is 1 if a member of one of the pod sets
        `sets` is in the domain.
        """
        found = []
        for level in range(len(self.problem.levels)):
            flags = [self.cp.new_bool_var("") for _ in range(self.tree.count(level))]
            for position in sets:
                for shape, seats in self.seats[position].items():
                    self._bound(level, flags, seats, self.capacity[shape])
            found.append(flags)
        return found

    def _bound(self, level: int, flags: list[IntVar], seats: Sequence[IntVar | None], capacity: Sequence[int]) -> None:
        for node, seat in enumerate(seats):
            if seat is not None:
                self.cp.add(seat <= capacity[node] * flags[self.tree.domain(level, node)])

    def _room(self) -> None:
        """Add the rule that on every node the members' requests are at most the free amount plus the requests of the
        node's evicted victims.
        """
        taken: list[list[tuple[IntVar, tuple[int, ...], int]]] = [[] for _ in self.problem.nodes]
        for by_shape in self.seats.values():
            for shape, seats in by_shape.items():
                for node, seat in enumerate(seats):
                    if seat is not None:
                        taken[node].append((seat, self.problem.shapes[shape].requests, 1))
        for victim, flag in zip(self.problem.victims, self.evict, strict=True):
            taken[victim.node].append((flag, victim.requests, -1))
        for room_left, terms in zip(self.problem.nodes.free.tolist(), taken, strict=True):
            for resource, free in enumerate(room_left):
                asking = [(one, asks[resource], sign) for one, asks, sign in terms if asks[resource]]
                if any(sign > 0 for _, _, sign in asking):
                    self._fits(asking, free)

    def _fits(self, asking: Sequence[tuple[IntVar, int, int]], free: int) -> None:
        """Add the rule that requests do not exceed the free amount of one resource on one node.

        If the resource is overcommitted there, the rule holds only for members that request the resource.
        """
        row = LinearExpr.weighted_sum([one for one, _, _ in asking], [sign * amount for _, amount, sign in asking])
        if free >= 0:
            self.cp.add(row <= free)
            return
        for one, _, sign in asking:
            if sign > 0:
                present = self.cp.new_bool_var("")
                self.cp.add(one == 0).only_enforce_if(present.negated())
                self.cp.add(row <= free).only_enforce_if(present)

    def _levels(self) -> None:
        """Add the rules for required levels: one domain of the level holds the gang, or the pod set that requires the
        level.
        """
        if self.problem.required is not None:
            self.cp.add(_sum(self.gang[self.problem.required]) == 1)
        for each in self.filled:
            level = self.problem.sets[each].required
            if level is not None:
                self.cp.add(_sum(self.used[each][level]) == self.placed[each])
        for rule in self.problem.together:
            sets = tuple(each for each in rule.pod_sets if each in self.filled)
            if sets:
                self.cp.add(_sum(self._indicators(sets)[rule.level]) == 1)

    def _slices(self) -> None:
        """Add the rule that every domain holds complete slices. The members are alike, so ranks can be assigned
        afterwards.
        """
        for each in self.filled:
            for rule in self.problem.sets[each].slices:
                for domain in range(self.tree.count(rule.level)):
                    nodes = self.tree.nodes(rule.level, domain)
                    present = [
                        seat
                        for seats in self.seats[each].values()
                        for node in nodes
                        if (seat := seats[node]) is not None
                    ]
                    if present:
                        complete = self.cp.new_int_var(0, len(self.problem.sets[each].members) // rule.size, "")
                        self.cp.add(_sum(present) == rule.size * complete)

    def _protection(self) -> None:
        """Add the rules that running gangs keep their minimum or are evicted as a whole, and that disruption
        budgets hold.
        """
        for position, (gang, broken) in enumerate(zip(self.problem.victim_gangs, self.broken, strict=True)):
            flags = [flag for each, flag in zip(self.problem.victims, self.evict, strict=True) if each.gang == position]
            spare = max(0, gang.running - gang.minimum)
            self.cp.add(_sum(flags) <= spare + gang.running * broken)
            for part in gang.sets:
                evicted = _sum([self.evict[each] for each in sorted(part.victims)])
                self.cp.add(evicted <= max(0, part.running - part.minimum) + gang.running * broken)
            if gang.running > len(flags):
                self.cp.add(broken == 0)
            else:
                self.cp.add(_sum(flags) >= gang.running * broken)
        for budget in self.problem.budgets:
            self.cp.add(_sum([self.evict[each] for each in sorted(budget.victims)]) <= budget.allowed)


def _sum(flags: Sequence[IntVar]) -> LinearExpr:
    return LinearExpr.sum(flags)
