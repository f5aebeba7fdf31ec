"""A gang's preferences for nodes. Some apply only if one node could hold the gang, others only if no node could."""

from collections import Counter
from collections.abc import Sequence

import msgspec

from cluster.node_state import NodeState
from gangs.model import Gang
from kube.objects import NodeAffinity
from kube.requests import pod_requests


def affinity_of(gang: Gang, nodes: Sequence[NodeState]) -> NodeAffinity | None:
    """Return the gang's node affinity with the preferences that apply to the gang's size; None if the gang has
    neither.
    """
    if not gang.node_wishes:
        return gang.node_affinity
    several = not fits_one_node(gang, nodes)
    wished = tuple(each.term for each in gang.node_wishes if each.several_nodes is several)
    affinity = gang.node_affinity or NodeAffinity()
    return msgspec.structs.replace(affinity, preferred=(*affinity.preferred, *wished))


def fits_one_node(gang: Gang, nodes: Sequence[NodeState]) -> bool:
    """Whether some node, if it were empty, could hold the members that must run together."""
    total: Counter[str] = Counter()
    for member in gang.members[: gang.still_needed]:
        total.update(pod_requests(member.pod))
    return any(
        all(amount <= state.allocatable.get(resource, 0) for resource, amount in total.items()) for state in nodes
    )
