"""Whether released members are pinned to the domain that holds the whole gang, or each to its exact node."""

from collections.abc import Sequence

from cluster.snapshot import Snapshot
from cluster.topology.tree import domains
from controller.release.next_step import Planned
from gangs.dialects.topologies import topology_of
from gangs.model import Gang
from kube.objects import Pod
from kube.scheduling import names_another_scheduler
from kube.topology import Topology
from planning.framing.ties import Labels
from planning.pins import domain_labels


def solved_domain(gang: Gang, planned: Sequence[Planned], snapshot: Snapshot, topologies: Sequence[Topology]) -> Labels:
    """Return the labels of the narrowest domain that holds the whole gang; empty if each member needs its exact node.

    Members need their exact nodes in any of these cases:

    - A member has a rank, or the gang was promised exact nodes (`Gang.exact_nodes`).
    - A member has inter-pod affinity or topology spread, so another node in the domain could break these constraints.
    - A scheduler other than the stock one binds a member. Capacity is not reserved in that scheduler.
    - The topology has node pools, so nodes outside them may carry the same labels.
    - The domain holds pods of lower priority: the scheduler could evict one that is not a victim of the plan.
    """
    topology = topology_of(gang, topologies)
    if (
        not isinstance(topology, Topology)
        or topology.pools
        or _promises_nodes(gang)
        or any(_binds_siblings(p.pod) or names_another_scheduler(p.pod) for p in planned)
    ):
        return ()
    tree = domains(topology, snapshot.node_objects)
    nodes = {p.node for p in planned} | {m.pod.spec.node_name for m in gang.members if m.pod.bound}
    if not all(node in tree.path_of for node in nodes):
        return ()
    shared = _common([tree.path_of[node] for node in nodes])
    if not shared:
        return ()
    inside = [state for name in tree.nodes_under(shared) if (state := snapshot.state(name)) is not None]
    priority = gang.priority  # computed from all members, so it is read once
    if any(t.priority < priority and not t.terminating for s in inside for t in s.tenants):
        return ()
    node = next(state.node for state in inside if state.name == planned[0].node)
    return domain_labels(topology, node, len(shared)) or ()


def _promises_nodes(gang: Gang) -> bool:
    return gang.exact_nodes or any(member.index is not None for member in gang.members)


def _binds_siblings(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    pods = affinity is not None and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None)
    return pods or bool(pod.spec.topology_spread_constraints)


def _common(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    first, *others = paths
    depth = 0
    while depth < len(first) and all(path[depth : depth + 1] == first[depth : depth + 1] for path in others):
        depth += 1
    return first[:depth]
