"""The capacity of every domain of a topology, for a Topology's status, the live page and `phalanx topology`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cluster.node_state import Amounts, NodeState, room
from cluster.topology.tree import DomainTree, Path

_LEAST_PRIORITY = -(2**31)
"""The lowest possible priority, so that every reservation counts as taken."""


def free_on(state: NodeState) -> Amounts:
    """Return the free capacity of a node by resource, in base units.

    Reserved capacity is not free. The capacity of terminating pods is free. An overcommitted node has 0 free.
    """
    free, _ = room(state, priority=_LEAST_PRIORITY)
    return {resource: max(0, amount) for resource, amount in free.items()}


def free_and_terminating_on(state: NodeState) -> tuple[Amounts, Amounts]:
    """Return the free capacity of a node, as people see it, and the part of it that terminating pods still use.

    Each terminating pod counts until it is gone (`NodeState.room_without_terminating`). Reserved capacity is not free.
    An overcommitted node has 0 free. Both amounts are by resource, in base units.
    """
    free, terminating = state.room_without_terminating
    return {resource: max(0, amount) for resource, amount in free.items()}, terminating


def free_under(tree: DomainTree, states: Iterable[NodeState]) -> dict[Path, dict[str, int]]:
    """Return the free capacity of every domain above the nodes, by the domain's path.

    It is the sum of `free_on` over the nodes of the domain. The empty path has the sum of the whole topology.
    """
    totals: dict[Path, dict[str, int]] = {path: {} for path in ((), *tree.counts)}
    leaves: dict[Path, dict[str, int]] = {}
    for state in states:
        if (path := tree.path_of.get(state.name)) is not None:
            _add(leaves.setdefault(path, {}), free_on(state))
    for path, amounts in leaves.items():
        for depth in range(len(path) + 1):
            _add(totals[path[:depth]], amounts)
    return totals


@dataclass(slots=True)
class DomainRoom:
    """The capacity of a domain, by resource in base units.

    `nodes`: the number of its nodes. `closed`: how many of them are cordoned, tainted or not ready. `free`: see
    `free_on`; it includes the capacity on closed nodes. `used`: the requests of bound and released pods that do not
    terminate. `held`: reserved capacity. `free_closed`: the part of `free` on closed nodes.
    """

    nodes: int = 0
    closed: int = 0
    free: dict[str, int] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    free_closed: dict[str, int] = field(default_factory=dict)

    def add(self, other: "DomainRoom") -> None:
        """Add the amounts of another domain, or of a node, to this one."""
        self.nodes += other.nodes
        self.closed += other.closed
        for total, part in (
            (self.free, other.free),
            (self.used, other.used),
            (self.held, other.held),
            (self.free_closed, other.free_closed),
        ):
            _add(total, part)


def room_on(state: NodeState) -> DomainRoom:
    """Return the capacity of one node in the form of a domain's capacity, to be added up."""
    free = free_on(state)
    found = DomainRoom(nodes=1, closed=int(not state.open), free=dict(free))
    if not state.open:
        found.free_closed = dict(free)
    for tenant in state.tenants:
        if not tenant.terminating:
            _add(found.held if tenant.reserved else found.used, tenant.requests)
    return found


def rooms_under(tree: DomainTree, states: Iterable[NodeState]) -> dict[Path, DomainRoom]:
    """Return the capacity of every domain, nodes included, by the domain's path; the empty path is the topology."""
    rooms = {path: DomainRoom() for path in ((), *tree.counts)}
    for state in states:
        if (path := tree.path_of.get(state.name)) is not None:
            found = room_on(state)
            for depth in range(len(path) + 1):
                rooms[path[:depth]].add(found)
            rooms[(*path, state.name)] = found
    return rooms


def _add(total: dict[str, int], amounts: Mapping[str, int]) -> None:
    for resource, amount in amounts.items():
        total[resource] = total.get(resource, 0) + amount
