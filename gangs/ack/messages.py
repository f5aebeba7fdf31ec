"""ACK Lingjun's own sentence on a waiting member's PodScheduled condition, in the shape its guide shows."""

from collections import Counter
from collections.abc import Sequence

from gangs.ack.members import network_named
from gangs.no_room import NodeOffer, NoRoom

ROOT = "RootNode"


def no_room_messages(no_room: NoRoom) -> Sequence[str] | None:
    """Return one sentence, equal for every member; None while victims terminate.

    Capacity is free then, and the guide defines no message for this case.
    """
    if no_room.evicting:
        return None
    network = "/".join(network_named(no_room.pods[0]))
    return [failure(no_room, network)] * len(no_room.pods)


def failure(no_room: NoRoom, network: str) -> str:
    """Why no domain holds the job, with the slots of each. `network`: namespace/name of its JobNetworkTopology."""
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
    """The domains in the order of their first nodes' names, as the API server lists nodes."""
    first: dict[tuple[str, ...], str] = {}
    for each in sorted(offers, key=lambda offer: offer.node):
        for depth in range(len(each.path) + 1):
            first.setdefault(each.path[:depth], each.node)
    domains = sorted(no_room.offered, key=lambda domain: first.get(domain[1], ""))
    return ", ".join(f"[path:{'->'.join((ROOT, *path))}, freeSlotNum:{slots}]" for _, path, slots in domains)
