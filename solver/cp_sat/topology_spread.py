"""Topology spread among the members, as constraints of the model.

A pod that is already in the emptiest group may stay however full the others are; so a group is bound only where the
plan puts a new member there (KEP 895, `doNotSchedule`).
"""

from collections import Counter

from ortools.sat.python.cp_model import IntVar

from solver.cp_sat.linear import Sum
from solver.cp_sat.variables import Model
from solver.problem import Spread

_Member = tuple[int, int, IntVar]
"""A kind, a node, and how many of the kind come there."""


def add_spreads(model: Model) -> None:
    """Groups that take new members have at most `skew` pods more than the emptiest."""
    for rule in model.instance.problem.spreads:
        _add_spread(model, rule)


def _add_spread(model: Model, rule: Spread) -> None:
    instance = model.instance
    most = max(rule.counts.values(), default=0) + sum(len(each.members) for each in instance.problem.sets)
    emptiest = model.cp.new_int_var(0, 0 if rule.from_zero else most, "")
    held = Counter(
        rule.group[instance.pinned_node(seat)]
        for seat in instance.pinned
        if instance.member(seat).shape in rule.counted
    )
    coming, leaving = _coming(model, rule), _leaving(model, rule)
    for name, count in sorted(rule.counts.items()):
        members = coming.get(name, [])
        new = tuple((1, variable) for kind, _, variable in members if model.kinds[kind].shape in rule.counted)
        gone = tuple((-1, variable) for variable in leaving.get(name, ()))
        beyond = Sum((*new, *gone, (-1, emptiest)), count + held[name])
        model.cp.add(beyond.expression() >= 0)
        bound = [each for each in members if model.kinds[each[0]].shape in rule.shapes]
        if bound:
            taken = model.flag()
            for kind, node, variable in bound:
                model.cp.add(variable <= model.most(kind, node) * taken)
            model.cp.add(beyond.expression() <= rule.skew).only_enforce_if(taken)


def _coming(model: Model, rule: Spread) -> dict[str, list[_Member]]:
    """By group, the members that may come there."""
    coming: dict[str, list[_Member]] = {}
    for node, name in enumerate(rule.group):
        if name is not None:
            coming.setdefault(name, []).extend((kind, node, variable) for kind, variable in model.on_node[node])
    return coming


def _leaving(model: Model, rule: Spread) -> dict[str, list[IntVar]]:
    """By group, those who count until they go."""
    leaving: dict[str, list[IntVar]] = {}
    for victim in sorted(rule.victims):
        name = rule.group[int(model.instance.problem.victims.node[victim])]
        if name is not None and victim in model.evict:
            leaving.setdefault(name, []).append(model.evict[victim])
    return leaving
