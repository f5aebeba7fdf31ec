"""What gangs use of their queues, and what is left of the quotas. Counted anew from the cluster every time."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cluster.quantities import LARGEST, amount
from cluster.requests import pod_requests
from cluster.snapshot import Snapshot
from gangs.model import Gang, GangKey, Member
from gangs.queues import ClusterQueue, Quota
from kube.objects import Pod
from planning.flavors import Choice, choice_in_use, choice_on
from planning.problems import held_node

Place = tuple[str, str, str]
"""(ClusterQueue, flavor, resource)."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Amounts in base units by gang and place."""

    by_gang: Mapping[GangKey, Mapping[Place, int]] = field(default_factory=dict)

    def without(self, key: GangKey) -> "Usage":
        """What all others use."""
        return Usage({gang: used for gang, used in self.by_gang.items() if gang != key})

    def having(self, key: GangKey, used: Mapping[Place, int]) -> "Usage":
        """With what this gang uses now."""
        return Usage({**self.by_gang, key: used})

    def of(self, queue: str, flavor: str, resource: str) -> int:
        """What is used in one place."""
        return sum(used.get((queue, flavor, resource), 0) for used in self.by_gang.values())


NO_USAGE = Usage()


def usage_of(gangs: Iterable[Gang], snapshot: Snapshot) -> Usage:
    """What all gangs hold: members that are bound, released or nominated."""
    labels = {state.name: state.node.metadata.labels for state in snapshot.nodes}
    found = {}
    for gang in gangs:
        used = _held(gang, labels)
        if used:
            found[gang.key] = used
    return Usage(found)


def used_by(gang: Gang, members: Iterable[Member], choice: Choice) -> Mapping[Place, int]:
    """What these members of the gang use in a choice of flavors."""
    used: Counter[Place] = Counter()
    if gang.account is not None:
        for resource, value in needs(members).items():
            if resource in choice:
                used[gang.account.queue.name, choice[resource], resource] += value
    return used


def needs(members: Iterable[Member]) -> Mapping[str, int]:
    """What the members request together, in base units."""
    total: Counter[str] = Counter()
    for member in members:
        total.update(pod_requests(member.pod))
    return +total


def holding(pod: Pod) -> str:
    """The node whose room a pod holds, "" for one that holds none."""
    return held_node(pod) or pod.status.nominated_node_name


def _held(gang: Gang, labels: Mapping[str, Mapping[str, str]]) -> Mapping[Place, int]:
    used: Counter[Place] = Counter()
    account = gang.account
    if account is None:
        return used
    for member in gang.members:
        node = holding(member.pod)
        if not node:
            continue
        resources = needs([member])
        choice = choice_in_use(account, resources) or choice_on(account, labels.get(node, {}), resources)
        used.update(used_by(gang, [member], choice or {}))
    return used


@dataclass(frozen=True, slots=True)
class Purse:
    """The quota of one resource in one flavor of a queue, with the queues that share it."""

    queue: ClusterQueue
    flavor: str
    resource: str
    cohort: Sequence[ClusterQueue]

    def left(self, usage: Usage) -> int:
        """What a gang of the queue may still take: its own quota, and what it may borrow of its cohort's.

        As Kueue counts in a flat cohort (its pkg/cache/scheduler/resource_node.go): what a queue does not lend stays
        its own; the rest of all queues is one pot, out of which each may have its part and its borrowing limit.
        """
        quota = self._quota(self.queue)
        used = usage.of(self.queue.name, self.flavor, self.resource)
        if not self.queue.cohort:
            return self._amount(quota.nominal) - used
        kept = self._kept(quota)
        pot = sum(self._lent(each) - self._taken(each, usage) for each in self.cohort)
        mine = max(0, kept - used)
        if quota.borrowing_limit is None:
            return mine + pot
        most = self._amount(quota.nominal) - kept + self._amount(quota.borrowing_limit)
        return mine + min(pot, most - max(0, used - kept))

    def _lent(self, queue: ClusterQueue) -> int:
        quota = self._quota(queue)
        return self._amount(quota.nominal) - self._kept(quota)

    def _taken(self, queue: ClusterQueue, usage: Usage) -> int:
        return max(0, usage.of(queue.name, self.flavor, self.resource) - self._kept(self._quota(queue)))

    def _kept(self, quota: Quota) -> int:
        if quota.lending_limit is None:
            return 0
        return max(0, self._amount(quota.nominal) - self._amount(quota.lending_limit))

    def _quota(self, queue: ClusterQueue) -> Quota:
        """The queue's quota; of a queue that has none of this resource in this flavor, nothing."""
        for group in queue.groups:
            for flavor in group.flavors:
                if flavor.flavor == self.flavor:
                    found = {each.resource: each for each in flavor.quotas}
                    return found.get(self.resource, Quota(self.resource, "0"))
        return Quota(self.resource, "0")

    def _amount(self, quantity: str) -> int:
        return min(LARGEST, amount(self.resource, quantity))
