"""Reports on queues: the quota, the gangs that use it, and the gangs that wait for it, in planning order."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from cluster.snapshot import Snapshot
from gangs.model import Gang, GangKey
from gangs.quota_model import Account, ClusterQueue
from kube.quantities import LARGEST, amount
from planning.devices.charges import with_charges
from planning.gang_order import in_order
from planning.planner import is_pending
from planning.quota.start_estimates import EstimatedStart, ExpectedEnds, estimated_starts, nearest_ends
from planning.quota.usage import QuotaBalance, Usage, needs, usage_of

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class QuotaFigures:
    """A queue's quota of one resource in one flavor, and its use, in base units.

    `free`: what a further gang can use, including what the queue may borrow. `borrowing_limit` and `lending_limit`: the
    most that the queue may borrow and lend; None: no limit.
    """

    flavor: str
    resource: str
    nominal: int
    used: int
    free: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None

    @property
    def borrowed(self) -> int:
        """The used amount that exceeds the queue's own quota."""
        return max(0, self.used - self.nominal)

    @property
    def lent(self) -> int:
        """The part of the queue's own quota that the queue does not use and cannot take, because other queues borrow
        it.
        """
        return max(0, self.nominal - self.used - self.free)


@dataclass(frozen=True, slots=True)
class GangInQueue:
    """A gang of a queue. `amounts`: what it uses or needs of each resource with a quota, in base units.

    `estimated_start`: when a waiting gang's quota will be free, estimated from the expected ends of the gangs that use
    it (`planning.quota.start_estimates`). `start_after`: the gang whose end decides that time. `expected_end`: when a
    gang that uses quota is expected to end. None: unknown.
    """

    key: GangKey
    local_queue: str
    amounts: Mapping[str, int]
    estimated_start: datetime | None = None
    start_after: GangKey | None = None
    expected_end: datetime | None = None


@dataclass(frozen=True, slots=True)
class QueueReport:
    """A queue with its quotas, the gangs that use the quotas (the largest first), and the gangs that wait (in planning
    order).

    Waiting gangs that can never fit come last.
    """

    name: str
    cohort: str
    quotas: tuple[QuotaFigures, ...]
    using: tuple[GangInQueue, ...]
    waiting: tuple[GangInQueue, ...]

    @property
    def local_queues(self) -> frozenset[str]:
        """The LocalQueues, as `namespace/name`, through which the gangs of the report use this queue."""
        return frozenset(each.local_queue for each in (*self.using, *self.waiting))


NOTHING_KNOWN = ExpectedEnds()


def queue_reports(
    gangs: Sequence[Gang], snapshot: Snapshot, expected: ExpectedEnds = NOTHING_KNOWN, now: datetime | None = None
) -> list[QueueReport]:
    """Return a report on each queue to which a gang is charged, and on each queue of their cohorts, sorted by name.

    :param expected: when gangs end, as far as known.
    :param now: the present time, from which starts are estimated. None: no start is estimated.
    """
    accounts: dict[str, tuple[ClusterQueue, Account]] = {}
    charged: dict[str, list[Gang]] = {}
    for gang in gangs:
        if (account := gang.account) is not None:
            # all gangs of a queue have the same cohort, so the first gang suffices
            if account.queue.name not in charged:
                accounts |= {each.name: (each, account) for each in account.cohort if each.name not in accounts}
            accounts[account.queue.name] = account.queue, account
            charged.setdefault(account.queue.name, []).append(gang)
    charged = {name: [with_charges(each, snapshot) for each in own] for name, own in charged.items()}
    usage = usage_of(gangs, snapshot)
    total, ends = usage.in_total(), () if now is None else nearest_ends(usage, expected, now)
    reports = []
    for name, (queue, account) in sorted(accounts.items()):
        quotas, own = tuple(_quotas(queue, account, total)), charged.get(name, ())
        pending = [gang for gang in in_order(each for each in own if is_pending(each)) if gang.key not in usage.by_gang]
        # Gangs that can never fit come last, and no estimate waits for them.
        line = [gang for gang in pending if gang.key not in expected.never]
        # For a queue with gangs, `account` belongs to one of its gangs. Any of them gives the same estimates.
        starts = {} if now is None else estimated_starts(account, line, usage, expected, ends=ends, now=now)
        pending = [*line, *(gang for gang in pending if gang.key in expected.never)]
        using = tuple(_using(queue, own, usage, expected))
        reports.append(QueueReport(name, queue.cohort, quotas, using, tuple(_waiting(quotas, pending, starts))))
    return reports


def as_data(report: QueueReport) -> Json:
    """Return the report on a queue as JSON data for programs. Amounts are integers: cpu in millicores, memory in bytes,
    pieces otherwise.
    """
    return {
        "name": report.name,
        "cohort": report.cohort,
        "quotas": [
            {
                "flavor": each.flavor,
                "resource": each.resource,
                "nominal": each.nominal,
                "used": each.used,
                "borrowed": each.borrowed,
                "lent": each.lent,
                "free": each.free,
                "borrowingLimit": each.borrowing_limit,
                "lendingLimit": each.lending_limit,
            }
            for each in report.quotas
        ],
        "using": [{**_gang_data(each), "expectedEnd": _time(each.expected_end)} for each in report.using],
        "waiting": [
            {
                **_gang_data(each),
                "estimatedStart": _time(each.estimated_start),
                "startAfter": None if each.start_after is None else _named(each.start_after),
            }
            for each in report.waiting
        ],
    }


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _named(key: GangKey) -> Json:
    return {"namespace": key.namespace, "name": key.name, "dialect": key.dialect}


def _gang_data(gang: GangInQueue) -> Json:
    return {
        **_named(gang.key),
        "localQueue": gang.local_queue,
        "amounts": dict(gang.amounts),
    }


def _using(queue: ClusterQueue, own: Iterable[Gang], usage: Usage, expected: ExpectedEnds) -> list[GangInQueue]:
    """Return the gangs that use the queue's quota, the largest first."""
    found = [
        replace(_in_queue(gang, _used(gang, queue, usage)), expected_end=expected.ends.get(gang.key)) for gang in own
    ]
    return sorted((each for each in found if each.amounts), key=lambda each: (-max(each.amounts.values()), each.key))


def _waiting(
    quotas: Iterable[QuotaFigures], pending: Iterable[Gang], starts: Mapping[GangKey, EstimatedStart]
) -> Iterator[GangInQueue]:
    resources = {each.resource for each in quotas}
    for gang in pending:
        wanted = {name: need for name, need in needs(gang.members).items() if name in resources}
        waiting, start = _in_queue(gang, wanted), starts.get(gang.key)
        yield waiting if start is None else replace(waiting, estimated_start=start.at, start_after=start.after)


def _quotas(queue: ClusterQueue, account: Account, usage: Usage) -> Iterator[QuotaFigures]:
    for group in queue.groups:
        for flavor in group.flavors:
            for quota in flavor.quotas:
                balance = QuotaBalance(queue, flavor.flavor, quota.resource, account.cohort, account.cohorts)
                used = usage.of(queue.name, flavor.flavor, quota.resource)
                yield QuotaFigures(
                    flavor.flavor,
                    quota.resource,
                    balance.nominal,
                    used,
                    max(0, balance.left(usage)),
                    _limit(quota.resource, quota.borrowing_limit),
                    _limit(quota.resource, quota.lending_limit),
                )


def _limit(resource: str, quantity: str | None) -> int | None:
    return None if quantity is None else min(LARGEST, amount(resource, quantity))


def _used(gang: Gang, queue: ClusterQueue, usage: Usage) -> Mapping[str, int]:
    used: dict[str, int] = {}
    for (name, _, resource), value in usage.by_gang.get(gang.key, {}).items():
        if name == queue.name and value:
            used[resource] = used.get(resource, 0) + value
    return used


def _in_queue(gang: Gang, amounts: Mapping[str, int]) -> GangInQueue:
    return GangInQueue(gang.key, f"{gang.key.namespace}/{gang.queue or ''}", amounts)
