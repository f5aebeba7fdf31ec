"""The domain tree of a problem: for every level, the domain that each node is in. Domains are numbers."""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from kube.names import natural_key
from solver.nodes import NodeLayout, NodeTable

ROOT = -1
"""The level of the whole cluster, which is one domain with the number 0."""
Positions = NDArray[np.int64]
_LARGE = 400
"""From this number of nodes on, a tree is cached for later problems, because nodes change rarely while the load changes
often.
"""


@dataclass(frozen=True)
class Tree:
    """The domains of every level, from the nodes' paths. Domains are numbered level by level, in natural order of their
    paths. At the node level, the number is the node's position.

    `domain_of[level][node]`: the domain of a node. `paths[level][domain]`: the domain's path from the widest level
    down.
    """

    domain_of: tuple[tuple[int, ...], ...]
    paths: tuple[tuple[tuple[str, ...], ...], ...]

    @property
    def depth(self) -> int:
        """The number of levels, the node included."""
        return len(self.paths)

    def domain(self, level: int, node: int) -> int:
        """The domain of `level` (or ROOT, the whole cluster) that holds `node`."""
        return 0 if level == ROOT else self.domain_of[level][node]

    def nodes(self, level: int, domain: int) -> tuple[int, ...]:
        """The nodes of a domain, in order of position."""
        return self._nodes[level + 1][domain]

    def count(self, level: int) -> int:
        """How many domains `level` (or ROOT, the whole cluster) has."""
        return len(self._nodes[level + 1])

    def children(self, level: int, domain: int) -> tuple[int, ...]:
        """The domains of the next narrower level inside a domain of `level` (or ROOT, the whole cluster)."""
        return self._children[level + 1][domain]

    def parent(self, level: int, domain: int) -> int:
        """The domain of the next wider level (or ROOT, the whole cluster) around a domain."""
        return self.domain(level - 1, self.nodes(level, domain)[0])

    def domains(self, level: int) -> Positions:
        """Return, by node, its domain of `level` (or ROOT, the whole cluster)."""
        return self._domains[level + 1]

    def summed(self, level: int, amounts: Positions) -> Positions:
        """Return the amounts of all nodes, summed by domain of `level` (or ROOT, the whole cluster). `amounts`: one row
        per node.
        """
        sums = np.zeros((self.count(level), *amounts.shape[1:]), dtype=np.int64)
        np.add.at(sums, self.domains(level), amounts)
        return sums

    def around(self, level: int, wider: int) -> Positions:
        """Return, by domain of `level`, the domain around it on the wider level `wider` (or ROOT: the cluster)."""
        found = np.zeros(self.count(level), dtype=np.int64)
        found[self.domains(level)] = self.domains(wider)
        return found

    @cached_property
    def name_rank(self) -> tuple[int, ...]:
        """By node, its place in the natural order of all node names, from 0."""
        names = self.paths[-1]
        by_name = sorted(range(len(names)), key=lambda node: natural_key(names[node][-1]))
        place = np.empty(len(names), dtype=np.int64)
        place[by_name] = np.arange(len(names))
        return tuple(place.tolist())

    @cached_property
    def order(self) -> tuple[int, ...]:
        """By node, its place in an order in which the nodes of every domain are consecutive, on every level at once."""
        place = np.empty(len(self.domain_of[-1]), dtype=np.int64)
        place[np.lexsort(self._domains[::-1])] = np.arange(len(place))
        return tuple(place.tolist())

    @cached_property
    def _domains(self) -> tuple[Positions, ...]:
        root = np.zeros(len(self.domain_of[-1]), dtype=np.int64)
        return (root, *(np.array(domains, dtype=np.int64) for domains in self.domain_of))

    @cached_property
    def _nodes(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        everything = tuple(range(len(self.domain_of[-1])))
        levels: list[tuple[tuple[int, ...], ...]] = [(everything,)]
        for positions, paths in zip(self.domain_of, self.paths, strict=True):
            held: list[list[int]] = [[] for _ in paths]
            for node, domain in enumerate(positions):
                held[domain].append(node)
            levels.append(tuple(map(tuple, held)))
        return tuple(levels)

    @cached_property
    def _children(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        return tuple(
            tuple(
                tuple(sorted({self.domain(level + 1, node) for node in self.nodes(level, domain)}))
                for domain in range(self.count(level))
            )
            for level in range(ROOT, self.depth - 1)
        )


def tree_of(nodes: NodeTable, depth: int) -> Tree:
    """Return the tree over `nodes` with `depth` levels, the node included. Trees of large clusters are cached."""
    return _kept(nodes.layout, depth) if len(nodes) >= _LARGE else _made(nodes.layout, depth)


def _made(layout: NodeLayout, depth: int) -> Tree:
    domain_of, paths = [], []
    for level in range(depth - 1):
        upper = [path[: level + 1] for path in layout.paths]
        known = sorted(set(upper), key=lambda path: tuple(map(natural_key, path)))
        number = {path: position for position, path in enumerate(known)}
        domain_of.append(tuple(number[path] for path in upper))
        paths.append(tuple(known))
    domain_of.append(tuple(range(len(layout.names))))
    paths.append(tuple((*path, name) for path, name in zip(layout.paths, layout.names, strict=True)))
    return Tree(tuple(domain_of), tuple(paths))


_kept = lru_cache(maxsize=4)(_made)
