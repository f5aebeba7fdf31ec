"""Members that were let go and are not bound: each holds its node's room only as far as that is there.

Such a member can be planned nowhere else: its node affinity is frozen. Where its node has lost the room or may not be
used any more, it is stranded, and no plan may count on it unless evictions make room for it there.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cluster.eligibility.nodes import Eligibility
from cluster.eligibility.pod_affinity import SPREAD
from cluster.node_state import NodeState, room
from cluster.snapshot import Snapshot
from gangs.held_nodes import held_node
from gangs.model import Gang, Member
from kube.objects import Pod
from kube.requests import pod_requests, shortage
from planning.framing.shapes import scheduling_key, watched_labels


@dataclass(frozen=True, slots=True)
class Stranded:
    """A member, the node that it was let go to, and why that cannot take it. `room`: it only lacks room there."""

    member: Member
    node: str
    why: str
    room: bool


def stranded(gang: Gang, snapshot: Snapshot) -> tuple[Stranded, ...]:
    """The members of a gang, in their order, that were let go to nodes which cannot take them any more."""
    waiting = [member for member in gang.members if not member.pod.bound and held_node(member.pod)]
    return tuple(_without_place(gang, waiting, snapshot)) if waiting else ()


def _without_place(gang: Gang, waiting: Iterable[Member], snapshot: Snapshot) -> Iterator[Stranded]:
    own = frozenset(m.pod.key for m in gang.members)
    priority, bound = gang.priority, defaultdict[str, list[Pod]](list)
    for member in gang.members:
        bound[member.pod.spec.node_name].append(member.pod)
    refusing = _Refusing(snapshot, own)
    left: dict[str, dict[str, int]] = {}
    for member in waiting:
        node, asked = held_node(member.pod), pod_requests(member.pod)
        if (state := snapshot.state(node)) is None:
            yield Stranded(member, node, "the node is gone", room=False)
            continue
        if node not in left:
            left[node] = _left_beside(bound[node], state, priority, own)
        if why := refusing.why(member.pod, state):
            yield Stranded(member, node, why, room=False)
        elif short := next((name for name, amount in asked.items() if amount > left[node].get(name, 0)), ""):
            yield Stranded(member, node, shortage(short), room=True)
        else:
            left[node] = {name: amount - asked.get(name, 0) for name, amount in left[node].items()}


def _left_beside(bound: Iterable[Pod], state: NodeState, priority: int, own: frozenset[str]) -> dict[str, int]:
    """What a node has for members that were let go, beside others and those that are bound there."""
    free, _ = room(state, priority=priority, ignoring=own)
    asked = [pod_requests(each) for each in bound]
    return {name: amount - sum(each.get(name, 0) for each in asked) for name, amount in free.items()}


class _Refusing:
    """Why nodes refuse pods, room aside; of pods that are alike it is worked out once."""

    def __init__(self, snapshot: Snapshot, own: frozenset[str]) -> None:
        self._snapshot, self._own = snapshot, own
        self._known: dict[tuple[int | None, bytes], Eligibility] = {}
        self._watched = watched_labels(snapshot)

    def why(self, pod: Pod, state: NodeState) -> str:
        """In the scheduler's words. Spread is left out: it depends on where the siblings come to be."""
        key = pod.spec.priority, scheduling_key(pod, self._watched)
        if key not in self._known:
            self._known[key] = Eligibility(pod, self._snapshot, ignoring=self._own)
        reason = self._known[key].exclusion(state)
        return "" if reason == SPREAD else reason
