"""What a gang wishes of nodes, once the nodes are known: some wishes depend on whether one node could hold the gang."""

from collections import Counter
from collections.abc import Sequence

import msgspec

from cluster.node_state import NodeState
from gangs.model import Gang
from kube.objects import NodeAffinity
from kube.requests import pod_requests


def affinity_of(gang: Gang, nodes: Sequence[NodeState]) -> NodeAffinity | None:
    """The gang's node affinity with the wishes that a gang of its size has."""
    if not gang.node_wishes:
        return gang.node_affinity
    several = not fits_one_node(gang, nodes)
    wished = tuple(each.term for each in gang.node_wishes if each.several_nodes is several)
    affinity = gang.node_affinity or NodeAffinity()
    return msgspec.structs.replace(affinity, preferred=(*affinity.preferred, *wished))


def fits_one_node(gang: Gang, nodes: Sequence[NodeState]) -> bool:
    """Whether there is a node that, were it empty, could hold as many of the members as must run together."""
    total: Counter[str] = Counter()
    for member in gang.members[: gang.still_needed]:
        total.update(pod_requests(member.pod))
    return any(
        all(amount <= state.allocatable.get(resource, 0) for resource, amount in total.items()) for state in nodes
    )
