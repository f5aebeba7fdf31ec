"""The parts of the API that Koordinator and ACK Lingjun share.

These are the ClusterNetworkTopology, whose levels are called layers, the strategies MustGather and PreferGather (a
required or a preferred layer), and labels by which pods name their gang.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gangs.findings import Findings
from gangs.model import ObjectRef
from gangs.topology.levels import LevelWish, Request
from kube.topology import Topology

NETWORK_GROUP = "scheduling.koordinator.sh"
NETWORK_KIND = "ClusterNetworkTopology"
NETWORK_NAME = "default"
"""The name of the only ClusterNetworkTopology that is read."""
NODE_LAYER = "NodeTopologyLayer"
ROOT_LAYER = "ClusterTopologyLayer"

POD_GROUP_LABEL = "pod-group.scheduling.sigs.k8s.io"
"""Pod label: name of a PodGroup in the pod's namespace."""
NAME_LABEL = "pod-group.scheduling.sigs.k8s.io/name"
"""Pod label: name of a gang that needs no PodGroup."""
MIN_AVAILABLE_LABEL = "pod-group.scheduling.sigs.k8s.io/min-available"
"""Pod label: the number of pods that must start together, in a gang that `NAME_LABEL` names."""

MUST, PREFER = "MustGather", "PreferGather"


@dataclass(frozen=True, slots=True)
class Gather:
    """A gather strategy: a topology layer (level) that all pods of a gang must, or should, share.

    `must`: MustGather (required); otherwise PreferGather. `multiple`: the number of members in each domain of the layer
    must be a multiple of it. `field`: the path of the strategy, for messages.
    """

    layer: str
    must: bool
    multiple: int = 1
    field: str = ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The required and the preferred level that result from a gang's gather strategies; None if there is none."""

    required: str | None = None
    preferred: str | None = None


def request_of(gathers: Sequence[Gather], ref: ObjectRef, at: str) -> Request:
    """Return the request for the layers that gather strategies name, to be looked up in the ClusterNetworkTopology.

    :param ref: the object with the strategies.
    :param at: the path of the strategies in the object.
    """
    wishes = tuple(LevelWish(f"{each.field}.layer", each.layer) for each in gathers)
    return Request(ref, at, NETWORK_NAME if wishes else None, NETWORK_KIND, wishes)


def wanted(gathers: Sequence[Gather], topology: Topology | None, ref: ObjectRef, findings: Findings) -> Wanted:
    """Return the required and the preferred level that result from a gang's gather strategies.

    They are the narrowest MustGather layer, which implies wider ones, and the narrowest PreferGather layer. A
    PreferGather layer wider than the required one has no effect and gets advice. Without a topology, the order of the
    layers is unknown. The last layer of each sort is then returned, because the gang waits for the topology anyway.
    """
    must = _narrowest([each for each in gathers if each.must], topology)
    prefer = _narrowest([each for each in gathers if not each.must], topology)
    if must and prefer and topology and _depth(prefer, topology) < _depth(must, topology):
        text = f'adds nothing: {MUST} of "{must.layer}" implies that "{prefer.layer}" is shared'
        findings.advise(ref, prefer.field, text)
        prefer = None
    return Wanted(must.layer if must else None, prefer.layer if prefer else None)


def check_once(gathers: Sequence[Gather], ref: ObjectRef, findings: Findings) -> None:
    """Report each layer that several gather strategies of one object name."""
    seen: dict[str, Gather] = {}
    for each in gathers:
        first = seen.setdefault(each.layer, each)
        if first is not each:
            problem = f'layer "{each.layer}" is listed twice'
            findings.fault(ref, f"{each.field}.layer", problem, f"keep one of {MUST} and {PREFER} for it")


def _narrowest(gathers: Sequence[Gather], topology: Topology | None) -> Gather | None:
    if topology is None or not gathers:
        return gathers[-1] if gathers else None
    return max(gathers, key=lambda each: _depth(each, topology))


def _depth(gather: Gather, topology: Topology) -> int:
    found = topology.find(gather.layer)
    return -1 if found is None else found
