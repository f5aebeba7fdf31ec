"""Stranded members: released, not bound, and their node can no longer take them.

A released member cannot be planned on another node: its node affinity is immutable. It is stranded if its node has lost
the free capacity or excludes it now. No plan may count on a stranded member unless evictions make room on its node.
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
    """A member that was released to `node` and not bound, and the reason `why` this node cannot take it.

    `room`: whether the node lacks nothing but free capacity, so that evictions could help.
    """

    member: Member
    node: str
    why: str
    room: bool


def stranded(gang: Gang, snapshot: Snapshot) -> tuple[Stranded, ...]:
    """Return the gang's members that were released to nodes that can no longer take them, in the order of the
    members.
    """
    waiting = [member for member in gang.members if not member.pod.bound and held_node(member.pod)]
    return tuple(_stranded_among(gang, waiting, snapshot)) if waiting else ()


def _stranded_among(gang: Gang, waiting: Iterable[Member], snapshot: Snapshot) -> Iterator[Stranded]:
    own = frozenset(m.pod.key for m in gang.members)
    priority, bound = gang.priority, defaultdict[str, list[Pod]](list)
    for member in gang.members:
        bound[member.pod.spec.node_name].append(member.pod)
    refusing = _Exclusions(snapshot, own)
    left: dict[str, dict[str, int]] = {}
    for member in waiting:
        node, asked = held_node(member.pod), snapshot.node_requests(member.pod)
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
    """Return the free capacity that a node has for the gang's released members, beside all other pods and the gang's
    bound members.
    """
    free, _ = room(state, priority=priority, ignoring=own)
    asked = [pod_requests(each) for each in bound]
    return {name: amount - sum(each.get(name, 0) for each in asked) for name, amount in free.items()}


class _Exclusions:
    """Finds the reason, other than capacity, why a node excludes a pod. Equal pods share one evaluation."""

    def __init__(self, snapshot: Snapshot, own: frozenset[str]) -> None:
        self._snapshot, self._own = snapshot, own
        self._known: dict[tuple[int | None, bytes], Eligibility] = {}
        self._watched = watched_labels(snapshot)

    def why(self, pod: Pod, state: NodeState) -> str:
        """Return why the node excludes the pod, in the scheduler's words; "" if it does not.

        Topology spread is not considered, because it depends on the nodes of the other members.
        """
        key = pod.spec.priority, scheduling_key(pod, self._watched)
        if key not in self._known:
            self._known[key] = Eligibility(pod, self._snapshot, ignoring=self._own)
        reason = self._known[key].exclusion(state)
        return "" if reason == SPREAD else reason
