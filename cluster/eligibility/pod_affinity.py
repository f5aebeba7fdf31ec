"""Which nodes a pod may use beside the running pods, by pod affinity, anti-affinity and topology spread.

Rules: kube-scheduler's InterPodAffinity and PodTopologySpread.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cluster.eligibility.taints import untolerated
from cluster.node_state import NodeState, Tenant
from cluster.selectors import chooses, requirement_holds, selects, wants_node
from cluster.snapshot import Snapshot
from kube.objects import LabelSelector, Node, Pod, PodAffinityTerm, Requirement, TopologySpreadConstraint

EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"
AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
SPREAD = "node(s) didn't match pod topology spread constraints"
SPREAD_LABEL = f"{SPREAD} (missing required label)"

Namespaces = Mapping[str, Mapping[str, str]]
"""The labels of each namespace, by its name."""
Occupant = tuple[NodeState, Tenant]
"""A pod that affinity rules may count, with the node where it is or is planned."""


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """A required term of a pod's affinity or anti-affinity, with its defaults filled in.

    For example, a term without namespaces applies to the namespace of the pod that has the term.
    """

    topology_key: str
    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None
    selector: LabelSelector | None
    narrowed: tuple[Requirement, ...]
    """Requirements from `matchLabelKeys` and `mismatchLabelKeys`. The API server has merged them into the selector of
    pods that it stores.
    """

    def matches(self, pod: Pod, namespaces: Namespaces) -> bool:
        """Whether the term selects this pod, by its namespace and labels."""
        where = pod.metadata.namespace
        if where not in self.namespaces and not selects(self.namespace_selector, _labels_of(where, namespaces)):
            return False
        labels = pod.metadata.labels
        return selects(self.selector, labels) and all(requirement_holds(each, labels) for each in self.narrowed)


def _labels_of(namespace: str, namespaces: Namespaces) -> Mapping[str, str]:
    """Return the labels of a namespace. The label with its name is included even if the namespace is unknown."""
    return {"kubernetes.io/metadata.name": namespace, **namespaces.get(namespace, {})}


def affinity_terms(pod: Pod) -> tuple[AffinityTerm, ...]:
    """Return the terms of the pod's required pod affinity; empty if it has none."""
    affinity = pod.spec.affinity
    return _terms(pod, affinity.pod_affinity.required) if affinity and affinity.pod_affinity else ()


def anti_affinity_terms(pod: Pod) -> tuple[AffinityTerm, ...]:
    """Return the terms of the pod's required pod anti-affinity; empty if it has none."""
    affinity = pod.spec.affinity
    return _terms(pod, affinity.pod_anti_affinity.required) if affinity and affinity.pod_anti_affinity else ()


def _terms(pod: Pod, terms: Iterable[PodAffinityTerm]) -> tuple[AffinityTerm, ...]:
    return tuple(_term(pod, each) for each in terms)


def _term(pod: Pod, term: PodAffinityTerm) -> AffinityTerm:
    own = not term.namespaces and term.namespace_selector is None
    return AffinityTerm(
        topology_key=term.topology_key,
        namespaces=frozenset({pod.metadata.namespace} if own else term.namespaces),
        namespace_selector=term.namespace_selector,
        selector=term.label_selector,
        narrowed=(*_by_keys(pod, term.match_label_keys, "In"), *_by_keys(pod, term.mismatch_label_keys, "NotIn")),
    )


def _by_keys(pod: Pod, keys: Iterable[str], operator: str) -> Iterator[Requirement]:
    labels = pod.metadata.labels
    return (Requirement(key=key, operator=operator, values=(labels[key],)) for key in keys if key in labels)


Domain = tuple[str, str]
"""The nodes with one value of a topology key, as (key, value)."""
MayGo = Callable[[Tenant], bool]
"""Function that returns whether a pod may be evicted for the planned pod."""


def nobody_goes(_tenant: Tenant) -> bool:
    """Return False: no pod may be evicted. Callers pass this function as `may_go` if evictions are not allowed."""
    return False


@dataclass(frozen=True, slots=True)
class Near:
    """The pods and domains that may satisfy a pod's required pod affinity.

    `keys`: the topology key of each term. `there`: for each term, the values of the key where a selected pod runs and
    stays. `pods`: the names (`namespace/name`) of selected pods that may be evicted. `themselves`: whether the terms
    select the pod itself, so that the first of such pods needs no other pod near it.
    """

    keys: tuple[str, ...]
    there: tuple[frozenset[str], ...]
    pods: frozenset[str]
    themselves: bool


class Neighbourhood:
    """Determines which nodes one pod's affinity and anti-affinity, and running pods' anti-affinity, exclude for it.

    :param occupants: the pods that count, with their nodes. The constructor reads them once.
    :param namespaces: the labels of each namespace.
    :param may_go: returns whether a pod may be evicted. Such a pod excludes no node; it is listed in `in_the_way`.
    :param with_members: whether pods that are placed together with this pod may satisfy its affinity.
    """

    def __init__(
        self,
        pod: Pod,
        occupants: Sequence[Occupant],
        namespaces: Namespaces,
        may_go: MayGo = nobody_goes,
        *,
        with_members: bool = False,
    ) -> None:
        self._affinity = affinity_terms(pod)
        self._first_of_its_kind = all(each.matches(pod, namespaces) for each in self._affinity)
        self._with_members = with_members
        self._near: set[Domain] = set()
        self._near_leaving: set[Domain] = set()
        self._leaving: set[str] = set()
        self._apart: set[Domain] = set()
        self._barred: set[Domain] = set()
        self._may_go = may_go
        self.in_the_way: dict[tuple[str, Domain], set[str]] = {}
        """By reason and domain: the names of the evictable pods that exclude the domain until they are evicted."""
        apart = anti_affinity_terms(pod)
        for state, tenant in occupants:
            self._note_own(tenant, state.node, apart, namespaces)
            for term in anti_affinity_terms(tenant.pod):
                if term.matches(pod, namespaces):
                    self._close(tenant, state.node, term, EXISTING_ANTI_AFFINITY, self._barred)

    def _note_own(self, tenant: Tenant, node: Node, apart: Sequence[AffinityTerm], namespaces: Namespaces) -> None:
        other = tenant.pod
        for term in apart:
            if term.matches(other, namespaces):
                self._close(tenant, node, term, ANTI_AFFINITY, self._apart)
        if self._affinity and all(each.matches(other, namespaces) for each in self._affinity):
            domains = set[Domain]().union(*(_domain(node, term) for term in self._affinity))
            if domains and self._may_go(tenant):
                self._leaving.add(other.key)
                self._near_leaving |= domains
            else:
                self._near |= domains

    def _close(self, tenant: Tenant, node: Node, term: AffinityTerm, reason: str, closed: set[Domain]) -> None:
        domains = _domain(node, term)
        if self._may_go(tenant):
            for domain in domains:
                self.in_the_way.setdefault((reason, domain), set()).add(tenant.pod.key)
        else:
            closed.update(domains)

    @property
    def near(self) -> Near | None:
        """The pod's affinity, if evictable pods or members of its gang may satisfy it; else None.

        If it is None, the pods that stay decide about the affinity, and `exclusion` has the result.
        """
        if not self._leaving and not self._with_members:
            return None
        keys = tuple(term.topology_key for term in self._affinity)
        there = tuple(frozenset(value for at, value in self._near if at == key) for key in keys)
        return Near(keys, there, frozenset(self._leaving), self._first_of_its_kind)

    @property
    def closing(self) -> bool:
        """Whether affinity or anti-affinity can exclude any node for the pod. If not, no node need be checked."""
        return bool(self._affinity or self._apart or self._barred)

    def exclusion(self, node: Node) -> str:
        """Return why the node is excluded; "" if it is not. Rules are checked in the stock scheduler's order."""
        if not self._affinity_holds(node):
            return AFFINITY
        if self._apart and self._apart & node.metadata.labels.items():
            return ANTI_AFFINITY
        if self._barred and self._barred & node.metadata.labels.items():
            return EXISTING_ANTI_AFFINITY
        return ""

    def _affinity_holds(self, node: Node) -> bool:
        """Whether the pod's required affinity holds on the node: each term selects a pod in the node's domain.

        It also holds if members that are placed with the pod may satisfy it. The first of several pods that select
        each other may start anywhere.
        """
        domains = [_domain(node, term) for term in self._affinity]
        if not all(domains):
            return False
        near = all(domain <= self._near or domain <= self._near_leaving for domain in domains)
        return near or self._with_members or (not self._near and self._first_of_its_kind)


def _domain(node: Node, term: AffinityTerm) -> set[tuple[str, str]]:
    """Return the node's domain by the term's topology key, as a set of one; empty if the node lacks the label."""
    value = node.metadata.labels.get(term.topology_key)
    return set() if value is None else {(term.topology_key, value)}


@dataclass(frozen=True, slots=True)
class Spread:
    """One hard topology spread constraint of a pod (`DoNotSchedule`), with the running pods counted.

    `max_skew`: its `maxSkew`. `counts`: by value of the topology key, how many running pods match. `least`: the lowest
    of these counts; 0 if there are fewer domains than `minDomains` (`too_few`). `counted`: the names of the nodes whose
    pods count. `self_matching`: whether the constraint counts the pod itself, so that members of its gang change the
    counts. `may_go`: the names of the counted pods that may be evicted.
    """

    topology_key: str
    max_skew: int
    counts: Mapping[str, int]
    least: int
    too_few: bool
    counted: frozenset[str]
    self_matching: bool
    may_go: frozenset[str]
    _full: frozenset[str]
    _closing: frozenset[str | None]
    _namespace: str
    _constraint: TopologySpreadConstraint
    _narrowed: tuple[Requirement, ...]

    def matches(self, pod: Pod) -> bool:
        """Whether the constraint counts this pod if it runs on one of the `counted` nodes."""
        # An empty selector matches the pod itself but counts no pods, as in the stock scheduler.
        empty = _is_empty(self._constraint.label_selector) and not self._narrowed
        alike = pod.metadata.namespace == self._namespace
        return not empty and alike and _selected(self._constraint, self._narrowed, pod)

    def room(self, domain: str) -> int:
        """Return how many more pods like this one `maxSkew` allows in the domain; at least 0.

        The emptiest domain is assumed to stay as it is.
        """
        return max(0, self.max_skew + self.least - self.counts.get(domain, 0))

    def closes(self, domain: str) -> bool:
        """Whether the scheduler would reject the domain for the next pod like this one, because of `maxSkew`."""
        count = self.counts.get(domain)
        return count is not None and count + int(self.self_matching) - self.least > self.max_skew

    def exclusion(self, node: Node) -> str:
        """Return why the constraint excludes the node for the next pod like this one; "" if it does not.

        The result is also "" if evictions, or the nodes of other members, decide whether the node is excluded.
        """
        domain = node.metadata.labels.get(self.topology_key)
        if domain is None:
            return SPREAD_LABEL
        return SPREAD if domain in self._full else ""

    def closes_any(self, nodes: Sequence[NodeState]) -> bool:
        """Whether the constraint excludes at least one of these nodes for the next pod, whatever other members do."""
        if not self._closing:
            return False
        return not self._closing.isdisjoint([each.node.metadata.labels.get(self.topology_key) for each in nodes])


def spreads(
    pod: Pod,
    snapshot: Snapshot,
    is_there: Callable[[Tenant], bool],
    may_go: MayGo = nobody_goes,
    *,
    members: Sequence[Pod] = (),
) -> tuple[Spread, ...]:
    """Return the pod's hard topology spread constraints (`DoNotSchedule`), with the running pods counted.

    :param is_there: returns whether a pod of the snapshot counts at all.
    :param may_go: returns whether a pod may be evicted.
    :param members: pods that are placed together with `pod`. A constraint that counts one of them excludes no domain,
        because another member can fill the emptiest domain first.
    """
    hard = [each for each in pod.spec.topology_spread_constraints if each.when_unsatisfiable == "DoNotSchedule"]
    if not hard:
        return ()
    labelled: Sequence[int] = range(len(snapshot.nodes))
    for key in {each.topology_key for each in hard}:
        values = snapshot.label_values[key]
        if None in values:
            labelled = [place for place in labelled if values[place] is not None]
    in_namespace = [*snapshot.tenants_in(pod.metadata.namespace)]
    over = _Counted(snapshot, labelled, in_namespace, is_there, may_go, members)
    return tuple(_spread(pod, each, over) for each in hard)


class _Counted(NamedTuple):
    """The inputs that `spreads` needs for every constraint of one pod.

    `labelled`: the positions of the nodes that have the topology keys of all its constraints. `in_namespace`: the pods
    of its namespace, as (position of a node, pods there). The other fields: see `spreads`.
    """

    snapshot: Snapshot
    labelled: Sequence[int]
    in_namespace: Sequence[tuple[int, Sequence[Tenant]]]
    is_there: Callable[[Tenant], bool]
    may_go: MayGo
    members: Sequence[Pod]


def _spread(pod: Pod, constraint: TopologySpreadConstraint, over: _Counted) -> Spread:
    key, nodes = constraint.topology_key, over.snapshot.nodes
    values = over.snapshot.label_values[key]
    narrowed = tuple(_by_keys(pod, constraint.match_label_keys, "In"))
    counted = _counted(pod, constraint, nodes, over.labelled)
    everywhere = len(counted) == len(nodes)
    domain_at = {place: value for place in counted if (value := values[place]) is not None}
    counts = dict.fromkeys(domain_at.values(), 0)
    going = set[str]()
    # An empty selector matches the pod itself but counts no pods, as in the stock scheduler.
    empty = _is_empty(constraint.label_selector) and not narrowed
    for place, tenants in () if empty else over.in_namespace:
        for tenant in tenants if place in domain_at else ():
            # The condition that fails most often comes first, because this runs for each pod of the namespace.
            if _selected(constraint, narrowed, tenant.pod) and not tenant.terminating and over.is_there(tenant):
                counts[domain_at[place]] += 1
                if over.may_go(tenant):
                    going.add(tenant.pod.key)
    enough = len(counts) >= (constraint.min_domains or 1)
    least, itself = min(counts.values(), default=0) if enough else 0, _selected(constraint, narrowed, pod)
    most = constraint.max_skew + least - int(itself)
    depends = bool(going) or (not empty and any(_is_counted(pod, constraint, narrowed, each) for each in over.members))
    full = frozenset() if depends else frozenset([domain for domain, count in counts.items() if count > most])
    return Spread(
        topology_key=key,
        max_skew=constraint.max_skew,
        counts=counts,
        least=least,
        too_few=not enough,
        counted=over.snapshot.names if everywhere else frozenset([nodes[each].name for each in counted]),
        self_matching=itself,
        may_go=frozenset(going),
        _full=full,
        _closing=frozenset[str | None]((*full, None) if None in values else full),
        _namespace=pod.metadata.namespace,
        _constraint=constraint,
        _narrowed=narrowed,
    )


def _is_counted(pod: Pod, constraint: TopologySpreadConstraint, narrowed: Sequence[Requirement], other: Pod) -> bool:
    """Whether the constraint of `pod`, whose selector is not empty, counts `other`."""
    return other.metadata.namespace == pod.metadata.namespace and _selected(constraint, narrowed, other)


def _selected(constraint: TopologySpreadConstraint, narrowed: Sequence[Requirement], pod: Pod) -> bool:
    labels = pod.metadata.labels
    return selects(constraint.label_selector, labels) and all(requirement_holds(each, labels) for each in narrowed)


def _counted(
    pod: Pod, constraint: TopologySpreadConstraint, nodes: Sequence[NodeState], places: Sequence[int]
) -> Sequence[int]:
    """Return the positions of the nodes whose pods and domains the constraint counts.

    Its fields `nodeAffinityPolicy` and `nodeTaintsPolicy` decide (KEP 3094).
    """
    if constraint.node_affinity_policy == "Honor" and chooses(pod):
        places = [place for place in places if wants_node(pod, nodes[place].node)]
    if constraint.node_taints_policy == "Honor":
        tolerations = pod.spec.tolerations
        places = [place for place in places if untolerated(nodes[place].node.spec.taints, tolerations) is None]
    return places


def _is_empty(selector: LabelSelector | None) -> bool:
    return selector is not None and not selector.match_labels and not selector.match_expressions
