"""Functions that remove one feature each from a problem: a solver that ignores the feature would see the result."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from solver.nodes import nodes_of
from solver.problem import Problem, victim_table

Blind = Callable[[Problem], Problem]
"""Returns the problem without a feature; an equal problem if the instance does not have the feature."""


def without_sets(problem: Problem) -> Problem:
    """Put all members into one set, with the rules of the first set that has rules."""
    filled = [position for position, each in enumerate(problem.sets) if each.members]
    if len(filled) < 2:
        return problem
    whole = replace(
        problem.sets[filled[0]],
        members=tuple(member for each in problem.sets for member in each.members),
        minimum=sum(each.minimum for each in problem.sets),
    )
    return replace(problem, sets=(whole,), together=())


def without_kinds(problem: Problem) -> Problem:
    """Give every pending member the shape of the first one."""
    pending = [member for each in problem.sets for member in each.members if member.node is None]
    return _with_members(problem, shape=pending[0].shape) if pending else problem


def without_pins(problem: Problem) -> Problem:
    """Make every member pending: no member runs already."""
    sets = [
        replace(each, members=tuple(replace(member, node=None) for member in each.members)) for each in problem.sets
    ]
    return replace(problem, sets=tuple(sets))


def _with_members(problem: Problem, shape: int) -> Problem:
    sets = [
        replace(
            each,
            members=tuple(replace(member, shape=shape) if member.node is None else member for member in each.members),
        )
        for each in problem.sets
    ]
    return replace(problem, sets=tuple(sets))


def _of_sets(problem: Problem, **values: Any) -> Problem:
    """Replace these fields in every set."""
    return replace(problem, sets=tuple(replace(each, **values) for each in problem.sets))


def without_required_of_sets(problem: Problem) -> Problem:
    return _of_sets(problem, required=None)


def without_required(problem: Problem) -> Problem:
    return replace(problem, required=None)


def without_slices(problem: Problem) -> Problem:
    return _of_sets(problem, slices=())


def without_inner_slices(problem: Problem) -> Problem:
    return replace(problem, sets=tuple(replace(each, slices=each.slices[:1]) for each in problem.sets))


def without_innermost_slices(problem: Problem) -> Problem:
    """Keep at most two of three nested slice sizes."""
    return replace(problem, sets=tuple(replace(each, slices=each.slices[:2]) for each in problem.sets))


def without_multiples_of_sets(problem: Problem) -> Problem:
    return _of_sets(problem, multiples=())


def without_multiples(problem: Problem) -> Problem:
    return replace(problem, multiples=())


def without_caps(problem: Problem) -> Problem:
    return _of_sets(problem, caps=())


def without_extras_of_sets(problem: Problem) -> Problem:
    """Set the minimum of every set to all of its members."""
    return replace(problem, sets=tuple(replace(each, minimum=len(each.members)) for each in problem.sets))


def without_minimum(problem: Problem) -> Problem:
    """Lower the gang's minimum to the sum of its sets' minimums."""
    return replace(problem, minimum=min(problem.minimum, sum(each.minimum for each in problem.sets)))


def without_together(problem: Problem) -> Problem:
    return replace(problem, together=())


def without_preferences(problem: Problem) -> Problem:
    return replace(problem, shapes=tuple(replace(shape, preferences={}) for shape in problem.shapes))


def without_weights(problem: Problem) -> Problem:
    """Give all preferred nodes equal weights."""
    shapes = [replace(shape, preferences=dict.fromkeys(shape.preferences, 1)) for shape in problem.shapes]
    return replace(problem, shapes=tuple(shapes))


def without_eligibility(problem: Problem) -> Problem:
    everywhere = frozenset(range(len(problem.nodes)))
    shapes = [replace(shape, nodes=everywhere, excluded={}) for shape in problem.shapes]
    return replace(problem, shapes=tuple(shapes))


def without_exclusions(problem: Problem) -> Problem:
    return replace(problem, exclusions=())


def without_exclusions_between_shapes(problem: Problem) -> Problem:
    """Restrict each exclusion to members of one shape, and remove separations."""
    rules = [replace(rule, shapes=(shape,)) for rule in problem.exclusions for shape in rule.shapes]
    return replace(problem, exclusions=tuple(rules), separations=())


def without_separations(problem: Problem) -> Problem:
    return replace(problem, separations=())


def without_conflicts(problem: Problem) -> Problem:
    """Remove conflicts: a victim keeps members off a node by its requests only."""
    return replace(problem, conflicts=())


def without_clearing(problem: Problem) -> Problem:
    """Forbid nodes with a conflict: no plan evicts a victim because it conflicts with a member."""
    barred = [
        {node for rule in problem.conflicts if shape in rule.shapes for node in rule.nodes}
        for shape in range(len(problem.shapes))
    ]
    shapes = [replace(shape, nodes=shape.nodes - nodes) for shape, nodes in zip(problem.shapes, barred, strict=True)]
    return replace(problem, shapes=tuple(shapes), conflicts=())


def without_affinities(problem: Problem) -> Problem:
    """Remove all affinities."""
    return replace(problem, affinities=())


def without_affinity_among_members(problem: Problem) -> Problem:
    """Keep only affinities to pods outside the gang."""
    return replace(
        problem, affinities=tuple(replace(rule, counted=(), themselves=False) for rule in problem.affinities)
    )


def without_leaving_companions(problem: Problem) -> Problem:
    """Treat every victim that an affinity counts as a pod that stays."""
    rules = [
        replace(
            rule,
            victims=frozenset(),
            there=tuple(
                names | {name for v in rule.victims if (name := group[problem.victims[v].node]) is not None}
                for group, names in zip(rule.groups, rule.there, strict=True)
            ),
        )
        for rule in problem.affinities
    ]
    return replace(problem, affinities=tuple(rules))


def without_leaving_spread(problem: Problem) -> Problem:
    """Count victims in topology spread even if the plan evicts them."""
    return replace(problem, spreads=tuple(replace(rule, victims=frozenset()) for rule in problem.spreads))


def without_counted_exclusions(problem: Problem) -> Problem:
    """Allow one member in each group of an exclusion."""
    return replace(problem, exclusions=tuple(replace(rule, count=1) for rule in problem.exclusions))


def without_spread(problem: Problem) -> Problem:
    return replace(problem, spreads=())


def without_pods_of_others(problem: Problem) -> Problem:
    """Let topology spread count the gang's own members only."""
    rules = [replace(rule, counts=dict.fromkeys(rule.counts, 0)) for rule in problem.spreads]
    return replace(problem, spreads=tuple(rules))


def without_victims(problem: Problem) -> Problem:
    stay = without_leaving_companions(without_leaving_spread(without_clearing(problem)))
    return replace(stay, victims=victim_table(()), victim_gangs=(), budgets=())


def without_priorities(problem: Problem) -> Problem:
    return replace(problem, victims=victim_table(replace(each, priority=0) for each in problem.victims))


def without_victim_gangs(problem: Problem) -> Problem:
    """Remove running gangs: every victim is a pod without a gang."""
    return replace(problem, victims=victim_table(replace(each, gang=None) for each in problem.victims), victim_gangs=())


def without_minimums_of_victim_sets(problem: Problem) -> Problem:
    """Remove the minimums of running gangs' sets: only the total minimum of a running gang counts."""
    return replace(problem, victim_gangs=tuple(replace(gang, sets=()) for gang in problem.victim_gangs))


def without_minimums_of_victim_gangs(problem: Problem) -> Problem:
    """Set the minimum of every running gang to all of its members."""
    gangs = [replace(gang, minimum=gang.running) for gang in problem.victim_gangs]
    return replace(problem, victim_gangs=tuple(gangs))


def without_protected_members(problem: Problem) -> Problem:
    """All members of running gangs may be evicted."""
    counts = Counter(each.gang for each in problem.victims)
    gangs = [
        replace(
            gang,
            running=counts[at],
            minimum=max(0, gang.minimum - gang.running + counts[at]),
            sets=tuple(
                replace(
                    each, running=len(each.victims), minimum=max(0, each.minimum - each.running + len(each.victims))
                )
                for each in gang.sets
            ),
        )
        for at, gang in enumerate(problem.victim_gangs)
    ]
    return replace(problem, victim_gangs=tuple(gangs))


def without_budgets(problem: Problem) -> Problem:
    return replace(problem, budgets=())


def without_second_budget(problem: Problem) -> Problem:
    return replace(problem, budgets=problem.budgets[:1])


def without_room_to_come(problem: Problem) -> Problem:
    """Subtract the requests of terminating pods from the free capacity."""
    nodes = [
        replace(
            node,
            free=tuple(free - leaving for free, leaving in zip(node.free, node.terminating, strict=True)),
            terminating=(0,) * len(node.free),
        )
        for node in problem.nodes
    ]
    return replace(problem, nodes=nodes_of(nodes))


def without_second_resource(problem: Problem) -> Problem:
    return replace(
        problem,
        resources=problem.resources[-1:],
        nodes=nodes_of(replace(node, free=node.free[-1:], terminating=node.terminating[-1:]) for node in problem.nodes),
        shapes=tuple(replace(shape, requests=shape.requests[-1:]) for shape in problem.shapes),
        victims=victim_table(replace(victim, requests=victim.requests[-1:]) for victim in problem.victims),
    )


def without_overcommitment(problem: Problem) -> Problem:
    """No node owes anything."""
    nodes = [replace(node, free=tuple(max(0, free) for free in node.free)) for node in problem.nodes]
    return replace(problem, nodes=nodes_of(nodes))


FEATURES: Mapping[str, Blind] = {
    "several sets": without_sets,
    "sets and members that ask for different things": without_kinds,
    "several resources": without_second_resource,
    "required level of the gang": without_required,
    "required level of a set": without_required_of_sets,
    "slices": without_slices,
    "slices in slices": without_inner_slices,
    "slices nested three times": without_innermost_slices,
    "multiples of a set": without_multiples_of_sets,
    "multiples of the gang": without_multiples,
    "caps": without_caps,
    "extras of a set": without_extras_of_sets,
    "minimum of the gang": without_minimum,
    "sets together": without_together,
    "node preferences": without_preferences,
    "weights of preferences": without_weights,
    "eligibility": without_eligibility,
    "exclusions": without_exclusions,
    "members that are unlike and keep off each other": without_exclusions_between_shapes,
    "separations": without_separations,
    "victims in the way": without_conflicts,
    "victims in the way that may go": without_clearing,
    "affinity": without_affinities,
    "affinity among members": without_affinity_among_members,
    "victims that members are to be near to": without_leaving_companions,
    "victims that topology spread counts": without_leaving_spread,
    "exclusions of more than one": without_counted_exclusions,
    "topology spread": without_spread,
    "pods of others in topology spread": without_pods_of_others,
    "members that run already": without_pins,
    "overcommitted nodes": without_overcommitment,
    "room that is terminating": without_room_to_come,
    "victims": without_victims,
    "priorities as tiers": without_priorities,
    "running gangs as units": without_victim_gangs,
    "minimums of running gangs": without_minimums_of_victim_gangs,
    "minimums of running gangs' sets": without_minimums_of_victim_sets,
    "running members that are protected": without_protected_members,
    "disruption budgets": without_budgets,
    "several budgets": without_second_budget,
}
