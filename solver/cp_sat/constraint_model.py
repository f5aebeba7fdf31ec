"""The CP-SAT model of one instance: one function for each hard constraint, over the variables of `variables`."""

from collections import Counter
from collections.abc import Sequence

from solver.bounds.member_classes import MemberClass
from solver.cp_model import IntVar
from solver.cp_sat.disruption_limits import add_budgets, add_victim_gangs
from solver.cp_sat.gang_rules import add_gang_rules
from solver.cp_sat.keeping_apart import add_conflicts, add_exclusions, add_separations
from solver.cp_sat.linear import Sum, total
from solver.cp_sat.pod_affinity import add_affinities
from solver.cp_sat.quotas import add_quotas
from solver.cp_sat.topology_spread import add_spreads
from solver.cp_sat.variables import Model, add_variables, any_of
from solver.instance import Instance, Seat
from solver.plan import Plan


def model_of(instance: Instance, kinds: tuple[MemberClass, ...]) -> Model:
    """Return the model of an instance with its variables and all hard constraints. `kinds`: the member classes that
    have variables.

    Raises `OutOfTimeError`.
    """
    model = Model(instance, kinds)
    add_variables(model)
    for rule in instance.deadline.iterate(RULES, every=1):
        rule(model)
    return model


def _room(model: Model) -> None:
    """Add the capacity constraints: on every node, placed members request no more of a resource than is free once the
    node's victims are evicted.
    """
    for node, seats in enumerate(model.instance.deadline.iterate(model.on_node)):
        if seats:
            for resource, free in enumerate(model.instance.problem.nodes.free[node].tolist()):
                _room_of(model, node, resource, free, seats)


def _room_of(model: Model, node: int, resource: int, free: int, seats: list[tuple[int, IntVar]]) -> None:
    """Add the capacity of one resource on one node. `seats`: pairs of a member class and its variable on the node.

    If `free` is negative, the node is overcommitted even if no member is placed on it. Then the constraint binds only
    if a member that requests the resource is placed there.
    """
    problem, cp = model.instance.problem, model.cp
    asked = [(problem.shapes[model.kinds[kind].shape].requests[resource], variable) for kind, variable in seats]
    taken = Sum(tuple((request, variable) for request, variable in asked if request > 0))
    if not taken.terms:
        return
    left = Sum(
        tuple(
            (problem.victims[victim].requests[resource], model.evict[victim])
            for victim in model.victims_on.get(node, [])
            if problem.victims[victim].requests[resource]
        ),
        free,
    )
    if free >= 0:
        cp.add(taken.expression() <= left.expression())
        return
    flag = model.flag()
    for _, variable in taken.terms:
        cp.add(variable == 0).only_enforce_if(~flag)
    cp.add(taken.expression() <= left.expression()).only_enforce_if(flag)


def _numbers(model: Model) -> None:
    """Add the limits on numbers of members: a class places at most as many members as it has; each set and the gang
    place at least their minimum.
    """
    problem = model.instance.problem
    everything = []
    for position, kind in enumerate(model.kinds):
        model.cp.add(model.placed(position).expression() <= len(kind.ranks))
    for position, pod_set in enumerate(problem.sets):
        held = sum(member.node is not None for member in pod_set.members)
        placed = total(model.placed(kind) for kind in model.kinds_of(position)) + Sum((), held)
        everything.append(placed)
        model.cp.add(placed.expression() >= pod_set.minimum)
    model.cp.add(total(everything).expression() >= problem.minimum)


def _required_levels(model: Model) -> None:
    """Add the required levels. One domain of the gang's required level holds all placed members of the gang. One domain
    of a set's required level holds all placed members of the set.
    """
    problem = model.instance.problem
    if problem.required is not None:
        model.cp.add(total(model.touched[problem.required].values()).expression() <= 1)
    for position, pod_set in enumerate(problem.sets):
        if pod_set.required is not None:
            model.cp.add(total(model.set_touched[position][pod_set.required].values()).expression() <= 1)


def _together(model: Model) -> None:
    """Add the `Together` constraints: one domain of the level holds the placed members of all the named sets."""
    for rule in model.instance.problem.together:
        flags: dict[int, list[Sum]] = {}
        for pod_set in rule.pod_sets:
            for domain, flag in model.set_touched[pod_set][rule.level].items():
                flags.setdefault(domain, []).append(flag)
        shared = [any_of(model, each) for _, each in sorted(flags.items())]
        model.cp.add(total(shared).expression() <= 1)


def _slices(model: Model) -> None:
    """Add the slices: every `size` consecutive members of a set, by rank, lie in one domain.

    If a member class has several members, an equivalent constraint is added: the number of the class's members in each
    domain is a multiple of `size`.
    """
    for position, pod_set in enumerate(model.instance.problem.sets):
        for rule in pod_set.slices:
            counted = any(len(model.kinds[kind].ranks) > 1 for kind in model.kinds_of(position))
            if counted:
                _add_multiples(model, position, rule.level, rule.size)
                continue
            for first in model.instance.deadline.iterate(range(0, len(pod_set.members), rule.size), every=1):
                _one_slice(model, position, rule.level, range(first, first + rule.size))


def _one_slice(model: Model, pod_set: int, level: int, ranks: range) -> None:
    """Add the constraint that the placed members of a set with these ranks lie in one domain of a level."""
    instance = model.instance
    held = {
        instance.tree.domain(level, instance.pinned_node(seat))
        for seat in instance.pinned
        if seat.pod_set == pod_set and seat.rank in ranks
    }
    if len(held) > 1:
        model.cp.add_bool_or([])
    kinds = [kind for kind in model.kinds_of(pod_set) if model.kinds[kind].ranks[0] in ranks]
    flags = []
    inside: dict[int, list[IntVar]] = {}
    for kind in kinds:
        for node, variable in model.seats[kind].items():
            inside.setdefault(instance.tree.domain(level, node), []).append(variable)
    for domain, members in sorted(inside.items()):
        flag = model.flag()
        flags.append(flag)
        for variable in members:
            model.cp.add_implication(variable, flag)
        if held and domain not in held:
            model.cp.add(flag == 0)
    model.cp.add_at_most_one(flags)


def _multiples(model: Model) -> None:
    """Add the `Multiple` constraints of the sets and of the gang. Each one requires that the number of placed members
    in each domain of a level is a multiple of `of`.
    """
    for position, pod_set in enumerate(model.instance.problem.sets):
        for rule in pod_set.multiples:
            _add_multiples(model, position, rule.level, rule.of)
    problem = model.instance.problem
    most = sum(len(pod_set.members) for pod_set in problem.sets)
    for rule in problem.multiples:
        for domain in model.touched[rule.level]:
            count = total(model.set_in_domain(at, rule.level, domain) for at in range(len(problem.sets)))
            times = model.cp.new_int_var(0, most // rule.of, "")
            model.cp.add(count.expression() == rule.of * times)


def _add_multiples(model: Model, pod_set: int, level: int, of: int) -> None:
    """Add the constraint that each domain of a level holds a multiple of `of` members of a set."""
    most = len(model.instance.problem.sets[pod_set].members) // of
    for domain in model.instance.deadline.iterate(model.set_touched[pod_set][level]):
        times = model.cp.new_int_var(0, most, "")
        model.cp.add(model.set_in_domain(pod_set, level, domain).expression() == of * times)


def _caps(model: Model) -> None:
    """Add the `Cap` constraints: each domain of the constraint's level holds at most `count` members of the set."""
    for position, pod_set in enumerate(model.instance.problem.sets):
        for rule in pod_set.caps:
            for domain in model.set_touched[position][rule.level]:
                model.cp.add(model.set_in_domain(position, rule.level, domain).expression() <= rule.count)


RULES = (
    _room,
    _numbers,
    _required_levels,
    _together,
    _slices,
    _multiples,
    _caps,
    add_exclusions,
    add_separations,
    add_conflicts,
    add_affinities,
    add_spreads,
    add_victim_gangs,
    add_budgets,
    add_gang_rules,
    add_quotas,
)


def all_placed(model: Model, solution: Sequence[int]) -> bool:
    """Return whether a solution places every member."""
    return all(model.placed(position).value(solution) == len(kind.ranks) for position, kind in enumerate(model.kinds))


def member_solution(counts: Model, solution: Sequence[int], members: Model) -> dict[int, int]:
    """Return a solution of the model `counts`, whose classes may have several members, as values for the model
    `members`, which has one class per member. The result is by index of a variable.

    Only variables for members on nodes and for victims get values.
    """
    values = {flag.index: solution[counts.evict[victim].index] for victim, flag in members.evict.items()}
    for kind, seats in zip(counts.kinds, counts.seats, strict=True):
        nodes = sorted(seats, key=counts.instance.tree.order.__getitem__)
        row = [node for node in nodes for _ in range(solution[seats[node].index])]
        for place, rank in enumerate(kind.ranks):
            for node, flag in seat_variables(members, Seat(kind.pod_set, rank)).items():
                values[flag.index] = int(place < len(row) and row[place] == node)
    return values


def solution_of(plan: Plan, model: Model) -> dict[int, int] | None:
    """Return a plan as values for the variables of a model, by index of a variable. Only variables for members on nodes
    and for victims get values. None if the model excludes the plan.
    """
    if not set(plan.victims) <= set(model.evict):
        return None
    values = {flag.index: int(victim in plan.victims) for victim, flag in model.evict.items()}
    for kind, seats in zip(model.kinds, model.seats, strict=True):
        row = [plan.nodes[kind.pod_set][rank] for rank in kind.ranks]
        held = Counter(node for node in row if node is not None)
        if not held.keys() <= seats.keys():
            return None
        values.update({variable.index: held[node] for node, variable in seats.items()})
    return values


def seat_variables(model: Model, seat: Seat) -> dict[int, IntVar]:
    """Return, by node, the Boolean variable for a pending member being on the node. Every member class of the model
    must have one member.
    """
    if not model.alone:
        model.alone.update({(kind.pod_set, *kind.ranks): place for place, kind in enumerate(model.kinds)})
    return model.seats[model.alone[seat.pod_set, seat.rank]]
