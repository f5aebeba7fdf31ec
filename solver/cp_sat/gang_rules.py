"""The constraints of each gang in a model with several gangs: its minimum, and its `Multiple` constraints.

A `Multiple` constraint requires that each domain of a level holds a multiple of a number of members.
"""

from solver.cp_sat.linear import Sum, total
from solver.cp_sat.variables import Model
from solver.problem import GangRules, Multiple


def add_gang_rules(model: Model) -> None:
    """Add, for each gang, its minimum and its `Multiple` constraints. Both count the members of all of its sets."""
    for gang in model.instance.problem.gangs:
        model.cp.add(total(_placed(model, pod_set) for pod_set in gang.pod_sets).expression() >= gang.minimum)
        for rule in gang.multiples:
            _add_multiples(model, gang, rule)


def _placed(model: Model, pod_set: int) -> Sum:
    """Return the number of placed members of a set, as a model expression. Pinned members count."""
    held = sum(member.node is not None for member in model.instance.problem.sets[pod_set].members)
    return total(model.placed(kind) for kind in model.kinds_of(pod_set)) + Sum((), held)


def _add_multiples(model: Model, gang: GangRules, rule: Multiple) -> None:
    """Add the constraint `rule`: each domain of its level holds a multiple of `rule.of` members of the gang."""
    most = sum(len(model.instance.problem.sets[pod_set].members) for pod_set in gang.pod_sets)
    domains = {domain for pod_set in gang.pod_sets for domain in model.set_touched[pod_set][rule.level]}
    for domain in sorted(domains):
        count = total(model.set_in_domain(pod_set, rule.level, domain) for pod_set in gang.pod_sets)
        times = model.cp.new_int_var(0, most // rule.of, "")
        model.cp.add(count.expression() == rule.of * times)
