"""The number of a gang's members that each node could take now, for messages that count nodes one by one."""

from collections.abc import Mapping, Sequence

from cluster.eligibility.nodes import Eligibility
from cluster.node_state import NodeState, room
from cluster.snapshot import Snapshot
from cluster.topology.tree import DomainTree, Path, domains
from gangs.dialects.topologies import topology_of
from gangs.held_nodes import held_node
from gangs.model import Fault, Gang
from gangs.no_room import NodeOffer
from kube.requests import pod_requests, shortage
from kube.topology import Topology
from planning.framing.priorities import with_priorities
from planning.messages.wording import lacking

ELSEWHERE = "node(s) were outside the domain where the gang's running members are"


def node_offers(gang: Gang, snapshot: Snapshot, topologies: Sequence[Topology]) -> list[NodeOffer]:
    """Return how many members each node could take without evictions, in snapshot order, or the reason why it takes
    none.

    The gang must have an unbound member. The first unbound member represents all of them.
    """
    gang = with_priorities(gang, snapshot)
    pod = next(member.pod for member in gang.members if not member.pod.bound)
    own = {member.pod.key for member in gang.members if not member.pod.bound}
    eligibility = Eligibility(pod, snapshot, ignoring=own, also=gang.node_affinity, rules=gang.node_rules)
    requests = pod_requests(pod)
    found = topology_of(gang, topologies)
    tree = domains(found, snapshot.node_objects) if isinstance(found, Topology) else None
    homes = _homes(gang, found, tree)
    offers = []
    for state in snapshot.nodes:
        path = tree.path_of.get(state.name, ()) if tree else ()
        if tree and state.name in tree.outside:
            offers.append(NodeOffer(state.name, 0, lacking(tree.outside[state.name])))
        elif homes and not any((*path, state.name)[: len(home)] == home for home in homes):
            offers.append(NodeOffer(state.name, 0, ELSEWHERE, path))
        elif reason := eligibility.exclusion(state):
            offers.append(NodeOffer(state.name, 0, reason, path))
        else:
            free, _ = room(state, priority=gang.priority, ignoring=own)
            offers.append(_counted(state, requests, free, path))
    return offers


def _homes(gang: Gang, topology: Topology | Fault | None, tree: DomainTree | None) -> set[Path]:
    """Return the domains of the required level in which members already have nodes. All other members must run there.
    Empty if no member has a node or no level is required.
    """
    level = topology.find(gang.required) if isinstance(topology, Topology) and gang.required else None
    if level is None or tree is None:
        return set()
    held = {held_node(member.pod) for member in gang.members}
    return {(*tree.path_of[node], node)[: level + 1] for node in held if node in tree.path_of}


def _counted(
    state: NodeState, requests: Mapping[str, int], free: Mapping[str, int], path: tuple[str, ...]
) -> NodeOffer:
    slots = {name: max(0, free.get(name, 0)) // amount for name, amount in requests.items() if amount}
    least = min(slots, key=lambda name: slots[name])
    if slots[least]:
        return NodeOffer(state.name, slots[least], "", path)
    # As kube-scheduler words it (noderesources/fit.go).
    return NodeOffer(state.name, 0, shortage(least), path)
