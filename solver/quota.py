"""Quotas that several gangs share, as plain data."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QuotaShare:
    """A queue or a cohort in the tree that shares one quota. All amounts are in one unit.

    `parent`: position of the cohort above it in `Quota.shares`, greater than its own; None at the top. `quota`: its
    nominal quota plus the part that the shares below it lend. `kept`: the part of `quota` that it lends to no other
    share. `limit`: the most that it may use: `quota` plus its borrowing limit; None: no such limit. `used`: the use of
    pods outside the problem that are charged to it directly.
    """

    parent: int | None
    quota: int
    kept: int = 0
    limit: int | None = None
    used: int = 0


@dataclass(frozen=True, slots=True)
class QuotaCharge:
    """Every placed member of `shape` in set `pod_set` uses `amount` of the share at position `share`."""

    share: int
    pod_set: int
    shape: int
    amount: int


@dataclass(frozen=True, slots=True)
class Quota:
    """The quota of one resource in one flavor, which queues and cohorts share.

    A share's use beyond `kept` counts in its parent. If members charged to a share are newly placed, the share stays
    within its limit. The limits of the shares above it and the quota of the topmost share hold as well. If a share uses
    less than `kept`, the difference offsets overuse in the shares above it (Kueue,
    pkg/cache/scheduler/resource_node.go).
    """

    name: str
    shares: tuple[QuotaShare, ...]
    charges: tuple[QuotaCharge, ...]
