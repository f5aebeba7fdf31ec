"""Finds the gangs that took the nodes on which a gang's members beyond the minimum would have fitted.

Gangs of one priority that are planned together get their nodes at once. So the capacity that is left for one gang is
known only after the other gangs are placed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from cluster.snapshot import Snapshot
from gangs.model import Gang
from planning.after_plan import after_all
from planning.decision import Decision
from planning.framing.gang_problem import Framing
from planning.message import Names, Shortfall
from planning.messages import wording
from planning.messages.shortfalls import left_out, left_out_beside
from solver.plan import Plan, Proof


def with_takers(
    decisions: Sequence[Decision], snapshot: Snapshot, framed: Callable[[Gang, Snapshot], Framing | Decision]
) -> list[Decision]:
    """Return the decisions for one priority. If a gang has members without a node, its message now names the other
    gangs that took the nodes on which these members would have fitted.

    :param decisions: the decisions for all gangs of the priority.
    :param snapshot: the cluster before the gangs of this priority were planned.
    :param framed: returns a gang's problem on a snapshot, or a decision if there is nothing to solve.
    """
    return [
        _with_takers(decision, [each for each in decisions if each is not decision], snapshot, framed)
        for decision in decisions
    ]


def _with_takers(
    decision: Decision,
    others: Sequence[Decision],
    snapshot: Snapshot,
    framed: Callable[[Gang, Snapshot], Framing | Decision],
) -> Decision:
    takers = _takers(others)
    if decision.line.shortfall is None or decision.gang is None or decision.gang.account is not None or not takers:
        return decision  # a gang in a queue has other nodes in each choice of flavors
    alone, beside = framed(decision.gang, snapshot), framed(decision.gang, after_all(others, snapshot))
    if isinstance(alone, Decision) or isinstance(beside, Decision):
        return decision
    plan = _plan_in(alone, decision)
    count, _ = left_out(alone, plan)
    reasons = left_out_beside(alone, beside, plan, _plan_in(beside, decision), takers)
    return replace(decision, line=decision.line.with_shortfall(Shortfall(count, tuple(reasons.items()))))


def _takers(others: Sequence[Decision]) -> Mapping[str, Names]:
    """Return, for each node on which these gangs place new members, a reason for messages: "taken by" and the names of
    the gangs that use the node.
    """
    found: dict[str, dict[str, None]] = {}
    for decision in others:
        for each in decision.assignments:
            if not each.held:
                found.setdefault(each.node, {})[str(decision.key)] = None
    return {
        node: Names(
            f"taken by gang{'s' if len(keys) > 1 else ''} {wording.listed(list(keys))}",
            f"taken by {wording.gangs_by_number(len(keys))}",
        )
        for node, keys in found.items()
    }


def _plan_in(framing: Framing, decision: Decision) -> Plan:
    """Return the decision's plan as positions of nodes and victims in the problem of `framing`."""
    nodes = {name: position for position, name in enumerate(framing.nodes)}
    placed = {each.member.pod.key: nodes.get(each.node) for each in decision.assignments}
    evicted = {f"{each.namespace}/{each.name}" for each in decision.evictions}
    return Plan(
        tuple(tuple(placed.get(member.pod.key) for member in members) for members in framing.members),
        tuple(position for position, tenant in enumerate(framing.victims) if tenant.pod.key in evicted),
        (),
        Proof.FEASIBLE,
    )
