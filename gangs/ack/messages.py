"""The message in the condition PodScheduled of members that wait for capacity, worded as in ACK Lingjun's guide."""

from collections import Counter
from collections.abc import Sequence

from gangs.ack.members import network_named
from gangs.no_room import NodeOffer, NoRoom

ROOT = "RootNode"


def no_room_messages(no_room: NoRoom) -> Sequence[str] | None:
    """Return the same message for each member; None if the gang has a plan with evictions.

    ACK Lingjun's guide has no message for a plan with evictions, so the caller uses Phalanx's own.
    """
    if no_room.evicting:
        return None
    network = "/".join(network_named(no_room.pods[0]))
    return [failure(no_room, network)] * len(no_room.pods)


def failure(no_room: NoRoom, network: str) -> str:
    """Return the message that no domain has capacity for the gang, with the number of members that fit in each.

    :param network: `namespace/name` of the gang's JobNetworkTopology.
    """
    offers = no_room.node_offers()
    reasons = Counter(each.reason for each in offers if not each.slots)
    providing = sum(1 for each in offers if each.slots)
    parts = [f"{count} {reason}" for reason, count in sorted(reasons.items())]
    detail = _detail(no_room, offers, reasons, providing)
    parts.append(f"1 {detail}" if providing else detail)
    if providing > 1:
        parts.append(f"{providing - 1} NetworkTopology bestPlan empty")
    return (
        f"0/{no_room.nodes} nodes are available: {', '.join(parts)}. "
        f"network topology job {network} gets rejected due to pod is unschedulable."
    )


def _detail(no_room: NoRoom, offers: Sequence[NodeOffer], reasons: Counter[str], providing: int) -> str:
    slots = sum(each.slots for each in offers)
    text = f"cluster total nodes:{no_room.nodes}, {providing} node provide {slots} freeSlot, "
    if reasons:
        text += f"{reasons.total()} node unavailable cause {', '.join(sorted(reasons))}, "
    cause = "MustGather" if no_room.gang.required else "freeSlot"
    return (
        f"[NetworkTopology begin] {text}job desireNum:{len(no_room.pods)}, "
        f"all fail topology paths by {cause} reason: {_paths(no_room, offers)} [NetworkTopology end]"
    )


def _paths(no_room: NoRoom, offers: Sequence[NodeOffer]) -> str:
    """Return the last part of ACK's message: every domain of the topology, as `[path:…, freeSlotNum:…]`.

    The domains are sorted by the name of the first node in each.
    """
    first: dict[tuple[str, ...], str] = {}
    for each in sorted(offers, key=lambda offer: offer.node):
        for depth in range(len(each.path) + 1):
            first.setdefault(each.path[:depth], each.node)
    domains = sorted(no_room.offered, key=lambda domain: first.get(domain[1], ""))
    return ", ".join(f"[path:{'->'.join((ROOT, *path))}, freeSlotNum:{slots}]" for _, path, slots in domains)
