"""The domain tree of a topology: every node's path, and the nodes outside the topology."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from kube.names import natural_key
from kube.objects import Node
from kube.topology import DEFAULT_DOMAIN_NAME, HOSTNAME_LABEL, Level, Topology, Unlabelled

Path = tuple[str, ...]
"""Names of domains from the widest level down. A domain is the whole path to it, never its last name alone."""

_KEPT = 8
"""Number of cached trees. A cluster has one tree for each topology that its gangs use."""


@dataclass(frozen=True)
class DomainTree:
    """The positions of nodes in a topology.

    `path_of`: each node inside, with one name per level above the node, in the order of the tree (level by level by
    natural name, then node). `outside`: each other node, with the label that it lacks (`label=value` if the node
    is in no node pool of the topology). `counts`: nodes under each domain of every level, in the order of the tree,
    parents first; the empty path is the whole topology.
    """

    topology: Topology
    path_of: Mapping[str, Path] = field(default_factory=dict)
    outside: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[Path, int] = field(default_factory=dict)

    def paths(self, level: int) -> tuple[Path, ...]:
        """Return the domains of the level at that position (0: widest, last: the nodes), in the order of the tree."""
        depth = level + 1
        if depth == len(self.topology.levels):
            return tuple((*path, name) for name, path in self.path_of.items())
        return tuple(path for path in self.counts if len(path) == depth)

    def nodes_under(self, path: Path) -> tuple[str, ...]:
        """Return the names of the nodes in the domain `path`, in the order of the tree."""
        return tuple(self._under.get(path, ()))

    @cached_property
    def _under(self) -> Mapping[Path, list[str]]:
        """The nodes in every domain, a node being the narrowest."""
        found: defaultdict[Path, list[str]] = defaultdict(list)
        for name, above in self.path_of.items():
            path = (*above, name)
            for depth in range(len(path) + 1):
                found[path[:depth]].append(name)
        return dict(found)


_last: dict[Topology, tuple[tuple[Node, ...], DomainTree]] = {}
"""Cache: for each topology, the nodes of the last call and their tree."""


def domains(topology: Topology, nodes: Iterable[Node]) -> DomainTree:
    """Place `nodes` in `topology` by their labels; a node without a level's label follows that level's rule.

    Every plan and every release calls this, mostly with unchanged nodes. The call then costs one list comparison.
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
    """Return the tree, sorted. Every plan needs it, and nodes rarely move."""
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
    """Return the number of nodes under every prefix of `paths`, in the order of the tree, parents first."""
    counts: Counter[Path] = Counter()
    for path in paths:
        for depth in range(len(path) + 1):
            counts[path[:depth]] += 1
    return dict(counts)
