"""Node weights for a preference to run near certain pods: a node weighs more if its narrow domains hold more of
them.
"""

from collections import Counter
from collections.abc import Sequence

from cluster.topology.tree import DomainTree

_MOST = 99
"""Number of pods of one domain that count. The bound makes a narrower level always outweigh the wider ones."""
_BASE = 1000
"""More than any node affinity weighs in all but the strangest pods (100 for each preferred term)."""


def nearness(tree: DomainTree, nodes: Sequence[str], beside: Sequence[str]) -> list[int]:
    """Return the weight of each of `nodes` for members that prefer to run near the pods on the nodes `beside`.

    Both are node names. `beside` has an entry for each pod. Its nodes outside the tree are ignored.
    """
    if not beside:
        return [0] * len(nodes)
    there: Counter[tuple[str, ...]] = Counter()
    for name in beside:
        if name in tree.path_of:
            path = (*tree.path_of[name], name)
            there.update(path[:end] for end in range(1, len(path) + 1))
    return [_weight((*tree.path_of[name], name), there) for name in nodes]


def _weight(path: tuple[str, ...], there: Counter[tuple[str, ...]]) -> int:
    """Return the weight of a node from its domains (`path`) and the pods in each (`there`).

    The pods in the narrowest domain count most.
    """
    weight = 0
    for end in range(len(path), 0, -1):
        weight = weight * (_MOST + 1) + min(there[path[:end]], _MOST)
    return weight * _BASE
