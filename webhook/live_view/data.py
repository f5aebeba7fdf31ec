"""The live picture as plain JSON data: `/v1/gangs` and `/v1/topology`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cluster.snapshot import NodeState
from cluster.topology.domain_room import free_on, free_under
from cluster.topology.tree import DomainTree, domains
from gangs.coexistence.ownership import left_to
from gangs.dialects.reading import read_all
from gangs.dialects.table import OWN
from gangs.dialects.topologies import topologies, topology_of
from gangs.mirrors import claim_of, mirrored_key
from gangs.model import Fault, Gang, GangKey, Manifest
from gangs.sources import Sources
from kube import keys
from kube.topology import Topology
from webhook.picture import Picture

Json = dict[str, Any]


def gangs(picture: Picture) -> Json:
    """Every gang with its members, every request that is wrong, and by dialect whose gangs are left to whom."""
    sources = picture.sources()
    reading = read_all(sources)
    known, _ = topologies(sources)
    statuses = _statuses(sources)
    return {
        "synced": picture.synced(),
        "age": round(picture.age(), 3),
        "gangs": [_gang(each, known, statuses.get(each.key, {})) for each in reading.gangs],
        "faults": [str(each) for each in reading.faults],
        "left": {name: str(each) for name, each in sorted(left_to(sources).items())},
    }


def topology(picture: Picture) -> Json:
    """Every topology: its levels, its domains with their room, its nodes, and the nodes outside.

    Amounts are integers in the base unit of each resource: cpu in millicores, memory in bytes, pieces otherwise.
    """
    snapshot = picture.snapshot()
    known, faults = topologies(picture.sources())
    states = {state.name: state for state in snapshot.nodes}
    return {
        "synced": picture.synced(),
        "age": round(picture.age(), 3),
        "topologies": [_topology(each, states) for each in known],
        "nodes": {name: _node(state) for name, state in states.items()},
        "faults": [str(each) for each in faults],
    }


def _statuses(sources: Sources) -> dict[GangKey, Manifest]:
    """The status of every Gang object, by the gang that it shows. What only claims to show one is not asked."""
    found = {}
    for manifest in sources.of_kind(keys.GROUP, "Gang"):
        meta = manifest["metadata"]
        key = mirrored_key(manifest)
        if key is None and not claim_of(manifest):
            key = GangKey(OWN, meta.get("namespace", ""), meta["name"])
        if key is not None:
            found[key] = manifest.get("status") or {}
    return found


def _gang(gang: Gang, known: Sequence[Topology], status: Manifest) -> Json:
    topology = topology_of(gang, known)
    return {
        "namespace": gang.key.namespace,
        "name": gang.key.name,
        "dialect": gang.key.dialect,
        "source": str(gang.source),
        "priority": gang.priority,
        "expected": gang.expected,
        "minMember": gang.min_member,
        "topology": topology.name if isinstance(topology, Topology) else gang.topology or "",
        "required": _level(gang.required, topology),
        "preferred": _level(gang.preferred, topology),
        "waitingFor": list(gang.waiting_for),
        "phase": status.get("phase", ""),
        "message": status.get("message", ""),
        "members": [
            {
                "namespace": each.pod.metadata.namespace,
                "pod": each.pod.metadata.name,
                "podSet": each.pod_set,
                "index": each.index,
                "gated": each.pod.gated_by(keys.GATE),
                "node": each.pod.spec.node_name,
                "nominatedNode": each.pod.status.nominated_node_name,
            }
            for each in gang.members
        ],
    }


def _level(named: str | None, topology: Topology | Fault | None) -> str | None:
    """A level by the name that it has in the topology, as the gang names it where that has none."""
    position = topology.find(named) if named is not None and isinstance(topology, Topology) else None
    return named if position is None or not isinstance(topology, Topology) else topology.levels[position].name


def _topology(known: Topology, states: Mapping[str, NodeState]) -> Json:
    tree = domains(known, (state.node for state in states.values()))
    return {
        "name": known.name,
        "kind": known.kind,
        "levels": [{"name": level.name, "labels": list(level.label_keys)} for level in known.levels],
        "domains": _domains(tree, states),
        "nodes": {name: list(path) for name, path in tree.path_of.items()},
        "outside": dict(tree.outside),
    }


def _domains(tree: DomainTree, states: Mapping[str, NodeState]) -> list[Json]:
    """Every domain above the nodes, parents first, with the sums over its nodes."""
    free = free_under(tree, states.values())
    return [{"path": list(path), "nodes": count, "free": free[path]} for path, count in tree.counts.items()]


def _node(state: NodeState) -> Json:
    return {
        "allocatable": dict(state.allocatable),
        "free": free_on(state),
        "unschedulable": state.node.spec.unschedulable,
        "pods": _names(tenant.pod.key for tenant in state.tenants if not tenant.reserved),
        "reserved": _names(tenant.pod.key for tenant in state.tenants if tenant.reserved),
    }


def _names(names: Iterable[str]) -> list[str]:
    return sorted(names)
