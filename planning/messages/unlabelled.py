"""Finds node labels that would help a gang: nodes outside the topology could hold the gang if they had the label.

Each label is tried by planning the gang on a snapshot in which the nodes have the label.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import msgspec

from cluster.node_state import Amounts, NodeState, room
from cluster.snapshot import Snapshot
from cluster.topology.tree import domains
from gangs.model import Gang
from kube.objects import Pod
from kube.requests import pod_requests
from kube.topology import HOSTNAME_LABEL, Topology
from planning.framing.gang_problem import Framing
from planning.messages import wording
from solver.plan import Answer, NoPlan, Plan

_LABELS = 3
"""Number of labels that are tried, in the order of how many nodes lack them."""


def labels_that_help(
    gang: Gang,
    snapshot: Snapshot,
    framing: Framing,
    answer: NoPlan,
    planned_on: Callable[[Snapshot], tuple[Framing, Answer]],
) -> tuple[str, ...]:
    """Return the label changes after which the gang has a plan, as ends of a sentence, at most one for each label.

    `answer`: the gang's rejection on this snapshot. `planned_on`: plans the gang on another snapshot.
    """
    near = answer.nearest[0].path if answer.nearest else ()
    requests = list({(*sorted(each.items()),): each for each in map(pod_requests, _unbound(gang))}.values())
    lacking = [state for state in snapshot.nodes if state.name in framing.outside and _has_room(gang, state, requests)]
    labels = Counter(framing.outside[state.name] for state in lacking)
    found = []
    for label, _ in labels.most_common(_LABELS):
        names = {state.name for state in lacking if framing.outside[state.name] == label}
        written, picture = list[str](), snapshot
        outside = framing.outside
        while (lacked := next((outside[name] for name in outside if name in names), "")) and lacked not in written:
            written.append(lacked)
            picture = _labelled(picture, names, lacked, framing.topology, near)
            outside = domains(framing.topology, [state.node for state in picture.nodes]).outside
        changed, plan = planned_on(picture)
        used = sorted(names & _used(changed, plan)) if isinstance(plan, Plan) else []
        if used:
            found.append(wording.with_labels(used, written, _domain(framing.topology, written, near)))
    return tuple(found)


def _unbound(gang: Gang) -> list[Pod]:
    return [member.pod for member in gang.members if not member.pod.bound]


def _has_room(gang: Gang, state: NodeState, requests: Iterable[Amounts]) -> bool:
    """Whether the node has enough free capacity for one of the members. `requests`: the members' different requests."""
    free, _ = room(state, priority=gang.priority)
    return any(all(amount <= free.get(name, 0) for name, amount in asked.items()) for asked in requests)


def _labelled(snapshot: Snapshot, names: set[str], label: str, topology: Topology, near: Sequence[str]) -> Snapshot:
    """Return the snapshot in which the named nodes have the label, with the value of the nearest domain.

    `label`: a key, or `key=value` for a node pool.
    """
    key, _, value = label.partition("=")
    value = value or next(iter(_domain(topology, [label], near)[-1:]), "") or "one"
    return replace(
        snapshot,
        nodes=tuple(
            _with_label(state, key, state.name if key == HOSTNAME_LABEL else value) if state.name in names else state
            for state in snapshot.nodes
        ),
    )


def _with_label(state: NodeState, key: str, value: str) -> NodeState:
    metadata = state.node.metadata
    metadata = msgspec.structs.replace(metadata, labels={**metadata.labels, key: value})
    return replace(state, node=msgspec.structs.replace(state.node, metadata=metadata))


def _domain(topology: Topology, labels: Sequence[str], near: Sequence[str]) -> tuple[str, ...]:
    """Return the path of the nearest domain, cut off at the level that the labels belong to; () if they belong to
    none.
    """
    for position, level in reversed([*enumerate(topology.levels[:-1])]):
        if not {*labels}.isdisjoint(level.label_keys) and len(near) > position:
            return tuple(near[: position + 1])
    return ()


def _used(framing: Framing, plan: Plan) -> set[str]:
    return {framing.nodes[node] for row in plan.nodes for node in row if node is not None}
