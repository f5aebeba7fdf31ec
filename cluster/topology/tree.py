"""The domain tree of a topology: in which domains each node is, level by level, and which nodes are outside."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from kube.names import natural_key
from kube.objects import Node
from kube.topology import DEFAULT_DOMAIN_NAME, HOSTNAME_LABEL, Level, Topology, Unlabelled

Path = tuple[str, ...]
"""A domain, as the names of the domains that contain it and its own, from the widest level down.

For example, ("block-1", "rack-3") is rack-3 of block-1. Racks of other blocks may have the same last name.
"""

_KEPT = 8
"""The most cached trees. A cluster has one tree for each topology that its gangs use."""


@dataclass(frozen=True)
class DomainTree:
    """The nodes of a topology, sorted into its domains.

    `path_of`: by name of each node in the topology, the path of the narrowest domain above the node. The nodes are in
    the order of the tree: level by level by natural order of the names. `outside`: by name of every other node, the
    label that it lacks, or `label=value` of the node pool that it is not in. `counts`: by path of each domain above the
    nodes, how many nodes it has, parents first; the empty path is the whole topology.
    """

    topology: Topology
    path_of: Mapping[str, Path] = field(default_factory=dict)
    outside: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[Path, int] = field(default_factory=dict)

    def paths(self, level: int) -> tuple[Path, ...]:
        """Return the paths of all domains of one level, in the order of the tree.

        :param level: the position of the level: 0 for the widest; the last level is the nodes.
        """
        depth = level + 1
        if depth == len(self.topology.levels):
            return tuple((*path, name) for name, path in self.path_of.items())
        return tuple(path for path in self.counts if len(path) == depth)

    def nodes_under(self, path: Path) -> tuple[str, ...]:
        """Return the names of the nodes in the domain with this path, in the order of the tree."""
        return tuple(self._under.get(path, ()))

    @cached_property
    def _under(self) -> Mapping[Path, list[str]]:
        """By path of each domain, nodes included: the names of its nodes."""
        found: defaultdict[Path, list[str]] = defaultdict(list)
        for name, above in self.path_of.items():
            path = (*above, name)
            for depth in range(len(path) + 1):
                found[path[:depth]].append(name)
        return dict(found)


_last: dict[Topology, tuple[tuple[Node, ...], DomainTree]] = {}
"""Cache: for each topology, the nodes of the last call and their tree."""


def domains(topology: Topology, nodes: Iterable[Node]) -> DomainTree:
    """Return the domain tree of the topology over these nodes, from their labels.

    For a node without the label of a level, `Level.unlabelled` decides. Every plan and every release calls this, mostly
    with unchanged nodes. Then a cached tree is returned, after one comparison of the nodes.
    """
    there = tuple(nodes)
    known = _last.get(topology)
    if known is not None and known[0] == there:
        return known[1]
    tree = _placed(topology, there)
    if len(_last) >= _KEPT:
        _last.clear()
    _last[topology] = there, tree
    return tree


def _placed(topology: Topology, nodes: Iterable[Node]) -> DomainTree:
    levels = topology.levels[:-1]
    inside: dict[str, Path] = {}
    outside: dict[str, str] = {}
    for node in nodes:
        if topology.pools and not _in_a_pool(topology, node):
            outside[node.metadata.name] = str(topology.pools[0])
            continue
        path: list[str] = []
        for level in levels:
            domain = _domain_at(level, node)
            if domain is None:
                outside[node.metadata.name] = level.label_keys[0]
                break
            path.append(domain)
        else:
            if topology.hostname_listed and not node.metadata.labels.get(HOSTNAME_LABEL):
                outside[node.metadata.name] = HOSTNAME_LABEL
                continue
            inside[node.metadata.name] = tuple(path)
    return _tree(topology, tuple(inside.items()), tuple(outside.items()))


@lru_cache(maxsize=_KEPT)
def _tree(topology: Topology, inside: tuple[tuple[str, Path], ...], outside: tuple[tuple[str, str], ...]) -> DomainTree:
    """Return the sorted tree. Trees are cached, because every plan needs them and nodes rarely change their domain.

    :param inside: each node in the topology, with its path.
    :param outside: each other node, with the label that it lacks.
    """
    paths = sorted({path for _, path in inside}, key=lambda path: [natural_key(part) for part in path])
    place = {path: position for position, path in enumerate(paths)}
    path_of = dict(sorted(inside, key=lambda each: (place[each[1]], natural_key(each[0]))))
    return DomainTree(topology, path_of, dict(outside), _counts(path_of.values()))


def _in_a_pool(topology: Topology, node: Node) -> bool:
    return any(node.metadata.labels.get(pool.label) == pool.value for pool in topology.pools)


def _domain_at(level: Level, node: Node) -> str | None:
    """Return the name of the node's domain at a level; None if the node is outside the topology."""
    for key in level.label_keys:
        if value := node.metadata.labels.get(key):
            return value
    match level.unlabelled:
        case Unlabelled.OWN_DOMAIN:
            return node.metadata.name
        case Unlabelled.DEFAULT_DOMAIN:
            return DEFAULT_DOMAIN_NAME
        case Unlabelled.OUTSIDE:
            return None


def _counts(paths: Iterable[Path]) -> dict[Path, int]:
    """Return the number of nodes in every domain, by its path, parents first.

    :param paths: for each node, the path of the narrowest domain above it, in the order of the tree.
    """
    counts: Counter[Path] = Counter()
    for path in paths:
        for depth in range(len(path) + 1):
            counts[path[:depth]] += 1
    return dict(counts)
