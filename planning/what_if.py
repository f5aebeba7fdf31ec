"""Hypothetical changes of a cluster: more nodes, cordoned or drained nodes, or levels that are not required.

`WhatIf` takes a snapshot, pods and gangs, and returns changed copies of them. The cluster itself is not changed, and
planning works as usual on the copies.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import msgspec

from cluster.node_state import NodeState, Tenant
from cluster.snapshot import Snapshot
from gangs.model import Gang, PodSet
from kube.keys import PINNED_DOMAIN, PINNED_IN, PLAN, PLANNED_NODE, RELEASE_BEGUN, RELEASED, TAKEN_BACK, WHOLE_MARK
from kube.names import natural_key
from kube.objects import Node, Pod, PodStatus
from kube.topology import HOSTNAME_LABEL, Topology
from planning.framing.ties import made_new

DAEMON = "DaemonSet"
_OURS = (PINNED_DOMAIN, PINNED_IN, PLAN, PLANNED_NODE, RELEASE_BEGUN, RELEASED, TAKEN_BACK, WHOLE_MARK)
"""The annotations on a pod in which Phalanx records its plan and its release. A recreated pod does not have them."""


MOST_ADDED = 20_000
"""The most nodes that may be added in one call, of all kinds together."""


def added_nodes(values: Iterable[str], most: int = MOST_ADDED, instead: str = "") -> dict[str, int]:
    """Return, by name of a node, how many copies of it are added, parsed from texts such as `4=node-5`.

    :param most: the most nodes that may be added, of all kinds together.
    :param instead: what the user can do instead, appended to the error about more than `most` nodes.
    :raises ValueError: a text is malformed or asks for too many nodes; the message is one line for a person.
    """
    added: dict[str, int] = {}
    for value in values:
        count, equals, name = value.partition("=")
        number = int(count) if count.isascii() and count.isdecimal() and len(count) <= len(str(MOST_ADDED)) else 0
        if not (equals and name and number):
            raise ValueError(f"{value}: write COUNT=NODE, such as 4=node-5: 4 more nodes like node-5")
        added[name] = added.get(name, 0) + number
        if sum(added.values()) > most:
            raise ValueError(f"{value}: {most} nodes can be added, all together{instead}")
    return added


def names(values: Iterable[str]) -> frozenset[str]:
    """Return all names in `values`, each of which may hold several names separated by commas."""
    return frozenset(name.strip() for value in values for name in value.split(",") if name.strip())


class UnknownNodeError(ValueError):
    """A `WhatIf` names a node that does not exist."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The hypothetical changes.

    `added`: the number of copies to add of each node, by the node's name; only DaemonSet pods run on a copy.
    `cordoned`: nodes that take no new pods. `drained`: cordoned nodes that also lose their pods, except the pods of
    DaemonSets and mirror pods; gang members are planned again, other pods are gone. `relaxed`: levels, by name or node
    label, that become preferred if they are required. `gangs`: `namespace/name` of gangs of the cluster that are
    planned although nothing else asks for it.
    """

    added: Mapping[str, int] = field(default_factory=dict)
    cordoned: frozenset[str] = frozenset()
    drained: frozenset[str] = frozenset()
    relaxed: tuple[str, ...] = ()
    gangs: frozenset[str] = frozenset()

    def snapshot(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with the hypothetical changes. Raises `UnknownNodeError` if a named node does not
        exist.
        """
        there = {state.name: state for state in snapshot.nodes}
        named = {*self.added, *self.cordoned, *self.drained}
        if missing := sorted(named - there.keys(), key=natural_key):
            raise UnknownNodeError(f"no node {missing[0]}")
        states = [self._changed(state) for state in snapshot.nodes]
        taken = set(there)
        for like, count in self.added.items():
            states += _more_like(there[like], count, taken)
        return replace(snapshot, nodes=tuple(sorted(states, key=lambda state: natural_key(state.name))))

    def pods(self, pods: Sequence[Pod]) -> Sequence[Pod]:
        """Return the pods with the hypothetical changes: a drained pod is recreated, so it is gated and has no node."""
        return [_made_again(pod) if self.loses(pod) else pod for pod in pods] if self.drained else pods

    def gang(self, gang: Gang, topology: Topology | None) -> Gang:
        """Return the gang with relaxed levels. `topology`: the gang's topology, which resolves level names; None if it
        is not known.
        """
        levels = tuple(name for level in self.relaxed for name in _names(level, topology))
        sets = tuple(_relaxed(each, levels) for each in gang.pod_sets)
        return replace(_relaxed(gang, levels), pod_sets=sets) if levels else gang

    def asks(self, gang: Gang, lost: Container[str]) -> bool:
        """Whether the gang must be planned because of the hypothetical changes: `gangs` names the gang, or a drain
        removes a member.

        `lost`: `namespace/name` of all drained pods.
        """
        named = any(f"{key.namespace}/{key.name}" in self.gangs for key in gang.names)
        return named or any(member.pod.key in lost for member in gang.members)

    def loses(self, pod: Pod) -> bool:
        """Whether the pod loses its node, because a drain of the node is assumed."""
        return pod.spec.node_name in self.drained and not pod.finished and not _stays(pod)

    def _changed(self, state: NodeState) -> NodeState:
        if state.name in self.drained:
            tenants = tuple(each for each in state.tenants if _stays(each.pod))
            return NodeState(_cordoned(state.node), state.allocatable, tenants)
        if state.name in self.cordoned:
            return NodeState(_cordoned(state.node), state.allocatable, state.tenants)
        return state


AS_IT_IS = WhatIf()


def missing_gangs(what_if: WhatIf, gangs: Iterable[Gang]) -> list[str]:
    """Return the `namespace/name` of the gangs that `what_if` names and that do not exist."""
    known = {f"{key.namespace}/{key.name}" for gang in gangs for key in gang.names}
    return sorted(what_if.gangs - known, key=natural_key)


def _more_like(state: NodeState, count: int, taken: set[str]) -> Iterator[NodeState]:
    """Yield `count` nodes with the labels, taints and size of `state`, which run its DaemonSet pods only.
    Each gets a new name, which is added to `taken`.
    """
    number = 0
    while count:
        number += 1
        name = f"{state.name}-more-{number}"
        if name not in taken:
            taken.add(name)
            count -= 1
            tenants = tuple(_on(each, name) for each in state.tenants if _of_a_daemon_set(each.pod))
            yield NodeState(_renamed(state.node, name), state.allocatable, tenants)


def _renamed(node: Node, name: str) -> Node:
    labels = {**node.metadata.labels, HOSTNAME_LABEL: name}
    metadata = msgspec.structs.replace(node.metadata, name=name, uid="", labels=labels)
    spec = msgspec.structs.replace(node.spec, unschedulable=False)
    return msgspec.structs.replace(node, metadata=metadata, spec=spec)


def _on(tenant: Tenant, node: str) -> Tenant:
    """Return a copy of a DaemonSet's pod that runs on another node."""
    metadata = msgspec.structs.replace(tenant.pod.metadata, name=f"{tenant.pod.metadata.name}-{node}", uid="")
    spec = msgspec.structs.replace(tenant.pod.spec, node_name=node)
    return replace(tenant, pod=msgspec.structs.replace(tenant.pod, metadata=metadata, spec=spec), node=node)


def _cordoned(node: Node) -> Node:
    return msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, unschedulable=True))


def _made_again(pod: Pod) -> Pod:
    """Return the pod as its workload recreates it: gated, and without what the release wrote into its spec."""
    recreated = made_new(pod)
    annotations = {key: value for key, value in pod.metadata.annotations.items() if key not in _OURS}
    return msgspec.structs.replace(
        recreated,
        metadata=msgspec.structs.replace(pod.metadata, annotations=annotations),
        status=PodStatus(phase="Pending"),
    )


def _stays(pod: Pod) -> bool:
    """Whether a drain leaves the pod on its node. A DaemonSet or mirror pod would return to the same node
    (kubectl drain --ignore-daemonsets).
    """
    return _of_a_daemon_set(pod) or any(owner.kind == "Node" for owner in pod.metadata.owner_references)


def _of_a_daemon_set(pod: Pod) -> bool:
    return any(owner.kind == DAEMON and owner.controller for owner in pod.metadata.owner_references)


def _names(level: str, topology: Topology | None) -> tuple[str, ...]:
    """Return all names of a level: its name, its label keys and its aliases."""
    position = None if topology is None else topology.find(level)
    if topology is None or position is None:
        return (level,)
    found = topology.levels[position]
    return (found.name, *found.label_keys, *found.aliases)


_Asking = TypeVar("_Asking", Gang, PodSet)


def _relaxed(asking: _Asking, levels: Sequence[str]) -> _Asking:
    if asking.required is None or asking.required not in levels:
        return asking
    return replace(asking, required=None, preferred=asking.preferred or asking.required)
