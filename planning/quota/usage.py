"""The quota that gangs use in their queues, and the free quota. Both are counted from the cluster each time, and are
not stored.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cluster.snapshot import Snapshot
from gangs.held_nodes import holding
from gangs.mirrors import key_text
from gangs.model import Gang, GangKey, Member
from gangs.quota_model import ClusterQueue, Cohort, Quota, ResourceGroup
from kube.placeholders import HELD_FOR_GANG, role_of_seat, seat_of
from kube.quantities import LARGEST, amount
from kube.requests import pod_requests
from planning.devices.charges import with_charges
from planning.quota.flavors import Choice, choice_in_use, choice_on

QuotaKey = tuple[str, str, str]
"""(ClusterQueue, flavor, resource)."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The quota that each gang uses, in base units, by queue, flavor and resource."""

    by_gang: Mapping[GangKey, Mapping[QuotaKey, int]] = field(default_factory=dict)

    def without(self, *keys: GangKey) -> "Usage":
        """Return the usage of all gangs except these."""
        return Usage({gang: used for gang, used in self.by_gang.items() if gang not in keys})

    def having(self, key: GangKey, used: Mapping[QuotaKey, int]) -> "Usage":
        """Return the usage in which this gang uses the amounts in `used`, in place of its former amounts."""
        return Usage({**self.by_gang, key: used})

    def in_total(self) -> "Usage":
        """Return the sum of the usage of all gangs, as the usage of one gang without a name. Then `of` need not add up
        many gangs.
        """
        total: Counter[QuotaKey] = Counter()
        for used in self.by_gang.values():
            total.update(used)
        return Usage({GangKey("", "", ""): total})

    def of(self, queue: str, flavor: str, resource: str) -> int:
        """Return the amount that all gangs use of a resource in one flavor of a queue."""
        return sum(used.get((queue, flavor, resource), 0) for used in self.by_gang.values())


NO_USAGE = Usage()


def usage_of(gangs: Iterable[Gang], snapshot: Snapshot) -> Usage:
    """Return the quota that all gangs use.

    Charged are members that are bound, released or nominated, and pods with a placeholder. Lost members that are being
    recreated are charged, too, because their quota was in use a moment ago.
    """
    charged = [with_charges(gang, snapshot) for gang in gangs if gang.account is not None]
    if not charged:
        return NO_USAGE
    labels = {state.name: state.node.metadata.labels for state in snapshot.nodes}
    found, held = {}, _held_by_placeholders(snapshot)
    for gang in charged:
        used = _held(gang, labels, held.get(key_text(gang.key), {}))
        if used:
            found[gang.key] = used
    return Usage(found)


def used_by(gang: Gang, members: Iterable[Member], choice: Choice) -> Mapping[QuotaKey, int]:
    """Return the quota that these members of the gang use in a choice of flavors."""
    used: Counter[QuotaKey] = Counter()
    if gang.account is not None:
        for resource, value in needs(members).items():
            if resource in choice:
                used[gang.account.queue.name, choice[resource], resource] += value
    return used


def needs(members: Iterable[Member]) -> Mapping[str, int]:
    """Return the sum of what the members use of their queue's quotas, in base units."""
    total = Counter[str]()
    for member in members:
        total.update(pod_requests(member.pod) if member.charge is None else member.charge.amounts)
    return +total


def _held_by_placeholders(snapshot: Snapshot) -> Mapping[str, Mapping[str, str]]:
    """Return the nodes of placeholders, by gang and then by the pod for which they reserve capacity."""
    found: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for state in snapshot.nodes:
        for tenant in state.placeholders if state.reserving else ():
            if gang := tenant.pod.metadata.annotations.get(HELD_FOR_GANG):
                found[gang][seat_of(tenant.pod)] = state.name
    return found


def _nodes_held(gang: Gang, later: Mapping[str, str]) -> Iterator[tuple[Member, str]]:
    """Yield the members that are charged to the quota, each with the node on which it uses or reserves capacity.

    The node is "" for a lost member that is being recreated and has no reservation yet. If an expected pod has arrived
    but is not nominated yet, it gets the node of a placeholder of its role. The pod and the placeholder together are
    charged once.

    :param later: the nodes of the gang's placeholders, by expected pod.
    """
    seats, coming = dict(later), list[Member]()
    for member in gang.members:
        if node := holding(member.pod) or seats.pop(member.pod.metadata.uid, ""):
            yield member, node
        elif member.pod.metadata.uid in gang.made_again:
            yield member, ""
        else:
            coming.append(member)
    left: defaultdict[str, list[str]] = defaultdict(list)
    for seat, node in seats.items():
        left[role_of_seat(seat)].append(node)
    for member in coming:
        if left[member.pod_set]:
            yield member, left[member.pod_set].pop()


def _held(gang: Gang, labels: Mapping[str, Mapping[str, str]], later: Mapping[str, str]) -> Mapping[QuotaKey, int]:
    used: Counter[QuotaKey] = Counter()
    account = gang.account
    if account is None:
        return used
    for member, node in _nodes_held(gang, later):
        resources = needs([member])
        choice = choice_in_use(account, resources) or choice_on(account, labels.get(node, {}), resources)
        used.update(used_by(gang, [member], choice or {}))
    return used


@dataclass(frozen=True, slots=True)
class _Share:
    """The quota and the use of a queue or a cohort, in base units.

    `quota`: its own quota plus all that its children lend. `limits`: its configured quota, with its borrowing and
    lending limits.
    """

    quota: int
    used: int
    limits: Quota

    def kept(self, resource: str) -> int:
        """Return the part of the quota that the queue or cohort does not lend to others."""
        lendable = self.limits.lending_limit
        return 0 if lendable is None else max(0, self.quota - _amount(resource, lendable))


@dataclass(frozen=True, slots=True)
class TreeShare:
    """A queue or a cohort with its part of one quota, in base units. Either `queue` or `cohort` is its name.

    `parent`: the cohort above it, "" at the top. `quota`: its nominal quota plus the quota that its children lend.
    `kept`: the quota that it does not lend. `limit`: the most that it may use; None: no borrowing limit. `used`: the
    use by gangs that are charged to it directly.
    """

    queue: str
    cohort: str
    parent: str
    quota: int
    kept: int
    limit: int | None
    used: int


@dataclass(frozen=True, slots=True)
class QuotaBalance:
    """The quota of one resource in one flavor of a queue, with the queues and the tree of cohorts that share it."""

    queue: ClusterQueue
    flavor: str
    resource: str
    cohort: Sequence[ClusterQueue]
    cohorts: Sequence[Cohort] = ()

    def left(self, usage: Usage) -> int:
        """Return the quota that a gang of the queue may still take: the queue's own, and what the queue may borrow.

        The count follows Kueue (pkg/cache/scheduler/resource_node.go). A queue or a cohort keeps the quota that it does
        not lend. It lends the rest to its parent cohort, which pools what its children lend. Each child may use its own
        part of the pool, and more up to its borrowing limit. This holds on every level up to the topmost cohort.
        """
        return self._left(self._share_of_queue(self.queue, usage), self.queue.cohort, usage)

    @property
    def nominal(self) -> int:
        """The queue's own quota (`nominalQuota`)."""
        return _amount(self.resource, self._limits(self.queue.groups).nominal)

    def users(self, usage: Usage) -> Mapping[GangKey, int]:
        """Return the amount that each gang uses of the quota in all queues that share it, the largest amount first."""
        names = {self.queue.name, *(each.name for each in self.cohort)}
        places = [(name, self.flavor, self.resource) for name in names]
        sums = ((key, sum(of_gang.get(each, 0) for each in places)) for key, of_gang in usage.by_gang.items())
        used = [(key, amount) for key, amount in sums if amount > 0]
        return dict(sorted(used, key=lambda each: (-each[1], each[0].namespace, each[0].name)))

    def tree(self, usage: Usage) -> list[TreeShare]:
        """Return the shares of all queues and cohorts that share the quota, each before its parent.

        For a queue without a cohort, this is the queue alone.
        """
        if not self.queue.cohort:
            return [self._tree_share(self.queue.name, "", self._share_of_queue(self.queue, usage))]
        top = self.queue.cohort
        while (cohort := self._cohort(top)).parent:
            top = cohort.parent
        return [
            *self._below(top, usage),
            self._tree_share("", "", self._share_of_cohort(self._cohort(top), usage), top),
        ]

    def _below(self, name: str, usage: Usage) -> Iterator[TreeShare]:
        """Yield the queues and cohorts below the cohort `name`, each with its part of the quota and before its
        parent.
        """
        for queue in self.cohort:
            if queue.cohort == name:
                yield self._tree_share(queue.name, name, self._share_of_queue(queue, usage))
        for cohort in self.cohorts:
            if cohort.parent == name:
                yield from self._below(cohort.name, usage)
                yield self._tree_share("", name, self._share_of_cohort(cohort, usage), cohort.name)

    def _tree_share(self, queue: str, parent: str, share: _Share, cohort: str = "") -> TreeShare:
        borrowing = share.limits.borrowing_limit
        limit = None if borrowing is None or not parent else share.quota + _amount(self.resource, borrowing)
        used = share.used if queue else 0
        return TreeShare(queue, cohort, parent, share.quota, share.kept(self.resource), limit, used)

    def _left(self, share: _Share, above: str, usage: Usage) -> int:
        """Return the quota that is free for a queue or cohort (`share`) below the cohort `above`; "" for no parent."""
        if not above:
            return share.quota - share.used
        cohort = self._cohort(above)
        pot = self._left(self._share_of_cohort(cohort, usage), cohort.parent, usage)
        kept = share.kept(self.resource)
        limit = share.limits.borrowing_limit
        if limit is not None:
            most = share.quota - kept + _amount(self.resource, limit)
            pot = min(pot, most - max(0, share.used - kept))
        return max(0, kept - share.used) + pot

    def _share_of_queue(self, queue: ClusterQueue, usage: Usage) -> _Share:
        limits = self._limits(queue.groups)
        used = usage.of(queue.name, self.flavor, self.resource)
        return _Share(_amount(self.resource, limits.nominal), used, limits)

    def _share_of_cohort(self, cohort: Cohort, usage: Usage) -> _Share:
        below = [self._share_of_queue(each, usage) for each in self.cohort if each.cohort == cohort.name]
        below += [self._share_of_cohort(each, usage) for each in self.cohorts if each.parent == cohort.name]
        limits = self._limits(cohort.groups)
        quota = sum(each.quota - each.kept(self.resource) for each in below)
        used = sum(max(0, each.used - each.kept(self.resource)) for each in below)
        return _Share(_amount(self.resource, limits.nominal) + quota, used, limits)

    def _cohort(self, name: str) -> Cohort:
        return next((each for each in self.cohorts if each.name == name), Cohort(name))

    def _limits(self, groups: Sequence[ResourceGroup]) -> Quota:
        """Return the configured quota of this resource in this flavor; a quota of 0 if none is configured."""
        for group in groups:
            for flavor in group.flavors:
                if flavor.flavor == self.flavor:
                    found = {each.resource: each for each in flavor.quotas}
                    return found.get(self.resource, Quota(self.resource, "0"))
        return Quota(self.resource, "0")


def _amount(resource: str, quantity: str) -> int:
    return min(LARGEST, amount(resource, quantity))
