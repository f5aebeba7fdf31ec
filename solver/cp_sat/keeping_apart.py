"""Constraints of a CP-SAT model that keep pods apart, because of host ports and anti-affinity.

An exclusion limits the members of some shapes in a group of nodes. A separation keeps two lists of shapes apart. A
conflict keeps members off a node until certain victims are evicted.
"""

from collections import Counter
from collections.abc import Collection, Iterable

from solver.cp_model import IntVar
from solver.cp_sat.linear import Sum
from solver.cp_sat.variables import Model
from solver.problem import Conflict, Exclusion, Separation

Coming = list[tuple[int, int, IntVar]]
"""New members as triples: a member class, a node, and the variable that counts the members of the class that the plan
places on the node.
"""


def add_exclusions(model: Model) -> None:
    """Add the exclusions: if a group gets a new member of `shapes`, the group has at most `count` members of `shapes`,
    pinned members included.
    """
    for rule in model.instance.problem.exclusions:
        _add_exclusion(model, rule)


def _add_exclusion(model: Model, rule: Exclusion) -> None:
    held = held_in(model, rule.group, rule.shapes)
    for name, coming in coming_in(model, rule.group, rule.shapes).items():
        new = Sum(tuple((1, variable) for _, _, variable in coming))
        model.cp.add(new.expression() <= max(0, rule.count - held[name]))


def add_separations(model: Model) -> None:
    """Add the separations: a group that gets a new member has members of only one of the two lists of shapes (`shapes`
    or `others`).
    """
    for rule in model.instance.problem.separations:
        _add_separation(model, rule)


def _add_separation(model: Model, rule: Separation) -> None:
    sides = rule.shapes, rule.others
    held = [held_in(model, rule.group, side) for side in sides]
    coming = [coming_in(model, rule.group, side) for side in sides]
    for name in sorted(coming[0].keys() | coming[1].keys()):
        one, other = (each.get(name, []) for each in coming)
        if held[1][name]:
            none_of(model, one)
        if held[0][name]:
            none_of(model, other)
        if one and other:
            first = model.flag()
            only_if(model, one, first)
            for kind, node, variable in other:
                model.cp.add(variable <= model.most(kind, node) * (1 - first))


def add_conflicts(model: Model) -> None:
    """Add the conflicts: a member is placed on a node only if all victims that conflict with it on this node are
    evicted.
    """
    for rule in model.instance.problem.conflicts:
        _add_conflict(model, rule)


def _add_conflict(model: Model, rule: Conflict) -> None:
    coming = coming_to(model, rule.nodes, rule.shapes)
    if not coming:
        return
    if not rule.victims <= model.evict.keys():
        none_of(model, coming)
        return
    taken = model.flag()
    only_if(model, coming, taken)
    for victim in sorted(rule.victims):
        model.cp.add_implication(taken, model.evict[victim])


def none_of(model: Model, coming: Coming) -> None:
    """Add the constraint that the plan places none of the members that the variables in `coming` count."""
    for _, _, variable in coming:
        model.cp.add(variable == 0)


def only_if(model: Model, coming: Coming, flag: IntVar) -> None:
    """Add the constraint that the plan places members counted by the variables in `coming` only if the flag is 1."""
    for kind, node, variable in coming:
        model.cp.add(variable <= model.most(kind, node) * flag)


def held_in(model: Model, group: tuple[str | None, ...], shapes: Collection[int]) -> Counter[str | None]:
    """Return, by group, the number of pinned members of these shapes."""
    instance = model.instance
    return Counter(
        group[instance.pinned_node(seat)] for seat in instance.pinned if instance.member(seat).shape in shapes
    )


def coming_in(model: Model, group: tuple[str | None, ...], shapes: Collection[int]) -> dict[str, Coming]:
    """Return, by group, the variables that count the new members of these shapes on its nodes."""
    found: dict[str, Coming] = {}
    for node, name in enumerate(group):
        if name is not None and (arrivals := coming_to(model, (node,), shapes)):
            found.setdefault(name, []).extend(arrivals)
    return found


def coming_to(model: Model, nodes: Iterable[int], shapes: Collection[int]) -> Coming:
    """Return the variables that count the new members of these shapes on these nodes, each with its class and node."""
    return [
        (kind, node, variable)
        for node in sorted(nodes)
        for kind, variable in model.on_node[node]
        if model.kinds[kind].shape in shapes
    ]
