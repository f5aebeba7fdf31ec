"""Finds a plan that respects the rules between a gang's members that the solver's problem cannot state exactly.

These are hard topology spread, and pod affinity or anti-affinity that no exclusion expresses. First the gang is planned
without these rules. If this plan respects them all the same, the plan is optimal. If not, the gang is planned with
exclusions that keep the topology spread in any order of binding. Such a plan is not proven optimal. In a small cluster,
or if that fails, the gang is planned with the topology spread itself, counted with all members placed. If the scheduler
could bind the members of that plan in no order, nothing is proven.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from msgspec import structs

from cluster.eligibility.nodes import Eligibility
from cluster.eligibility.pod_affinity import AFFINITY, Neighbourhood, affinity_terms
from cluster.snapshot import Snapshot
from planning.after_plan import after
from planning.decision import Assignment, Decision
from planning.framing.shapes import scheduling_key, watched_labels
from planning.scheduler_rules.binding_order import BindingOrder
from solver.plan import Answer, Goal, NoPlan, Plan, Proof
from solver.problem import Exclusion, Problem

UNFULFILLED = NoPlan(Proof.UNPROVEN)
SMALL = 100
"""Number of nodes up to which the best plan that keeps the spread is searched although a good one is known."""


def answer_with_member_rules(
    problem: Problem,
    limits: Callable[[], tuple[Exclusion, ...]],
    solve: Callable[[Problem], Answer],
    stands: Callable[[Plan], bool],
) -> Answer:
    """Return the best found plan that the scheduler can carry out, or a rejection.

    `limits`: returns exclusions that keep the topology spread in any order of binding. `solve`: solves a problem.
    `stands`: whether the scheduler can carry out a plan. The result is `UNFULFILLED` if there are plans, but `stands`
    accepts none of those that were found.
    """
    loose = replace(problem, spreads=tuple(rule for rule in problem.spreads if not rule.counted))
    free = solve(loose)
    if isinstance(free, Plan) and stands(free):
        return free
    kept = limits() if isinstance(free, Plan) else ()
    careful = solve(replace(loose, exclusions=loose.exclusions + kept)) if kept else None
    measured = _measured_by(free, careful) if isinstance(free, Plan) and isinstance(careful, Plan) else None
    found = measured if measured is not None and stands(measured) else None
    if found is not None and (len(problem.nodes) > SMALL or not problem.spreads):
        return found
    if isinstance(free, NoPlan):
        return _refused(problem, loose, free, solve)
    best = solve(problem) if problem.spreads else free
    if isinstance(best, NoPlan):
        return found or best
    return best if best is not free and stands(best) else found or UNFULFILLED


def _refused(problem: Problem, loose: Problem, answer: NoPlan, solve: Callable[[Problem], Answer]) -> NoPlan:
    """Return the rejection `answer`, with an explanation that respects topology spread.

    `answer`: the rejection of `loose`, the problem without the spread constraints that count members.

    An explanation without the spread would count too many members in a domain, and suggest changes that the spread
    forbids.
    """
    explained = solve(problem) if len(loose.spreads) < len(problem.spreads) else answer
    return replace(explained, proof=answer.proof) if isinstance(explained, NoPlan) else answer


def stands(decision: Decision, snapshot: Snapshot) -> bool:
    """Whether the stock scheduler can carry out the plan, as far as its new members depend on each other.

    For each member, topology spread and every other rule must hold if it is bound last. And there must be an order in
    which the scheduler accepts all members, so that no two members wait for each other.
    """
    then, gone = after(decision, snapshot), {f"{each.namespace}/{each.name}" for each in decision.evictions}
    new = [each for each in decision.assignments if not each.held]
    gang = decision.gang
    binding = BindingOrder(
        ((each.member.pod, each.node) for each in new),
        snapshot,
        priority=gang.priority if gang is not None else 0,
        gone=gone,
    )
    if not binding.spread_holds():
        return False
    affinity = gang.node_affinity if gang is not None else None
    for each in new:
        pod, state = each.member.pod, then.nodes[then.positions[each.node]]
        alone = structs.replace(pod, spec=structs.replace(pod.spec, topology_spread_constraints=()))
        if Eligibility(alone, then, ignoring={pod.key}, also=affinity).exclusion(state):
            return False
    return _all_are_bound(decision, snapshot) and binding.order() is not None


def _all_are_bound(decision: Decision, snapshot: Snapshot) -> bool:
    """Whether the members with pod affinity can be bound one after the other, after all members without it."""
    waiting = [each for each in decision.assignments if not each.held and affinity_terms(each.member.pod)]
    while waiting:
        there = [each for each in decision.assignments if each not in waiting]
        come = _near_others(waiting, replace(decision, assignments=(*there,)), snapshot)
        if not come:
            return False
        with_first = replace(decision, assignments=(*there, come[0]))
        bound = [come[0], *_near_others(come[1:], with_first, snapshot)]
        waiting = [each for each in waiting if each not in bound]
    return True


def _near_others(waiting: Sequence[Assignment], there: Decision, snapshot: Snapshot) -> list[Assignment]:
    """Return those of the `waiting` members whose pod affinity holds on their planned nodes, once the plan `there` is
    carried out.
    """
    then, own = after(there, snapshot), {each.member.pod.key for each in waiting}
    nodes, watched = {state.name: state.node for state in then.nodes}, watched_labels(then)
    known: dict[bytes, Neighbourhood] = {}
    occupants = [
        (state, tenant)
        for state in then.nodes
        for tenant in state.tenants
        if not tenant.terminating and tenant.pod.key not in own
    ]
    found = []
    for each in waiting:
        pod = each.member.pod
        key = scheduling_key(pod, watched)
        if key not in known:
            known[key] = Neighbourhood(pod, occupants, then.namespaces)
        if known[key].exclusion(nodes[each.node]) != AFFINITY:
            found.append(each)
    return found


def _measured_by(free: Plan, careful: Plan) -> Plan:
    """Return the plan `careful` with the bounds of the plan `free`. The result is optimal if `careful` is as good as
    `free` in every goal.

    `free`: the best plan without the topology spread. `careful`: a plan that keeps the spread in any order of binding.
    The returned goals end with the first goal in which `careful` is worse, because later goals have no known bounds.
    """
    goals: list[Goal] = []
    for best, goal in zip(free.goals, careful.goals, strict=False):
        if (best.name, best.value, best.parts) != (goal.name, goal.value, goal.parts):
            bound = best.bound if best.name == goal.name else goal.bound
            return replace(careful, goals=(*goals, replace(goal, bound=bound)), proof=Proof.FEASIBLE)
        goals.append(best)
    return replace(careful, goals=tuple(goals), proof=free.proof)
