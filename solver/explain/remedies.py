"""A rejection with its reasons: the nearest domains, and the smallest changes after which the gang would fit.

Every change is verified: by a plan for the changed problem that breaks no constraint, by counting, or by a solve.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np

from kube.names import natural_key
from solver.bounds.domain_cover import most_members, too_few
from solver.bounds.eviction_closure import cleared, closure_of_nodes
from solver.capacity import deciding_level, needed_members, pending
from solver.cp_sat.lexicographic import TimeBudget, time_budget_of
from solver.cp_sat.solve import Solved, seat_count, solve_within
from solver.deadline import NO_DEADLINE, Deadline, OutOfTimeError
from solver.explain.nearest import (
    MANY_SEATS,
    Nearest,
    counted_plan,
    held_by_domains,
    inside,
    near_domains,
    placed_by_domains,
)
from solver.heuristics.packing import thinned
from solver.instance import Instance, instance_of
from solver.nodes import Node, nodes_of
from solver.plan import NoPlan, Plan, Proof
from solver.problem import Conflict, Limits, Problem, Spread
from solver.tree import ROOT, tree_of
from solver.tree_dp.single_class import solve_tree_dp
from solver.tree_dp.single_class_counts import has_room
from solver.tree_dp.single_class_tables import countable
from solver.verify.rules import broken_rules

_SHARE = 1 / 8
"""The share of a solve's time that the verification of one change may take."""
_REASONS = 3
"""The most changes to be tried that make excluded nodes eligible."""
_FEWER = 3
"""The most members by which a minimum is lowered below what fits."""
_LARGE = 1000
"""From this number of nodes on, CP-SAT searches only the domains with the most capacity for a plan after a change."""
_TRIES = 3
"""The most domains in which a plan after a change is sought."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the request or of the cluster after which the gang may have a plan. `words`: the change in words,
    which end a sentence. `problem`: the problem after the change. `plan`: a candidate plan for it. `victim`: one of the
    pods that a found plan evicts; "" for none.
    """

    words: str
    problem: Problem
    plan: Plan | None = None
    victim: str = ""


def explained(problem: Problem, answer: NoPlan, limits: Limits, deadline: Deadline = NO_DEADLINE) -> NoPlan:
    """Return the rejection `answer` with its explanation added: the nearest domains, the capacity of each domain
    without evictions, and changes after which the gang fits.

    If the deadline passes first, these fields hold what is known by then.
    """
    share = time_budget_of(limits, deadline).portion(_SHARE)
    level = deciding_level(problem)
    tree = tree_of(problem.nodes, len(problem.levels))
    try:
        share.wall.deadline.check()
        held = held_by_domains(problem, share)
        share.wall.deadline.check()
        there = placed_by_domains(instance_of(problem, evicting=False), level)
        offered = tuple(
            (() if level == ROOT else tree.paths[level][domain], count - there[domain])
            for domain, count in sorted(held.counts.items())
        )
        answer = replace(answer, fits_without_eviction=offered)
        refused = answer.proof is Proof.INFEASIBLE
        share.wall.deadline.check()
        if problem.victims:
            nearest = near_domains(problem, share, refused=refused, without_evictions=held)
        else:
            nearest = near_domains(problem, share, held, refused=refused)
        answer = replace(answer, nearest=nearest.domains)
        for change in remedies(problem, nearest, share):
            answer = replace(
                answer,
                would_fit_if=(*answer.would_fit_if, change.words),
                example_victims={**answer.example_victims, **({change.words: change.victim} if change.victim else {})},
            )
    except OutOfTimeError:
        pass
    return answer


def victims_after(change: Change, budget: TimeBudget) -> tuple[int, ...] | None:
    """Return the victims of a plan for the problem after a change. () if a plan without evictions was found; None if no
    plan was found. Raises `OutOfTimeError`.

    Another plan may need fewer victims.
    """
    problem, deadline = change.problem, budget.wall.deadline
    deadline.check()
    if change.plan is not None and not broken_rules(problem, change.plan):
        needless = change.plan.victims and has_room(instance_of(problem, evicting=False, deadline=deadline))
        return () if needless else change.plan.victims
    for evicting in (False, True) if problem.victims else (False,):
        instance = instance_of(problem, evicting=evicting, deadline=deadline)
        fits = None
        if evicting:
            fits, victims = _counted(instance)
            if fits:
                return victims
        elif fits := has_room(instance):
            return ()
        if fits is None and (found := _found_somewhere(instance, budget)) is not None:
            return found.victims
    return None


def _with_evictions(change: Change, victims: Sequence[int]) -> str:
    """Return the words of a change, with the number of pods that a plan after it evicts."""
    if not victims:
        return change.words
    count = "1 pod" if len(victims) == 1 else f"at most {len(victims)} pods"
    return f"{change.words}, after evicting {count} of lower priority"


def _found_somewhere(instance: Instance, budget: TimeBudget) -> Solved | None:
    """Return a plan that CP-SAT finds. In a large cluster it searches only the domains with the most capacity."""
    level = deciding_level(instance.problem)
    if too_few(instance, level).all():
        return None
    able = np.flatnonzero(~too_few(instance, max(level, 0))).tolist()
    parts = [instance]
    if len(instance.problem.nodes) > _LARGE and able:
        room = most_members(instance, pending(instance.problem), max(level, 0))
        able = sorted(able, key=lambda each: (-room[each], each))[:_TRIES]
        parts = [inside(instance, max(level, 0), domain) for domain in able]
    answers = (
        solve_within(part, budget.portion(1), frozenset())
        for part in map(thinned, parts)
        if seat_count(part) <= MANY_SEATS
    )
    return next((each for each in answers if isinstance(each, Solved)), None)


def _counted(instance: Instance) -> tuple[bool | None, tuple[int, ...]]:
    """Return two values, found by counting members: whether a plan exists (None if counting does not decide this), and
    the victims of the plan.

    Every victim on the nodes of a counted plan counts as evicted. Counting decides nothing if all counted plans exceed
    limits on evictions, or if counting does not express all constraints of the gang.
    """
    cleared_room = has_room(cleared(instance))
    if not cleared_room:
        return cleared_room, ()
    plans = _cleared_plans(instance)
    kept = next((plan for plan in plans if not broken_rules(instance.problem, plan)), None)
    return (None, ()) if kept is None else (True, kept.victims)


def _cleared_plans(instance: Instance) -> Iterator[Plan]:
    """Yield plans in the domains with the most capacity. Each plan evicts every victim on its nodes.

    The plans may exceed limits on evictions. If the gang has constraints on counts in a domain, only the best plan is
    tried.
    """
    problem, found = instance.problem, countable(cleared(instance))
    if found is not None and found[1].numbers:
        solved = solve_tree_dp(cleared(instance))
        if isinstance(solved, Solved):
            going = closure_of_nodes(problem, {node for row in solved.nodes for node in row if node is not None})
            yield from () if going is None else [Plan(solved.nodes, going, (), Proof.FEASIBLE)]
        return
    level = deciding_level(problem)
    room = most_members(instance, pending(problem), level)
    for domain in sorted(range(len(room)), key=lambda each: (-room[each], each))[:_TRIES]:
        plan = counted_plan(instance, level, domain, needed_members(problem))
        if plan is not None:
            yield plan


def remedies(problem: Problem, nearest: Nearest, budget: TimeBudget) -> Iterator[Change]:
    """Yield changes after which the gang has a plan: of each sort of change, such as more capacity or a lower minimum,
    the smallest. The words of a change say how many pods a plan after it evicts.
    """
    for sort in (
        _more_slots(problem, nearest),
        _fewer_members(problem, nearest),
        _wider_level(problem),
        _lifted_exclusions(problem),
        _dropped_rules(problem),
    ):
        for change in sort:
            if (victims := victims_after(change, budget)) is not None:
                keys = problem.victims.keys
                victim = min((keys[each] for each in victims), key=natural_key, default="")
                yield replace(change, words=_with_evictions(change, victims), victim=victim)
                break


def _more_slots(problem: Problem, nearest: Nearest) -> Iterator[Change]:
    """Yield changes that add capacity for the missing members to the nearest domain: first on an existing node, then on
    new nodes.

    If each missing member fills a node, new nodes come first. Capacity is added only for members that may use some node
    of the domain. A member that may use none of them might not be allowed on a new node either.
    """
    if not nearest.domains:
        return
    near = nearest.domains[0]
    shapes, usable = _open_to(problem, near.path)
    missing = near.needed - near.fits
    if not shapes or missing <= 0:
        return
    most = tuple(
        max(problem.shapes[shape].requests[each] for shape in shapes) for each in range(len(problem.resources))
    )
    larger = tuple(missing * each for each in most)
    contents = f", {'each ' if missing > 1 else ''}with {problem.slot_contents}" if problem.slot_contents else ""

    def on_an_existing_node() -> Iterator[Change]:
        slots = "1 more pod slot" if missing == 1 else f"{missing} more pod slots"
        for node in _nodes_to_enlarge(problem, shapes, near.path, nearest.plan):
            enlarged = _with_room(problem, node, larger)
            members = _with_members(enlarged, nearest.plan, [node] * missing)
            yield Change(f"{slots} {_inside(usable)}{contents}", enlarged, members)

    fill_nodes = missing > 1 and all(problem.shapes[shape].fills_node for shape in shapes)
    if not fill_nodes:
        yield from on_an_existing_node()
    above = len(problem.levels) - 1
    path = [*near.path, *("" for _ in range(above - len(near.path)))]
    within = next((each for each in problem.nodes.layout.paths if each[: len(usable)] == usable[: len(each)]), None)
    if within is not None:
        path = [*within]
    where, home, new = _inside(usable[:above]), tuple(path[:above]), len(problem.nodes)
    nodes = _with_nodes(problem, shapes, home, [most] * missing)
    places = list(range(new, new + missing))
    words = "1 more node" if missing == 1 else f"{missing} more nodes"
    yield Change(f"{words} {where}{contents}", nodes, _with_members(nodes, nearest.plan, places))
    if fill_nodes:
        yield from on_an_existing_node()
    if missing > 1:
        one_node = _with_nodes(problem, shapes, home, [larger])
        words = f"1 more node with room for {missing} pods {where}{contents}"
        yield Change(words, one_node, _with_members(one_node, nearest.plan, [new] * missing))


def _inside(path: tuple[str, ...]) -> str:
    """Return the words for a domain, such as `in zone-1/rack-2`. An empty path is the cluster."""
    return f"in {'/'.join(path)}" if path else "in the cluster"


def _nodes_to_enlarge(
    problem: Problem, shapes: Collection[int], path: tuple[str, ...], plan: Plan | None
) -> Iterator[int]:
    """Yield at most two nodes of the domain `path` that could get more capacity for members of these shapes.

    They are a node without members of the plan, and a node with a member. Constraints between members
    decide which of the two helps: exclusions need a node without members, affinity needs a node with a member.
    """
    used = {node for row in plan.nodes for node in row if node is not None} if plan is not None else set[int]()
    layout, open_nodes = problem.nodes.layout, frozenset.intersection(*(problem.shapes[each].nodes for each in shapes))
    inside = [node for node in sorted(open_nodes) if (*layout.paths[node], layout.names[node])[: len(path)] == path]
    yield from [node for node in inside if node not in used][:1]
    yield from [node for node in inside if node in used][:1]


def _with_room(problem: Problem, node: int, amounts: tuple[int, ...]) -> Problem:
    """Return the problem with `amounts` added to a node's free amounts. Negative free amounts are set to 0 before the
    addition.
    """
    free = problem.nodes.free.copy()
    free[node] = np.maximum(free[node], 0) + np.array(amounts, dtype=np.int64)
    return replace(problem, nodes=problem.nodes.with_free(free))


def _open_to(problem: Problem, path: tuple[str, ...]) -> tuple[list[int], tuple[str, ...]]:
    """Return two values: the shapes of pending members that may use some node of the domain `path`, and the path of the
    narrowest domain with all such nodes.

    A domain without nodes counts as open to all shapes. If the members may use all nodes of the domain, its own path is
    returned.
    """
    shapes = sorted({member.shape for member in pending(problem)})
    paths = [(*above, name) for above, name in zip(problem.nodes.layout.paths, problem.nodes.layout.names, strict=True)]
    inside = {place for place, each in enumerate(paths) if each[: len(path)] == path}
    if not inside:
        return shapes, path
    may = [shape for shape in shapes if not inside.isdisjoint(problem.shapes[shape].nodes)]
    used = inside & frozenset[int]().union(*(problem.shapes[shape].nodes for shape in may))
    return may, path if used == inside else _common([paths[place] for place in used])


def _common(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the longest common prefix of the paths."""
    return tuple(names[0] for names in takewhile(lambda each: len(set(each)) == 1, zip(*paths, strict=True)))


def _with_members(problem: Problem, plan: Plan | None, places: list[int]) -> Plan | None:
    """Return `plan` with one more member placed on each node of `places`. Sets below their minimum get these members
    first. None if `plan` is None.
    """
    if plan is None:
        return None
    rows = [list(row) for row in plan.nodes]
    waiting = [[rank for rank, node in enumerate(row) if node is None] for row in rows]
    lacking = [
        max(0, pod_set.minimum - len(row) + len(ranks))
        for pod_set, row, ranks in zip(problem.sets, rows, waiting, strict=True)
    ]
    seats = [(position, rank) for position, ranks in enumerate(waiting) for rank in ranks[: lacking[position]]]
    seats += [(position, rank) for position, ranks in enumerate(waiting) for rank in ranks[lacking[position] :]]
    for (position, rank), node in zip(seats, places, strict=False):
        rows[position][rank] = node
    return replace(plan, nodes=tuple(map(tuple, rows)))


def _with_nodes(
    problem: Problem, shapes: Collection[int], path: tuple[str, ...], rooms: list[tuple[int, ...]]
) -> Problem:
    """Return the problem with more nodes in the domain `path`, on which members of these shapes may run. `rooms`: the
    free amounts of each new node.
    """
    new = tuple(Node(f" {number}", path, free, (0,) * len(free)) for number, free in enumerate(rooms))
    places = frozenset(range(len(problem.nodes), len(problem.nodes) + len(new)))
    return replace(
        problem,
        nodes=problem.nodes.and_also(nodes_of(new)),
        shapes=tuple(
            replace(shape, nodes=shape.nodes | places) if position in shapes else shape
            for position, shape in enumerate(problem.shapes)
        ),
        exclusions=tuple(replace(rule, group=_with_groups(problem, rule.group, new)) for rule in problem.exclusions),
        separations=tuple(replace(rule, group=_with_groups(problem, rule.group, new)) for rule in problem.separations),
        affinities=tuple(
            replace(rule, groups=tuple(_with_groups(problem, group, new) for group in rule.groups))
            for rule in problem.affinities
        ),
        spreads=tuple(_spread_with(rule, _with_groups(problem, rule.group, new)) for rule in problem.spreads),
    )


def _spread_with(rule: Spread, groups: tuple[str | None, ...]) -> Spread:
    """Return the topology spread constraint `rule` for a problem with more nodes. `groups`: the group of each old and
    new node. A group that exists only on new nodes has no pods.
    """
    opened = {group: 0 for group in groups if group is not None}
    return replace(rule, group=groups, counts={**opened, **rule.counts})


def _with_groups(problem: Problem, groups: tuple[str | None, ...], new: tuple[Node, ...]) -> tuple[str | None, ...]:
    """Return, by node, the groups of the old nodes and then of the `new` nodes. `groups`: by old node, its group in a
    constraint.

    If every old node has a group of its own, each new node gets one, too. Otherwise a new node gets the group of
    another node in its domain.
    """
    named = [group for group in groups if group is not None]
    if len(set(named)) == len(named):
        return (*groups, *(node.name for node in new))
    there = zip(problem.nodes.layout.paths, groups, strict=True)
    beside = next((group for path, group in there if path == new[0].path), "")
    return (*groups, *(beside for _ in new))


def _fewer_members(problem: Problem, nearest: Nearest) -> Iterator[Change]:
    """Yield changes to a lower minimum, the smallest reduction first. If several sets have members, each change lowers
    the minimum of one set.
    """
    filled = [position for position, pod_set in enumerate(problem.sets) if pod_set.members]
    if not nearest.domains:
        return
    near = nearest.domains[0]
    if near.fits >= near.needed:
        return
    if len(filled) > 1:
        yield from _fewer_of_one(problem, filled, max(1, near.needed - near.fits), nearest.plan)
        return
    for count in range(near.fits, max(0, near.fits - _FEWER), -1):
        sets = tuple(replace(pod_set, minimum=min(pod_set.minimum, count)) for pod_set in problem.sets)
        words = f"a minimum of {count} instead of {near.needed}"
        yield Change(words, replace(problem, sets=sets, minimum=count), nearest.plan)


def _fewer_of_one(problem: Problem, filled: list[int], missing: int, plan: Plan | None) -> Iterator[Change]:
    """Yield changes in which the minimum of one set is lowered by at least the number of missing members. `filled`: the
    sets that have members.
    """
    needed = needed_members(problem)
    for fewer in range(missing, missing + _FEWER):
        for position in filled:
            pod_set = problem.sets[position]
            count = pod_set.minimum - fewer
            if count > 0:
                sets = (*problem.sets[:position], replace(pod_set, minimum=count), *problem.sets[position + 1 :])
                words = f"a minimum of {count} instead of {pod_set.minimum} in {pod_set.name}"
                yield Change(words, replace(problem, sets=sets, minimum=min(problem.minimum, needed - fewer)), plan)


def _wider_level(problem: Problem) -> Iterator[Change]:
    """Yield changes to a wider required level, from the next wider level on, and last to no required level. The gang's
    level is changed first, then the level of each set.
    """
    if problem.required is not None:
        name = problem.levels[problem.required]
        for level in range(problem.required - 1, -1, -1):
            words = f"required level {name} widened to {problem.levels[level]}"
            yield Change(words, replace(problem, required=level))
        yield Change(f"required level {name} dropped", replace(problem, required=None))
    for position, pod_set in enumerate(problem.sets):
        if pod_set.required is not None:
            name = f"required level {problem.levels[pod_set.required]} of {pod_set.name}"
            for level in (*range(pod_set.required - 1, -1, -1), None):
                sets = (*problem.sets[:position], replace(pod_set, required=level), *problem.sets[position + 1 :])
                words = f"{name} dropped" if level is None else f"{name} widened to {problem.levels[level]}"
                yield Change(words, replace(problem, sets=sets))


def _lifted_exclusions(problem: Problem) -> Iterator[Change]:
    """Yield changes that make excluded nodes eligible by removing one reason, such as a toleration for a taint or the
    end of a cordon.

    Changes that open the most nodes come first.
    """
    opened: dict[str, frozenset[int]] = {}
    for shape in sorted({member.shape for member in pending(problem)}):
        for words, nodes in problem.shapes[shape].lifts.items():
            opened[words] = opened.get(words, frozenset()) | nodes
    for rule in problem.conflicts:
        words = _without(rule)
        opened[words] = opened.get(words, frozenset()) | rule.nodes
    for words, freed in sorted(opened.items(), key=lambda each: (-len(each[1]), each[0]))[:_REASONS]:
        shapes = tuple(
            replace(shape, nodes=shape.nodes | shape.lifts.get(words, frozenset())) for shape in problem.shapes
        )
        count = "1 node" if len(freed) == 1 else f"{len(freed)} nodes"
        left = tuple(rule for rule in problem.conflicts if _without(rule) != words)
        yield Change(f"{words} ({count})", replace(problem, shapes=shapes, conflicts=left))


def _without(rule: Conflict) -> str:
    """Return the words for the change that removes a conflict: the word "without" and the reason of the conflict."""
    return f'without "{rule.reason}"'


def _dropped_rules(problem: Problem) -> Iterator[Change]:
    """Yield changes that remove all constraints of one sort, such as all disruption budgets or all slices."""
    if problem.budgets:
        names = ", ".join(budget.name for budget in problem.budgets)
        yield Change(f"more evictions allowed by {names}", replace(problem, budgets=()))
    if problem.exclusions or problem.separations:
        words = "members no longer excluding each other"
        yield Change(words, replace(problem, exclusions=(), separations=()))
    if problem.affinities:
        yield Change("members no longer wanting to be near others", replace(problem, affinities=()))
    if problem.spreads:
        yield Change("topology spread dropped", replace(problem, spreads=()))
    if problem.together:
        yield Change("sets no longer bound to share a domain", replace(problem, together=()))
    if any(pod_set.caps for pod_set in problem.sets):
        sets = tuple(replace(pod_set, caps=()) for pod_set in problem.sets)
        yield Change("members per domain not limited", replace(problem, sets=sets))
    if problem.multiples or any(pod_set.multiples for pod_set in problem.sets):
        sets = tuple(replace(pod_set, multiples=()) for pod_set in problem.sets)
        yield Change("multiples per domain dropped", replace(problem, sets=sets, multiples=()))
    if any(pod_set.slices for pod_set in problem.sets):
        sets = tuple(replace(pod_set, slices=()) for pod_set in problem.sets)
        yield Change("slices dropped", replace(problem, sets=sets))
