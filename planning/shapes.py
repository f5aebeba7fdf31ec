"""Members that are alike become one shape: the same requests on the same nodes with the same wishes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from cluster.eligibility import Eligibility
from cluster.neighbours import Spread
from cluster.snapshot import NodeState, Snapshot
from cluster.volumes import claim_names
from cluster.wishes import among_members, unmodelled
from kube.objects import LabelSelector, NodeAffinity, Pod, PodAffinityTerm
from solver.problem import Shape

_encode = msgspec.json.Encoder(order="deterministic").encode

ShapeKey = tuple[tuple[int, ...], bytes]


@dataclass(slots=True)
class ShapeBook:
    """Collects shapes, each once. `shapes` is parallel to the positions that `add` returns."""

    nodes: Sequence[NodeState]
    """The problem's nodes that members may be put on, by position."""
    snapshot: Snapshot
    siblings: Sequence[Pod]
    own: frozenset[str]
    """The gang's own members, as `namespace/name`: they do not stand in each other's way here."""
    affinity: NodeAffinity | None
    """The gang's own node affinity, which holds beside each pod's."""
    near: Sequence[int]
    """By position: how much the gang would like to be on that node, because of who is near."""
    label_keys: frozenset[str]
    """Label keys of pods that matter to pods already in the cluster (`watched_labels`)."""
    shapes: list[Shape] = field(default_factory=list)
    spreads: dict[int, tuple[Spread, ...]] = field(default_factory=dict)
    """Hard spread constraints by the position of the shape."""
    _known: dict[ShapeKey, int] = field(default_factory=dict)
    _among: dict[str, None] = field(default_factory=dict)
    _unmodelled: dict[str, None] = field(default_factory=dict)

    def add(self, pod: Pod, requests: tuple[int, ...]) -> int:
        """The position of the pod's shape, which is made where no pod like it has been added yet."""
        key = requests, scheduling_key(pod, self.label_keys)
        if key not in self._known:
            eligibility = Eligibility(pod, self.snapshot, ignoring=self.own, also=self.affinity)
            position = self._merge(self._shape(eligibility, requests), eligibility.spreads)
            self._among |= dict.fromkeys(among_members(pod, self.siblings))
            self._unmodelled |= dict.fromkeys(unmodelled(pod, self.siblings, self.snapshot))
            self._known[key] = position
        return self._known[key]

    def add_held(self, requests: tuple[int, ...], nodes: frozenset[int]) -> int:
        """The position of the shape of members that have their nodes: where else they could go does not matter."""
        return self._merge(Shape(requests, nodes))

    @property
    def unmodelled(self) -> tuple[str, ...]:
        """The wishes of the pods that nothing here reads, each once."""
        return tuple(each for each in self._unmodelled if each not in self._among)

    @property
    def among_members(self) -> tuple[str, ...]:
        """The wishes of the pods about each other that shapes and exclusions do not hold, each once."""
        return tuple(self._among)

    def _shape(self, eligibility: Eligibility, requests: tuple[int, ...]) -> Shape:
        eligible, excluded, wishes = set(), {}, {}
        lifts: dict[str, set[int]] = {}
        for position, state in enumerate(self.nodes):
            if reason := eligibility.exclusion(state):
                excluded[position] = reason
                if change := eligibility.lift(state):
                    lifts.setdefault(change, set()).add(position)
                continue
            eligible.add(position)
            if weight := eligibility.preference(state) + self.near[position]:
                wishes[position] = weight
        opened = {change: frozenset(positions) for change, positions in lifts.items()}
        return Shape(requests, frozenset(eligible), excluded, wishes, opened)

    def _merge(self, shape: Shape, spreads: tuple[Spread, ...] = ()) -> int:
        """Pods that differ in what they say but not in what follows from it share one shape. A change lifts for all of
        them only what it lifts for each; those that have their nodes need none.
        """
        for position, known in enumerate(self.shapes):
            same_room = known.requests == shape.requests and known.nodes == shape.nodes
            if same_room and known.preferences == shape.preferences and self.spreads[position] == spreads:
                if shape.excluded and shape.lifts != known.lifts:
                    self.shapes[position] = replace(known, lifts=_common(known.lifts, shape.lifts))
                return position
        self.shapes.append(shape)
        self.spreads[len(self.shapes) - 1] = spreads
        return len(self.shapes) - 1


def _common(one: Mapping[str, frozenset[int]], other: Mapping[str, frozenset[int]]) -> dict[str, frozenset[int]]:
    """The nodes that a change lifts in both."""
    both = {change: nodes & other.get(change, frozenset()) for change, nodes in one.items()}
    return {change: nodes for change, nodes in both.items() if nodes}


def watched_labels(snapshot: Snapshot) -> frozenset[str]:
    """Label keys that pods in the cluster look for in their anti-affinity: only these tell newcomers apart."""
    keys: set[str] = set()
    for state in snapshot.nodes:
        for tenant in state.keeping_off:
            affinity = tenant.pod.spec.affinity
            if affinity is not None and affinity.pod_anti_affinity is not None:
                keys.update(_keys_of_terms(affinity.pod_anti_affinity.required))
    return frozenset(keys)


def scheduling_key(pod: Pod, watched: frozenset[str]) -> bytes:
    """Everything of a pod that eligibility and preference read: equal for pods that are alike.

    :param watched: label keys that pods in the cluster look for (`watched_labels`). Labels that nobody looks for, such
        as a member's index, tell no pods apart.
    """
    spec = pod.spec
    keys = watched | frozenset(_own_label_keys(pod))
    labels = {key: value for key, value in pod.metadata.labels.items() if key in keys}
    ports = [
        port for container in (*spec.containers, *spec.init_containers) for port in container.ports if port.host_port
    ]
    parts = (
        pod.metadata.namespace,
        labels,
        spec.node_selector,
        spec.affinity,
        spec.tolerations,
        spec.topology_spread_constraints,
        ports,
        claim_names(pod),
        spec.resource_claims,
    )
    return _encode(parts)


def _own_label_keys(pod: Pod) -> Iterator[str]:
    """Label keys that the pod's own terms may look for on pods like itself."""
    affinity = pod.spec.affinity
    if affinity is not None:
        for each in (affinity.pod_affinity, affinity.pod_anti_affinity):
            if each is not None:
                yield from _keys_of_terms(each.required)
    for spread in pod.spec.topology_spread_constraints:
        yield from _keys_of_selector(spread.label_selector)
        yield from spread.match_label_keys


def _keys_of_terms(terms: Iterable[PodAffinityTerm]) -> Iterator[str]:
    for term in terms:
        yield from _keys_of_selector(term.label_selector)
        yield from term.match_label_keys
        yield from term.mismatch_label_keys


def _keys_of_selector(selector: LabelSelector | None) -> Iterator[str]:
    if selector is not None:
        yield from selector.match_labels
        yield from (each.key for each in selector.match_expressions)
