"""The status that Koordinator shows on a ClusterNetworkTopology: its tree, depth first from the root."""

from collections.abc import Iterable, Sequence
from typing import Any

from gangs.koordinator.keys import ROOT_LAYER
from kube.names import natural_key
from kube.topology import Topology

_Path = tuple[str, ...]


def detail_status(topology: Topology, nodes: Iterable[tuple[Sequence[str], str]]) -> list[dict[str, Any]]:
    """`status.detailStatus`. `nodes`: for each node inside the topology the path of its domains and its name.

    An entry for the root and for every domain above the node; children by natural name. Nodes are only counted.
    """
    counts: dict[_Path, int] = {(): 0}
    children: dict[_Path, set[str]] = {}
    for names, _ in nodes:
        path = tuple(names)
        counts[()] += 1
        for depth, name in enumerate(path, start=1):
            counts[path[:depth]] = counts.get(path[:depth], 0) + 1
            children.setdefault(path[: depth - 1], set()).add(name)
    layers = (ROOT_LAYER, *(level.name for level in topology.levels))
    return _entries((), layers, counts, children)


def _entries(
    path: _Path, layers: Sequence[str], counts: dict[_Path, int], children: dict[_Path, set[str]]
) -> list[dict[str, Any]]:
    names = sorted(children.get(path, ()), key=natural_key)
    entry: dict[str, Any] = {"childTopologyLayer": layers[len(path) + 1]}
    if names:
        entry["childTopologyNames"] = names
    entry["nodeNum"] = counts[path]
    if path:
        entry["parentTopologyInfo"] = _info(path[:-1], layers)
    entry["topologyInfo"] = _info(path, layers)
    entries = [entry]
    for name in names:
        entries += _entries((*path, name), layers, counts, children)
    return entries


def _info(path: _Path, layers: Sequence[str]) -> dict[str, str]:
    return {"topologyLayer": layers[len(path)], "topologyName": path[-1] if path else ""}
