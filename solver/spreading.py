"""Topology spread among the members, as constraints of the model.

A pod that is already in the emptiest group may stay however full the others are; so a group is bound only where the
plan puts a new member there (KEP 895, `doNotSchedule`).
"""

from typing import TYPE_CHECKING

from ortools.sat.python.cp_model import IntVar

from solver.linear import Sum
from solver.problem import Spread

if TYPE_CHECKING:
    from solver.model import Model


def add_spreads(model: "Model") -> None:
    """Groups that take new members have at most `skew` pods more than the emptiest."""
    for rule in model.case.problem.spreads:
        _add_spread(model, rule)


def _add_spread(model: "Model", rule: Spread) -> None:
    pods = {name: Sum((), count) + _placed_in(model, rule, name) for name, count in sorted(rule.counts.items())}
    most = max(rule.counts.values(), default=0) + sum(len(each.members) for each in model.case.problem.sets)
    emptiest = model.cp.new_int_var(0, 0 if rule.from_zero else most, "")
    for here in pods.values():
        model.cp.add(here.expression() >= emptiest)
    for name, here in pods.items():
        bound = [each for each in _in_group(model, rule, name) if model.kinds[each[0]].pod_set in rule.pod_sets]
        if bound:
            taken = model.flag()
            for kind, node, variable in bound:
                model.cp.add(variable <= model.most(kind, node) * taken)
            model.cp.add((here + Sum(((-1, emptiest),))).expression() <= rule.skew).only_enforce_if(taken)


def _placed_in(model: "Model", rule: Spread, name: str) -> Sum:
    """The counted members on the nodes of a group, those that stay where they are included."""
    members = _in_group(model, rule, name)
    new = Sum(tuple((1, variable) for kind, _, variable in members if model.kinds[kind].pod_set in rule.counted))
    case = model.case
    held = sum(seat.pod_set in rule.counted and rule.group[case.pinned_node(seat)] == name for seat in case.pinned)
    return new + Sum((), held)


def _in_group(model: "Model", rule: Spread, name: str) -> list[tuple[int, int, IntVar]]:
    """Kinds, nodes and counts of the members that may come to a group."""
    nodes = [node for node, group in enumerate(rule.group) if group == name]
    return [(kind, node, variable) for node in nodes for kind, variable in model.on_node[node]]
