"""Members that are alike become one shape: the same requests on the same nodes with the same wishes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from cluster.eligibility.host_ports import host_ports
from cluster.eligibility.member_rules import among_members, unmodelled
from cluster.eligibility.nodes import Eligibility, Obstacle
from cluster.eligibility.pod_affinity import MayGo, Near, Spread
from cluster.node_state import NodeState
from cluster.snapshot import Snapshot
from cluster.volumes import claim_names
from kube.node_rules import NodeRule
from kube.objects import NodeAffinity, Pod
from planning.framing.member_traits import GangTraits, Traits, keys_of_terms, looked_at
from planning.framing.ties import as_written, tie_rules
from solver.problem import Shape

_encode = msgspec.json.Encoder(order="deterministic").encode

ELSEWHERE = "a pod was let go to another node"
"""Why no other node can take a member that was let go."""
ShapeKey = tuple[tuple[int, ...], bytes, Traits, int]


@dataclass(frozen=True, slots=True)
class NodeTerms:
    """What a gang asks of the nodes of all its members, beside what each pod asks. One value for each gang.

    `affinity`: the gang's own node affinity. `rules`: what requires it, where that is not the Gang's own spec. `near`:
    by node, its weight for the pods that run near it.
    """

    affinity: NodeAffinity | None
    rules: Sequence[NodeRule]
    near: Sequence[int]


@dataclass(frozen=True, slots=True)
class Manners:
    """What a shape's members mind besides room: each other (`traits`, `spreads`), pods there that may go and are in
    their way, and whom they want to be near to.
    """

    traits: Traits
    spreads: tuple[Spread, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    near: Near | None = None


@dataclass(slots=True)
class ShapeTable:
    """Collects shapes, each once. `shapes` is parallel to the positions that `add` returns."""

    nodes: Sequence[NodeState]
    """The problem's nodes that members may be put on, by position."""
    snapshot: Snapshot
    siblings: Sequence[Pod]
    own: frozenset[str]
    """The gang's own members, as `namespace/name`: they do not stand in each other's way here."""
    label_keys: frozenset[str]
    """Label keys of pods that matter to pods already in the cluster (`watched_labels`)."""
    traits: GangTraits
    """What tells members apart for each other."""
    may_go: MayGo
    """Who may be evicted for the gang."""
    shapes: list[Shape] = field(default_factory=list)
    manners: list[Manners] = field(default_factory=list)
    """What else is known of each shape, by position."""
    pods: list[Pod] = field(default_factory=list)
    """A pod of each shape, by position."""
    _known: dict[ShapeKey, int] = field(default_factory=dict)
    _among: dict[str, None] = field(default_factory=dict)
    _unmodelled: dict[str, None] = field(default_factory=dict)

    def add(self, pod: Pod, requests: tuple[int, ...], terms: NodeTerms) -> int:
        """The position of the pod's shape, which is made where no pod like it has been added yet.

        `terms`: what the pod's gang asks of nodes.
        """
        traits = self.traits.of(pod)
        key = requests, scheduling_key(pod, self.label_keys), traits, id(terms)
        if key not in self._known:
            eligibility = Eligibility(
                pod,
                self.snapshot,
                ignoring=self.own,
                also=terms.affinity,
                rules=(*terms.rules, *tie_rules(pod)),
                written=as_written(pod),
                may_go=self.may_go,
                with_members=traits.wants >= 0,
                members=self.siblings,
            )
            shape = self._shape(eligibility, requests, terms.near)
            position = self._merge(pod, shape, self._manners(eligibility, shape, traits))
            self._among |= dict.fromkeys(among_members(pod, self.siblings, self.snapshot.namespaces))
            self._unmodelled |= dict.fromkeys(unmodelled(pod, self.siblings, self.snapshot))
            self._known[key] = position
        return self._known[key]

    def add_held(self, pod: Pod, requests: tuple[int, ...], nodes: frozenset[int]) -> int:
        """The position of the shape of members that have their nodes: where else they could go does not matter."""
        return self._merge(pod, Shape(requests, nodes), Manners(self.traits.of(pod)))

    @property
    def spreads(self) -> dict[int, tuple[Spread, ...]]:
        """Hard spread constraints by the position of the shape."""
        return {position: each.spreads for position, each in enumerate(self.manners)}

    @property
    def concerned(self) -> frozenset[str]:
        """The pods, by `namespace/name`, whose going or staying matters to members besides their room."""
        return frozenset(
            pod
            for each in self.manners
            for pods in (
                *(obstacle.pods for obstacle in each.obstacles),
                *(spread.may_go for spread in each.spreads),
                each.near.pods if each.near is not None else (),
            )
            for pod in pods
        )

    def add_tied(self, pod: Pod, requests: tuple[int, ...], node: str, why: str, *, room: bool) -> int:
        """The position of the shape of a member that was let go to `node`: it could run there alone, and does not for
        `why`. `room`: room is all that it lacks there.
        """
        on_node = frozenset(position for position, state in enumerate(self.nodes) if state.name == node)
        excluded = dict.fromkeys(range(len(self.nodes)), ELSEWHERE) | dict.fromkeys(on_node, why)
        if room:
            excluded = {position: reason for position, reason in excluded.items() if position not in on_node}
        shape = Shape(requests, on_node if room else frozenset(), excluded)
        return self._merge(pod, shape, Manners(self.traits.of(pod)))

    @property
    def unmodelled(self) -> tuple[str, ...]:
        """The wishes of the pods that nothing here reads, each once."""
        return tuple(each for each in self._unmodelled if each not in self._among)

    @property
    def among_members(self) -> tuple[str, ...]:
        """The wishes of the pods about each other that shapes and exclusions do not hold, each once."""
        return tuple(self._among)

    def _shape(self, eligibility: Eligibility, requests: tuple[int, ...], near: Sequence[int]) -> Shape:
        excluded = eligibility.exclusions(self.nodes)
        lifts: dict[str, set[int]] = {}
        for position in excluded:
            if change := eligibility.lift(self.nodes[position]):
                lifts.setdefault(change, set()).add(position)
        eligible = frozenset(range(len(self.nodes))).difference(excluded)
        wished = zip(eligibility.preferences(self.nodes), near, strict=True)
        weights = enumerate(preference + nearness for preference, nearness in wished)
        wishes = {position: weight for position, weight in weights if weight and position in eligible}
        opened = {change: frozenset(positions) for change, positions in lifts.items()}
        return Shape(requests, eligible, excluded, wishes, opened)

    def _manners(self, eligibility: Eligibility, shape: Shape, traits: Traits) -> Manners:
        return Manners(
            traits,
            eligibility.spreads,
            tuple(_on(shape.nodes, eligibility.obstacles(self.nodes))),
            eligibility.near,
        )

    def _merge(self, pod: Pod, shape: Shape, manners: Manners) -> int:
        """Pods that differ in what they say but not in what follows from it share one shape. A change lifts for all of
        them only what it lifts for each; those that have their nodes need none. What is wrong with a node goes before
        that one of them was let go to another.
        """
        for position, known in enumerate(self.shapes):
            same_room = known.requests == shape.requests and known.nodes == shape.nodes
            if same_room and known.preferences == shape.preferences and self.manners[position] == manners:
                if shape.excluded:
                    excluded, lifts = _reasons(known.excluded, shape.excluded), _common(known.lifts, shape.lifts)
                    self.shapes[position] = replace(known, excluded=excluded, lifts=lifts)
                return position
        self.shapes.append(shape)
        self.manners.append(manners)
        self.pods.append(pod)
        return len(self.shapes) - 1


def _on(nodes: frozenset[int], obstacles: Iterable[Obstacle]) -> Iterator[Obstacle]:
    """The obstacles as far as they are about some nodes."""
    for each in obstacles:
        if common := each.nodes & nodes:
            yield replace(each, nodes=common)


def _reasons(one: Mapping[int, str], other: Mapping[int, str]) -> Mapping[int, str]:
    """Why a node takes neither of two."""
    return {node: other.get(node, why) if why == ELSEWHERE else why for node, why in one.items()}


def _common(one: Mapping[str, frozenset[int]], other: Mapping[str, frozenset[int]]) -> dict[str, frozenset[int]]:
    """The nodes that a change lifts in both."""
    both = {change: nodes & other.get(change, frozenset()) for change, nodes in one.items()}
    return {change: nodes for change, nodes in both.items() if nodes}


def watched_labels(snapshot: Snapshot) -> frozenset[str]:
    """Label keys that pods in the cluster look for in their anti-affinity: only these tell newcomers apart."""
    keys: set[str] = set()
    for state in snapshot.keeping_off:
        for tenant in state.keeping_off:
            affinity = tenant.pod.spec.affinity
            if affinity is not None and affinity.pod_anti_affinity is not None:
                keys.update(keys_of_terms(affinity.pod_anti_affinity.required))
    return frozenset(keys)


def scheduling_key(pod: Pod, watched: frozenset[str]) -> bytes:
    """Everything of a pod that eligibility and preference read: equal for pods that are alike.

    :param watched: label keys that pods in the cluster look for (`watched_labels`). Labels that nobody looks for, such
        as a member's index, tell no pods apart.
    """
    spec = pod.spec
    keys = watched.union(looked_at(pod)) if spec.affinity is not None or spec.topology_spread_constraints else watched
    labels = {key: value for key, value in pod.metadata.labels.items() if key in keys} if keys else {}
    ports = [(each.address, each.protocol, each.port) for each in host_ports(pod)]
    parts = (
        pod.metadata.namespace,
        labels,
        spec.node_selector,
        spec.affinity,
        spec.tolerations,
        spec.topology_spread_constraints,
        sorted(ports),
        claim_names(pod),
        spec.resource_claims,
    )
    return _encode(parts)
