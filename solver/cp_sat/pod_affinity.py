"""Required pod affinity of members as constraints of a CP-SAT model (kube-scheduler's InterPodAffinity)."""

from solver.cp_model import IntVar
from solver.cp_sat.keeping_apart import Coming, coming_in, coming_to, held_in, none_of, only_if
from solver.cp_sat.linear import Sum, one, total
from solver.cp_sat.variables import Model
from solver.problem import Affinity


def add_affinities(model: Model) -> None:
    """Add the pod affinity: a member with pod affinity is placed only in a group with a matching pod. The matching pod
    runs outside the problem, is a victim that is not evicted, or is placed by the plan, too.
    """
    for rule in model.instance.problem.affinities:
        _add_affinity(model, rule)


def _add_affinity(model: Model, rule: Affinity) -> None:
    """Add one pod affinity constraint. Members of the constraint's `shapes` are placed only on nodes that are in a
    group, and only in groups with a matching pod.
    """
    alone = _alone(model, rule)
    nowhere = (node for node in range(len(model.on_node)) if any(group[node] is None for group in rule.groups))
    none_of(model, coming_to(model, nowhere, rule.shapes))
    for group, there in zip(rule.groups, rule.there, strict=True):
        held = held_in(model, group, rule.counted)
        others = coming_in(model, group, _providers(rule))
        used = []
        for name, coming in sorted(coming_in(model, group, rule.shapes).items()):
            taken = model.flag()
            only_if(model, coming, taken)
            used.append(taken)
            if name in there or held[name]:
                continue
            near = _coming(others.get(name, [])) + _staying(model, rule, group, name)
            if alone is not None:
                near += one(alone)
            model.cp.add(near.expression() >= taken)
        if alone is not None:
            model.cp.add(Sum(tuple((1, flag) for flag in used)).expression() <= 1).only_enforce_if(alone)


def _alone(model: Model, rule: Affinity) -> IntVar | None:
    """Return a flag that may be 1 only if no group has a matching pod. If it is 1, the members of the constraint may
    start one group, because they match their own affinity term.

    None if the constraint does not allow this, or if some group certainly has a matching pod.
    """
    nodes = model.instance.problem.victims.node
    somewhere = {node for group in rule.groups for node, name in enumerate(group) if name is not None}
    known = [victim for victim in sorted(rule.victims) if int(nodes[victim]) in somewhere]
    stays = any(victim not in model.evict for victim in known)
    held = any(name is not None for group in rule.groups for name in held_in(model, group, rule.counted))
    if not rule.themselves or any(rule.there) or held or stays:
        return None
    alone = model.flag()
    for victim in known:
        model.cp.add_implication(alone, model.evict[victim])
    for kind, node, variable in coming_to(model, somewhere, _providers(rule)):
        model.cp.add(variable <= model.most(kind, node) * (1 - alone))
    return alone


def _providers(rule: Affinity) -> frozenset[int]:
    """Return the shapes whose members may bind first: they match the pod affinity constraint, but the constraint does
    not limit them.
    """
    return frozenset(rule.counted) - frozenset(rule.shapes)


def _coming(coming: Coming) -> Sum:
    """Return the number of members in `coming` that are placed, as a model expression."""
    return Sum(tuple((1, variable) for _, _, variable in coming))


def _staying(model: Model, rule: Affinity, group: tuple[str | None, ...], name: str) -> Sum:
    """Return how many victims of the constraint in the group `name` are not evicted, as a model expression. `group`: by
    node, the name of its group.
    """
    nodes = model.instance.problem.victims.node
    victims = [victim for victim in sorted(rule.victims) if group[int(nodes[victim])] == name]
    return total(
        one(model.evict[each]).times(-1) + Sum((), 1) if each in model.evict else Sum((), 1) for each in victims
    )
