"""Reports on queues: the quota, the gangs that use it, and the gangs that wait for it, in planning order."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cluster.snapshot import Snapshot
from gangs.model import Gang, GangKey
from gangs.quota_model import Account, ClusterQueue
from planning.gang_order import in_order
from planning.planner import is_pending
from planning.quota.usage import QuotaBalance, Usage, needs, usage_of


@dataclass(frozen=True, slots=True)
class QuotaFigures:
    """One quota of a queue, in base units. `free`: what a gang may still take, by borrowing included."""

    flavor: str
    resource: str
    nominal: int
    used: int
    free: int

    @property
    def borrowed(self) -> int:
        """The part of the usage that exceeds the queue's own quota."""
        return max(0, self.used - self.nominal)


@dataclass(frozen=True, slots=True)
class GangInQueue:
    """A gang of a queue. `amounts`: what it uses or needs of each resource with a quota, in base units."""

    key: GangKey
    local_queue: str
    amounts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class QueueReport:
    """A queue with its quotas, the gangs that use them, the largest first, and the gangs that wait, the first first."""

    name: str
    cohort: str
    quotas: tuple[QuotaFigures, ...]
    using: tuple[GangInQueue, ...]
    waiting: tuple[GangInQueue, ...]

    @property
    def local_queues(self) -> frozenset[str]:
        """The names by which its gangs name it, as `namespace/name`."""
        return frozenset(each.local_queue for each in (*self.using, *self.waiting))


def queue_reports(gangs: Sequence[Gang], snapshot: Snapshot) -> list[QueueReport]:
    """Return a report on each queue that a gang is charged to, and on each queue of their cohorts, by name."""
    accounts: dict[str, tuple[ClusterQueue, Account]] = {}
    for account in (gang.account for gang in gangs if gang.account is not None):
        accounts |= {each.name: (each, account) for each in account.cohort if each.name not in accounts}
        accounts[account.queue.name] = account.queue, account
    usage = usage_of(gangs, snapshot)
    return [_report(queue, account, gangs, usage) for _, (queue, account) in sorted(accounts.items())]


def _report(queue: ClusterQueue, account: Account, gangs: Iterable[Gang], usage: Usage) -> QueueReport:
    quotas = tuple(_quotas(queue, account, usage))
    own = [gang for gang in gangs if gang.account is not None and gang.account.queue.name == queue.name]
    resources = {each.resource for each in quotas}
    using = [_in_queue(gang, _used(gang, queue, usage)) for gang in own]
    pending = in_order(gang for gang in own if is_pending(gang))
    waiting = [
        _in_queue(gang, {name: amount for name, amount in needs(gang.members).items() if name in resources})
        for gang in pending
        if gang.key not in usage.by_gang
    ]
    users = sorted((each for each in using if each.amounts), key=lambda each: (-max(each.amounts.values()), each.key))
    return QueueReport(queue.name, queue.cohort, quotas, tuple(users), tuple(waiting))


def _quotas(queue: ClusterQueue, account: Account, usage: Usage) -> Iterator[QuotaFigures]:
    for group in queue.groups:
        for flavor in group.flavors:
            for quota in flavor.quotas:
                balance = QuotaBalance(queue, flavor.flavor, quota.resource, account.cohort, account.cohorts)
                used = usage.of(queue.name, flavor.flavor, quota.resource)
                yield QuotaFigures(flavor.flavor, quota.resource, balance.nominal, used, max(0, balance.left(usage)))


def _used(gang: Gang, queue: ClusterQueue, usage: Usage) -> Mapping[str, int]:
    used: dict[str, int] = {}
    for (name, _, resource), amount in usage.by_gang.get(gang.key, {}).items():
        if name == queue.name and amount:
            used[resource] = used.get(resource, 0) + amount
    return used


def _in_queue(gang: Gang, amounts: Mapping[str, int]) -> GangInQueue:
    return GangInQueue(gang.key, f"{gang.key.namespace}/{gang.queue or ''}", amounts)
