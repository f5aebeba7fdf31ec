"""Constraints of the problem between members, and between members and running pods.

They state host ports, pod affinity and anti-affinity, and topology spread.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import combinations

from cluster.eligibility.host_ports import any_clash
from cluster.eligibility.member_rules import spread_limits
from cluster.eligibility.nodes import Obstacle
from cluster.eligibility.pod_affinity import AffinityTerm, Near, Spread
from cluster.node_state import NodeState
from kube.objects import Pod
from planning.framing.member_traits import Traits
from solver.problem import Affinity, Conflict, Exclusion, Separation
from solver.problem import Spread as SpreadRule

NODE_NAME = "metadata.name"
"""The topology key of rules that hold on each single node. It is no label key."""

Groups = tuple[str | None, ...]
LabelsOf = Callable[[str], Iterable[tuple[str, str | None]]]
"""Function from a label key to the name of each node and its value of that label; None: the node lacks the label."""


def apart(
    traits: Sequence[Traits], terms: Sequence[AffinityTerm], nodes: Sequence[NodeState]
) -> tuple[tuple[Exclusion, ...], tuple[Separation, ...]]:
    """Return the constraints by which anti-affinity and host ports keep members off each other's node or domain.

    `traits`: by shape, the traits of its members. `terms`: the anti-affinity terms to which the traits refer by
    position. Shapes that exclude themselves and each other share one exclusion: each domain takes at most one of their
    members. All other excluding pairs become separations.
    """
    shapes: dict[Traits, list[int]] = {}
    for shape, each in enumerate(traits):
        shapes.setdefault(each, []).append(shape)
    exclusions, separations = [], []
    for key in (*dict.fromkeys(term.topology_key for term in terms), NODE_NAME):
        pairs = {frozenset(pair) for pair in _pairs([*shapes], key, terms)}
        groups = _groups(key, nodes) if pairs else ()
        cliques = _cliques([each for each in shapes if frozenset((each,)) in pairs], pairs)
        exclusions += [Exclusion(_all_of(shapes, clique), groups) for clique in cliques]
        known = {frozenset(pair) for clique in cliques for pair in combinations(clique, 2)}
        for one, others in _sides([*shapes], pairs - known):
            separations.append(Separation(_all_of(shapes, one), _all_of(shapes, others), groups))
    return tuple(exclusions), tuple(separations)


def _pairs(traits: Sequence[Traits], key: str, terms: Sequence[AffinityTerm]) -> Iterable[tuple[Traits, Traits]]:
    """Yield the pairs of traits whose members cannot be in one domain of the label `key`.

    A pair may consist of the same traits twice. One member's anti-affinity against the other suffices.
    """
    about = frozenset(place for place, term in enumerate(terms) if term.topology_key == key)
    for position, one in enumerate(traits):
        for other in traits[position:]:
            clash = (
                any_clash(one.ports, other.ports)
                if key == NODE_NAME
                else one.apart & other.matching & about or other.apart & one.matching & about
            )
            if clash:
                yield one, other


def _cliques(traits: Sequence[Traits], pairs: Collection[frozenset[Traits]]) -> list[list[Traits]]:
    """Group traits into cliques: members with traits of one clique all exclude each other.

    :param traits: only traits of which no two members may be in one domain.
    :param pairs: the pairs of traits that exclude each other.
    """
    found: list[list[Traits]] = []
    for each in traits:
        clique = next((c for c in found if all(frozenset((each, other)) in pairs for other in c)), None)
        if clique is None:
            found.append([each])
        else:
            clique.append(each)
    return found


def _sides(
    traits: Sequence[Traits], pairs: Collection[frozenset[Traits]]
) -> Iterable[tuple[Sequence[Traits], Sequence[Traits]]]:
    """Return the pairs of different traits that exclude each other, merged into pairs of groups.

    All traits of the first group exclude all traits of the second group.
    """
    sides: dict[tuple[Traits, ...], list[Traits]] = {}
    for position, one in enumerate(traits):
        if others := tuple(other for other in traits[position + 1 :] if frozenset((one, other)) in pairs):
            sides.setdefault(others, []).append(one)
    return ((ones, others) for others, ones in sides.items())


def _all_of(shapes: Mapping[Traits, Sequence[int]], traits: Iterable[Traits]) -> tuple[int, ...]:
    return tuple(sorted(shape for each in traits for shape in shapes[each]))


def _groups(key: str, nodes: Sequence[NodeState]) -> Groups:
    if key == NODE_NAME:
        return tuple(state.name for state in nodes)
    return tuple(state.node.metadata.labels.get(key) for state in nodes)


def conflicts(obstacles: Sequence[Sequence[Obstacle]], victims: Mapping[str, int]) -> tuple[Conflict, ...]:
    """Return the conflicts: running pods that must be evicted before a shape's members may use certain nodes.

    `obstacles`: by shape. `victims`: the position of each pod of the obstacles among the victims.
    """
    found: dict[Obstacle, list[int]] = {}
    for shape, each in enumerate(obstacles):
        for obstacle in each:
            found.setdefault(obstacle, []).append(shape)
    return tuple(
        Conflict(tuple(shapes), each.nodes, frozenset(victims[pod] for pod in each.pods), each.reason)
        for each, shapes in found.items()
    )


def affinities(
    traits: Sequence[Traits], near: Sequence[Near | None], nodes: Sequence[NodeState], victims: Mapping[str, int]
) -> tuple[Affinity, ...]:
    """Return the pod affinity of members that another member or a victim can satisfy. `traits`, `near`: by shape."""
    found: dict[tuple[int, Near], list[int]] = {}
    for shape, (trait, each) in enumerate(zip(traits, near, strict=True)):
        if each is not None:
            found.setdefault((trait.wants, each), []).append(shape)
    return tuple(
        Affinity(
            shapes=tuple(shapes),
            counted=tuple(shape for shape, trait in enumerate(traits) if wish in trait.wanted),
            groups=tuple(_groups(key, nodes) for key in each.keys),
            there=each.there,
            victims=frozenset(victims[pod] for pod in each.pods),
            themselves=each.themselves,
        )
        for (wish, each), shapes in found.items()
    )


def spread_exclusions(
    spreads: Mapping[int, Sequence[Spread]], pods: Sequence[Pod], nodes: Sequence[NodeState]
) -> tuple[Exclusion, ...]:
    """Return exclusions under which hard topology spread holds, in whichever order the scheduler binds the members.

    `spreads`: by shape. `pods`: one pod of each shape.
    """
    found: dict[Exclusion, None] = {}
    for shape, constraints in spreads.items():
        for constraint in constraints:
            counted = {each for each, pod in enumerate(pods) if constraint.matches(pod)} | {shape}
            for _, groups, most in spread_limits((constraint,), nodes):
                # Siblings that the constraint only counts may fill a domain that is closed to this shape.
                limited = tuple(sorted(counted)) if most else (shape,)
                found[Exclusion(limited, groups, most)] = None
    return tuple(found)


def spread_rules(
    spreads: Mapping[int, Sequence[Spread]], pods: Sequence[Pod], labels: LabelsOf, victims: Mapping[str, int]
) -> tuple[SpreadRule, ...]:
    """Return the hard topology spread constraints that count members of the gang, or pods that may be evicted.

    `spreads`: the constraints of each shape, by the shape's position. `pods`: one pod of each shape. `labels`: returns
    the label values of the problem's nodes. `victims`: the position of each victim, by pod. All other constraints count
    no pod that a plan adds or evicts, so the eligible nodes of a shape respect them already.
    """
    asked: list[tuple[Spread, list[int]]] = []
    for shape, constraints in spreads.items():
        for each in constraints:
            known = next((shapes for spread, shapes in asked if spread == each), None)
            if known is None:
                asked.append((each, [shape]))
            else:
                known.append(shape)
    found = []
    for each, asking in asked:
        counted = tuple(shape for shape, pod in enumerate(pods) if each.matches(pod))
        leaving = frozenset(victims[pod] for pod in each.may_go)
        places = _places(each, labels) if counted or leaving else ()
        if not places:
            continue
        # A constraint with an empty selector counts no running pod. But for the pod to be bound the scheduler adds one
        # to its domain, because the pod matches its own selector. So the limit is one less.
        skew = each.max_skew - int(each.self_matching and not counted)
        found.append(SpreadRule(tuple(asking), counted, places, each.counts, skew, each.too_few, leaving))
    return tuple(found)


def _places(spread: Spread, labels: LabelsOf) -> Groups:
    """Return the domain of each node under the constraint; None for a node whose pods the constraint does not count."""
    counted = spread.counted
    return tuple([domain if name in counted else None for name, domain in labels(spread.topology_key)])
