"""Node weights for a preference to run near certain pods: a node weighs more if its narrow domains hold more of
them.
"""

from collections import Counter
from collections.abc import Sequence

from cluster.topology.tree import DomainTree

_MOST = 99
"""The most pods of one domain that count. Because of this bound, one pod more in a narrow domain outweighs all pods in
wider domains.
"""
_BASE = 1000
"""The weight of one pod in the widest domain. It exceeds the sum of the node affinity weights of a usual pod: a
preferred term has at most 100.
"""


def nearness(tree: DomainTree, nodes: Sequence[str], beside: Sequence[str]) -> list[int]:
    """Return the weight of each of `nodes` for members that prefer to run near certain pods.

    `beside`: for each of these pods, the name of its node. Nodes outside the tree are ignored. `nodes`: names of nodes
    in the tree.
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
    """Return the weight of a node. `path`: the node's domains, the widest first. `there`: how many pods each domain
    has.

    The pods in the narrowest domain count most.
    """
    weight = 0
    for end in range(len(path), 0, -1):
        weight = weight * (_MOST + 1) + min(there[path[:end]], _MOST)
    return weight * _BASE
