"""The room in every domain of a topology: the sums behind a Topology's status, the web page and `phalanx topology`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cluster.node_state import Amounts, NodeState, room
from cluster.topology.tree import DomainTree, Path

_LEAST_PRIORITY = -(2**31)
"""Priority of nobody: everything that is reserved counts as taken."""


def free_on(state: NodeState) -> Amounts:
    """What a newcomer of the lowest priority finds free on a node, by resource.

    What is held for gangs is not free; the room of pods on their way out is. An overcommitted node has none.
    """
    free, _ = room(state, priority=_LEAST_PRIORITY)
    return {resource: max(0, amount) for resource, amount in free.items()}


def free_under(tree: DomainTree, states: Iterable[NodeState]) -> dict[Path, dict[str, int]]:
    """The same summed over the nodes under every path of the tree above the nodes; the empty path is the whole."""
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
    """What there is in a domain, by resource in base units.

    `free` as in `free_on`; `used` by pods that have their nodes and stay; `held` for pods that have not yet. `closed`
    counts the nodes that a pod which says nothing about nodes cannot use: cordoned, tainted or not ready.
    """

    nodes: int = 0
    closed: int = 0
    free: dict[str, int] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)

    def add(self, other: "DomainRoom") -> None:
        """Count another one in."""
        self.nodes += other.nodes
        self.closed += other.closed
        for total, part in ((self.free, other.free), (self.used, other.used), (self.held, other.held)):
            _add(total, part)


def room_on(state: NodeState) -> DomainRoom:
    """The room of one node."""
    found = DomainRoom(nodes=1, closed=int(not state.open), free=dict(free_on(state)))
    for tenant in state.tenants:
        if not tenant.terminating:
            _add(found.held if tenant.reserved else found.used, tenant.requests)
    return found


def rooms_under(tree: DomainTree, states: Iterable[NodeState]) -> dict[Path, DomainRoom]:
    """The room under every path of the tree, those of the nodes too; the empty path is the whole."""
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
