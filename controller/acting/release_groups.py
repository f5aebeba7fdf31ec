"""The PodGroups that Phalanx creates, so that kube-scheduler binds the members of a gang in one cycle, all or none.

The webhook lets the members join the PodGroup at their CREATE (`webhook.admission.joining_groups`). The controller
creates the PodGroup before it removes the first gate. The gang's Gang object owns the PodGroup, so both are deleted
together.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from controller.cluster_view import ClusterView
from controller.reconcile_state import ReconcileState
from controller.release.next_step import Planned
from controller.writes.writer import Writer, Written
from gangs.dialects.topologies import topology_of
from gangs.held_nodes import held_node
from gangs.model import Gang
from kube.keys import GATE
from kube.objects import Node, Pod
from kube.placeholders import to_come
from kube.scheduling_groups import API_GROUP, KIND, group_of, is_release_group, pod_group, pod_group_path
from kube.topology import Topology
from planning.framing.ties import Labels
from planning.pins import domain_labels

LOG = logging.getLogger(__name__)


def create_missing(writer: Writer, gang_state: ReconcileState, cluster_view: ClusterView) -> list[Written]:
    """Create each PodGroup of Phalanx to which unbound members of the gang belong, or correct its `minCount`.

    Return the results of the writes; empty if there is nothing to write. A gang has one such PodGroup. It has more only
    if a user has copied pods of other gangs.
    """
    pods = [member.pod for member in gang_state.gang.members]
    names = {group_of(pod) for pod in pods if not pod.bound}
    written = list[Written]()
    for name in sorted(filter(is_release_group, names)):
        of_group = [pod for pod in pods if group_of(pod) == name]
        namespace = of_group[0].metadata.namespace
        seen = cluster_view.sources.get(API_GROUP, KIND, namespace, name)
        if seen is None:
            manifest = pod_group(name, of_group[0], len(of_group), _owner(gang_state.manifest))
            written.append(writer.create(pod_group_path(namespace), manifest))
        elif _min_count(seen) != len(of_group):
            patch = {"spec": {"schedulingPolicy": {"gang": {"minCount": len(of_group)}}}}
            written.append(writer.merge(pod_group_path(namespace, name), patch, seen))
        else:
            continue
        if not written[-1].done:
            LOG.warning("PodGroup %s/%s: %s", namespace, name, written[-1].message)
    return written


def last_of_groups(ordered: Sequence[Planned], extras: Sequence[Pod]) -> Planned | None:
    """Return the member whose gate is removed last, alone, because this removal starts its PodGroup.

    None if no member is in a PodGroup, or if only one gate is left.

    :param ordered: the planned members to release, in the order of their release.
    :param extras: the members without a planned node that are released with them (`extras_of_groups`).
    """
    of_groups = [each for each in ordered if group_of(each.pod)]
    return of_groups[-1] if of_groups and len(ordered) + len(extras) > 1 else None


def extras_of_groups(gang: Gang, ordered: Sequence[Planned]) -> list[Pod]:
    """Return the gated members without a planned node whose PodGroup is released now.

    The scheduler tries no pod of a PodGroup while one has a gate. So these members lose their gates, too, and wait for
    capacity without one.

    :param ordered: the planned members that are released now.
    """
    groups = {group_of(each.pod) for each in ordered} - {""}
    going = {each.pod.metadata.uid for each in ordered}
    pods = (member.pod for member in gang.members if not to_come(member.pod))
    return [pod for pod in pods if pod.gated_by(GATE) and group_of(pod) in groups and pod.metadata.uid not in going]


def blocking(gang: Gang) -> tuple[list[Pod], list[str]]:
    """Return the gated members because of which the scheduler does not try the released members of their PodGroup.

    The second list has the nodes of the released members. Both lists are empty if fewer members than the gang's minimum
    are released: the gates then keep the gang from starting in part, so they must stay.
    """
    released = [member for member in gang.members if not member.pod.gated_by(GATE)]
    waiting = [member.pod for member in released if not member.pod.bound]
    groups = frozenset(map(group_of, waiting)) - {""}
    if not groups:
        return [], []
    gated = [member.pod for member in gang.members if member.pod.gated_by(GATE) and group_of(member.pod) in groups]
    if not gated or not gang.suffice(released):
        return [], []
    return gated, [node for member in released if (node := held_node(member.pod))]


def place_beside(pod: Pod, nodes: Sequence[str], gang: Gang, cluster_view: ClusterView) -> tuple[Node | None, Labels]:
    """Return the node and the domain to which a member without a planned node is pinned; (None, ()) for no pin.

    The member must stay in the domain of the released members. If node labels do not identify that domain, the pin is
    the node of a released member, which lies in the domain. A gang with rules between members also
    gets the pin to a node.

    :param nodes: the nodes of the released members.
    """
    own = next(member.pod_set for member in gang.members if member.pod is pod)
    pod_set = next(each for each in gang.pod_sets if each.name == own)
    rules = bool(gang.together or gang.multiples or pod_set.required or pod_set.slices or pod_set.multiples)
    state = cluster_view.snapshot.state(nodes[0]) if nodes else None
    if state is None or (gang.required is None and not rules):
        return None, ()
    topology = topology_of(gang, cluster_view.topologies)
    level = topology.find(gang.required) if isinstance(topology, Topology) and gang.required is not None else None
    if rules or level is None or not isinstance(topology, Topology):
        return state.node, ()
    return state.node, domain_labels(topology, state.node, level + 1) or ()


def _min_count(manifest: Mapping[str, Any]) -> Any:
    policy = (manifest.get("spec") or {}).get("schedulingPolicy") or {}
    return (policy.get("gang") or {}).get("minCount")


def _owner(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return the owner reference to a Gang object, with which its PodGroup is deleted."""
    metadata = manifest["metadata"]
    names = {"apiVersion": str(manifest["apiVersion"]), "kind": str(manifest["kind"])}
    return {**names, "name": str(metadata["name"]), "uid": str(metadata["uid"])}
