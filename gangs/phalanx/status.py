"""The status of a `phalanx.dev` Topology object: the domains of the cluster, their nodes and their free capacity."""

from collections import Counter
from typing import Any

from gangs.model import ObjectRef
from gangs.object_statuses import DomainPath, ObjectStatus, ResourceAmounts, Status, TopologyView
from gangs.phalanx.topologies import KIND, PLURAL
from kube.keys import API_VERSION
from kube.quantities import in_bytes, written

MAX_DOMAINS = 500
"""The most domains in one status, which then has some 100 KB. Levels with more are left out, the narrowest first."""

_DIGITS, _BITS = 3, 10
"""The precision of amounts in the status: 3 decimal digits; for bytes 10 bits.

With more, the status would have to be written for every small change.
"""


def topology_status(view: TopologyView) -> ObjectStatus:
    """Return the status of the Topology object that describes the topology of the view."""
    return ObjectStatus(ObjectRef(API_VERSION, KIND, "", view.topology.name), domains_status(view), PLURAL)


def domains_status(view: TopologyView, *, max_domains: int = MAX_DOMAINS) -> Status:
    """Return the status fields of a Topology object: `domains`, and `omitted` if there are too many domains.

    `domains` lists the domains of all levels, each domain before the domains inside it. An entry has its path, the
    number of its nodes, and its free capacity, rounded down to three digits. If there are more than `max_domains`,
    narrow levels are left out, and `omitted` names them.
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
    """Return the paths of the domains of the `depth` widest levels, each before the domains inside it."""
    found: dict[DomainPath, None] = {}
    for name, above in view.path_of.items():
        path = (*above, name)
        for end in range(1, depth + 1):
            found.setdefault(path[:end])
    return list(found)


def _depth(view: TopologyView, max_domains: int) -> int:
    """Return how many of the widest levels have at most `max_domains` domains together."""
    total = 0
    for position in range(len(view.topology.levels)):
        total += _width(view, position)
        if total > max_domains:
            return position
    return len(view.topology.levels)


def _width(view: TopologyView, position: int) -> int:
    """Return the number of domains of the level at this index (0 is the widest)."""
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
    """Return an amount rounded down to its first `_DIGITS` digits; for bytes, to its first `_BITS` bits."""
    step = 2 ** max(0, amount.bit_length() - _BITS) if in_bytes(resource) else 10 ** max(0, len(str(amount)) - _DIGITS)
    return int(amount // step * step)
