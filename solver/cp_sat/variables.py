"""The variables of an instance's CP-SAT model.

A member class (`solver.bounds.member_classes`, `kind` in the code) has one counting variable per node. If every class
has one member, the variables are Booleans.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from solver.bounds.member_classes import MemberClass
from solver.cp_model import CpModel, IntVar
from solver.cp_sat.linear import Sum, one, total
from solver.instance import Instance


@dataclass(slots=True)
class Model:
    """The CP-SAT model of an instance and its variables. A value that cannot vary has no variable; a missing entry
    means 0.

    `seats[kind][node]`: how many members of the class are on the node. `touched[level][domain]`: 1 if a placed member
    of the gang is in the domain; `set_touched[pod_set][level][domain]`: 1 if a placed member of the set is.
    `evict[victim]`: 1 if the victim is evicted. `broken[gang]`: 1 if the running gang is evicted whole.
    `on_node[node]`: pairs of a member class and its variable on the node. `victims_on[node]`: the node's useful
    victims. `alone[pod_set, rank]`: the class that has only this member.
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
        """Return a new Boolean variable. It has no name: names cost time, and reading them back has crashed CP-SAT
        9.15.
        """
        return self.cp.new_bool_var("")

    def placed(self, kind: int) -> Sum:
        """Return the number of placed members of a member class, as a model expression."""
        return Sum(tuple((1, variable) for variable in self.seats[kind].values()))

    def most(self, kind: int, node: int) -> int:
        """Return an upper bound on the members of a member class on a node: what the node can hold."""
        return min(int(self.instance.capacity[self.kinds[kind].shape, node]), len(self.kinds[kind].ranks))

    def in_domain(self, kind: int, level: int, domain: int) -> Sum:
        """Return the number of members of a member class in a domain, as a model expression."""
        seats = self.seats[kind]
        nodes = self.instance.tree.nodes(level, domain)
        return Sum(tuple((1, seats[node]) for node in nodes if node in seats))

    def kinds_of(self, pod_set: int) -> Iterator[int]:
        """Return the positions of the member classes of a set."""
        return (position for position, kind in enumerate(self.kinds) if kind.pod_set == pod_set)

    def set_in_domain(self, pod_set: int, level: int, domain: int) -> Sum:
        """Return the number of members of a set in a domain as a model expression. Pinned members count."""
        instance = self.instance
        held = sum(
            seat.pod_set == pod_set and instance.tree.domain(level, instance.pinned_node(seat)) == domain
            for seat in instance.pinned
        )
        return total(self.in_domain(kind, level, domain) for kind in self.kinds_of(pod_set)) + Sum((), held)

    def used_in(self, level: int, domain: int) -> Sum:
        """Return, as a model expression, the amount of the scarcest resource that new members use in a domain."""
        return total(self.used(node) for node in self.instance.tree.nodes(level, domain) if self.on_node[node])

    def used(self, node: int) -> Sum:
        """Return the amount of the scarcest resource that newly placed members use on a node, as a model expression."""
        return Sum(tuple((self._scarce_request(kind), variable) for kind, variable in self.on_node[node]))

    def _scarce_request(self, kind: int) -> int:
        return self.instance.problem.shapes[self.kinds[kind].shape].requests[self.instance.scarce]


def add_variables(model: Model) -> None:
    """Create the variables: members of each class on each node, evicted victims, touched domains. Raises
    `OutOfTimeError`.
    """
    _add_seats(model)
    _add_victims(model)
    _add_touched(model)


def _add_seats(model: Model) -> None:
    capacity = model.instance.capacity
    model.on_node = [[] for _ in range(len(model.instance.problem.nodes))]
    for position, kind in enumerate(model.kinds):
        most = capacity[kind.shape].clip(max=len(kind.ranks))
        variables = {}
        for node in model.instance.deadline.iterate(np.flatnonzero(most).tolist()):
            count = int(most[node])
            variables[node] = model.flag() if count == 1 else model.cp.new_int_var(0, count, "")
            model.on_node[node].append((position, variables[node]))
        model.seats.append(variables)


def _add_victims(model: Model) -> None:
    nodes = model.instance.problem.victims.node.tolist()
    for victim in model.instance.deadline.iterate(model.instance.useful):
        model.evict[victim] = model.flag()
        model.victims_on.setdefault(nodes[victim], []).append(victim)


def _add_touched(model: Model) -> None:
    """Create the flags of touched domains, level by level from the nodes to the widest level, for each set and for the
    gang.
    """
    filled = [position for position, pod_set in enumerate(model.instance.problem.sets) if pod_set.members]
    for pod_set in range(len(model.instance.problem.sets)):
        at_nodes = _touched_nodes(model, pod_set)
        model.set_touched.append(_outward(model, at_nodes))
    if len(filled) == 1:
        model.touched = model.set_touched[filled[0]]
        return
    gang: dict[int, list[Sum]] = {}
    for levels in model.set_touched:
        for node, flag in levels[-1].items():
            gang.setdefault(node, []).append(flag)
    model.touched = _outward(model, {node: any_of(model, flags) for node, flags in sorted(gang.items())})


def _touched_nodes(model: Model, pod_set: int) -> dict[int, Sum]:
    """Return, by node, a model expression that is 1 if the plan places a member of the set there, else 0. The keys are
    the nodes that members of the set may use. On a node with a pinned member of the set, the expression is the constant
    1.
    """
    instance = model.instance
    found = {instance.pinned_node(seat): Sum((), 1) for seat in instance.pinned if seat.pod_set == pod_set}
    kinds = list(model.kinds_of(pod_set))
    for node in instance.deadline.iterate(sorted({node for kind in kinds for node in model.seats[kind]})):
        if node not in found:
            on_this_node = [(kind, model.seats[kind][node]) for kind in kinds if node in model.seats[kind]]
            found[node] = _any_seat(model, node, on_this_node)
    return dict(sorted(found.items()))


def _any_seat(model: Model, node: int, seats: list[tuple[int, IntVar]]) -> Sum:
    """Return a model expression that is 1 if the plan places at least one member on the node, else 0. `seats`: pairs of
    a member class and its variable on the node; only these classes count.
    """
    cp = model.cp
    most = {kind: model.most(kind, node) for kind, _ in seats}
    if len(seats) == 1 and most[seats[0][0]] == 1:
        return one(seats[0][1])
    flag = model.flag()
    for kind, variable in seats:
        cp.add(variable <= most[kind] * flag)
    cp.add(Sum(tuple((1, variable) for _, variable in seats)).expression() >= flag)
    return one(flag)


def _outward(model: Model, at_nodes: dict[int, Sum]) -> list[dict[int, Sum]]:
    """Return, by level and domain, a model expression that is 1 if a node inside the domain is touched, else 0.
    `at_nodes`: by node, the expression that is 1 if the node is touched.
    """
    tree = model.instance.tree
    levels = [at_nodes]
    for level in range(tree.depth - 2, -1, -1):
        inside: dict[int, list[Sum]] = {}
        for domain, flag in model.instance.deadline.iterate(levels[0].items()):
            inside.setdefault(tree.parent(level + 1, domain), []).append(flag)
        levels.insert(0, {domain: any_of(model, flags) for domain, flags in sorted(inside.items())})
    return levels


def any_of(model: Model, flags: list[Sum]) -> Sum:
    """Return a model expression that is 1 if at least one of the flags (0 or 1 each) is 1, else 0."""
    if any(not flag.terms for flag in flags):
        return Sum((), 1)
    if len(flags) == 1:
        return flags[0]
    either = model.flag()
    for flag in flags:
        model.cp.add_implication(flag.terms[0][1], either)
    model.cp.add_bool_or([flag.terms[0][1] for flag in flags] + [~either])
    return one(either)
