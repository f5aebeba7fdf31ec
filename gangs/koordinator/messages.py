"""Koordinator's own sentences on a waiting member's PodScheduled condition, in the shapes its documents show."""

from collections.abc import Mapping, Sequence

from gangs.koordinator.keys import ROOT_LAYER
from gangs.model import Gang
from gangs.no_room import NoRoom

TERMINATING = "not eligible due to terminating pod on the nominated node."
"""Victims have been evicted and are not gone yet."""
NEVER = "not eligible due to preemptionPolicy=Never."
NO_PENDING_PODS = "no pending pods"


def no_room_messages(no_room: NoRoom) -> Sequence[str]:
    """The first member tells what each domain offers, the others that they were rejected because of it."""
    gang, (first, *others) = no_room.gang, no_room.pods
    preemption = _preemption(no_room)
    offered = [(level, path[-1] if path else "", slots) for level, path, slots in no_room.offered]
    reason = topology_reason(len(no_room.pods), offered, _multiples(gang))
    group = ",".join(f"{ref.namespace}/{ref.name}" for ref in gang.groups) or str(gang.key)
    follower = follower_message(group, first.key, reason, preemption)
    return [unschedulable(no_room.nodes, reason, preemption), *([follower] * len(others))]


def _preemption(no_room: NoRoom) -> str:
    if no_room.evicting:
        return TERMINATING
    if any(pod.spec.preemption_policy == "Never" for pod in no_room.pods):
        return NEVER
    return not_helpful(no_room.nodes)


def _multiples(gang: Gang) -> dict[str, int]:
    rules = [*gang.multiples, *(rule for pod_set in gang.pod_sets for rule in pod_set.multiples)]
    return {rule.level: rule.of for rule in rules}


def preempted(waiting: int, desired: int) -> str:
    """The plan's victims have just been chosen."""
    return f"preempt success, alreadyWaitingForBound: {waiting}/{desired}"


def not_helpful(nodes: int) -> str:
    """Return the message that no allowed eviction would free enough capacity."""
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
    """Return the message of every member except the first.

    `group`: the gangs of the group as `namespace/name`, joined by commas. `first_pod`: `namespace/name` of the member
    that was tried. `reason`: the cause of its failure, without the count of nodes before it. `waiting`: the number of
    members that have a node.
    """
    text = (
        f'GangGroup "{group}" gets rejected due to member Pod "{first_pod}" is unschedulable with reason "{reason}", '
        f"alreadyWaitForBound: {waiting}."
    )
    if not preemption:
        return text
    return f"{text} preemption: preemption already attempted by {first_pod} with message {preemption}."
