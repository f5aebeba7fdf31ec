"""Capacity of every domain of a topology: the sums in a Topology's status, the web page and `phalanx topology`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cluster.node_state import Amounts, NodeState, room
from cluster.topology.tree import DomainTree, Path

_LEAST_PRIORITY = -(2**31)
"""The lowest possible priority. Every reservation counts as taken for a pod of this priority."""


def free_on(state: NodeState) -> Amounts:
    """Return the free capacity of a node for a pod of the lowest priority, by resource.

    Reserved capacity is not free; the capacity of terminating pods is. An overcommitted node has 0 free.
    """
    free, _ = room(state, priority=_LEAST_PRIORITY)
    return {resource: max(0, amount) for resource, amount in free.items()}


def free_under(tree: DomainTree, states: Iterable[NodeState]) -> dict[Path, dict[str, int]]:
    """Return the sum of `free_on` over the nodes of every domain above the nodes, by path; the empty path is the
    whole cluster.
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
    """Capacity of a domain, by resource in base units.

    `free`: see `free_on`. `used`: by pods that are bound or released and do not terminate. `held`: reserved for pods
    that are neither. `closed`: number of nodes that a pod without node rules cannot use: cordoned, tainted or not
    ready.
    """

    nodes: int = 0
    closed: int = 0
    free: dict[str, int] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)

    def add(self, other: "DomainRoom") -> None:
        """Add the amounts of another domain."""
        self.nodes += other.nodes
        self.closed += other.closed
        for total, part in ((self.free, other.free), (self.used, other.used), (self.held, other.held)):
            _add(total, part)


def room_on(state: NodeState) -> DomainRoom:
    """Return the capacity of one node."""
    found = DomainRoom(nodes=1, closed=int(not state.open), free=dict(free_on(state)))
    for tenant in state.tenants:
        if not tenant.terminating:
            _add(found.held if tenant.reserved else found.used, tenant.requests)
    return found


def rooms_under(tree: DomainTree, states: Iterable[NodeState]) -> dict[Path, DomainRoom]:
    """Return the capacity of every domain of the tree, including the nodes, by path; the empty path is the whole
    cluster.
    """
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
