"""Which nodes a pod may use by the stock scheduler's rules, without regard to capacity.

Reasons are kube-scheduler's own texts, so that explanations read like its events. The filters run in kube-scheduler's
order, and the first filter that rejects a node gives the reason. In one point the module is stricter: it excludes a
node that is not ready even if the node has no taint yet, so that no plan uses such a node.
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
    """Running pods that exclude a pod from some nodes until they are evicted.

    `reason`: the rule by which these pods exclude the nodes. `nodes`: positions of the nodes. `pods`: names
    (`namespace/name`) of the pods, which must all be evicted.
    """

    reason: str
    nodes: frozenset[int]
    pods: frozenset[str]


class Eligibility:
    """Determines which nodes of a snapshot one pod may use, without regard to capacity.

    Everything about the whole cluster is computed once, in the constructor. Reservations of pods of lower priority do
    not count.

    :param ignoring: UIDs or names (`namespace/name`) of pods that do not count, such as members that are planned anew.
    :param also: a node affinity of the gang that must hold in addition to the pod's; None: none.
    :param rules: the parts of both affinities that no user wrote, such as a flavor's or a pin's, with their reasons.
    :param written: the pod without these parts; None: the pod has none.
    :param until_gone: whether terminating pods still count, as in the last check before a release. By default they
        count as gone.
    :param may_go: returns whether a pod may be evicted. The host ports and the anti-affinity of such pods exclude no
        node. They are reported by `obstacles`.
    :param with_members: whether members of the pod's gang, which the snapshot does not show, may satisfy its affinity.
    :param members: the pods that are placed together with the pod, which its spread constraints may count.
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
        """The pod's hard topology spread constraints, with the counts of matching pods in each domain."""
        self._neighbours = Neighbourhood(pod, occupants, snapshot.namespaces, may_go, with_members=with_members)
        self._anywhere = not (self._ports or self._claims or self._neighbours.closing or chooses(pod) or requires(also))
        """Whether only topology spread can exclude an open node: no other rule of the pod or of other pods can."""

    def exclusions(self, states: Sequence[NodeState]) -> dict[int, str]:
        """Return why the pod may not use each excluded node, by the position of the node in `states`."""
        anywhere = self._anywhere and not any(each.closes_any(states) for each in self.spreads)
        shut = [place for place, state in enumerate(states) if not (anywhere and state.open)]
        return {place: reason for place in shut if (reason := self.exclusion(states[place]))}

    def exclusion(self, state: NodeState) -> str:
        """Return why the pod may not use this node, as kube-scheduler's text; "" if it may. Capacity is ignored."""
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
        """Return why topology spread excludes the node; "" if it does not."""
        for each in self.spreads:
            if reason := each.exclusion(node):
                return reason
        return ""

    def obstacles(self, states: Sequence[NodeState]) -> Iterator[Obstacle]:
        """Yield the evictable pods whose host ports or anti-affinity keep the pod from some of these nodes."""
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
        """The pod's inter-pod affinity, if evictable pods or members of its gang may satisfy it; else None.

        If it is None, the pods that stay decide about the affinity, and `exclusion` has the result.
        """
        return self._neighbours.near

    @staticmethod
    def _in_domains(states: Sequence[NodeState], domains: Collection[Domain]) -> Mapping[Domain, frozenset[int]]:
        """Return the positions of the nodes in each of these domains."""
        keys = {key for key, _ in domains}
        found: dict[Domain, set[int]] = {domain: set() for domain in domains}
        for position, state in enumerate(states) if domains else ():
            for key in keys:
                value = state.node.metadata.labels.get(key)
                if value is not None and (key, value) in found:
                    found[key, value].add(position)
        return {domain: frozenset(positions) for domain, positions in found.items()}

    def lift(self, state: NodeState) -> str:
        """Return the single change that would make an excluded node eligible, as text, such as "cordon lifted".

        "" if several changes would be needed.
        """
        changes = list(dict.fromkeys(self._changes(state)))
        return changes[0] if len(changes) == 1 else ""

    def preferences(self, states: Sequence[NodeState]) -> list[int]:
        """Return, for each node, the sum of the weights of the preferred node affinity terms that it meets.

        The terms are those of the pod and of the gang.
        """
        affinity = self._pod.spec.affinity
        both = (affinity.node_affinity if affinity is not None else None, self._also)
        if not any(each is not None and each.preferred for each in both):
            return [0] * len(states)
        return [weight(both, state.node) for state in states]

    def _changes(self, state: NodeState) -> Iterator[str]:
        """Yield, for each filter that rejects the node, the change that would be needed, as text."""
        yield from self._changes_of_the_node(state.node)
        others = (
            self._taken_ports(state),
            *(each.exclusion(state.node) for each in self._claims),
            *(each.exclusion(state.node) for each in self.spreads),
            self._neighbours.exclusion(state.node),
        )
        yield from (f'without "{reason}"' for reason in others if reason)

    def _changes_of_the_node(self, node: Node) -> Iterator[str]:
        """Yield the needed changes of the node, or of the pod's node selector and affinity.

        A cordoned or unready node also has a taint for that. The change that removes the cause covers the taint.
        """
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
        """Return why node selectors and node affinities exclude the node; "" if they do not.

        Rules that a user wrote are checked before those of flavors and pins, so that they give the reason.
        """
        if not wants_node(self._written, node):
            return NODE_AFFINITY
        ruled_out = (rule.reason for rule in self._rules if not node_selected(rule.selector, node))
        return next(ruled_out, "") or ("" if affinity_allows(self._also, node) else GANG_AFFINITY)

    def _taken_ports(self, state: NodeState) -> str:
        if not self._ports:
            return ""
        return HOST_PORTS if any(not self._may_go(each) for each in self._clashing(state)) else ""

    def _clashing(self, state: NodeState) -> Iterator[Tenant]:
        """Yield the pods on the node that use one of the pod's host ports."""
        for each in state.tenants:
            if self._counts(each) and any_clash(self._ports, host_ports(each.pod)):
                yield each

    def _occupants(self, snapshot: Snapshot) -> Sequence[Occupant]:
        """Return the pods that matter to inter-pod affinity and anti-affinity, each with its node.

        If the pod has such rules itself, every pod matters. Otherwise only pods with anti-affinity matter.
        """
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
    """Return why the pod may not use this node; "" if it may. For many nodes, create one `Eligibility` and reuse it.

    :param ignoring: UIDs or names (`namespace/name`) of pods that do not count.
    """
    return Eligibility(pod, snapshot, ignoring=ignoring).exclusion(state)


def node_takes(pod: Pod, node: Node) -> bool:
    """Whether the pod may use the node by cordon, readiness, taints, node selector and node affinity.

    Other pods and capacity are ignored.
    """
    if node.spec.unschedulable and not tolerated(UNSCHEDULABLE, pod.spec.tolerations):
        return False
    return node.ready and untolerated(node.spec.taints, pod.spec.tolerations) is None and wants_node(pod, node)


def preference(pod: Pod, state: NodeState) -> int:
    """Return the sum of the weights of the pod's preferred node affinity terms that the node meets."""
    affinity = pod.spec.affinity
    return weight((affinity.node_affinity if affinity is not None else None,), state.node)
