"""Shapes: members with the same requests, eligible nodes, pod rules and preferences share one shape.

The solver treats the members of a shape as interchangeable.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from cluster.eligibility.host_ports import host_ports
from cluster.eligibility.member_rules import CLAIMS, among_members, unmodelled
from cluster.eligibility.nodes import Eligibility, Obstacle
from cluster.eligibility.pod_affinity import MayGo, Near, Spread
from cluster.node_state import NodeState
from cluster.selectors import node_selected
from cluster.snapshot import Snapshot
from cluster.volumes import claim_names
from kube.node_rules import NodeRule
from kube.objects import NodeAffinity, NodeSelector, Pod
from planning.devices.demands import NO_DEMAND, PodDemand
from planning.framing.member_traits import GangTraits, Traits, keys_of_terms, label_keys_read
from planning.framing.ties import as_written, tie_rules
from solver.problem import Shape

_encode = msgspec.json.Encoder(order="deterministic").encode

ELSEWHERE = "a pod was released to another node"
"""The exclusion reason of all other nodes for a member that was released to a node."""
CLAIM_ELSEWHERE = "resourceclaim not available on the node"
"""The exclusion reason of nodes on which the devices of a pod's allocated claim are not usable (kube-scheduler's)."""
ShapeKey = tuple[tuple[int, ...], bytes, Traits, int, tuple[NodeSelector, ...]]


@dataclass(frozen=True, slots=True)
class NodeTerms:
    """The node rules and preferences of one gang. They hold for all its members, in addition to the rules of each pod.

    `affinity`: the gang's own node affinity; None if it has none. `rules`: required node rules that do not come from
    the Gang's own spec, each with its origin. `near`: for each node, its weight in the preference to run near certain
    pods.
    """

    affinity: NodeAffinity | None
    rules: Sequence[NodeRule]
    near: Sequence[int]


@dataclass(frozen=True, slots=True)
class PodRules:
    """The rules of a shape's members besides capacity and eligible nodes.

    `traits`: host ports and affinity between members. `spreads`: hard topology spread. `obstacles`: evictable pods that
    keep the members off nodes. `near`: the pods that the members' affinity selects; None without affinity.
    """

    traits: Traits
    spreads: tuple[Spread, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    near: Near | None = None


@dataclass(slots=True)
class ShapeTable:
    """Collects the shapes of a gang's members, each once. The methods `add…` return a position in `shapes`."""

    nodes: Sequence[NodeState]
    """The problem's nodes that members may be put on, by position."""
    snapshot: Snapshot
    siblings: Sequence[Pod]
    own: frozenset[str]
    """The gang's own members, as `namespace/name`. Eligibility ignores them, because they are planned together."""
    label_keys: frozenset[str]
    """Label keys of pods that matter to pods already in the cluster (`watched_labels`)."""
    traits: GangTraits
    """The members' traits that matter to other members."""
    may_go: MayGo
    """The predicate of the pods that may be evicted for the gang."""
    demands: Mapping[str, PodDemand] = field(default_factory=dict)
    """The members' demands for devices, by `namespace/name`. A member whose claims are not planned is missing."""
    shapes: list[Shape] = field(default_factory=list)
    pod_rules: list[PodRules] = field(default_factory=list)
    """The rules of each shape besides capacity, by position."""
    pods: list[Pod] = field(default_factory=list)
    """A pod of each shape, by position."""
    _known: dict[ShapeKey, int] = field(default_factory=dict)
    _among: dict[str, None] = field(default_factory=dict)
    _unmodelled: dict[str, None] = field(default_factory=dict)

    def add(self, pod: Pod, requests: tuple[int, ...], terms: NodeTerms) -> int:
        """Return the position of the pod's shape, which is created unless an equal pod has been added before.

        `requests`: in the order of the problem's resources. `terms`: the node rules of the pod's gang.
        """
        traits = self.traits.of(pod)
        demand = self.demands.get(pod.key, NO_DEMAND)
        key = requests, scheduling_key(pod, self.label_keys), traits, id(terms), demand.pins
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
            shape = self._shape(eligibility, requests, terms.near, demand.pins)
            position = self._merge(pod, shape, self._pod_rules(eligibility, shape, traits))
            self._among |= dict.fromkeys(among_members(pod, self.siblings, self.snapshot.namespaces))
            left_out = unmodelled(pod, self.siblings, self.snapshot)
            self._unmodelled |= dict.fromkeys(
                each for each in left_out if each != CLAIMS or pod.key not in self.demands
            )
            self._known[key] = position
        return self._known[key]

    def add_held(self, pod: Pod, requests: tuple[int, ...], nodes: frozenset[int]) -> int:
        """Return the position of the shape of a member that has one of `nodes` already. The member stays on its node,
        so no other node is eligible.
        """
        return self._merge(pod, Shape(requests, nodes), PodRules(self.traits.of(pod)))

    @property
    def spreads(self) -> dict[int, tuple[Spread, ...]]:
        """The hard topology spread constraints of each shape's pods, by the position of the shape in `shapes`."""
        return {position: each.spreads for position, each in enumerate(self.pod_rules)}

    @property
    def concerned(self) -> frozenset[str]:
        """The running pods, by `namespace/name`, whose eviction affects members in more than free capacity.

        Such a pod keeps members off nodes, counts in their topology spread, or satisfies their affinity.
        """
        return frozenset(
            pod
            for each in self.pod_rules
            for pods in (
                *(obstacle.pods for obstacle in each.obstacles),
                *(spread.may_go for spread in each.spreads),
                each.near.pods if each.near is not None else (),
            )
            for pod in pods
        )

    def add_tied(self, pod: Pod, requests: tuple[int, ...], node: str, why: str, *, room: bool) -> int:
        """Return the position of the shape of a stranded member, which was released to `node` and can run on no other
        node.

        `why`: the reason why the node cannot take the member. `room`: whether the node lacks nothing but free capacity.
        """
        on_node = frozenset(position for position, state in enumerate(self.nodes) if state.name == node)
        excluded = dict.fromkeys(range(len(self.nodes)), ELSEWHERE) | dict.fromkeys(on_node, why)
        if room:
            excluded = {position: reason for position, reason in excluded.items() if position not in on_node}
        shape = Shape(requests, on_node if room else frozenset(), excluded)
        return self._merge(pod, shape, PodRules(self.traits.of(pod)))

    @property
    def unmodelled(self) -> tuple[str, ...]:
        """The pods' constraints and preferences that planning does not consider, each once."""
        return tuple(each for each in self._unmodelled if each not in self._among)

    @property
    def among_members(self) -> tuple[str, ...]:
        """The constraints between members that the solver's problem cannot state, each once."""
        return tuple(self._among)

    def _shape(
        self, eligibility: Eligibility, requests: tuple[int, ...], near: Sequence[int], pins: Sequence[NodeSelector]
    ) -> Shape:
        excluded = eligibility.exclusions(self.nodes)
        for place, state in enumerate(self.nodes) if pins else ():
            if place not in excluded and not all(node_selected(each, state.node) for each in pins):
                excluded[place] = CLAIM_ELSEWHERE
        lifts: dict[str, set[int]] = {}
        for position in excluded:
            if excluded[position] == CLAIM_ELSEWHERE:
                continue
            if change := eligibility.lift(self.nodes[position]):
                lifts.setdefault(change, set()).add(position)
        eligible = frozenset(range(len(self.nodes))).difference(excluded)
        wished = zip(eligibility.preferences(self.nodes), near, strict=True)
        weights = enumerate(preference + nearness for preference, nearness in wished)
        wishes = {position: weight for position, weight in weights if weight and position in eligible}
        opened = {change: frozenset(positions) for change, positions in lifts.items()}
        return Shape(requests, eligible, excluded, wishes, opened)

    def _pod_rules(self, eligibility: Eligibility, shape: Shape, traits: Traits) -> PodRules:
        return PodRules(
            traits,
            eligibility.spreads,
            tuple(_on(shape.nodes, eligibility.obstacles(self.nodes))),
            eligibility.near,
        )

    def _merge(self, pod: Pod, shape: Shape, pod_rules: PodRules) -> int:
        """Return the position of an equal shape that the table has already, or add this shape.

        Pods that differ in their specs, but not in their nodes, requests and rules, share one shape. A change to the
        cluster lifts an exclusion of a shared shape only if it lifts the exclusion for each of the shape's pods. Pods
        that have nodes already have no exclusions to lift. If the pods give different reasons why a node is excluded, a
        reason in the node itself, such as a taint, has precedence over `ELSEWHERE`.
        """
        for position, known in enumerate(self.shapes):
            same_room = known.requests == shape.requests and known.nodes == shape.nodes
            if same_room and known.preferences == shape.preferences and self.pod_rules[position] == pod_rules:
                if shape.excluded:
                    excluded, lifts = _reasons(known.excluded, shape.excluded), _common(known.lifts, shape.lifts)
                    self.shapes[position] = replace(known, excluded=excluded, lifts=lifts)
                return position
        self.shapes.append(shape)
        self.pod_rules.append(pod_rules)
        self.pods.append(pod)
        return len(self.shapes) - 1


def _on(nodes: frozenset[int], obstacles: Iterable[Obstacle]) -> Iterator[Obstacle]:
    """Yield the obstacles (causes that keep pods off nodes), each restricted to `nodes`. An obstacle on none of these
    nodes is dropped.
    """
    for each in obstacles:
        if common := each.nodes & nodes:
            yield replace(each, nodes=common)


def _reasons(one: Mapping[int, str], other: Mapping[int, str]) -> Mapping[int, str]:
    """Return the reasons why nodes exclude both of two shapes; a reason other than `ELSEWHERE` has precedence."""
    return {node: other.get(node, why) if why == ELSEWHERE else why for node, why in one.items()}


def _common(one: Mapping[str, frozenset[int]], other: Mapping[str, frozenset[int]]) -> dict[str, frozenset[int]]:
    """Return, by change to the cluster, the nodes that the change would make eligible for both of two shapes. `one`,
    `other`: by change, the nodes that it would make eligible for each shape.
    """
    both = {change: nodes & other.get(change, frozenset()) for change, nodes in one.items()}
    return {change: nodes for change, nodes in both.items() if nodes}


def watched_labels(snapshot: Snapshot) -> frozenset[str]:
    """Return the pod-label keys that the anti-affinity of pods in the cluster reads.

    Other labels of a new pod do not matter to these pods.
    """
    keys: set[str] = set()
    for state in snapshot.keeping_off:
        for tenant in state.keeping_off:
            affinity = tenant.pod.spec.affinity
            if affinity is not None and affinity.pod_anti_affinity is not None:
                keys.update(keys_of_terms(affinity.pod_anti_affinity.required))
    return frozenset(keys)


def scheduling_key(pod: Pod, watched: frozenset[str]) -> bytes:
    """Return a key of all fields of a pod that eligibility and preferences read; pods with equal rules have equal keys.

    :param watched: label keys that pods in the cluster read (`watched_labels`). Other labels, such as a member's index,
        are not part of the key.
    """
    spec = pod.spec
    keys = (
        watched.union(label_keys_read(pod))
        if spec.affinity is not None or spec.topology_spread_constraints
        else watched
    )
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
