"""Derives the levels of a topology from well-known node labels, for a cluster without a Topology object.

Sources of the labels: Kubernetes' list of well-known labels (region, zone). NVIDIA's documentation of Topograph (v0.1
to v1.0) and of the GPU operator. The documentation of GKE, EKS, OKE and CoreWeave on a node's location in the network.
AKS has no network label of its own: its nodes carry region and zone, and Topograph's labels if Topograph runs.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from kube.objects import Node
from kube.topology import HOSTNAME_LABEL, Level, Topology, Unlabelled

Tier = tuple[tuple[str, str], ...]
"""The alternative labels of one level, each as (name of the level, label). The label in use names the level."""

_NVIDIA = "network.topology.nvidia.com/"

EVERYWHERE: tuple[Tier, ...] = (
    (("region", "topology.kubernetes.io/region"),),
    (("zone", "topology.kubernetes.io/zone"),),
)
"""The levels that any cluster may have, widest first."""

NETWORKS: Mapping[str, tuple[Tier, ...]] = {
    "Topograph": (
        (
            ("datacenter", f"{_NVIDIA}datacenter"),
            ("core", f"{_NVIDIA}core"),
            ("tier-2", f"{_NVIDIA}tier-2"),
            ("tier-2", "fabric.topograph.run/tier-2"),
        ),
        (
            ("spine", f"{_NVIDIA}spine"),
            ("tier-1", f"{_NVIDIA}tier-1"),
            ("tier-1", "fabric.topograph.run/tier-1"),
        ),
        (
            ("block", f"{_NVIDIA}block"),
            ("leaf", f"{_NVIDIA}leaf"),
            ("tier-0", f"{_NVIDIA}tier-0"),
            ("tier-0", "fabric.topograph.run/tier-0"),
        ),
        (
            ("accelerator", f"{_NVIDIA}accelerator"),
            ("accelerator", "accelerator.topograph.run/domain"),
            ("accelerator", "nvidia.com/gpu.clique"),
        ),
    ),
    "GKE": (
        (("block", "cloud.google.com/gce-topology-block"),),
        (("subblock", "cloud.google.com/gce-topology-subblock"),),
        (("host", "cloud.google.com/gce-topology-host"),),
    ),
    "EKS": (
        (("network-node-layer-1", "topology.k8s.aws/network-node-layer-1"),),
        (("network-node-layer-2", "topology.k8s.aws/network-node-layer-2"),),
        (("network-node-layer-3", "topology.k8s.aws/network-node-layer-3"),),
    ),
    "OKE": (
        (("hpc-island", "oci.oraclecloud.com/rdma.hpc_island_id"),),
        (("network-block", "oci.oraclecloud.com/rdma.network_block_id"),),
        (("local-block", "oci.oraclecloud.com/rdma.local_block_id"),),
    ),
    "CoreWeave": (
        (("fabric", "ib.coreweave.cloud/fabric"),),
        (("superpod", "ib.coreweave.cloud/superpod"),),
        (("leafgroup", "ib.coreweave.cloud/leafgroup"),),
    ),
}
"""By system that sets the labels: the levels of its network, widest first. Of several systems, the one with a label on
most nodes is used.
"""

KNOWN_LABELS = frozenset(label for tiers in (EVERYWHERE, *NETWORKS.values()) for tier in tiers for _, label in tier)
"""All well-known labels of all levels."""


def known_labels(node: Node) -> frozenset[str]:
    """Return the well-known labels that the node carries with a non-empty value."""
    return KNOWN_LABELS.intersection(key for key, value in node.metadata.labels.items() if value)


def found_on(nodes: Iterable[Node]) -> Topology | None:
    """Return the topology that the nodes' labels describe; None if no node carries a well-known label."""
    return found_by(Counter(label for node in nodes for label in known_labels(node)))


def found_by(counts: Mapping[str, int]) -> Topology | None:
    """Return the topology that well-known labels describe; None if no node has such a label.

    A node that lacks the label of a level is a domain of its own on that level. So no plan relies on a proximity that
    may not exist, and gangs that name no level may still use the node.

    :param counts: by well-known label, the number of nodes that have it.
    """
    network = max(NETWORKS.values(), key=lambda tiers: max(_counted(tier, counts) for tier in tiers))
    levels = [_level(tier, counts) for tier in (*EVERYWHERE, *network) if _counted(tier, counts)]
    if not levels:
        return None
    return Topology("", "", (*levels, Level("node", (HOSTNAME_LABEL,))))


def _counted(tier: Tier, counts: Mapping[str, int]) -> int:
    return sum(counts.get(label, 0) for _, label in tier)


def _level(tier: Tier, counts: Mapping[str, int]) -> Level:
    """Return the level that a tier (alternative labels for one level) describes, with those of its labels that nodes
    have. The most frequent label names the level.

    :param counts: by well-known label, the number of nodes that have it.
    """
    used = sorted((each for each in tier if counts.get(each[1])), key=lambda each: -counts[each[1]])
    aliases = tuple(dict.fromkeys(name for name, _ in used[1:] if name != used[0][0]))
    return Level(used[0][0], tuple(label for _, label in used), Unlabelled.OWN_DOMAIN, aliases)
