"""Quotas that several gangs share, as plain data: the tree of queues and cohorts, and what each member uses."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QuotaShare:
    """A queue or a cohort, as one entry of the tree that divides a quota. All amounts are in one unit.

    `parent`: the position in `Quota.shares` of the cohort above it, which is greater than its own position; None at the
    top. `quota`: its nominal quota plus the part that the queues and cohorts below it lend. `kept`: the part of `quota`
    that it does not lend. `limit`: the most that it may use, namely `quota` plus its borrowing limit; None: no such
    limit. `used`: the use of pods outside the problem that are charged to it directly.
    """

    parent: int | None
    quota: int
    kept: int = 0
    limit: int | None = None
    used: int = 0


@dataclass(frozen=True, slots=True)
class QuotaCharge:
    """Every placed member of `shape` in set `pod_set` uses `amount` of the quota of the queue at position `share` in
    `Quota.shares`.
    """

    share: int
    pod_set: int
    shape: int
    amount: int


@dataclass(frozen=True, slots=True)
class Quota:
    """The quota of one resource in one flavor.

    `shares`: the queues and cohorts that divide the quota. `charges`: how much of it each placed member uses. The part
    of the use of a queue or cohort beyond its `kept` counts as use of its parent. If members charged to a queue are
    newly placed, the queue must stay within its limit. The limits of all cohorts above it and the quota of the topmost
    cohort must hold as well. If a queue or cohort uses less than `kept`, the difference offsets overuse in the cohorts
    above it (Kueue, pkg/cache/scheduler/resource_node.go).
    """

    name: str
    shares: tuple[QuotaShare, ...]
    charges: tuple[QuotaCharge, ...]
