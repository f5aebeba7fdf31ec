"""The room that is free in every domain of a topology: the one sum behind a Topology's status and the web page."""

from collections.abc import Iterable, Mapping

from cluster.capturing import room
from cluster.snapshot import Amounts, NodeState
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


def _add(total: dict[str, int], amounts: Mapping[str, int]) -> None:
    for resource, amount in amounts.items():
        total[resource] = total.get(resource, 0) + amount
