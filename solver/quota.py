"""Quotas that several gangs share, as plain data."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QuotaShare:
    """A queue or a cohort in the tree that shares one quota. All amounts are in one unit.

    `parent`: position of the cohort above it in `Quota.shares`, greater than its own; None at the top. `quota`: its
    nominal quota with what the shares below it lend. `kept`: the part of `quota` that it lends to no other share.
    `limit`: the most that it may use, `quota` and its borrowing limit; None: no such limit. `used`: by pods outside the
    problem that are charged to it directly.
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

    What a share uses beyond `kept` counts in its parent. A share whose members are placed anew stays within its limit,
    the limits of the shares above it, and the quota of the topmost share. While it uses less than it keeps, the
    difference offsets what the shares above it have used too much (Kueue, pkg/cache/scheduler/resource_node.go).
    """

    name: str
    shares: tuple[QuotaShare, ...]
    charges: tuple[QuotaCharge, ...]
