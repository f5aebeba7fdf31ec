"""Several gangs of one priority as one problem, what is answered, and whether an answer may be true: plain values."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from solver.multi_gang.merge import Merged, merged
from solver.multi_gang.shared_nodes import crowded_out
from solver.objective import Nodes
from solver.plan import Plan, Proof
from solver.problem import Problem
from solver.verify.rules import broken_rules


@dataclass(frozen=True, slots=True)
class JointProblem:
    """Gangs in the order of their precedence, each stated alone on the same picture and the same tree of levels.

    Nodes, resources and victims of the gangs are the same where they have the same name. `units[g][r]`: the size of
    one unit of resource r of gang g, in a base unit that all gangs share. Not for gangs with several sets whose own
    minimums do not add up to the gang's (`can_join`).
    """

    gangs: tuple[Problem, ...]
    units: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Share:
    """What one gang got: nodes by set and rank, and the victims whose going it needs; positions of its own problem."""

    nodes: Nodes
    victims: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class JointAnswer:
    """A share for every gang, None for one whose minimum cannot be had beside those of the gangs before it.

    `proof`: OPTIMAL where all goals are proven for the gangs that have a share, and that no other could have one;
    else FEASIBLE. `levels`: where all gangs that have room (`solver.multi_gang.shared_nodes.crowded_out`) are placed
    whole and without evictions, on so many levels, the widest first, the domains of all gangs together are proven to be
    as few as can be.
    """

    shares: tuple[Share | None, ...]
    proof: Proof
    levels: int = 0


def can_join(problem: Problem) -> bool:
    """Whether a gang can be part of a joint problem."""
    filled = [pod_set for pod_set in problem.sets if pod_set.members]
    if problem.multiples or problem.spreads:
        return False
    return len(filled) == 1 or sum(pod_set.minimum for pod_set in filled) >= problem.minimum


def size(joint: JointProblem) -> int:
    """A measure of the effort: members that must be told apart, times the nodes that they may go to."""
    return sum(_kinds(problem) * len(problem.nodes) for problem in joint.gangs)


def faults_of(joint: JointProblem, answer: JointAnswer) -> tuple[str, ...]:
    """The hard rules that an answer breaks, gang by gang and together, as sentences; empty where it is fine."""
    if len(answer.shares) != len(joint.gangs) or answer.proof not in (Proof.OPTIMAL, Proof.FEASIBLE):
        return ("the answer does not speak of every gang",)
    placed = [gang for gang, share in enumerate(answer.shares) if share is not None]
    shares = [share for share in answer.shares if share is not None]
    faults: list[str] = []
    for gang, share in zip(placed, shares, strict=True):
        problem = joint.gangs[gang]
        alone = Plan(share.nodes, tuple(_known(joint, answer, problem)), (), Proof.FEASIBLE)
        faults += broken_rules(problem, alone)
    if faults or not placed:
        return tuple(faults)
    if answer.levels and not _everybody(joint, answer):
        return ("the answer speaks of levels, and not everybody is placed without evictions",)
    if not any(share.victims for share in shares):
        return tuple(_overfull(joint, answer))
    merged = merged_problem(joint, placed)
    nodes, victims = merged.joined([share.nodes for share in shares], [share.victims for share in shares])
    return broken_rules(merged.problem, Plan(nodes, victims, (), Proof.FEASIBLE))


def _everybody(joint: JointProblem, answer: JointAnswer) -> bool:
    """Whether all gangs are placed whole and nobody has to go; those without a share must have no room."""
    missing = {gang for gang, share in enumerate(answer.shares) if share is None}
    if missing and missing != crowded_out(joint.gangs, joint.units):
        return False
    return not any(
        share.victims or any(node is None for row in share.nodes for node in row)
        for share in answer.shares
        if share is not None
    )


def _overfull(joint: JointProblem, answer: JointAnswer) -> Iterator[str]:
    """Nodes on which the new members of all gangs ask for more than is free to each of them; nobody is evicted."""
    asked: Counter[tuple[str, str]] = Counter()
    free: dict[tuple[str, str], int] = {}
    for problem, units, share in zip(joint.gangs, joint.units, answer.shares, strict=True):
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


def _known(joint: JointProblem, answer: JointAnswer, problem: Problem) -> list[int]:
    """All victims of the joint plan that a gang's own problem knows."""
    keys = {
        joint.gangs[gang].victims.keys[victim]
        for gang, share in enumerate(answer.shares)
        if share is not None
        for victim in share.victims
    }
    return [position for position, key in enumerate(problem.victims.keys) if key in keys] if keys else []


def merged_problem(joint: JointProblem, gangs: Sequence[int]) -> Merged:
    """These gangs as one problem."""
    return merged([joint.gangs[gang] for gang in gangs], [joint.units[gang] for gang in gangs])


def _kinds(problem: Problem) -> int:
    """Members of a set that are all alike are counted, others are told apart."""
    return sum(
        1 if len({member.shape for member in pod_set.members}) == 1 else len(pod_set.members)
        for pod_set in problem.sets
        if pod_set.members
    )
