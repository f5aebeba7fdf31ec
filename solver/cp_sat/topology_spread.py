"""Hard topology spread as constraints of a CP-SAT model.

The scheduler checks topology spread only for a pod that it binds, not for pods that run already. So a group of nodes is
limited only if the plan places a new member in it (KEP 895, `doNotSchedule`).
"""

from collections import Counter
from collections.abc import Mapping

from solver.bounds.emptiest_group import fewest_in_emptiest
from solver.capacity import needed_members
from solver.cp_model import IntVar
from solver.cp_sat.linear import Sum, one
from solver.cp_sat.variables import Model
from solver.problem import Spread

_Member = tuple[int, int, IntVar]
"""New members as a triple: a member class, a node, and the variable that counts the members of the class that the plan
places on the node.
"""


def add_spreads(model: Model) -> None:
    """Add the topology spread: groups that take new members have at most `skew` pods more than the emptiest group."""
    for rule in model.instance.problem.spreads:
        _add_spread(model, rule)


def _add_spread(model: Model, rule: Spread) -> None:
    """Add one topology spread constraint. A variable holds the number of pods in the emptiest group."""
    instance = model.instance
    most = max(rule.counts.values(), default=0) + sum(len(each.members) for each in instance.problem.sets)
    emptiest = model.cp.new_int_var(0, 0 if rule.from_zero else most, "")
    held = Counter(
        rule.group[instance.pinned_node(seat)]
        for seat in instance.pinned
        if instance.member(seat).shape in rule.counted
    )
    coming, leaving = _coming(model, rule), _leaving(model, rule)
    model.cp.add(
        emptiest >= _fewest_in_emptiest(model, rule, held, {name: len(each) for name, each in leaving.items()})
    )
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
            together = Sum(tuple((1, variable) for _, _, variable in bound))
            # redundant, but with it CP-SAT proves the optimum sooner
            model.cp.add((together + one(taken).times(-most)).expression() <= 0)
            model.cp.add(beyond.expression() <= rule.skew).only_enforce_if(taken)


def _fewest_in_emptiest(model: Model, rule: Spread, held: Counter[str | None], leaving: Mapping[str, int]) -> int:
    """Return a lower bound on the pods of the emptiest group, by counting.

    If the emptiest group had fewer pods, the other groups could not take all members that must be placed. The bound is
    redundant in the model, but with it CP-SAT proves the optimum much sooner. `held`: the pinned members in each group.
    `leaving`: the victims in each group.
    """
    instance, both = model.instance, sorted(set(rule.shapes) & set(rule.counted))
    able = instance.capacity[both].max(axis=0, initial=0) > 0
    elsewhere = any(able[node] and name not in rule.counts for node, name in enumerate(rule.group))
    if rule.from_zero or elsewhere or not rule.counts:
        return 0
    others = sum(instance.member(seat).shape not in both for seat in instance.pending)
    coming = needed_members(instance.problem) - len(instance.pinned) - others
    before = [count + held[name] - leaving.get(name, 0) for name, count in rule.counts.items()]
    return max(0, fewest_in_emptiest(before, rule.skew, coming))


def _coming(model: Model, rule: Spread) -> dict[str, list[_Member]]:
    """Return, by group, the variables that count the new members on its nodes."""
    coming: dict[str, list[_Member]] = {}
    for node, name in enumerate(rule.group):
        if name is not None:
            coming.setdefault(name, []).extend((kind, node, variable) for kind, variable in model.on_node[node])
    return coming


def _leaving(model: Model, rule: Spread) -> dict[str, list[IntVar]]:
    """Return, by group, the flags of the victims that the constraint counts until they are evicted."""
    leaving: dict[str, list[IntVar]] = {}
    for victim in sorted(rule.victims):
        name = rule.group[int(model.instance.problem.victims.node[victim])]
        if name is not None and victim in model.evict:
            leaving.setdefault(name, []).append(model.evict[victim])
    return leaving
