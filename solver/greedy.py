"""Quick plans without any proof: what is left when the solver has failed. The verifier decides whether they are fine.

Members are seated one after the other by rank, slices and sets with a required level domain by domain, without ever
going back. Nobody is evicted. Rules that this does not know (multiples, caps, exclusions, spread, sets together) may
be broken.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from solver.bounds import deciding_level, needed_members
from solver.case import Case, Seat, case_of
from solver.plan import Goal, Plan, Proof
from solver.problem import Problem
from solver.scoring import Nodes, goals_of
from solver.search import Over, never


def greedy_plans(problem: Problem, over: Over = never) -> Iterator[Plan]:
    """A plan for each domain of the gang's required level in which everybody, or the minimum, can be seated; the
    domains with the least room first, as long as the time is not `over`.
    """
    case = case_of(problem, evicting=False)
    level = deciding_level(problem)
    domains = sorted(range(case.tree.count(level)), key=lambda each: (case.domain_potential(level, each), each))
    held = {case.tree.domain(level, case.pinned_node(seat)) for seat in case.pinned}
    for everybody in (True, False):
        for domain in domains:
            if over():
                return
            if held <= {domain}:
                nodes = _Seating(case, everybody=everybody).seated(case.tree.nodes(level, domain))
                if nodes is not None:
                    yield Plan(nodes, (), unproven(problem, goals_of(case, nodes, ())), Proof.FEASIBLE)


def unproven(problem: Problem, goals: tuple[Goal, ...]) -> tuple[Goal, ...]:
    """The goals with bounds that hold for any plan."""
    members = sum(len(pod_set.members) for pod_set in problem.sets)
    liked = sum(
        max((0, *problem.shapes[member.shape].preferences.values()))
        for pod_set in problem.sets
        for member in pod_set.members
        if member.node is None
    )
    most = {"extras": members - needed_members(problem), "preferences": liked}
    return tuple(Goal(goal.name, goal.value, most.get(goal.name, 0), goal.parts) for goal in goals)


@dataclass(frozen=True, slots=True)
class _Block:
    """Members that must lie in one domain of `level`."""

    level: int
    seats: tuple[Seat, ...]


class _Seating:
    """Members in their places so far, and the room that is left."""

    def __init__(self, case: Case, *, everybody: bool) -> None:
        self.case, self.everybody = case, everybody
        self.free = case.problem.nodes.free.tolist()
        self.at = {seat: case.pinned_node(seat) for seat in case.pinned}

    def seated(self, nodes: tuple[int, ...]) -> Nodes | None:
        """Everybody's node inside these nodes; None where not even the minimum finds one."""
        for position in range(len(self.case.problem.sets)):
            if not self._seat_set(position, nodes):
                return None
        if len(self.at) < self.case.problem.minimum:
            return None
        return tuple(
            tuple(self.at.get(Seat(position, rank)) for rank in range(len(pod_set.members)))
            for position, pod_set in enumerate(self.case.problem.sets)
        )

    def _seat_set(self, position: int, nodes: tuple[int, ...]) -> bool:
        pod_set = self.case.problem.sets[position]
        count = len(pod_set.members) if self.everybody else self._least(position)
        seats = tuple(Seat(position, rank) for rank in range(count))
        rules = [(each.level, each.size) for each in pod_set.slices]
        if pod_set.required is not None:
            rules.insert(0, (pod_set.required, max(1, count)))
        return self._seat_blocks(seats, rules, nodes)

    def _least(self, position: int) -> int:
        """The set's own minimum and, where it is the only one, the gang's."""
        pod_set = self.case.problem.sets[position]
        alone = sum(bool(each.members) for each in self.case.problem.sets) == 1
        return min(len(pod_set.members), max(pod_set.minimum, self.case.problem.minimum if alone else 0))

    def _seat_blocks(self, seats: tuple[Seat, ...], rules: list[tuple[int, int]], nodes: tuple[int, ...]) -> bool:
        if not rules:
            return all(self._seat(seat, nodes) for seat in seats)
        (level, size), *inner = rules
        blocks = (_Block(level, seats[first : first + size]) for first in range(0, len(seats), size))
        return all(self._seat_block(block, inner, nodes) for block in blocks)

    def _seat_block(self, block: _Block, inner: list[tuple[int, int]], nodes: tuple[int, ...]) -> bool:
        """The first domain that holds the whole block."""
        tree = self.case.tree
        held = {tree.domain(block.level, self.at[seat]) for seat in block.seats if seat in self.at}
        for domain in sorted(held) or dict.fromkeys(tree.domain(block.level, node) for node in nodes):
            inside = tree.nodes(block.level, domain)
            before = {node: self.free[node] for node in inside}
            seated = set(self.at)
            if self._seat_blocks(block.seats, inner, inside):
                return True
            for node, free in before.items():
                self.free[node] = free
            self.at = {seat: node for seat, node in self.at.items() if seat in seated}
        return False

    def _seat(self, seat: Seat, nodes: tuple[int, ...]) -> bool:
        """The first node with room."""
        if seat in self.at:
            return True
        shape = self.case.problem.shapes[self.case.member(seat).shape]
        for node in nodes:
            free = self.free[node]
            if node in shape.nodes and all(
                asked <= 0 or asked <= left for asked, left in zip(shape.requests, free, strict=True)
            ):
                self.free[node] = [left - asked for left, asked in zip(free, shape.requests, strict=True)]
                self.at[seat] = node
                return True
        return False
