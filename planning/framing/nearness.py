"""Being near certain pods as weights of nodes: more of them in the same domain, the narrower the domain the better."""

from collections import Counter
from collections.abc import Sequence

from cluster.topology.tree import DomainTree

_MOST = 99
"""Pods of one domain beyond this many weigh no more; so a narrower level always outweighs the wider ones."""
_BASE = 1000
"""More than any node affinity weighs in all but the strangest pods (100 for each preferred term)."""


def nearness(tree: DomainTree, nodes: Sequence[str], beside: Sequence[str]) -> list[int]:
    """The weight of each of `nodes` for members that would like to be beside pods on the nodes `beside`.

    Both are names of nodes; of `beside`, those outside the tree count for nothing.
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
    """The narrowest domain counts most."""
    weight = 0
    for end in range(len(path), 0, -1):
        weight = weight * (_MOST + 1) + min(there[path[:end]], _MOST)
    return weight * _BASE
