"""The order in which the stock scheduler can bind the members of a plan, and which members can be released now.

Hard topology spread and pod affinity depend on the pods that are bound already. The scheduler refuses a member whose
domain is still too full. It tries the member again when a sibling is bound, so a wrong order costs time only, with one
exception: a refused pod preempts. If pods of lower priority on the member's node count for its spread constraint, the
scheduler evicts them to make the constraint hold. The release holds such a member back until the scheduler accepts it.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

from cluster.eligibility.pod_affinity import AffinityTerm, Namespaces, Spread, affinity_terms, spreads
from cluster.eligibility.spread_counts import SpreadCounts
from cluster.node_state import Tenant, named_among
from cluster.snapshot import Snapshot
from kube.objects import Node, Pod
from planning.framing.shapes import scheduling_key, watched_labels

MOST_SEARCHED = 10
"""Members up to which every order is tried. A search visits at most 2^10 sets of bound members."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A member that is not bound yet.

    `spreads` and `near`: the positions of its topology spread and its pod affinity in `_Bound`; `near` -1: no affinity.
    """

    pod: Pod
    node: Node
    spreads: tuple[int, ...]
    near: int


class _Near:
    """The domains in which one pod affinity is satisfied. Binding a pod that the affinity selects adds the pod's
    domains.
    """

    def __init__(self, pod: Pod, namespaces: Namespaces) -> None:
        self._terms: tuple[AffinityTerm, ...] = affinity_terms(pod)
        self._namespaces = namespaces
        self._first_of_its_kind = self._selects(pod)
        self._domains: set[tuple[str, str]] = set()

    def copy(self) -> "_Near":
        new = object.__new__(_Near)
        new._terms, new._namespaces, new._first_of_its_kind = self._terms, self._namespaces, self._first_of_its_kind
        new._domains = set(self._domains)
        return new

    def bind(self, pod: Pod, node: Node) -> None:
        if self._selects(pod):
            self._domains |= self._around(node)

    def refuses(self, node: Node) -> bool:
        around = self._around(node)
        if len(around) < len({term.topology_key for term in self._terms}):
            return True
        return not around <= self._domains and not (not self._domains and self._first_of_its_kind)

    def _selects(self, pod: Pod) -> bool:
        return all(term.matches(pod, self._namespaces) for term in self._terms)

    def _around(self, node: Node) -> set[tuple[str, str]]:
        labels = node.metadata.labels
        return {(term.topology_key, labels[term.topology_key]) for term in self._terms if term.topology_key in labels}


@dataclass(frozen=True, slots=True)
class _Bound:
    """All members' topology spread counts and satisfied affinity domains after some of the members have been bound."""

    spreads: tuple[SpreadCounts, ...]
    nears: tuple[_Near, ...]

    def copy(self) -> "_Bound":
        return _Bound(tuple(each.copy() for each in self.spreads), tuple(each.copy() for each in self.nears))

    def accepts(self, member: _Waiting) -> bool:
        """Whether topology spread and pod affinity allow the scheduler to bind the member now."""
        if any(self.spreads[rule].refuses(member.node) for rule in member.spreads):
            return False
        return member.near < 0 or not self.nears[member.near].refuses(member.node)

    def bind(self, member: _Waiting) -> None:
        for spread in self.spreads:
            spread.bind(member.pod, member.node)
        for near in self.nears:
            near.bind(member.pod, member.node)


class BindingOrder:
    """Simulates in which order the stock scheduler can bind the unbound members of one plan.

    :param members: every member that is not bound yet, with its planned node. Nodes that do not exist are left out.
    :param priority: the gang's priority. Reservations of lower priority do not count.
    :param gone: uids or `namespace/name`s of pods that do not count: the plan's victims.
    """

    def __init__(
        self,
        members: Iterable[tuple[Pod, str]],
        snapshot: Snapshot,
        *,
        priority: int,
        gone: Container[str] = frozenset(),
    ) -> None:
        planned = [(pod, state.node) for pod, name in members if (state := snapshot.state(name)) is not None]
        self._snapshot, self._priority, self._gone = snapshot, priority, gone
        self._own = frozenset(mark for pod, _ in planned for mark in (pod.metadata.uid, pod.key) if mark)
        rules, nears = list[Spread](), dict[bytes, tuple[int, _Near]]()
        watched, known = watched_labels(snapshot), dict[bytes, tuple[int, ...]]()
        waiting = []
        for pod, node in planned:
            key = scheduling_key(pod, watched) if pod.spec.topology_spread_constraints or affinity_terms(pod) else b""
            if key not in known:
                known[key] = tuple(self._positions(pod, rules)) if key else ()
                if affinity_terms(pod):
                    nears[key] = len(nears), self._near(pod)
            near = nears[key][0] if key in nears else -1
            waiting.append(_Waiting(pod, node, known[key], near))
        self._waiting: Sequence[_Waiting] = waiting
        self._start = _Bound(tuple(SpreadCounts(each) for each in rules), tuple(near for _, near in nears.values()))

    def spread_holds(self) -> bool:
        """Whether every member's spread constraints hold after all members are bound."""
        final = self._start.copy()
        for member in self._waiting:
            final.bind(member)
        return not any(
            final.spreads[rule].refuses_last(member.pod, member.node)
            for member in self._waiting
            for rule in member.spreads
        )

    def order(self) -> tuple[int, ...] | None:
        """Return the members' positions in an order in which the scheduler accepts each one.

        None if there is no such order. Beyond `MOST_SEARCHED` members, also None if the greedy search finds none.
        """
        found = self._greedy()
        if found is None and len(self._waiting) <= MOST_SEARCHED:
            found = self._searched(self._start, frozenset(range(len(self._waiting))), set())
        return found

    def released_now(self, gated: Sequence[bool]) -> tuple[int, ...]:
        """Return the positions of the gated members to release now, in binding order.

        A member waits if the scheduler could refuse it before its siblings are bound and would then evict a pod. All
        later members of the order wait with it. If no order exists, no member waits.

        :param gated: by position, whether the member still has its gate.
        """
        order = self.order()
        if order is None:
            return tuple(position for position, waits in enumerate(gated) if waits)
        released, before = list[int](), [Counter[str | None]() for _ in self._start.spreads]
        for position in order:
            member = self._waiting[position]
            if gated[position]:
                if self._could_evict(member) and not self._accepted_in_any_order(member, before):
                    break
                released.append(position)
            for rule, counts in zip(self._start.spreads, before, strict=True):
                if rule.counts(member.pod, member.node):
                    counts[rule.domain(member.node)] += 1
        return tuple(released)

    def _accepted_in_any_order(self, member: _Waiting, before: Sequence[Counter[str | None]]) -> bool:
        """Whether the member's spread constraints hold, whichever of the members before it are bound first.

        `before`: by constraint and domain, how many of the members before it count. In the worst case all of them in
        the member's own domain are bound first.
        """
        rules = self._start.spreads
        return not any(
            rules[rule].refuses(member.node, before[rule][rules[rule].domain(member.node)]) for rule in member.spreads
        )

    def _could_evict(self, member: _Waiting) -> bool:
        """Whether pods of lower priority on the member's node count for one of its spread constraints.

        If the constraint refuses the member, the scheduler evicts such pods.
        """
        state = self._snapshot.state(member.node.metadata.name)
        lower = [each.pod for each in state.tenants if each.priority < self._priority] if state is not None else []
        return any(self._start.spreads[rule].counts(pod, member.node) for rule in member.spreads for pod in lower)

    def _greedy(self) -> tuple[int, ...] | None:
        """Return an order in which the scheduler accepts the members, found by binding one accepted member after the
        other. Members in the emptiest domains come first. None if the scheduler accepts no member at some step.

        If one constraint counts every member and holds in the end, this finds an order: the emptiest domain with a
        waiting member is never too full.
        """
        bound, order = self._start.copy(), list[int]()
        waiting = self._by_level()
        while waiting:
            left = []
            for position in waiting:
                if bound.accepts(self._waiting[position]):
                    bound.bind(self._waiting[position])
                    order.append(position)
                else:
                    left.append(position)
            if len(left) == len(waiting):
                return None
            waiting = left
        return tuple(order)

    def _by_level(self) -> list[int]:
        """Return the members' positions, members in emptier domains first.

        A member is sorted by the number of pods in its domain once it and all members before it are bound, in the order
        of `members`. If the member has several spread constraints, the fullest of its domains counts.
        """
        filled = self._start.copy()
        levels = [
            max((filled.spreads[rule].bind(member.pod, member.node) for rule in range(len(filled.spreads))), default=0)
            for member in self._waiting
        ]
        return sorted(range(len(levels)), key=levels.__getitem__)

    def _searched(self, bound: _Bound, left: frozenset[int], hopeless: set[frozenset[int]]) -> tuple[int, ...] | None:
        """Return an order of the members that are `left`, found by trying all orders; None if there is none.

        `bound`: the state before these members are bound. `hopeless`: sets of members for which no order exists; it is
        extended.
        """
        if not left:
            return ()
        if left in hopeless:
            return None
        for position in sorted(left):
            if bound.accepts(self._waiting[position]):
                then = bound.copy()
                then.bind(self._waiting[position])
                if (rest := self._searched(then, left - {position}, hopeless)) is not None:
                    return (position, *rest)
        hopeless.add(left)
        return None

    def _positions(self, pod: Pod, rules: list[Spread]) -> Iterator[int]:
        """Yield the positions in `rules` of the pod's spread constraints. A new constraint is added to `rules`."""
        for each in spreads(pod, self._snapshot, self._counts):
            if each not in rules:
                rules.append(each)
            yield rules.index(each)

    def _near(self, pod: Pod) -> _Near:
        near = _Near(pod, self._snapshot.namespaces)
        for state in self._snapshot.nodes:
            for tenant in state.tenants:
                if not tenant.terminating and self._counts(tenant):
                    near.bind(tenant.pod, state.node)
        return near

    def _counts(self, tenant: Tenant) -> bool:
        if tenant.reserved and tenant.priority < self._priority:
            return False
        return not named_among(tenant.pod, self._own) and not named_among(tenant.pod, self._gone)
