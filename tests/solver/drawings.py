"""Small problems from drawings: one domain a line, its path and its nodes.

    s0/b0: a b c+low*2
    s0/b1: d=4 e=0

A node holds one pod unless a number follows (`d=4`). `c+low*2` has two running pods `low-…` that may be evicted, of
one slot each and of the priority given for `low`; their slots are not free. Resources: "cpu" only.
Terminating pods still hold two of the four free slots of `d=4~2`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from solver.nodes import Node, nodes_of
from solver.plan import NoPlan, Plan, Proof
from solver.problem import Cap, Limits, Member, Multiple, PodSet, Problem, Shape, Slice, Victim, victim_table
from solver.solve import solve

_NODE = re.compile(r"(?P<name>[\w-]+)(?:=(?P<free>\d+))?(?:~(?P<leaving>\d+))?(?P<running>(?:\+[a-z]+(?:\*\d+)?)*)")
_RUNNING = re.compile(r"\+([a-z]+)(?:\*(\d+))?")

PATIENT = Limits(seconds=600.0)
"""However slow the machine is, the work that is done decides when a search ends."""


class Drawing:
    """A cluster, parsed from a drawing. `sizes` and `priorities`: of the running pods, by name."""

    def __init__(
        self, text: str, *, sizes: Mapping[str, int] | None = None, priorities: Mapping[str, int] | None = None
    ) -> None:
        self.nodes: list[Node] = []
        self.victims: list[Victim] = []
        self._sizes, self._priorities = sizes or {}, priorities or {}
        for line in filter(None, map(str.strip, text.splitlines())):
            path, _, names = line.rpartition(":")
            for each in names.split():
                self._read(tuple(filter(None, path.split("/"))), each)

    def _read(self, path: tuple[str, ...], text: str) -> None:
        found = _NODE.fullmatch(text)
        if found is None:
            raise ValueError(f"this is no node: {text}")
        running = [(kind, int(many or 1)) for kind, many in _RUNNING.findall(found["running"])]
        free = int(found["free"] or (0 if running else 1))
        position = len(self.nodes)
        self.nodes.append(Node(found["name"], path, (free,), (int(found["leaving"] or 0),)))
        for kind, many in running:
            for _ in range(many):
                number = sum(victim.key.startswith(f"{kind}-") for victim in self.victims)
                self.victims.append(
                    Victim(f"{kind}-{number}", position, self._priorities.get(kind, 0), (self._sizes.get(kind, 1),))
                )

    @property
    def depth(self) -> int:
        """Levels, the node included."""
        return len(self.nodes[0].path) + 1

    def named(self, names: str) -> frozenset[int]:
        """The positions of nodes."""
        return frozenset(position for position, node in enumerate(self.nodes) if node.name in names.split())

    def gang(
        self,
        *sets: PodSet,
        shapes: Sequence[Shape] = (),
        asks: Sequence[int] = (1,),
        minimum: int | None = None,
        **rules: object,
    ) -> Problem:
        """Return the problem of placing these sets. Without `shapes`, members request `asks` slots on any node."""
        return Problem(
            levels=("spine", "block", "node")[3 - self.depth :],
            resources=("cpu",),
            nodes=nodes_of(self.nodes),
            shapes=tuple(shapes) or self.shapes(*asks),
            sets=sets,
            minimum=sum(len(each.members) for each in sets) if minimum is None else minimum,
            victims=victim_table(self.victims),
            **rules,  # type: ignore[arg-type]  # fields of Problem, as they are
        )

    def shapes(self, *requests: int) -> tuple[Shape, ...]:
        """Shapes that may run on any node."""
        return tuple(Shape((request,), frozenset(range(len(self.nodes)))) for request in requests)


def pods(
    count: int,
    *,
    name: str = "main",
    shapes: Iterable[int] | None = None,
    held: Mapping[int, int] | None = None,
    minimum: int | None = None,
    required: int | None = None,
    slices: Sequence[Slice] = (),
    multiples: Sequence[Multiple] = (),
    caps: Sequence[Cap] = (),
) -> PodSet:
    """A pod set of `count` members. `shapes` by rank (absent: the first for all); `held`: nodes by rank."""
    kinds = list(shapes) if shapes is not None else [0] * count
    members = tuple(Member(f"{name}-{rank}", kinds[rank], (held or {}).get(rank)) for rank in range(count))
    least = count if minimum is None else minimum
    return PodSet(name, members, least, required, tuple(slices), tuple(multiples), tuple(caps))


def placed(problem: Problem) -> Plan:
    """The plan, which there must be, proven."""
    answer = solve(problem, PATIENT)
    assert isinstance(answer, Plan), answer
    assert answer.proof is Proof.OPTIMAL
    return answer


def refused(problem: Problem) -> NoPlan:
    """The proven no."""
    answer = solve(problem, PATIENT)
    assert isinstance(answer, NoPlan), answer
    assert answer.proof is Proof.INFEASIBLE
    return answer


def rows(problem: Problem, plan: Plan) -> list[str]:
    """Node names by rank, a string a set; "-" where a member is not placed."""
    return [" ".join("-" if node is None else problem.nodes[node].name for node in row) for row in plan.nodes]


def victims(problem: Problem, plan: Plan) -> list[str]:
    """The victims' keys."""
    return [problem.victims[victim].key for victim in plan.victims]
