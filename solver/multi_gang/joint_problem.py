"""Problems of several gangs, their results, and checks of a result, as plain values.

A joint problem (`Problem.gangs`) holds all constraints within gangs and between them. `ManyGangs` holds one problem for
each gang. It is for gangs that compete only for the free capacity of nodes.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from solver.multi_gang.shared_nodes import displaced_gangs
from solver.objective import Nodes
from solver.plan import Plan, Proof
from solver.problem import Problem
from solver.verify.rules import broken_rules


@dataclass(frozen=True, slots=True)
class ManyGangs:
    """Several gangs in their order, each as a problem of its own. All problems describe the same snapshot and topology.

    Nodes and resources with the same name are the same in all problems. `units[g][r]`: the size of one unit of resource
    r in the problem of gang g, in a base unit that all problems share.
    """

    gangs: tuple[Problem, ...]
    units: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Share:
    """The part of a joint plan that belongs to one gang: the node of each member, by set and rank, and the victims that
    are evicted for it.
    """

    nodes: Nodes
    victims: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class JointAnswer:
    """The result for several gangs. `shares`: by gang, its part of the joint plan; None for a gang whose minimum does
    not fit beside the gangs before it.

    `proof`: OPTIMAL if all goals are proven for the placed gangs, and no other gang can be placed beside them; else
    FEASIBLE. `levels`: the number of levels, from the widest on, on which all gangs together provably touch the fewest
    domains. The comparison is with plans that place every gang whole and without evictions, except gangs that do not
    fit by counting (`solver.multi_gang.shared_nodes.displaced_gangs`). `without`: unplaced gangs that are proven not to
    fit beside the gangs before them.
    """

    shares: tuple[Share | None, ...]
    proof: Proof
    levels: int = 0
    without: frozenset[int] = frozenset()


def size(problem: Problem) -> int:
    """Return a measure of the effort that one gang adds to a joint plan. It is the number of members that a model names
    one by one, times the number of nodes.

    All alike members of a set count as one member.
    """
    return _kinds(problem) * len(problem.nodes)


def only(problem: Problem, gangs: Collection[int]) -> Problem:
    """Return the joint problem in which only the gangs `gangs` (positions) are to be placed.

    Of the other gangs only the pinned members remain, and no constraints.
    """
    out = {pod_set for place, gang in enumerate(problem.gangs) if place not in gangs for pod_set in gang.pod_sets}
    if not out:
        return problem
    return replace(
        problem,
        sets=tuple(
            replace(
                each,
                members=tuple(member for member in each.members if member.node is not None),
                minimum=0,
                required=None,
                slices=(),
                multiples=(),
                caps=(),
            )
            if position in out
            else each
            for position, each in enumerate(problem.sets)
        ),
        minimum=sum(gang.minimum for place, gang in enumerate(problem.gangs) if place in gangs),
        together=tuple(rule for rule in problem.together if out.isdisjoint(rule.pod_sets)),
        gangs=tuple(
            gang if place in gangs else replace(gang, minimum=0, multiples=())
            for place, gang in enumerate(problem.gangs)
        ),
    )


def joint_plan(problem: Problem, answer: JointAnswer) -> tuple[Problem, Plan]:
    """Return the joint problem of the placed gangs, and their parts of the result as one plan for it."""
    placed = {gang: share for gang, share in enumerate(answer.shares) if share is not None}
    stated = only(problem, placed)
    nodes = [tuple(member.node for member in each.members) for each in stated.sets]
    for gang, share in placed.items():
        for pod_set, row in zip(problem.gangs[gang].pod_sets, share.nodes, strict=True):
            nodes[pod_set] = row
    victims = tuple(sorted(victim for share in placed.values() for victim in share.victims))
    return stated, Plan(tuple(nodes), victims, (), Proof.FEASIBLE)


def faults_of(problem: Problem, answer: JointAnswer) -> tuple[str, ...]:
    """Return the hard constraints that a joint result breaks, as sentences; empty if it breaks none."""
    if len(answer.shares) != len(problem.gangs) or answer.proof not in (Proof.OPTIMAL, Proof.FEASIBLE):
        return ("the result does not list every gang",)
    sets = [len(gang.pod_sets) for gang in problem.gangs]
    if any(share and len(share.nodes) != count for share, count in zip(answer.shares, sets, strict=True)):
        return ("the result does not list every set",)
    return broken_rules(*joint_plan(problem, answer))


def faults_of_all_placed(many: ManyGangs, answer: JointAnswer) -> tuple[str, ...]:
    """Return the hard constraints that a joint result breaks, as sentences; empty if it breaks none.

    The result must place all gangs whole and without evictions, except gangs that are proven not to fit.
    """
    if len(answer.shares) != len(many.gangs) or answer.proof not in (Proof.OPTIMAL, Proof.FEASIBLE):
        return ("the result does not list every gang",)
    faults: list[str] = []
    for problem, share in zip(many.gangs, answer.shares, strict=True):
        if share is not None:
            faults += broken_rules(problem, Plan(share.nodes, share.victims, (), Proof.FEASIBLE))
    if faults:
        return tuple(faults)
    if not _everybody(many, answer):
        return ("not every gang that has room is placed whole and without evictions",)
    return tuple(_overfull(many, answer))


def _everybody(many: ManyGangs, answer: JointAnswer) -> bool:
    """Return whether all gangs are placed whole and without evictions. Gangs that counting proves not to fit
    (`displaced_gangs`) may stay unplaced.
    """
    missing = {gang for gang, share in enumerate(answer.shares) if share is None}
    if missing and missing != displaced_gangs(many.gangs, many.units):
        return False
    return not any(
        share.victims or any(node is None for row in share.nodes for node in row)
        for share in answer.shares
        if share is not None
    )


def _overfull(many: ManyGangs, answer: JointAnswer) -> Iterator[str]:
    """Yield a sentence for each node and resource of which the new members of all gangs together request more than is
    free.
    """
    asked: Counter[tuple[str, str]] = Counter()
    free: dict[tuple[str, str], int] = {}
    for problem, units, share in zip(many.gangs, many.units, answer.shares, strict=True):
        for pod_set, row in zip(problem.sets, share.nodes if share is not None else (), strict=share is not None):
            for member, node in zip(pod_set.members, row, strict=True):
                if node is None or member.node is not None:
                    continue
                for name, unit, wants, has in zip(
                    problem.resources,
                    units,
                    problem.shapes[member.shape].requests,
                    problem.nodes[node].free,
                    strict=True,
                ):
                    place = problem.nodes[node].name, name
                    asked[place] += wants * unit
                    free[place] = min(has * unit, free.get(place, has * unit))
    for (node_name, name), amount in asked.items():
        if amount > 0 and amount > free[node_name, name]:
            yield f"{node_name} has too little {name}"


def _kinds(problem: Problem) -> int:
    """Return how many members of a problem a model must name one by one. If all members of a set have one shape, the
    model only counts them, so they count as one.
    """
    return sum(
        1 if len({member.shape for member in pod_set.members}) == 1 else len(pod_set.members)
        for pod_set in problem.sets
        if pod_set.members
    )
