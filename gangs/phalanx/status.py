"""The status of Phalanx's own Topology objects: the domains of the cluster, their nodes and their free capacity."""

from collections import Counter
from typing import Any

from gangs.model import ObjectRef
from gangs.object_statuses import DomainPath, ObjectStatus, ResourceAmounts, Status, TopologyView
from gangs.phalanx.topologies import KIND, PLURAL
from kube.keys import API_VERSION
from kube.quantities import in_bytes, written

MAX_DOMAINS = 500
"""Entries in one status: some 100 KB. Levels that would go beyond are left out whole, narrowest first."""

_DIGITS, _BITS = 3, 10
"""Precision of amounts: decimal digits, and bits for bytes. A smaller change does not justify a write of the status."""


def topology_status(view: TopologyView) -> ObjectStatus:
    """The status of a Topology object."""
    return ObjectStatus(ObjectRef(API_VERSION, KIND, "", view.topology.name), domains_status(view), PLURAL)


def domains_status(view: TopologyView, *, max_domains: int = MAX_DOMAINS) -> Status:
    """Return the fields of the status.

    `domains` lists every domain from the widest level to the node, each domain before the domains inside it. An entry
    has the path, the nodes, and the free capacity, rounded down to three digits. `omitted` names the levels left out.
    """
    levels, free = view.topology.levels, view.free_under()
    depth = _depth(view, max_domains)
    status: Status = {
        "nodes": len(view.path_of),
        "free": _quantities(free[()]),
        "domains": [
            _domain(view, path, free[path] if len(path) < len(levels) else view.free_on(path[-1]))
            for path in _paths(view, depth)
        ],
    }
    if view.outside:
        missing = Counter(view.outside.values())
        status["outside"] = [{"missingLabel": label, "nodes": count} for label, count in sorted(missing.items())]
    if depth < len(levels):
        left = [f"{level.name} ({_width(view, at)})" for at, level in enumerate(levels) if at >= depth]
        status["omitted"] = f"more than {max_domains} domains: left out are {', '.join(left)}"
    return status


def _paths(view: TopologyView, depth: int) -> list[DomainPath]:
    """The domains of the `depth` widest levels, each before those inside it, in the order of the tree."""
    found: dict[DomainPath, None] = {}
    for name, above in view.path_of.items():
        path = (*above, name)
        for end in range(1, depth + 1):
            found.setdefault(path[:end])
    return list(found)


def _depth(view: TopologyView, max_domains: int) -> int:
    """Return how many levels fit into the status, counted from the widest."""
    total = 0
    for position in range(len(view.topology.levels)):
        total += _width(view, position)
        if total > max_domains:
            return position
    return len(view.topology.levels)


def _width(view: TopologyView, position: int) -> int:
    """How many domains the level at that position has."""
    depth = position + 1
    if depth == len(view.topology.levels):
        return len(view.path_of)
    return sum(len(path) == depth for path in view.counts)


def _domain(view: TopologyView, path: DomainPath, free: ResourceAmounts) -> dict[str, Any]:
    return {
        "level": view.topology.levels[len(path) - 1].name,
        "path": list(path),
        "nodes": view.counts.get(path, 1),
        "free": _quantities(free),
    }


def _quantities(amounts: ResourceAmounts) -> dict[str, str]:
    return {resource: written(resource, _rounded(resource, amount)) for resource, amount in sorted(amounts.items())}


def _rounded(resource: str, amount: int) -> int:
    """The amount with its first digits alone, rounded down; bytes, which people count in powers of 2, by their bits."""
    step = 2 ** max(0, amount.bit_length() - _BITS) if in_bytes(resource) else 10 ** max(0, len(str(amount)) - _DIGITS)
    return int(amount // step * step)
