"""Members of one gang that must not share a node or a domain, as exclusions of the problem."""

from collections.abc import Mapping, Sequence
from itertools import combinations

from cluster.neighbours import Namespaces, Spread, anti_affinity_terms
from cluster.ports import any_clash, host_ports
from cluster.snapshot import NodeState
from cluster.wishes import NODE_NAME, self_exclusions, spread_limits
from gangs.model import Member
from kube.objects import Pod
from solver.problem import Exclusion, PodSet
from solver.problem import Spread as SpreadRule

Groups = tuple[str | None, ...]


def exclusions(
    sets: Sequence[Sequence[Member]], nodes: Sequence[NodeState], namespaces: Namespaces
) -> tuple[Exclusion, ...]:
    """At most one member in each domain, for the sets whose members keep each other off, alone or in pairs.

    The first member speaks for its set. Two sets go into one exclusion where the members of each keep off their
    own kind and the other; a set that keeps off another and not itself cannot be said so (`cluster.wishes` names it).
    """
    speakers = {position: members[0].pod for position, members in enumerate(sets) if members}
    groups_of: dict[str, Groups] = {}
    sets_of: dict[str, list[int]] = {}
    for position, pod in speakers.items():
        for key, groups in self_exclusions(pod, nodes, namespaces):
            groups_of[key] = groups
            sets_of.setdefault(key, []).append(position)
    return tuple(
        Exclusion(together, groups_of[key])
        for key, positions in sets_of.items()
        for together in _joined(key, positions, speakers, namespaces)
    )


def spread_exclusions(
    spreads: Mapping[int, Sequence[Spread]], sets: Sequence[PodSet], nodes: Sequence[NodeState]
) -> tuple[Exclusion, ...]:
    """Exclusions within which hard topology spread holds in any order of binding. `spreads` by shape."""
    found: dict[Exclusion, None] = {}
    for shape, constraints in spreads.items():
        using = tuple(at for at, each in enumerate(sets) if any(member.shape == shape for member in each.members))
        for _, groups, most in spread_limits(constraints, nodes):
            found[Exclusion(using, groups, most)] = None
    return tuple(found)


def spread_rules(
    spreads: Mapping[int, Sequence[Spread]],
    sets: Sequence[PodSet],
    members: Sequence[Sequence[Member]],
    nodes: Sequence[NodeState],
) -> tuple[SpreadRule, ...]:
    """Hard topology spread in which members of the gang count, exactly. `spreads` by shape.

    A rule binds the sets all of whose members ask for it, and the first member speaks for its set when it comes to who
    counts; a plan is checked pod by pod all the same (`planning.companions`).
    """
    asked: list[tuple[Spread, set[int]]] = []
    for shape, constraints in spreads.items():
        for each in constraints:
            known = next((shapes for spread, shapes in asked if spread == each), None)
            if known is None:
                asked.append((each, {shape}))
            else:
                known.add(shape)
    shapes_of = [{member.shape for member in each.members if member.node is None} for each in sets]
    found = []
    for each, asking in asked:
        bound = tuple(at for at, shapes in enumerate(shapes_of) if shapes and shapes <= asking)
        counted = tuple(at for at, mine in enumerate(members) if mine and each.matches(mine[0].pod))
        if bound and counted:
            found.append(SpreadRule(bound, counted, _places(each, nodes), each.counts, each.max_skew, each.too_few))
    return tuple(found)


def _places(spread: Spread, nodes: Sequence[NodeState]) -> Groups:
    """The domain of each node, None where its pods do not count."""
    return tuple(
        state.node.metadata.labels.get(spread.topology_key) if state.name in spread.counted else None for state in nodes
    )


def _joined(
    key: str, positions: Sequence[int], speakers: dict[int, Pod], namespaces: Namespaces
) -> list[tuple[int, ...]]:
    pairs = [(a, b) for a, b in combinations(positions, 2) if _apart(key, speakers[a], speakers[b], namespaces)]
    paired = {position for pair in pairs for position in pair}
    return [*pairs, *((position,) for position in positions if position not in paired)]


def _apart(key: str, one: Pod, other: Pod, namespaces: Namespaces) -> bool:
    """Whether two pods cannot share a domain of `key`; anti-affinity of either is enough."""
    if key == NODE_NAME:
        return any_clash(host_ports(one), host_ports(other))
    return any(
        term.topology_key == key and term.matches(b, namespaces)
        for a, b in ((one, other), (other, one))
        for term in anti_affinity_terms(a)
    )
