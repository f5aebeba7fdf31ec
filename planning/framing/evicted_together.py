"""Evictions that free devices only together: of all pods that share a claim, or of all pods with parts of one device.

The solver adds up what single evictions free (`DeviceColumns.freed_by`). So a plan that needs several evictions for one
device is not in that problem. If that problem has no plan, a second one is stated, in which such pods are evicted
together or not at all. The second problem leaves evictions out, too, so its plan is valid but not proven optimal.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from cluster.devices.inventory import IntColumn
from cluster.evictable_pods import EvictablePods
from gangs.model import GangKey
from planning.devices.by_search import Profiles
from planning.devices.columns import DeviceColumns, at_least, freed
from planning.devices.demands import NotPlannedError
from planning.framing.running_gangs import RunningGang, RunningGangs

_MOST_GROUPS = 6
"""The most groups of one node: their evictions are tried in all combinations (64)."""
_MOST_NODES = 100
"""The most nodes that are searched for groups. A node costs up to 64 searches and twice as many as it has pods."""


@dataclass(frozen=True, slots=True)
class EvictedTogether:
    """Pods that are evicted together, and what their evictions free.

    `amounts`: by resource, the amount that each pod frees; the first pod of a group frees what the whole group does.
    `running`: the running gangs, with a gang for each group, because a gang without a known minimum is evicted as a
    whole. `groups`: the keys of these added gangs.
    """

    amounts: Mapping[str, list[int]]
    running: RunningGangs
    groups: frozenset[GangKey]


def evicted_together(
    columns: DeviceColumns, pods: EvictablePods, nodes: Sequence[str], running: RunningGangs
) -> EvictedTogether:
    """Return which of the evictable pods are evicted together, so that devices become free.

    :param nodes: the names of the snapshot's nodes.
    :param running: the gangs of running pods. A group with pods of a gang frees nothing here, unless the gang is
        evicted as a whole, too.
    """
    amounts = {name: [0] * len(pods.keys) for name in columns.names}
    order = {key: place for place, key in enumerate(pods.keys)}
    by_node: dict[str, list[str]] = {}
    concerned = (columns.devices.uses_of.keys() & order.keys()) - columns.gone
    for key in sorted(concerned, key=lambda key: (pods.priority[order[key]], key)):
        by_node.setdefault(nodes[int(pods.node[order[key]])], []).append(key)
    sizes = Counter(gang.key for gang in running.values())
    added: dict[str, RunningGang] = {}
    cheapest = sorted(by_node, key=lambda node: max(int(pods.priority[order[key]]) for key in by_node[node]))
    for node in cheapest if columns.profiles is None else cheapest[:_MOST_NODES]:
        for group, freeing in _on_node(columns, node, by_node[node]):
            tied = _tied(group, running, sizes)
            if tied is None:
                continue
            added |= tied
            for name, amount in zip(columns.names, freeing, strict=True):
                amounts[name][order[group[0]]] = amount
    groups = frozenset(each.key for each in added.values()) - sizes.keys()
    return EvictedTogether(amounts, {**running, **added}, groups)


def _tied(group: Sequence[str], running: RunningGangs, sizes: Mapping[GangKey, int]) -> dict[str, RunningGang] | None:
    """Return the entries of `RunningGangs` by which these pods are evicted together; empty if they are so already.

    None if the pods belong to different gangs, or are a part of a gang that could be evicted in part.

    :param sizes: the number of running pods of each gang.
    """
    gangs = {each.key: each for pod in group if (each := running.get(pod)) is not None}
    if len(group) == 1:
        return {}
    if not gangs:
        one = RunningGang(GangKey("", "", f"devices of {group[0]}"), None)
        return dict.fromkeys(group, one)
    if len(gangs) > 1 or any(pod not in running for pod in group):
        return None
    (gang,) = gangs.values()
    if len(group) == sizes[gang.key]:
        return dict.fromkeys(group, RunningGang(gang.key, None))
    return {} if gang.minimum is None or gang.minimum >= sizes[gang.key] else None


def _on_node(columns: DeviceColumns, node: str, pods: Sequence[str]) -> Iterator[tuple[tuple[str, ...], list[int]]]:
    """Yield the groups of these pods of a node, each with the amount of each resource that its eviction frees.

    :param pods: pods with devices, those of the lowest priority first.
    """
    if columns.profiles is None:
        for group in _sharing_claims(columns, pods):
            positions = list(freed(group, columns.devices, columns.gone))
            yield group, [int(columns.matching[name][positions].sum()) for name in columns.names]
        return
    try:
        yield from _by_search(columns, columns.profiles, node, [pod for pod in pods if columns.matters(pod)])
    except NotPlannedError:  # the search takes too long
        return


def _sharing_claims(columns: DeviceColumns, pods: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield groups of pods: two pods are in one group if they use one claim, or claims on one device."""
    devices, group_of = columns.devices, {pod: frozenset({pod}) for pod in pods}
    users: dict[int, set[str]] = {}
    for pod in pods:
        for place in devices.uses_of[pod]:
            for position in devices.uses[place].positions:
                users.setdefault(position, set()).add(pod)
    for sharing in users.values():
        merged = frozenset[str]().union(*(group_of[pod] for pod in sharing))
        group_of |= dict.fromkeys(merged, merged)
    for group in dict.fromkeys(group_of.values()):
        yield tuple(pod for pod in pods if pod in group)


def _by_search(
    columns: DeviceColumns, profiles: Profiles, node: str, pods: Sequence[str]
) -> Iterator[tuple[tuple[str, ...], list[int]]]:
    """Yield groups of pods after whose evictions the node can serve more members, each with what it frees at least."""
    groups = _groups(columns, profiles, node, pods)
    found: dict[tuple[tuple[str, ...], ...], IntColumn] = {}
    for size in range(len(groups) + 1):
        for some in combinations(groups, size):
            after = columns.after(node, [pod for group in some for pod in group])
            if not profiles.is_exact(after):
                return
            found[some] = np.array(profiles.amounts(after), dtype=np.int64)
    for group, amounts in at_least(groups, found).items():
        yield group, amounts.tolist()


def _groups(columns: DeviceColumns, profiles: Profiles, node: str, pods: Sequence[str]) -> list[tuple[str, ...]]:
    """Return disjoint groups of pods. After the eviction of a group and all groups before it, the node can serve more
    members. No pod of a group could be left out.
    """
    groups, gone, left = list[tuple[str, ...]](), list[str](), list(pods)
    while left and len(groups) < _MOST_GROUPS:
        group = _first_group(columns, profiles, node, gone, left)
        if not group:
            break
        groups.append(group)
        gone += group
        left = [pod for pod in left if pod not in group]
    return groups


def _first_group(
    columns: DeviceColumns, profiles: Profiles, node: str, gone: Sequence[str], left: Sequence[str]
) -> tuple[str, ...]:
    """Return the first pods of `left` after whose evictions the node can serve more members, without pods that are not
    needed for this. Empty if there are no such pods.

    :param gone: pods that are evicted already.
    """

    def served(pods: Sequence[str]) -> int:
        return len(profiles.served(columns.after(node, [*gone, *pods])))

    now = served(())
    length = next((size for size in range(1, len(left) + 1) if served(left[:size]) > now), 0)
    group = list(left[:length])
    for pod in reversed(left[: max(length - 1, 0)]):  # the last pod is needed, because the beginning is the shortest
        without = [each for each in group if each != pod]
        if served(without) > now:
            group = without
    return tuple(group)
