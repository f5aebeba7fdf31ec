"""Koordinator's own sentences on a waiting member's PodScheduled condition, in the shapes its documents show."""

from collections.abc import Mapping, Sequence

from gangs.koordinator.keys import ROOT_LAYER

TERMINATING = "not eligible due to terminating pod on the nominated node."
"""Victims have been evicted and are not gone yet."""
NEVER = "not eligible due to preemptionPolicy=Never."
NO_PENDING_PODS = "no pending pods"


def preempted(waiting: int, desired: int) -> str:
    """The plan's victims have just been chosen."""
    return f"preempt success, alreadyWaitingForBound: {waiting}/{desired}"


def not_helpful(nodes: int) -> str:
    """No eviction that is allowed would make room."""
    return f"0/{nodes} nodes are available: {nodes} Preemption is not helpful for scheduling."


def topology_reason(
    desired: int, offered: Sequence[tuple[str, str, int]], multiples: Mapping[str, int] | None = None
) -> str:
    """Why no domain holds the gang. `offered`: layer, name and free slots of each domain, in any order."""
    domains = sorted(f"topology topologyNode {layer or ROOT_LAYER}/{name}: {slots}" for layer, name, slots in offered)
    text = f"no candidate topology nodes can accommodate job, desiredOfferSlot: {desired}, {';'.join(domains)}"
    if multiples:
        text += "; podCountMultiple constraints: " + ", ".join(f"{layer}={of}" for layer, of in multiples.items())
    return text


def unschedulable(total_nodes: int, reason: str, preemption: str = "") -> str:
    """The message of the member that was tried. A preemption text that ends in a full stop keeps it: there are two."""
    text = f"0/{total_nodes} nodes are available: {reason}."
    return f"{text} preemption: {preemption}." if preemption else text


def first_member_message(
    total_nodes: int,
    desired: int,
    offered: Sequence[tuple[str, str, int]],
    preemption: str = "",
    multiples: Mapping[str, int] | None = None,
) -> str:
    """The message of the first member of a gang that no domain can hold."""
    return unschedulable(total_nodes, topology_reason(desired, offered, multiples), preemption)


def follower_message(group: str, first_pod: str, reason: str, preemption: str = "", waiting: int = 0) -> str:
    """The message of every other member.

    `group`: the gangs of the group as `namespace/name`, comma joined; `first_pod`: `namespace/name` of the member that
    was tried; `reason`: why it failed, without the count of nodes before it; `waiting`: members that have a node.
    """
    text = (
        f'GangGroup "{group}" gets rejected due to member Pod "{first_pod}" is unschedulable with reason "{reason}", '
        f"alreadyWaitForBound: {waiting}."
    )
    if not preemption:
        return text
    return f"{text} preemption: preemption already attempted by {first_pod} with message {preemption}."
