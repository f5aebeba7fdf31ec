"""Whether a plan still holds, by accounting on the live snapshot.

A nomination that still stands proves nothing: it stays when a pod of higher priority takes its room. So room is
counted anew from what is bound, what is terminating and what other nominations of equal or higher priority hold.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from cluster.capturing import room
from cluster.eligibility import Eligibility
from cluster.requests import pod_requests
from cluster.snapshot import Snapshot
from kube.objects import Pod
from planning.shapes import scheduling_key, watched_labels


def lost_room(
    planned: Iterable[tuple[Pod, str]],
    snapshot: Snapshot,
    *,
    priority: int,
    gone: Collection[str] = (),
    count_terminating: bool = False,
) -> str:
    """Say why the planned pods do not fit on their nodes any more; "" while they all do.

    :param planned: the members that still need their room, each with its node.
    :param priority: the gang's; nominations of lower priority hold nothing against it.
    :param gone: uids of pods to be taken as gone (victims that are still to be evicted).
    :param count_terminating: whether the room of terminating pods counts as free (before victims are gone), or is
        still taken (before members are let go).
    """
    members = list(planned)
    states = {state.name: state for state in snapshot.nodes}
    ignoring = {pod.metadata.uid for pod, _ in members} | set(gone)
    needed = _requests_by_node(members)
    for name, requests in needed.items():
        state = states.get(name)
        if state is None:
            return f"node {name} is gone"
        free, terminating = room(state, priority=priority, ignoring=ignoring)
        for resource, amount in requests.items():
            available = free.get(resource, 0) - (0 if count_terminating else terminating.get(resource, 0))
            if amount > available:
                return f"node {name} has no room left for {resource}"
    alike, watched = dict[tuple[int | None, bytes], Eligibility](), watched_labels(snapshot)
    for pod, node in members:
        mark = pod.spec.priority, scheduling_key(pod, watched)
        if mark not in alike:
            alike[mark] = Eligibility(pod, snapshot, ignoring=ignoring, until_gone=not count_terminating)
        if reason := alike[mark].exclusion(states[node]):
            return f"node {node}: {reason}"
    return ""


def _requests_by_node(members: Iterable[tuple[Pod, str]]) -> Mapping[str, Mapping[str, int]]:
    needed: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for pod, node in members:
        for resource, amount in pod_requests(pod).items():
            needed[node][resource] += amount
    return needed
