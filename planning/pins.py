"""The domain that an arriving member cannot leave, because siblings that were let go already tie it there.

Written on the member at its CREATE (`webhook.pods`), while it is still gated, and recognised at its release
(`controller.release`): docs/decisions/0001. Only what the running siblings and a required level make certain goes in:
a gated pod's required node affinity can be narrowed later, never widened.
"""

from collections.abc import Callable, Iterator, Sequence

from cluster.eligibility import ready
from gangs.model import Gang, Member
from kube import keys
from kube.objects import Node, Pod
from kube.topology import DEFAULT_DOMAIN_NAME, Level, Topology, Unlabelled
from planning.problems import held_node

Labels = tuple[tuple[str, str], ...]
"""Node labels with their values, that of the widest level first."""

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
    pods), and where labels alone do not tell the domain's nodes from others.
    """
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
    if domains or labels is None or not all(map(_told_by_label, levels, labels)):
        return ()
    return labels


def _stays(node: Node) -> bool:
    """Whether the pods of the node are not about to leave it."""
    evicting = any(taint.effect == "NoExecute" for taint in node.spec.taints)
    return ready(node) and not node.spec.unschedulable and not evicting


def _told_by_label(level: Level, label: tuple[str, str]) -> bool:
    """Whether exactly the nodes of the domain carry the label: no other key, and no node without one, counts in."""
    unlabelled = level.unlabelled is Unlabelled.DEFAULT_DOMAIN and label[1] == DEFAULT_DOMAIN_NAME
    return len(level.label_keys) == 1 and not unlabelled


def noted(labels: Labels) -> str:
    """The labels as the member's annotation notes them."""
    return ",".join(f"{key}={value}" for key, value in labels)


def pinned_domain(pod: Pod) -> Labels:
    """The labels that were written on the member at its CREATE; empty for one that came free."""
    text = pod.metadata.annotations.get(keys.PINNED_DOMAIN, "")
    pairs = (each.partition("=") for each in text.split(",") if each)
    return tuple((key, value) for key, _, value in pairs)


def left_behind(gang: Gang) -> tuple[Pod, ...]:
    """Members that were tied to siblings of which none is left: what ties them holds nobody's promise any more."""
    if any(held_node(member.pod) for member in gang.members):
        return ()
    return tuple(member.pod for member in gang.members if pinned_domain(member.pod))


def holds_affinity(pod: Pod) -> bool:
    """Whether the user required a node affinity himself: appending to it would break his next `kubectl apply`."""
    affinity = pod.spec.affinity
    return bool(affinity and affinity.node_affinity and affinity.node_affinity.required) and not _is_ours(pod)


def _is_ours(pod: Pod) -> bool:
    """Whether the pod's required node affinity is the one term that was written at its CREATE, and nothing else.

    Beside an affinity of the user's the domain went into the node selector (`webhook.pods`).
    """
    labels = pinned_domain(pod)
    affinity = pod.spec.affinity
    if not labels or affinity is None or affinity.node_affinity is None or affinity.node_affinity.required is None:
        return False
    if all(pod.spec.node_selector.get(key) == value for key, value in labels):
        return False
    terms = affinity.node_affinity.required.node_selector_terms
    written = [(each.key, each.operator, each.values) for term in terms for each in term.match_expressions]
    ours = [(key, "In", (value,)) for key, value in labels]
    return len(terms) == 1 and not terms[0].match_fields and written == ours
