"""Domain pins: the domain in which an arriving member must run, because siblings that are already released run there.

The webhook writes the pin on the member at its CREATE (`webhook.admission.arriving_pods`), while the member is still
gated. The controller recognises the pin at the release (`controller.release.patches`): docs/decisions/0001.
The pin holds only what the released siblings and a required level make certain, because a gated pod's required node
affinity can be narrowed later, but never widened. A pin that is obsolete is removed by recreating the pod. So a pod is
pinned only if its recreation costs its workload nothing.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from gangs.held_nodes import held_node
from gangs.model import Gang, Member
from gangs.workloads.jobs import controller_of
from kube.objects import Node, Pod
from kube.topology import DEFAULT_DOMAIN_NAME, Level, Topology, Unlabelled
from planning.framing.ties import Labels, as_written, pinned_domain

REMAKERS = (("apps", "ReplicaSet"), ("apps", "StatefulSet"), ("", "ReplicationController"))
"""Controllers, by group and kind, that recreate a deleted pod and count no failure against its workload.

Job is not in the list: it counts a deleted pod as failed (`backoffLimit`), even if the pod never ran. For the kinds of
other systems the behaviour is not known.
"""

NodeNamed = Callable[[str], Node | None]


def domain_labels(topology: Topology | None, node: Node, depth: int) -> Labels | None:
    """Return the labels that name the node's domain at each of the first `depth` levels; None if the node lacks one."""
    found = []
    for level in (topology.levels if topology else ())[:depth]:
        label = next(((k, node.metadata.labels[k]) for k in level.label_keys if node.metadata.labels.get(k)), None)
        if label is None:
            return None
        found.append(label)
    return tuple(found)


def siblings_domain(gang: Gang, member: Member, topology: Topology, node_named: NodeNamed) -> Labels:
    """Return the labels of the domain in which the member must run, because its released siblings run there.

    Empty if no required level ties the member to a released sibling. Also empty in three further cases, in which only
    the plan keeps the member beside its siblings:

    - The siblings are not sure to stay: one of their nodes is gone, cordoned, not ready or evicts its pods.
    - Labels alone do not distinguish the domain's nodes from other nodes.
    - The pod's controller would count the recreation of the pod against its workload.
    """
    if controller_of(member.pod) is not None and not made_again(member.pod):
        return ()
    tied = (
        _shared(_held_nodes(gang, member, sets), topology, level, node_named)
        for sets, level in _required_levels(gang, member.pod_set)
    )
    return max(tied, key=len, default=())


def _required_levels(gang: Gang, pod_set: str) -> Iterator[tuple[Sequence[str], str]]:
    """Yield the pod sets that must share one domain with the member's own set, and the level of that domain."""
    if gang.required is not None:
        yield [each.name for each in gang.pod_sets], gang.required
    for each in gang.pod_sets:
        if each.name == pod_set and each.required is not None:
            yield [pod_set], each.required
    for rule in gang.together:
        if pod_set in rule.pod_sets:
            yield rule.pod_sets, rule.level


def _held_nodes(gang: Gang, member: Member, sets: Sequence[str]) -> list[str]:
    siblings = (each.pod for each in gang.members if each is not member and each.pod_set in sets)
    return sorted({node for pod in siblings if (node := held_node(pod))})


def _shared(names: Sequence[str], topology: Topology, level: str, node_named: NodeNamed) -> Labels:
    """Return the labels of the domain of `level` that holds all the named nodes.

    Empty if the nodes are in several domains, a node may lose its pods, or labels do not identify the domain exactly.
    """
    position = topology.find(level)
    nodes = [node_named(name) for name in names]
    if position is None or not nodes or not all(node is not None and _stays(node) for node in nodes):
        return ()
    levels = topology.levels[: position + 1]
    domains = {domain_labels(topology, node, len(levels)) for node in nodes if node is not None}
    labels = domains.pop()
    if domains or labels is None or not all(map(_shown_by_label, levels, labels)):
        return ()
    return labels


def _stays(node: Node) -> bool:
    """Whether the node keeps its pods: it is ready, not cordoned, and has no NoExecute taint."""
    evicting = any(taint.effect == "NoExecute" for taint in node.spec.taints)
    return node.ready and not node.spec.unschedulable and not evicting


def _shown_by_label(level: Level, label: tuple[str, str]) -> bool:
    """Whether exactly the nodes of the domain carry the label.

    False if the level has more than one label key, or if nodes without the label belong to the domain.
    """
    unlabelled = level.unlabelled is Unlabelled.DEFAULT_DOMAIN and label[1] == DEFAULT_DOMAIN_NAME
    return len(level.label_keys) == 1 and not unlabelled


def made_again(pod: Pod) -> bool:
    """Whether a controller recreates the pod after a deletion and counts no failure against its workload."""
    owner = controller_of(pod)
    return owner is not None and (owner.api_version.rpartition("/")[0], owner.kind) in REMAKERS


def left_behind(gang: Gang) -> tuple[Pod, ...]:
    """Return the members with an obsolete pin: no member of the gang holds a node any more, so no sibling justifies the
    pin.
    """
    if any(held_node(member.pod) for member in gang.members):
        return ()
    return tuple(member.pod for member in gang.members if pinned_domain(member.pod))


def untied(gang: Gang, pods: Collection[Pod]) -> Gang:
    """Return the gang as if these members had been created without the webhook's domain pin."""
    names = {pod.key for pod in pods}
    members = (replace(m, pod=as_written(m.pod)) if m.pod.key in names else m for m in gang.members)
    return replace(gang, members=tuple(members))
