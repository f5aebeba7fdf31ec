"""The variables of an instance's CP-SAT model.

A kind of members (`solver.bounds.member_classes`) has one counting variable per node; where every member is a kind of
its own, they are Booleans.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ortools.sat.python.cp_model import CpModel, IntVar

from solver.bounds.member_classes import MemberClass
from solver.cp_sat.linear import Sum, total
from solver.instance import Instance


@dataclass(slots=True)
class Model:
    """Variables of an instance. Where nothing is open there is no variable: a missing entry stands for 0.

    `seats[kind][node]`: members of the kind on the node. `touched[level][domain]` and
    `set_touched[pod_set][level][domain]`: 1 where a placed member of the gang, of the set, is in the domain.
    `evict[victim]`, `broken[victim gang]`: 1 where evicted, where evicted as a whole. `alone[pod_set, rank]`: the kind
    of a member that is one of its own.
    """

    instance: Instance
    kinds: tuple[MemberClass, ...]
    cp: CpModel = field(default_factory=CpModel)
    seats: list[dict[int, IntVar]] = field(default_factory=list)
    touched: list[dict[int, Sum]] = field(default_factory=list)
    set_touched: list[list[dict[int, Sum]]] = field(default_factory=list)
    evict: dict[int, IntVar] = field(default_factory=dict)
    broken: dict[int, IntVar] = field(default_factory=dict)
    on_node: list[list[tuple[int, IntVar]]] = field(default_factory=list)
    victims_on: dict[int, list[int]] = field(default_factory=dict)
    alone: dict[tuple[int, ...], int] = field(default_factory=dict)

    def flag(self) -> IntVar:
        """A new Boolean, without a name: names cost time, and reading them back has crashed CP-SAT 9.15."""
        return self.cp.new_bool_var("")

    def placed(self, kind: int) -> Sum:
        """How many members of a kind are placed."""
        return Sum(tuple((1, variable) for variable in self.seats[kind].values()))

    def most(self, kind: int, node: int) -> int:
        """How many members of a kind a node can have."""
        return min(int(self.instance.capacity[self.kinds[kind].shape, node]), len(self.kinds[kind].ranks))

    def in_domain(self, kind: int, level: int, domain: int) -> Sum:
        """How many members of a kind are in a domain."""
        seats = self.seats[kind]
        nodes = self.instance.tree.nodes(level, domain)
        return Sum(tuple((1, seats[node]) for node in nodes if node in seats))

    def kinds_of(self, pod_set: int) -> Iterator[int]:
        """The kinds that belong to a set."""
        return (position for position, kind in enumerate(self.kinds) if kind.pod_set == pod_set)

    def set_in_domain(self, pod_set: int, level: int, domain: int) -> Sum:
        """How many members of a set are in a domain, pinned ones included."""
        instance = self.instance
        held = sum(
            seat.pod_set == pod_set and instance.tree.domain(level, instance.pinned_node(seat)) == domain
            for seat in instance.pinned
        )
        return total(self.in_domain(kind, level, domain) for kind in self.kinds_of(pod_set)) + Sum((), held)

    def used_in(self, level: int, domain: int) -> Sum:
        """What the newly placed members use of the scarcest resource in a domain."""
        return total(self.used(node) for node in self.instance.tree.nodes(level, domain) if self.on_node[node])

    def used(self, node: int) -> Sum:
        """What the newly placed members use of the scarcest resource on a node."""
        return Sum(tuple((self._scarce_request(kind), variable) for kind, variable in self.on_node[node]))

    def _scarce_request(self, kind: int) -> int:
        return self.instance.problem.shapes[self.kinds[kind].shape].requests[self.instance.scarce]
