"""The domain that an arriving member cannot leave, because siblings that were let go already tie it there.

Written on the member at its CREATE (`webhook.admission.arriving_pods`), while it is still gated, and recognised at its
release (`controller.release.patches`): docs/decisions/0001. Only what the running siblings and a required level make
certain goes in: a gated pod's required node affinity can be narrowed later, never widened. A tie that has lost its
sense is undone by making the pod again, so a pod that cannot be made again for nothing is not tied.
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
"""Controllers, by group and kind, that make a deleted pod again and count nothing against its workload. A Job does: a
pod that is deleted, though it never ran, is one that failed (`backoffLimit`); of other systems' kinds it is not known.
"""

NodeNamed = Callable[[str], Node | None]


def domain_labels(topology: Topology | None, node: Node, depth: int) -> Labels | None:
    """The labels that name the node's domain at each of the first `depth` levels; None where one has no label."""
    found = []
    for level in (topology.levels if topology else ())[:depth]:
        label = next(((k, node.metadata.labels[k]) for k in level.label_keys if node.metadata.labels.get(k)), None)
        if label is None:
            return None
        found.append(label)
    return tuple(found)


def siblings_domain(gang: Gang, member: Member, topology: Topology, node_named: NodeNamed) -> Labels:
    """The labels of the domain in which the member has to be; empty where nothing ties it yet.

    Empty, too, where its siblings are not sure to stay (a node of theirs is gone, cordoned, not ready or evicts its
    pods), where labels alone do not tell the domain's nodes from others, and for a pod of a controller that would hold
    it against its workload if the pod had to be made again: the plan keeps that one beside its siblings all the same.
    """
    if controller_of(member.pod) is not None and not made_again(member.pod):
        return ()
    tied = (
        _shared(_held_nodes(gang, member, sets), topology, level, node_named)
        for sets, level in _required_levels(gang, member.pod_set)
    )
    return max(tied, key=len, default=())


def _required_levels(gang: Gang, pod_set: str) -> Iterator[tuple[Sequence[str], str]]:
    """Which sets share one domain with the member's own, and the level of that domain."""
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
    """The labels of the domain of that level that holds all these nodes, as far as all is certain."""
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
    """Whether the pods of the node are not about to leave it."""
    evicting = any(taint.effect == "NoExecute" for taint in node.spec.taints)
    return node.ready and not node.spec.unschedulable and not evicting


def _shown_by_label(level: Level, label: tuple[str, str]) -> bool:
    """Whether exactly the nodes of the domain carry the label: no other key, and no node without one, counts in."""
    unlabelled = level.unlabelled is Unlabelled.DEFAULT_DOMAIN and label[1] == DEFAULT_DOMAIN_NAME
    return len(level.label_keys) == 1 and not unlabelled


def made_again(pod: Pod) -> bool:
    """Whether a controller makes the pod again when it is deleted, and counts nothing against its workload."""
    owner = controller_of(pod)
    return owner is not None and (owner.api_version.rpartition("/")[0], owner.kind) in REMAKERS


def left_behind(gang: Gang) -> tuple[Pod, ...]:
    """Members that were tied to siblings of which none is left: what ties them holds nobody's promise any more."""
    if any(held_node(member.pod) for member in gang.members):
        return ()
    return tuple(member.pod for member in gang.members if pinned_domain(member.pod))


def untied(gang: Gang, pods: Collection[Pod]) -> Gang:
    """The gang as it would be if these members had come free."""
    names = {pod.key for pod in pods}
    members = (replace(m, pod=as_written(m.pod)) if m.pod.key in names else m for m in gang.members)
    return replace(gang, members=tuple(members))
