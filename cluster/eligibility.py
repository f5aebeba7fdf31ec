"""Which nodes a pod may use, room aside, as the stock scheduler sees it.

Reasons are kube-scheduler's own words, for one node, so that explanations read like its events. The filters run in its
order and the first that refuses gives the reason. Where the two differ, this is the stricter: a node that is not ready
is refused even where nothing has tainted it yet, so a plan never sends a gang there.
"""

from collections.abc import Container, Iterator, Sequence

from cluster.capturing import named_among
from cluster.neighbours import Neighbourhood, Occupant, Spread, spreads
from cluster.ports import any_clash, host_ports
from cluster.priorities import priority_of
from cluster.selectors import affinity_allows, chooses, requires, wants_node, weight
from cluster.snapshot import NodeState, Snapshot, Tenant
from cluster.taints import NOT_READY_KEYS, UNSCHEDULABLE, all_untolerated, tolerated, untolerated
from cluster.volumes import claim_names
from cluster.wishes import self_exclusions as self_exclusions  # noqa: PLC0414 - asked for here, beside `exclusion`
from cluster.wishes import unmodelled as unmodelled  # noqa: PLC0414 - asked for here, beside `exclusion`
from kube.objects import Node, NodeAffinity, Pod

UNSCHEDULABLE_NODE = "node(s) were unschedulable"
NOT_READY = "node(s) were not ready"
NODE_AFFINITY = "node(s) didn't match Pod's node affinity/selector"
HOST_PORTS = "node(s) didn't have free ports for the requested pod ports"


class Eligibility:
    """One pod's eligibility over a snapshot: what concerns the whole cluster is worked out once, at creation.

    `ignoring`: uids or `namespace/name`s of pods that do not count (the gang's own that are being planned). `also`: a
    node affinity of the gang that must hold beside the pod's. Pods of lower priority that only hold a reservation do
    not count. Pods on their way out count as gone, except where `until_gone` says that they still stand in the way
    (for the last check before a release).
    """

    def __init__(
        self,
        pod: Pod,
        snapshot: Snapshot,
        *,
        ignoring: Container[str] = frozenset(),
        also: NodeAffinity | None = None,
        until_gone: bool = False,
    ) -> None:
        self._pod = pod
        self._also = also
        self._ignoring = ignoring
        self._until_gone = until_gone
        self._priority = priority_of(pod, snapshot.priority_classes)
        self._ports = host_ports(pod)
        self._claims = [snapshot.volumes[name] for name in claim_names(pod) if name in snapshot.volumes]
        occupants = self._occupants(snapshot)
        self.spreads: tuple[Spread, ...] = spreads(pod, snapshot.nodes, occupants)
        """The pod's hard spread constraints, counted over the pods there."""
        self._neighbours = Neighbourhood(pod, occupants, snapshot.namespaces)
        self._anywhere = not (
            self._ports or self._claims or self.spreads or self._neighbours.closing or chooses(pod) or requires(also)
        )
        """Whether nothing that the pod says, or others say of it, can keep it off a node that is open to everybody."""

    def exclusion(self, state: NodeState) -> str:
        """Why the pod may not use the node, "" where it may."""
        if self._anywhere and state.open:
            return ""
        return (
            self._node_itself(state.node)
            or self._taken_ports(state)
            or next((reason for each in self._claims if (reason := each.exclusion(state.node))), "")
            or next((reason for each in self.spreads if (reason := each.exclusion(state.node))), "")
            or self._neighbours.exclusion(state.node)
        )

    def lift(self, state: NodeState) -> str:
        """The one change, in words, after which the pod might use a node that it may not; "" where it takes several."""
        changes = list(dict.fromkeys(self._changes(state)))
        return changes[0] if len(changes) == 1 else ""

    def preference(self, state: NodeState) -> int:
        """The summed weights of the preferred node affinity terms, the pod's and the gang's, that the node fulfils."""
        affinity = self._pod.spec.affinity
        return weight((affinity.node_affinity if affinity is not None else None, self._also), state.node)

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
        if not self._wanted(node):
            yield "node affinity/selector dropped"

    def _wanted(self, node: Node) -> bool:
        return wants_node(self._pod, node) and affinity_allows(self._also, node)

    def _node_itself(self, node: Node) -> str:
        pod = self._pod
        if node.spec.unschedulable and not tolerated(UNSCHEDULABLE, pod.spec.tolerations):
            return UNSCHEDULABLE_NODE
        taint = untolerated(node.spec.taints, pod.spec.tolerations)
        if taint is not None:
            return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
        if not node.ready:
            return NOT_READY
        return "" if self._wanted(node) else NODE_AFFINITY

    def _taken_ports(self, state: NodeState) -> str:
        if not self._ports:
            return ""
        taken = (port for each in state.tenants if self._counts(each) for port in host_ports(each.pod))
        return HOST_PORTS if any_clash(self._ports, taken) else ""

    def _occupants(self, snapshot: Snapshot) -> Sequence[Occupant]:
        """The pods that matter to affinity and spread; where the pod has no such wish, those with anti-affinity."""
        affinity, spec = self._pod.spec.affinity, self._pod.spec
        every = bool(spec.topology_spread_constraints) or (
            affinity is not None and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None)
        )
        return [
            (state, tenant)
            for state in snapshot.nodes
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


def preference(pod: Pod, state: NodeState) -> int:
    """The summed weights of the pod's preferred node affinity terms that the node fulfils."""
    affinity = pod.spec.affinity
    return weight((affinity.node_affinity if affinity is not None else None,), state.node)
