"""The message in the condition PodScheduled of members that wait for capacity, worded as in Koordinator's documents."""

from collections.abc import Mapping, Sequence

from gangs.koordinator.keys import ROOT_LAYER
from gangs.model import Gang
from gangs.no_room import NoRoom

TERMINATING = "not eligible due to terminating pod on the nominated node."
"""The message about preemption while victims are being evicted."""
NEVER = "not eligible due to preemptionPolicy=Never."
NO_PENDING_PODS = "no pending pods"


def no_room_messages(no_room: NoRoom) -> Sequence[str]:
    """Return the message for each of `no_room.pods`.

    The first pod's message has the number of members that fit in each domain. The messages of the others say that they
    were rejected because of the first.
    """
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
    """Return the message that victims have just been chosen."""
    return f"preempt success, alreadyWaitingForBound: {waiting}/{desired}"


def not_helpful(nodes: int) -> str:
    """Return the message that no allowed eviction would free enough capacity."""
    return f"0/{nodes} nodes are available: {nodes} Preemption is not helpful for scheduling."


def topology_reason(
    desired: int, offered: Sequence[tuple[str, str, int]], multiples: Mapping[str, int] | None = None
) -> str:
    """Return the part of a message that no domain has capacity for the gang.

    :param desired: the number of members without a node.
    :param offered: for each domain, (layer, name, number of members that fit), in any order.
    :param multiples: by layer, the number of which the members in a domain must be a multiple.
    """
    domains = sorted(f"topology topologyNode {layer or ROOT_LAYER}/{name}: {slots}" for layer, name, slots in offered)
    text = f"no candidate topology nodes can accommodate job, desiredOfferSlot: {desired}, {';'.join(domains)}"
    if multiples:
        text += "; podCountMultiple constraints: " + ", ".join(f"{layer}={of}" for layer, of in multiples.items())
    return text


def unschedulable(total_nodes: int, reason: str, preemption: str = "") -> str:
    """Return the message of the first member of a gang that fits nowhere, put together from its parts.

    If the text about preemption ends with a full stop, the message ends with two, as in Koordinator.
    """
    text = f"0/{total_nodes} nodes are available: {reason}."
    return f"{text} preemption: {preemption}." if preemption else text


def first_member_message(
    total_nodes: int,
    desired: int,
    offered: Sequence[tuple[str, str, int]],
    preemption: str = "",
    multiples: Mapping[str, int] | None = None,
) -> str:
    """Return the message of the first member of a gang that fits in no domain.

    `topology_reason` makes its main part and explains the parameters for it. `preemption`: a text about preemption.
    """
    return unschedulable(total_nodes, topology_reason(desired, offered, multiples), preemption)


def follower_message(group: str, first_pod: str, reason: str, preemption: str = "", waiting: int = 0) -> str:
    """Return the message of every member except the first.

    :param group: the units of the GangGroup as `namespace/name`, joined by commas.
    :param first_pod: `namespace/name` of the first member.
    :param reason: why the first member has no node (`topology_reason`).
    :param waiting: the number of members that have a node.
    """
    text = (
        f'GangGroup "{group}" gets rejected due to member Pod "{first_pod}" is unschedulable with reason "{reason}", '
        f"alreadyWaitForBound: {waiting}."
    )
    if not preemption:
        return text
    return f"{text} preemption: preemption already attempted by {first_pod} with message {preemption}."
