"""Which nodes a pod may use, room aside, as the stock scheduler sees it.

Reasons are kube-scheduler's own words, for one node, so that explanations read like its events. The filters run in its
order and the first that refuses gives the reason. Where the two differ, this is the stricter: a node that is not ready
is refused even where nothing has tainted it yet, so a plan never sends a gang there.
"""

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cluster.eligibility.host_ports import any_clash, host_ports
from cluster.eligibility.member_rules import unmodelled as unmodelled  # noqa: PLC0414 - asked for here, beside `exclusion`
from cluster.eligibility.pod_affinity import Domain, MayGo, Near, Neighbourhood, Occupant, Spread, nobody_goes, spreads
from cluster.eligibility.taints import NOT_READY_KEYS, UNSCHEDULABLE, all_untolerated, tolerated, untolerated
from cluster.node_state import NodeState, Tenant, named_among
from cluster.priorities import priority_of
from cluster.selectors import affinity_allows, chooses, node_selected, requires, wants_node, weight
from cluster.snapshot import Snapshot
from cluster.volumes import claim_names
from kube.node_rules import NodeRule
from kube.objects import Node, NodeAffinity, Pod

UNSCHEDULABLE_NODE = "node(s) were unschedulable"
NOT_READY = "node(s) were not ready"
NODE_AFFINITY = "node(s) didn't match Pod's node affinity/selector"
GANG_AFFINITY = "node(s) didn't match the Gang's nodeAffinity"
HOST_PORTS = "node(s) didn't have free ports for the requested pod ports"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Pods, by `namespace/name`, that have to go before a pod may use some nodes, by position, and the `reason` why it
    may not beside them.
    """

    reason: str
    nodes: frozenset[int]
    pods: frozenset[str]


class Eligibility:
    """One pod's eligibility over a snapshot: what concerns the whole cluster is worked out once, at creation.

    `ignoring`: uids or `namespace/name`s of pods that do not count (the gang's own that are being planned). `also`: a
    node affinity of the gang that must hold beside the pod's. `rules`: what lays down those parts of both that nobody
    has written there; `written`: the pod without them, where they stand in its spec. Pods of lower priority that only
    hold a reservation do not count. Pods on their way out count as gone, except where `until_gone` says that they still
    stand in the way (for the last check before a release). Pods that `may_go` exclude from no node by a host port or by
    anti-affinity: they are `obstacles`. `with_members`: members of its gang, which do not count here, may be those that
    its affinity is about. `members`: the pods that are placed with it, whose places decide which domains its spread
    constraints close.
    """

    def __init__(
        self,
        pod: Pod,
        snapshot: Snapshot,
        *,
        ignoring: Container[str] = frozenset(),
        also: NodeAffinity | None = None,
        rules: Sequence[NodeRule] = (),
        written: Pod | None = None,
        until_gone: bool = False,
        may_go: MayGo = nobody_goes,
        with_members: bool = False,
        members: Sequence[Pod] = (),
    ) -> None:
        self._pod = pod
        self._may_go = may_go
        self._also = also
        self._rules, self._written = rules, written or pod
        self._ignoring = ignoring
        self._until_gone = until_gone
        self._priority = priority_of(pod, snapshot.priority_classes)
        self._ports = host_ports(pod)
        self._claims = [snapshot.volumes[name] for name in claim_names(pod) if name in snapshot.volumes]
        occupants = self._occupants(snapshot)
        self.spreads: tuple[Spread, ...] = spreads(pod, snapshot, self._counts, may_go, members=members)
        """The pod's hard spread constraints, counted over the pods there."""
        self._neighbours = Neighbourhood(pod, occupants, snapshot.namespaces, may_go, with_members=with_members)
        self._anywhere = not (self._ports or self._claims or self._neighbours.closing or chooses(pod) or requires(also))
        """Whether nothing that the pod says, or others say of it, can keep it off a node that is open to everybody, but
        for topology spread."""

    def exclusions(self, states: Sequence[NodeState]) -> dict[int, str]:
        """By position, why the pod may not use those of the nodes that it may not use."""
        anywhere = self._anywhere and not any(each.closes_any(states) for each in self.spreads)
        shut = [place for place, state in enumerate(states) if not (anywhere and state.open)]
        return {place: reason for place in shut if (reason := self.exclusion(states[place]))}

    def exclusion(self, state: NodeState) -> str:
        """Why the pod may not use the node, "" where it may."""
        if self._anywhere and state.open:
            return self._spread_out(state.node)
        return (
            self._node_itself(state.node)
            or self._taken_ports(state)
            or next((reason for each in self._claims if (reason := each.exclusion(state.node))), "")
            or self._spread_out(state.node)
            or self._neighbours.exclusion(state.node)
        )

    def _spread_out(self, node: Node) -> str:
        """Why topology spread keeps the pod off the node, "" where it does not."""
        for each in self.spreads:
            if reason := each.exclusion(node):
                return reason
        return ""

    def obstacles(self, states: Sequence[NodeState]) -> Iterator[Obstacle]:
        """Who has to go before the pod may use some of `states`."""
        if self._ports:
            for position, state in enumerate(states):
                clashing = frozenset(each.pod.key for each in self._clashing(state) if self._may_go(each))
                if clashing:
                    yield Obstacle(HOST_PORTS, frozenset((position,)), clashing)
        domains = self._in_domains(states, {domain for _, domain in self._neighbours.in_the_way})
        for (reason, domain), going in self._neighbours.in_the_way.items():
            yield Obstacle(reason, domains[domain], frozenset(going))

    @property
    def near(self) -> Near | None:
        """What the pod's affinity asks for, where that is not settled by who is there and stays; else None."""
        return self._neighbours.near

    @staticmethod
    def _in_domains(states: Sequence[NodeState], domains: Collection[Domain]) -> Mapping[Domain, frozenset[int]]:
        """The positions of the states in each domain."""
        keys = {key for key, _ in domains}
        found: dict[Domain, set[int]] = {domain: set() for domain in domains}
        for position, state in enumerate(states) if domains else ():
            for key in keys:
                value = state.node.metadata.labels.get(key)
                if value is not None and (key, value) in found:
                    found[key, value].add(position)
        return {domain: frozenset(positions) for domain, positions in found.items()}

    def lift(self, state: NodeState) -> str:
        """The one change, in words, after which the pod might use a node that it may not; "" where it takes several."""
        changes = list(dict.fromkeys(self._changes(state)))
        return changes[0] if len(changes) == 1 else ""

    def preferences(self, states: Sequence[NodeState]) -> list[int]:
        """The summed weights of the preferred node affinity terms, the pod's and the gang's, that each node fulfils."""
        affinity = self._pod.spec.affinity
        both = (affinity.node_affinity if affinity is not None else None, self._also)
        if not any(each is not None and each.preferred for each in both):
            return [0] * len(states)
        return [weight(both, state.node) for state in states]

    def _changes(self, state: NodeState) -> Iterator[str]:
        """What would have to change, for every filter that refuses the node."""
        yield from self._changes_of_the_node(state.node)
        others = (
            self._taken_ports(state),
            *(each.exclusion(state.node) for each in self._claims),
            *(each.exclusion(state.node) for each in self.spreads),
            self._neighbours.exclusion(state.node),
        )
        yield from (f'without "{reason}"' for reason in others if reason)

    def _changes_of_the_node(self, node: Node) -> Iterator[str]:
        """A cordon and a node that is not ready stand for the taints that come with them, too."""
        pod = self._pod
        cordoned = node.spec.unschedulable and not tolerated(UNSCHEDULABLE, pod.spec.tolerations)
        down = not node.ready
        if cordoned:
            yield "cordon lifted"
        if down:
            yield "readiness restored"
        with_it = {UNSCHEDULABLE.key} if cordoned else set()
        with_it |= NOT_READY_KEYS if down else set()
        for taint in all_untolerated(node.spec.taints, pod.spec.tolerations):
            if taint.key not in with_it:
                yield f"taint {{{taint.key}: {taint.value}}} tolerated"
        if not wants_node(self._written, node):
            yield "node affinity/selector dropped"
        ruled_out = [rule.lift for rule in self._rules if not node_selected(rule.selector, node)]
        yield from ruled_out
        if not ruled_out and not affinity_allows(self._also, node):
            yield "nodeAffinity of the Gang dropped"

    def _node_itself(self, node: Node) -> str:
        pod = self._pod
        if node.spec.unschedulable and not tolerated(UNSCHEDULABLE, pod.spec.tolerations):
            return UNSCHEDULABLE_NODE
        taint = untolerated(node.spec.taints, pod.spec.tolerations)
        if taint is not None:
            return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
        if not node.ready:
            return NOT_READY
        return self._kept_out(node)

    def _kept_out(self, node: Node) -> str:
        """Why selectors and affinities keep the pod off the node: what its user has written is told first."""
        if not wants_node(self._written, node):
            return NODE_AFFINITY
        ruled_out = (rule.reason for rule in self._rules if not node_selected(rule.selector, node))
        return next(ruled_out, "") or ("" if affinity_allows(self._also, node) else GANG_AFFINITY)

    def _taken_ports(self, state: NodeState) -> str:
        if not self._ports:
            return ""
        return HOST_PORTS if any(not self._may_go(each) for each in self._clashing(state)) else ""

    def _clashing(self, state: NodeState) -> Iterator[Tenant]:
        """The pods there that have a host port which the pod wants."""
        for each in state.tenants:
            if self._counts(each) and any_clash(self._ports, host_ports(each.pod)):
                yield each

    def _occupants(self, snapshot: Snapshot) -> Sequence[Occupant]:
        """The pods that matter to affinity; where the pod has no such wish, those with anti-affinity."""
        affinity = self._pod.spec.affinity
        every = affinity is not None and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None)
        return [
            (state, tenant)
            for state in (snapshot.nodes if every else snapshot.keeping_off)
            for tenant in (state.tenants if every else state.keeping_off)
            if self._counts(tenant)
        ]

    def _counts(self, tenant: Tenant) -> bool:
        if tenant.terminating and not self._until_gone:
            return False
        if tenant.reserved and tenant.priority < self._priority:
            return False
        return not named_among(tenant.pod, self._ignoring)


def exclusion(pod: Pod, state: NodeState, snapshot: Snapshot, ignoring: Container[str] = frozenset()) -> str:
    """Why the pod may not use one node, "" where it may. For many nodes make one `Eligibility` and ask that."""
    return Eligibility(pod, snapshot, ignoring=ignoring).exclusion(state)


def node_takes(pod: Pod, node: Node) -> bool:
    """Whether what the pod and the node themselves say leaves it open that the pod goes there."""
    if node.spec.unschedulable and not tolerated(UNSCHEDULABLE, pod.spec.tolerations):
        return False
    return node.ready and untolerated(node.spec.taints, pod.spec.tolerations) is None and wants_node(pod, node)


def preference(pod: Pod, state: NodeState) -> int:
    """The summed weights of the pod's preferred node affinity terms that the node fulfils."""
    affinity = pod.spec.affinity
    return weight((affinity.node_affinity if affinity is not None else None,), state.node)
