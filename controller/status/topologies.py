"""What topology objects show of the cluster: the tree of domains with their nodes and the room that is free there."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from cluster.domain_room import free_on, free_under
from cluster.quantities import in_bytes, written
from cluster.snapshot import Amounts, NodeState, Snapshot
from cluster.tree import DomainTree, Path, domains
from gangs.koordinator import keys as koordinator
from gangs.koordinator.status import detail_status
from gangs.model import ObjectRef
from gangs.phalanx.topologies import KIND
from kube.keys import API_VERSION
from kube.topology import Topology

MAX_DOMAINS = 500
"""Entries in one status: some 100 KB. Levels that would go beyond are left out whole, narrowest first."""

_DIGITS, _BITS = 3, 10
"""How exactly amounts are told: what changes less than that is not worth a write of the whole status."""


def topology_statuses(topologies: Iterable[Topology], snapshot: Snapshot) -> Mapping[ObjectRef, dict[str, Any]]:
    """The status of the object behind every topology, where its kind shows one."""
    found = {}
    for topology in topologies:
        if topology.kind == koordinator.TOPOLOGY_KIND:
            group, status = f"{koordinator.TOPOLOGY_GROUP}/v1alpha1", network_status(topology, snapshot)
        elif topology.kind == KIND:
            group, status = API_VERSION, topology_status(topology, snapshot)
        else:
            continue
        found[ObjectRef(group, topology.kind, "", topology.name)] = status
    return found


def network_status(topology: Topology, snapshot: Snapshot) -> dict[str, Any]:
    """The status of a ClusterNetworkTopology, as Koordinator writes it."""
    tree = domains(topology, (state.node for state in snapshot.nodes))
    return {"detailStatus": detail_status(topology, ((path, name) for name, path in tree.path_of.items()))}


def topology_status(topology: Topology, snapshot: Snapshot, *, max_domains: int = MAX_DOMAINS) -> dict[str, Any]:
    """The status of a Topology object.

    `domains` lists every domain from the widest level to the node, each domain before those inside it, with its path,
    the nodes in it and the room that is free there (`cluster.domain_room`), rounded down to three digits. `omitted`
    says what did not fit in here.
    """
    tree = domains(topology, (state.node for state in snapshot.nodes))
    free = free_under(tree, snapshot.nodes)
    depth = _depth(tree, max_domains)
    shown = _paths(tree, depth)
    if depth == len(topology.levels):
        free |= {(*tree.path_of[each.name], each.name): dict(free_on(each)) for each in _inside(tree, snapshot)}
    status: dict[str, Any] = {
        "nodes": len(tree.path_of),
        "free": _quantities(free[()]),
        "domains": [_domain(topology, tree, path, free[path]) for path in shown],
    }
    if tree.outside:
        missing = Counter(tree.outside.values())
        status["outside"] = [{"missingLabel": label, "nodes": count} for label, count in sorted(missing.items())]
    if depth < len(topology.levels):
        left = [f"{level.name} ({_width(tree, at)})" for at, level in enumerate(topology.levels) if at >= depth]
        status["omitted"] = f"more than {max_domains} domains: left out are {', '.join(left)}"
    return status


def _inside(tree: DomainTree, snapshot: Snapshot) -> Iterator[NodeState]:
    return (state for state in snapshot.nodes if state.name in tree.path_of)


def _paths(tree: DomainTree, depth: int) -> list[Path]:
    """The domains of the `depth` widest levels, each before those inside it, in the order of the tree."""
    seen: dict[Path, None] = {}
    for name, above in tree.path_of.items():
        whole = (*above, name)
        for end in range(1, depth + 1):
            seen.setdefault(whole[:end])
    return list(seen)


def _depth(tree: DomainTree, max_domains: int) -> int:
    """How many levels fit, counted from the widest."""
    total = 0
    for position in range(len(tree.topology.levels)):
        total += _width(tree, position)
        if total > max_domains:
            return position
    return len(tree.topology.levels)


def _width(tree: DomainTree, position: int) -> int:
    return len(tree.paths(position))


def _domain(topology: Topology, tree: DomainTree, path: Path, free: Amounts) -> dict[str, Any]:
    return {
        "level": topology.levels[len(path) - 1].name,
        "path": list(path),
        "nodes": tree.counts.get(path, 1),
        "free": _quantities(free),
    }


def _quantities(amounts: Amounts) -> dict[str, str]:
    return {resource: written(resource, _rounded(resource, amount)) for resource, amount in sorted(amounts.items())}


def _rounded(resource: str, amount: int) -> int:
    """The amount with its first digits alone, rounded down; bytes, which people count in powers of 2, by their bits."""
    step = 2 ** max(0, amount.bit_length() - _BITS) if in_bytes(resource) else 10 ** max(0, len(str(amount)) - _DIGITS)
    return int(amount // step * step)
