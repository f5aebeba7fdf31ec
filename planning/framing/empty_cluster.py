"""The cluster as if only DaemonSet and mirror pods ran: it has the capacity that a gang would have if it were alone."""

import weakref

from msgspec import structs

from cluster.eligibility.taints import NOT_READY_KEYS, UNSCHEDULABLE
from cluster.node_state import NodeState
from cluster.snapshot import Snapshot
from kube.objects import Node, Pod

_PASSING_TAINTS = NOT_READY_KEYS | {UNSCHEDULABLE.key}
_last: list[tuple[weakref.ref[Snapshot], Snapshot]] = []
"""The snapshot that was emptied last, with the result: many gangs are planned on one snapshot."""


def emptied(snapshot: Snapshot) -> Snapshot:
    """Return the cluster with every node ready and schedulable, and with no pods but DaemonSet and mirror pods.

    Returns `snapshot` itself if nothing changes.
    """
    if _last and _last[0][0]() is snapshot:
        return _last[0][1]
    states = [_emptied(state) for state in snapshot.nodes]
    changed = any(after is not before for before, after in zip(snapshot.nodes, states, strict=True))
    found = _with_nodes(snapshot, states) if changed else snapshot
    _last[:] = [(weakref.ref(snapshot), found)]
    return found


def _with_nodes(snapshot: Snapshot, states: list[NodeState]) -> Snapshot:
    """Return the snapshot with the nodes `states`, on which some pods no longer run. Fields that depend on these pods
    are left at their defaults.
    """
    return Snapshot(
        nodes=tuple(states),
        priority_classes=snapshot.priority_classes,
        namespaces=snapshot.namespaces,
        volumes=snapshot.volumes,
        devices=None if snapshot.devices is None else snapshot.devices.emptied,
    )


def _emptied(state: NodeState) -> NodeState:
    tenants = tuple(each for each in state.tenants if _stays(each.pod))
    node = _restored(state.node)
    if len(tenants) == len(state.tenants) and node is state.node:
        return state
    return NodeState(node, state.allocatable, tenants)


def _restored(node: Node) -> Node:
    """Return the node without temporary states: a cordon, a Ready condition that is not True, and their taints."""
    taints = tuple(taint for taint in node.spec.taints if taint.key not in _PASSING_TAINTS)
    if node.ready and not node.spec.unschedulable and len(taints) == len(node.spec.taints):
        return node
    conditions = tuple(each for each in node.status.conditions if each.type != "Ready")
    return structs.replace(
        node,
        spec=structs.replace(node.spec, unschedulable=False, taints=taints),
        status=structs.replace(node.status, conditions=conditions),
    )


def _stays(pod: Pod) -> bool:
    """Whether an evicted pod is recreated on the same node: a mirror pod, or a pod of a DaemonSet."""
    owners = pod.metadata.owner_references
    return any(owner.kind == "Node" or (owner.kind == "DaemonSet" and owner.controller) for owner in owners)
