"""An independent check of a plan: every hard constraint, and every goal value counted again.

Written from docs/decisions/0002 and `solver.problem` alone; it shares no code with the model that made the plan.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from solver.nodes import Path
from solver.plan import Goal, Plan, Proof
from solver.problem import Affinity, PodSet, Problem, Spread
from solver.verify.goals import recounted
from solver.verify.joint_rules import JOINT_CHECKS
from solver.verify.plan_view import PlacedMember, PlanView


def verify(problem: Problem, plan: Plan) -> tuple[str, ...]:
    """Return the faults of a plan as sentences: broken constraints and wrong goal values. Empty if it has none."""
    shape = tuple(_wrong_form(problem, plan))
    if shape:
        return shape
    view = PlanView(problem, plan)
    return (*_broken(view), *_wrong_goals(view))


def broken_rules(problem: Problem, plan: Plan) -> tuple[str, ...]:
    """Return the hard constraints that a plan breaks, as sentences; empty if it breaks none. Its goal values are not
    checked.
    """
    shape = tuple(_wrong_form(problem, plan))
    if shape:
        return shape
    return tuple(_broken(PlanView(problem, plan)))


def _broken(view: PlanView) -> Iterator[str]:
    return (fault for check in CHECKS for fault in check(view))


def _wrong_form(problem: Problem, plan: Plan) -> Iterator[str]:
    """Yield a sentence for each fault of form, such as a node that does not exist. The other checks are only possible
    for a plan without such faults.
    """
    if [len(row) for row in plan.nodes] != [len(pod_set.members) for pod_set in problem.sets]:
        yield "the plan does not list every member of every set"
        return
    known = range(len(problem.nodes))
    if any(node is not None and node not in known for row in plan.nodes for node in row):
        yield "a member is on a node that does not exist"
    if len(set(plan.victims)) < len(plan.victims):
        yield "a victim is named twice"
    running = range(len(problem.victims))
    if any(victim not in running for victim in plan.victims):
        yield "a victim does not exist"
    if plan.proof not in (Proof.OPTIMAL, Proof.FEASIBLE):
        yield f"a plan cannot be proven {plan.proof.value}"


def _pinned(view: PlanView) -> Iterator[str]:
    for pod_set, row in zip(view.problem.sets, view.plan.nodes, strict=True):
        for member, node in zip(pod_set.members, row, strict=True):
            if member.node is not None and member.node != node:
                yield f"{member.key} does not stay where it is"


def _eligible(view: PlanView) -> Iterator[str]:
    for each in view.placed:
        if each.new and each.node not in view.problem.shapes[each.member.shape].nodes:
            yield f"{each.member.key} may not run on {view.problem.nodes.layout.names[each.node]}"


def _room(view: PlanView) -> Iterator[str]:
    """Yield a sentence for each node on which new members request more than is free. A node may have too little of a
    resource that no new member requests.
    """
    new: dict[int, list[tuple[int, ...]]] = {}
    for each in view.placed:
        if each.new:
            new.setdefault(each.node, []).append(view.asks(each))
    for position, amounts in sorted(new.items()):
        free = view.problem.nodes.free[position].tolist()
        gone = view.leaving.get(position, [])
        for resource, name in enumerate(view.problem.resources):
            asked = sum(each[resource] for each in amounts)
            if asked > 0 and asked > free[resource] + sum(each[resource] for each in gone):
                yield f"{view.problem.nodes.layout.names[position]} has too little {name}"


def _minimums(view: PlanView) -> Iterator[str]:
    if len(view.placed) < view.problem.minimum:
        yield f"{len(view.placed)} members are placed, {view.problem.minimum} must be"
    for position, pod_set in enumerate(view.problem.sets):
        if len(view.of_set[position]) < pod_set.minimum:
            yield f"set {pod_set.name} has fewer than its {pod_set.minimum} members"


def _required_levels(view: PlanView) -> Iterator[str]:
    problem = view.problem
    if problem.required is not None and len(view.domains(problem.required, view.placed)) > 1:
        yield f"the gang is in several domains of {view.level(problem.required)}"
    for position, pod_set in enumerate(problem.sets):
        if pod_set.required is not None and len(view.domains(pod_set.required, view.of_set[position])) > 1:
            yield f"set {pod_set.name} is in several domains of {view.level(pod_set.required)}"


def _together(view: PlanView) -> Iterator[str]:
    for rule in view.problem.together:
        members = [each for each in view.placed if each.pod_set in rule.pod_sets]
        if len(view.domains(rule.level, members)) > 1:
            names = ", ".join(view.problem.sets[pod_set].name for pod_set in rule.pod_sets)
            yield f"sets {names} share no domain of {view.level(rule.level)}"


def _slices(view: PlanView) -> Iterator[str]:
    for position, pod_set in enumerate(view.problem.sets):
        for rule in pod_set.slices:
            parts: dict[int, set[Path]] = {}
            for each in view.of_set[position]:
                parts.setdefault(each.rank // rule.size, set()).add(view.path(rule.level, each.node))
            if any(len(paths) > 1 for paths in parts.values()):
                yield f"a slice of set {pod_set.name} is in several domains of {view.level(rule.level)}"


def _counts(view: PlanView) -> Iterator[str]:
    for rule in view.problem.multiples:
        if any(count % rule.of for count in view.domains(rule.level, view.placed).values()):
            yield f"the gang is not in multiples of {rule.of} in each {view.level(rule.level)}"
    for position, pod_set in enumerate(view.problem.sets):
        yield from _counts_of_set(view, pod_set, view.of_set[position])


def _counts_of_set(view: PlanView, pod_set: PodSet, placed: list[PlacedMember]) -> Iterator[str]:
    for multiple in pod_set.multiples:
        if any(count % multiple.of for count in view.domains(multiple.level, placed).values()):
            yield f"set {pod_set.name} is not in multiples of {multiple.of} in each {view.level(multiple.level)}"
    for cap in pod_set.caps:
        if any(count > cap.count for count in view.domains(cap.level, placed).values()):
            yield f"set {pod_set.name} has more than {cap.count} members in one {view.level(cap.level)}"


def _exclusions(view: PlanView) -> Iterator[str]:
    for rule in view.problem.exclusions:
        members = [each for each in view.placed if each.member.shape in rule.shapes]
        entered = _counted(rule.group, (each for each in members if each.new))
        for group, count in sorted(_counted(rule.group, members).items()):
            if entered[group] and count > rule.count:
                yield f"{count} members that exclude each other are in {group}"


def _separations(view: PlanView) -> Iterator[str]:
    for rule in view.problem.separations:
        sides = [[each for each in view.placed if each.member.shape in side] for side in (rule.shapes, rule.others)]
        one, other = (_counted(rule.group, side) for side in sides)
        entered = _counted(rule.group, (each for side in sides for each in side if each.new))
        for group in sorted(entered):
            if one[group] and other[group]:
                yield f"members of two shapes that must be apart are in {group}"


def _conflicts(view: PlanView) -> Iterator[str]:
    gone = set(view.plan.victims)
    names = view.problem.nodes.layout.names
    new = [each for each in view.placed if each.new]
    for rule in view.problem.conflicts:
        if not rule.victims <= gone:
            for each in new:
                if each.member.shape in rule.shapes and each.node in rule.nodes:
                    yield f"{each.member.key} is on {names[each.node]}, but a conflicting pod is not evicted"


def _affinities(view: PlanView) -> Iterator[str]:
    for rule in view.problem.affinities:
        new = [each for each in view.placed if each.new and each.member.shape in rule.shapes]
        near = [
            set(there).union(*(_named(group, node) for node in _providers(view, rule)))
            for group, there in zip(rule.groups, rule.there, strict=True)
        ]
        shared = [{group[each.node] for each in new} for group in rule.groups]
        if rule.themselves and not any(near) and all(len(names) == 1 and None not in names for names in shared):
            continue
        for each in new:
            if any(group[each.node] not in names for group, names in zip(rule.groups, near, strict=True)):
                yield f"{each.member.key} has no pod near it that its affinity requires"


def _providers(view: PlanView, rule: Affinity) -> Iterator[int]:
    """Yield the nodes of the pods that satisfy the pod affinity constraint `rule`.

    These pods are victims that are not evicted, pinned members, and new members that match the constraint and have no
    such affinity themselves.
    """
    for victim in rule.victims.difference(view.plan.victims):
        yield view.problem.victims[victim].node
    for each in view.placed:
        if each.member.shape in rule.counted and not (each.new and each.member.shape in rule.shapes):
            yield each.node


def _named(group: tuple[str | None, ...], node: int) -> set[str]:
    name = group[node]
    return set() if name is None else {name}


def _spreads(view: PlanView) -> Iterator[str]:
    for rule in view.problem.spreads:
        pods = Counter(rule.counts)
        pods.update(_counted(rule.group, (each for each in view.placed if each.member.shape in rule.counted)))
        pods.subtract(_evicted_of(view, rule))
        least = 0 if rule.from_zero else min((pods[name] for name in rule.counts), default=0)
        new = (each for each in view.placed if each.new and each.member.shape in rule.shapes)
        for group in sorted(_counted(rule.group, new)):
            if pods[group] - least > rule.skew:
                yield f"{group} has {pods[group] - least} pods more than the emptiest, not {rule.skew}"


def _evicted_of(view: PlanView, rule: Spread) -> Counter[str]:
    """Return, by group, the evicted pods that the topology spread constraint counted before."""
    nodes = view.problem.victims.node[[each for each in view.plan.victims if each in rule.victims]].tolist()
    return Counter(name for node in nodes if (name := rule.group[node]) is not None)


def _counted(group: tuple[str | None, ...], placed: Iterable[PlacedMember]) -> Counter[str]:
    return Counter(name for each in placed if (name := group[each.node]) is not None)


def _victim_gangs(view: PlanView) -> Iterator[str]:
    gone = Counter(victim.gang for victim in view.evicted)
    for position, gang in enumerate(view.problem.victim_gangs):
        left = gang.running - gone[position]
        if not gone[position] or left <= 0:
            continue
        if left < gang.minimum:
            yield f"gang {gang.name} is cut to {left}, below its minimum of {gang.minimum}"
        for part in gang.sets:
            stay = part.running - len(part.victims.intersection(view.plan.victims))
            if stay < part.minimum:
                yield f"set {part.name} of gang {gang.name} is cut to {stay}, below its minimum of {part.minimum}"


def _budgets(view: PlanView) -> Iterator[str]:
    for budget in view.problem.budgets:
        gone = len(budget.victims.intersection(view.plan.victims))
        if gone > budget.allowed:
            yield f"budget {budget.name} allows {budget.allowed} evictions, not {gone}"


CHECKS: tuple[Callable[[PlanView], Iterator[str]], ...] = (
    _pinned,
    _eligible,
    _room,
    _minimums,
    _required_levels,
    _together,
    _slices,
    _counts,
    _exclusions,
    _separations,
    _conflicts,
    _affinities,
    _spreads,
    _victim_gangs,
    _budgets,
    *JOINT_CHECKS,
)


def _wrong_goals(view: PlanView) -> Iterator[str]:
    """Yield a sentence for each goal that is missing, has a wrong value, or has a bound that contradicts the plan's
    proof.
    """
    claimed, counted = view.plan.goals, list(recounted(view))
    if [goal.name for goal in claimed] != [each.name for each in counted]:
        yield "the goals are not those of decision 2, in its order"
        return
    for goal, (name, value, parts, more_is_better) in zip(claimed, counted, strict=True):
        if goal.value != value or dict(goal.parts) != (parts if len(parts) > 1 else {}):
            yield f"goal {name} is {value} {parts}, not {goal.value} {dict(goal.parts)}"
        if not _bound_fits(goal, view.plan.proof, more_is_better=more_is_better):
            yield f"goal {name} has the value {goal.value} and the bound {goal.bound}, {view.plan.proof.value}"


def _bound_fits(goal: Goal, proof: Proof, *, more_is_better: bool) -> bool:
    if proof is Proof.OPTIMAL:
        return goal.bound == goal.value
    return goal.bound >= goal.value if more_is_better else goal.bound <= goal.value
