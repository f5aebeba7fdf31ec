"""Limits on evictions as constraints of a CP-SAT model: every running gang keeps its minimums or is evicted whole, and
disruption budgets hold.
"""

from collections.abc import Set as AbstractSet

from solver.cp_model import IntVar
from solver.cp_sat.linear import Sum
from solver.cp_sat.variables import Model


def add_victim_gangs(model: Model) -> None:
    """Add, for each running gang, that it keeps its minimums or is evicted whole. A gang can be evicted whole only if
    all of its pods may be evicted.
    """
    problem = model.instance.problem
    members: dict[int, dict[int, IntVar]] = {}
    for victim, variable in model.evict.items():
        gang = problem.victims[victim].gang
        if gang is not None:
            members.setdefault(gang, {})[victim] = variable
    for gang, variables in members.items():
        _victim_gang(model, gang, variables)


def _victim_gang(model: Model, gang: int, variables: dict[int, IntVar]) -> None:
    """Add the constraints of one running gang. `variables`: by useful victim of the gang, the variable that is 1 if the
    victim is evicted.
    """
    running = model.instance.problem.victim_gangs[gang]
    parts: list[tuple[AbstractSet[int], int]] = [(variables.keys(), running.running - running.minimum)]
    parts += [(each.victims & variables.keys(), each.running - each.minimum) for each in running.sets]
    binding = [
        (Sum(tuple((1, variables[victim]) for victim in sorted(members))), max(0, spare))
        for members, spare in parts
        if len(members) > max(0, spare)
    ]
    if not binding:
        return
    if len(variables) < running.running:
        for evicted, spare in binding:
            model.cp.add(evicted.expression() <= spare)
        return
    broken = model.flag()
    model.broken[gang] = broken
    for variable in variables.values():
        model.cp.add_implication(broken, variable)
    for evicted, spare in binding:
        model.cp.add(evicted.expression() <= spare).only_enforce_if(~broken)


def add_budgets(model: Model) -> None:
    """Add the disruption budgets: at most `allowed` of each budget's victims are evicted."""
    for budget in model.instance.problem.budgets:
        flags = [model.evict[victim] for victim in sorted(budget.victims) if victim in model.evict]
        if len(flags) > budget.allowed:
            model.cp.add(Sum(tuple((1, variable) for variable in flags)).expression() <= budget.allowed)
