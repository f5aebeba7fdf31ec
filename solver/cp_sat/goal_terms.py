"""The terms of the goals (`solver.objective`) as stages of a CP-SAT model: sums to minimise, with bounds.

A goal may depend on the results of earlier goals, such as which members are placed. So its stages are created only when
these results are known. Every public function for a term takes the model and the solution so far, and yields the term's
stages.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from solver.bounds.domain_cover import Covers
from solver.cp_model import IntVar
from solver.cp_sat.constraint_model import all_placed, seat_variables
from solver.cp_sat.lexicographic import Stage
from solver.cp_sat.linear import Sum, one, total
from solver.cp_sat.variables import Model
from solver.instance import Seat
from solver.tree import ROOT

Solution = Sequence[int]
GoalStages = Callable[[Model, Solution], Iterator[Stage]]


def victims(model: Model, _solution: Solution) -> Iterator[Stage]:
    """Goal 1, `victims`: minimise the number of victims, one stage per priority, the highest first."""
    pods = model.instance.problem.victims
    for priority in sorted({pods[victim].priority for victim in model.evict}, reverse=True):
        flags = [variable for victim, variable in model.evict.items() if pods[victim].priority == priority]
        yield _count("victims", f"priority {priority}", flags)


def gangs_broken(model: Model, _solution: Solution) -> Iterator[Stage]:
    """Goal 1, `gangsBroken`: minimise the number of running gangs that are evicted whole."""
    if model.broken:
        yield _count("gangsBroken", "", list(model.broken.values()))


def evicted(model: Model, _solution: Solution) -> Iterator[Stage]:
    """Goal 1, `evicted`: minimise the amount of the scarcest resource that the victims hold."""
    instance = model.instance
    terms = tuple(
        (instance.problem.victims[victim].requests[instance.scarce], variable)
        for victim, variable in model.evict.items()
    )
    if terms:
        yield Stage("evicted", "", Sum(terms), 0, sum(weight for weight, _ in terms))


def extras(model: Model, _solution: Solution) -> Iterator[Stage]:
    """Goal 2, `extras`: minimise the number of pending members that are not placed."""
    members = len(model.instance.pending)
    missing = total(model.placed(kind) for kind in range(len(model.kinds))).times(-1) + Sum((), members)
    yield Stage("extras", "missing", missing, 0, members)


def lowest_ranks(model: Model, solution: Solution) -> Iterator[Stage]:
    """Goal 2, `extras`: prefer placed members of the lowest ranks, set by set. No stage if every member is placed."""
    if all_placed(model, solution):
        return
    for position, kind in enumerate(model.kinds):
        missing = model.placed(position).times(-1) + Sum((), len(kind.ranks))
        yield Stage("extras", f"missing of {kind.pod_set}/{kind.ranks[0]}", missing, 0, len(kind.ranks))


def compactness(model: Model, solution: Solution) -> Iterator[Stage]:
    """Goal 3, `compactness`: minimise the number of domains level by level. On each level, the domains of the gang come
    first, then the domains of each set, summed over the sets.
    """
    covers = Covers(model.instance)
    sets = placed_in_sets(model, solution)
    filled = [pod_set for pod_set, seats in enumerate(sets) if seats]
    everybody = [seat for seats in sets for seat in seats]
    for level, name in enumerate(model.instance.problem.levels):
        most = min(len(everybody), len(model.touched[level]))
        least = covers.least(level, everybody)
        yield Stage(f"compactness/{name}", "gang", total(model.touched[level].values()), least, most)
        if len(filled) > 1:
            flags = [flag for pod_set in filled for flag in model.set_touched[pod_set][level].values()]
            fewest = sum(covers.least(level, sets[pod_set]) for pod_set in filled)
            most = sum(min(len(sets[pod_set]), len(model.set_touched[pod_set][level])) for pod_set in filled)
            yield Stage(f"compactness/{name}", "sets", total(flags), max(least, fewest), most)


def preferences(model: Model, _solution: Solution) -> Iterator[Stage]:
    """Goal 3, `preferences`: maximise the weight of the fulfilled node preferences, stated as the weight times -1."""
    instance = model.instance
    had = []
    best = Counter(dict.fromkeys(range(len(model.kinds)), 0))
    worst = Counter(best)
    for position, kind in enumerate(model.kinds):
        weights = instance.problem.shapes[kind.shape].preferences
        for node, variable in model.seats[position].items():
            weight = weights.get(node, 0)
            had.append((-weight, variable))
            best[position] = max(best[position], weight * len(kind.ranks))
            worst[position] = min(worst[position], weight * len(kind.ranks))
    if any(weight for weight, _ in had):
        terms = tuple(term for term in had if term[0])
        yield Stage("preferences", "", Sum(terms), -best.total(), -worst.total())


def terminating(model: Model, _solution: Solution) -> Iterator[Stage]:
    """Goal 3, `terminating`: minimise the capacity that the gang uses and that terminating pods still hold."""
    instance = model.instance
    waits = []
    most = 0
    for node, seats in enumerate(model.on_node):
        leaving = instance.problem.nodes[node].terminating[instance.scarce]
        taken = model.used(node)
        if leaving <= 0 or not any(weight for weight, _ in taken.terms) or not seats:
            continue
        wait = model.cp.new_int_var(0, instance.potential[node], "")
        _wait_for(model, taken, _room_now(model, node), wait)
        waits.append(one(wait))
        most += instance.potential[node]
    if waits:
        yield Stage("terminating", "", total(waits), 0, most)


def _room_now(model: Model, node: int) -> Sum:
    """Return a node's free capacity of the scarcest resource, without the part that terminating pods still hold, as a
    model expression.

    Capacity that evictions free is included. The value is negative if terminating pods hold more than is free.
    """
    instance = model.instance
    each = instance.problem.nodes[node]
    left = tuple(
        (instance.problem.victims[victim].requests[instance.scarce], model.evict[victim])
        for victim in model.victims_on.get(node, [])
    )
    return Sum(left, each.free[instance.scarce] - each.terminating[instance.scarce])


def _wait_for(model: Model, taken: Sum, now: Sum, wait: IntVar) -> None:
    """Add a lower bound on the variable `wait`: the capacity of a node that members use although terminating pods still
    hold it.

    `taken`: the capacity that members use on the node. `now`: the free capacity that no terminating pod holds. `wait`
    is at least `taken` minus `now` or, if `now` is negative, at least `taken`.
    """
    beyond = model.cp.add((taken + now.times(-1)).expression() <= wait)
    if now.constant < 0:
        nothing = model.flag()
        beyond.only_enforce_if(~nothing)
        model.cp.add(taken.expression() <= wait).only_enforce_if(nothing)


def waste(model: Model, solution: Solution) -> Iterator[Stage]:
    """Goal 4, `waste`: minimise the free capacity that remains, in four parts.

    (a) counts the narrowest domain that holds the gang, (b) the wider domains around it, and (c) the touched domains
    inside it, level by level. (d) is the number of touched domains inside it that have capacity left. The gang uses the
    same amount in every plan, so (a) to (c) reduce to the potential of the domains.
    """
    if not any(placed_in_sets(model, solution)):
        return
    names = model.instance.problem.levels
    narrowest = _narrowest_level(model, solution)
    if narrowest > ROOT:
        yield _potential(model, solution, narrowest, "a", single=True)
        for level in range(narrowest - 1, ROOT, -1):
            yield _potential(model, solution, level, f"b/{names[level]}", single=True)
    for level in range(narrowest + 1, len(names)):
        yield _potential(model, solution, level, f"c/{names[level]}", single=False)
    for level in range(narrowest + 1, len(names)):
        yield _with_room_left(model, level, f"d/{names[level]}")


def ranks(model: Model, solution: Solution) -> Iterator[Stage]:
    """Goal 5, `ranks`: minimise, level by level, the number of pairs of members with consecutive ranks that lie in
    different domains.

    Member classes of several members need no stage, because their best arrangement is known
    (`solver.bounds.member_classes.alike`).
    """
    if not apart(model):
        return
    pairs = _neighbours(model, solution)
    levels = range(len(model.instance.problem.levels))
    pairs_by_level = model.instance.deadline.iterate((pair, level) for level in levels for pair in pairs)
    crossings = {(pair, level): _crossing(model, pair, level) for pair, level in pairs_by_level}
    for level, name in enumerate(model.instance.problem.levels):
        for pod_set in sorted({pair[0].pod_set for pair in pairs}):
            _cross_into_each(
                model, pod_set, level, [crossings[pair, level] for pair in pairs if pair[0].pod_set == pod_set]
            )
        crossed = total(crossings[pair, level] for pair in pairs)
        yield Stage("ranks", name, crossed, crossed.constant, len(pairs))


def _cross_into_each(model: Model, pod_set: int, level: int, crossings: list[Sum]) -> None:
    """Add a constraint: if the members of a set are in n domains, at least n - 1 pairs of consecutive members lie in
    different domains.

    The constraint is redundant, but with it CP-SAT proves the optimum much sooner. `crossings`: for each pair, an
    expression that is 1 if its members lie in different domains, else 0.
    """
    domains = total(model.set_touched[pod_set][level].values())
    model.cp.add((total(crossings) + domains.times(-1)).expression() >= -1)


def apart(model: Model) -> bool:
    """Return whether every member class of the model has one member, so that variables name single members."""
    return all(len(kind.ranks) == 1 for kind in model.kinds)


def placed_in_sets(model: Model, solution: Solution) -> list[list[Seat]]:
    """Return, by set, the members that the solution places, pinned members included. Of a class with several members,
    the lowest ranks count as placed.
    """
    sets: list[list[Seat]] = [[] for _ in model.instance.problem.sets]
    for seat in model.instance.pinned:
        sets[seat.pod_set].append(seat)
    for position, kind in enumerate(model.kinds):
        count = model.placed(position).value(solution)
        sets[kind.pod_set].extend(Seat(kind.pod_set, rank) for rank in kind.ranks[:count])
    return sets


def _narrowest_level(model: Model, solution: Solution) -> int:
    """Return the narrowest level of which one domain holds the gang in this solution."""
    narrowest = ROOT
    for level, flags in enumerate(model.touched):
        if total(flags.values()).value(solution) > 1:
            break
        narrowest = level
    return narrowest


def _count(goal: str, part: str, flags: list[IntVar]) -> Stage:
    """Return a stage of the goal `goal` that minimises how many of the flags are 1."""
    return Stage(goal, part, Sum(tuple((1, flag) for flag in flags)), 0, len(flags))


def _potential(model: Model, solution: Solution, level: int, part: str, *, single: bool) -> Stage:
    """Return a stage of goal 4 (waste): minimise the summed potential of the touched domains of a level.

    `part`: the part of the goal. `single`: whether exactly one domain of the level is touched, which gives a better
    bound.
    """
    instance = model.instance
    weighted = [(instance.domain_potential(level, domain), flag) for domain, flag in model.touched[level].items()]
    potential = total(flag.times(weight) for weight, flag in weighted if weight)
    used = model.used_in(ROOT, 0).value(solution)
    least = max(used, potential.constant, min(weight for weight, _ in weighted) if single else 0)
    return Stage("waste", part, potential, least, sum(weight for weight, _ in weighted))


def _with_room_left(model: Model, level: int, part: str) -> Stage:
    """Return a stage of goal 4 (waste): minimise the number of touched domains of a level that have capacity left.

    A domain has no capacity left only if the gang uses all of the domain's potential.
    """
    instance, left = model.instance, []
    for domain, flag in model.touched[level].items():
        potential = instance.domain_potential(level, domain)
        if not potential:
            continue
        used = model.used_in(level, domain)
        if not used.terms or not any(weight for weight, _ in used.terms):
            left.append(flag)
            continue
        rest = model.flag()
        model.cp.add((used + one(rest).times(potential)).expression() >= flag.times(potential).expression())
        left.append(one(rest))
    domains = total(left)
    return Stage("waste", part, domains, domains.constant, len(left))


TERMS: dict[str, GoalStages] = {
    each.__name__: each
    for each in (
        victims,
        gangs_broken,
        evicted,
        extras,
        lowest_ranks,
        compactness,
        preferences,
        terminating,
        waste,
        ranks,
    )
}
"""The function that states each term, by the term's name in `solver.objective`."""


def _placed_seats(model: Model, solution: Solution) -> list[Seat]:
    """Return the members that this solution places. Every member class must have one member."""
    return [
        Seat(kind.pod_set, kind.ranks[0])
        for position, kind in enumerate(model.kinds)
        if model.placed(position).value(solution)
    ]


def _neighbours(model: Model, solution: Solution) -> list[tuple[Seat, Seat]]:
    """Return the pairs of consecutive placed members of one set, by rank. Pinned members are included. A member that is
    not placed is skipped, so its neighbours form a pair.
    """
    placed = sorted(
        [*_placed_seats(model, solution), *model.instance.pinned], key=lambda seat: (seat.pod_set, seat.rank)
    )
    return [(before, after) for before, after in pairwise(placed) if before.pod_set == after.pod_set]


def _crossing(model: Model, pair: tuple[Seat, Seat], level: int) -> Sum:
    """Return a model expression that is 1 if the two members of `pair` lie in different domains of a level, else 0."""
    before, after = (_presence(model, seat, level) for seat in pair)
    fixed = [not any(part.terms for part in each.values()) for each in (before, after)]
    if all(fixed):
        return Sum((), int(before.keys() != after.keys()))
    crossed = model.flag()
    for domain, count in sorted(before.items()):
        gap = count + after.get(domain, Sum()).times(-1)
        model.cp.add(gap.expression() <= crossed)
    return one(crossed)


def _presence(model: Model, seat: Seat, level: int) -> dict[int, Sum]:
    """Return, for each domain of a level in which the member may be, a model expression that is 1 if the member is in
    it, else 0.
    """
    instance = model.instance
    if instance.member(seat).node is not None:
        return {instance.tree.domain(level, instance.pinned_node(seat)): Sum((), 1)}
    found: dict[int, list[Sum]] = {}
    for node, variable in seat_variables(model, seat).items():
        found.setdefault(instance.tree.domain(level, node), []).append(one(variable))
    return {domain: total(flags) for domain, flags in found.items()}
