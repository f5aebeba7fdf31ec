"""Converts the live cluster to JSON data, for `/v1/gangs`, `/v1/topology` and the live page."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cluster.node_state import NodeState
from cluster.snapshot import Snapshot
from cluster.topology.domain_room import free_and_terminating_on, free_under, room_on
from cluster.topology.tree import DomainTree
from cluster.topology.tree import domains as tree_of
from gangs.coexistence.ownership import ceded_beside_kubernetes
from gangs.dialects.topologies import topologies, topology_of
from gangs.incremental.reading_apart import read_apart
from gangs.model import Fault, Gang, GangKey, Manifest
from gangs.sources import Sources
from kube import keys
from kube.objects import Pod
from kube.requests import PODS, pod_requests
from kube.topology import Topology
from planning.stories.facts import shown_key, since
from webhook.picture import Picture

Json = dict[str, Any]


def gangs(picture: Picture) -> Json:
    """Return the data of `/v1/gangs`: every gang with its members, the faults of placement requests, and ceded
    dialects.

    `left`: by dialect, the system to which its gangs are ceded. `age`: seconds since the caches heard from the API
    server.
    """
    sources = picture.sources()
    reading = read_apart(sources)
    known, _ = topologies(sources)
    shown = GangsShown(sources, known)
    return {
        "synced": picture.synced(),
        "age": round(picture.age(), 3),
        "gangs": [shown.gang(each) for each in reading.gangs],
        "faults": [str(each) for each in reading.faults],
        "left": {name: str(each) for name, each in sorted(ceded_beside_kubernetes(sources).items())},
    }


def topology(picture: Picture) -> Json:
    """Return the data of `/v1/topology`: every topology with its levels and domains, and every node with its pods.

    Each domain has its free capacity. Amounts are integers in the base unit of the resource: cpu in millicores, memory
    in bytes, any other resource in pieces.
    """
    snapshot = picture.snapshot()
    return {**_domains_of(picture, snapshot), "nodes": {state.name: node(state) for state in snapshot.nodes}}


def domains(picture: Picture) -> Json:
    """Return the topologies in the form of `/v1/topology`, without nodes and their pods, to render the live page."""
    return _domains_of(picture, picture.snapshot())


def _domains_of(picture: Picture, snapshot: Snapshot) -> Json:
    known, faults = topologies(picture.sources())
    states = {state.name: state for state in snapshot.nodes}
    return {
        "synced": picture.synced(),
        "age": round(picture.age(), 3),
        "topologies": [_topology(each, states) for each in known],
        "faults": [str(each) for each in faults],
    }


class GangsShown:
    """Converts gangs to JSON data, each with the status of its Gang object."""

    def __init__(self, sources: Sources, known: Sequence[Topology]) -> None:
        self._known = known
        self._statuses = _statuses(sources)

    def status(self, gang: Gang) -> Manifest | None:
        """Return the status of the gang's Gang object; None if there is no Gang object.

        An unchanged status is the same Python object at each call, so callers can compare by identity.
        """
        return self._statuses.get(gang.key)

    def gang(self, gang: Gang) -> Json:
        """Return the JSON data of a gang with its members."""
        return _gang(gang, self._known, self._statuses.get(gang.key) or {})


def _statuses(sources: Sources) -> dict[GangKey, Manifest]:
    """Return the status of each Gang object, by the gang that the object shows; empty for an object without status."""
    shown = ((shown_key(manifest), manifest) for manifest in sources.of_kind(keys.GROUP, "Gang"))
    return {key: manifest.get("status") or {} for key, manifest in shown if key is not None}


def _gang(gang: Gang, known: Sequence[Topology], status: Manifest) -> Json:
    topology = topology_of(gang, known)
    return {
        "namespace": gang.key.namespace,
        "name": gang.key.name,
        "dialect": gang.key.dialect,
        "source": str(gang.source),
        "priority": gang.priority if gang.members else None,  # it is known from the pods only
        "expected": gang.expected,
        "minMember": gang.min_member,
        "topology": topology.name if isinstance(topology, Topology) else gang.topology or "",
        "required": _level(gang.required, topology),
        "preferred": _level(gang.preferred, topology),
        "waitingFor": list(gang.waiting_for),
        "queue": gang.queue,
        "clusterQueue": gang.account.queue.name if gang.account is not None else None,
        "phase": status.get("phase", ""),
        "reason": status.get("reason"),
        "message": status.get("message", ""),
        "since": since(status),
        "members": [
            {
                "namespace": each.pod.metadata.namespace,
                "pod": each.pod.metadata.name,
                "podSet": each.pod_set,
                "index": each.index,
                "gated": each.pod.gated_by(keys.GATE),
                "node": each.pod.spec.node_name,
                "nominatedNode": each.pod.status.nominated_node_name,
                "requests": _requests(each.pod),
            }
            for each in gang.members
        ],
    }


def _requests(pod: Pod) -> dict[str, int]:
    """Return the requests of a pod by resource, in base units. The resource "pods" is left out."""
    return {name: amount for name, amount in pod_requests(pod).items() if name != PODS}


def _level(named: str | None, topology: Topology | Fault | None) -> str | None:
    """Return the name of a level in the topology, given the name or label that the gang's placement request uses; None
    for None.

    If the topology has no such level, the name is returned as the gang writes it.
    """
    position = topology.find(named) if named is not None and isinstance(topology, Topology) else None
    return named if position is None or not isinstance(topology, Topology) else topology.levels[position].name


def trees(known: Sequence[Topology], states: Mapping[str, NodeState]) -> list[DomainTree]:
    """Return the domain tree of each topology over these nodes."""
    return [tree_of(each, (state.node for state in states.values())) for each in known]


def places(tree: DomainTree) -> Json:
    """Return the JSON data of a topology: its levels, and by node the names of its domains from the widest down."""
    known = tree.topology
    return {
        "name": known.name,
        "kind": known.kind,
        "levels": [{"name": level.name, "labels": list(level.label_keys)} for level in known.levels],
        "nodes": {name: list(path) for name, path in tree.path_of.items()},
    }


def _topology(known: Topology, states: Mapping[str, NodeState]) -> Json:
    tree = tree_of(known, (state.node for state in states.values()))
    return {**places(tree), "domains": _room_of(tree, states), "outside": dict(tree.outside)}


def _room_of(tree: DomainTree, states: Mapping[str, NodeState]) -> list[Json]:
    """Return every domain above the nodes, parents first: its path, the number of its nodes and its free capacity."""
    free = free_under(tree, states.values())
    return [{"path": list(path), "nodes": count, "free": free[path]} for path, count in tree.counts.items()]


def node(state: NodeState) -> Json:
    """Return the JSON data of a node: its free and reserved capacity, and the pods that use or reserve it.

    `held`: reserved capacity. `leaving`: the capacity of pods that are terminating. `open`: whether the node is ready
    and neither cordoned nor tainted.
    """
    room = room_on(state)
    return {
        "allocatable": dict(state.allocatable),
        "free": room.free,
        "held": room.held,
        "leaving": state.room[1],
        "unschedulable": state.node.spec.unschedulable,
        "open": state.open,
        "pods": _names(tenant.pod.key for tenant in state.tenants if not tenant.reserved),
        "reserved": _names(tenant.pod.key for tenant in state.tenants if tenant.reserved),
    }


def cell(state: NodeState) -> Json:
    """Return the JSON data of a node for the live page, which has counts of pods in place of names.

    To keep it small, fields are left out if they have the value that most nodes have, such as `open` if it is true.
    """
    reserved = sum(tenant.reserved for tenant in state.tenants)
    free, leaving = free_and_terminating_on(state)
    shown: Json = {
        "allocatable": state.allocatable,
        "free": free,
        "pods": len(state.tenants) - reserved,
        "reserved": reserved,
    }
    if reserved:
        shown["held"] = room_on(state).held
    if leaving:
        shown["leaving"] = leaving
    if state.node.spec.unschedulable:
        shown["unschedulable"] = True
    return shown if state.open else {**shown, "open": False}


def _names(names: Iterable[str]) -> list[str]:
    return sorted(names)
