"""Estimated starts of gangs that wait for quota, from the times at which the gangs that use it end at the latest.

An estimate assumes that each gang with a deadline runs until then, and that all other gangs go on. Gangs start in
planning order. Free capacity is not considered: quota is the only thing that a gang waits for.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from cluster.times import instant
from gangs.manifests import group_of
from gangs.model import Gang, GangKey, Manifest
from gangs.quota_model import Account
from gangs.sources import Sources
from planning.quota.flavors import Choice, choices
from planning.quota.usage import QuotaBalance, Usage, needs, used_by

MOST_WAITING, MOST_ENDS = 20, 200
"""The most gangs of a queue that get an estimate, and the most ends that are considered. They bound the time."""
LONGEST = timedelta(days=3650)
"""Longer deadlines say nothing about an end."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """When gangs end at the latest. `ends`: of running gangs. `durations`: how long a gang may run from its start."""

    ends: Mapping[GangKey, datetime] = field(default_factory=dict)
    durations: Mapping[GangKey, timedelta] = field(default_factory=dict)


def deadlines_of(gangs: Iterable[Gang], sources: Sources) -> Deadlines:
    """Return the deadlines that the workloads of the gangs have: `activeDeadlineSeconds`, counted from `startTime`."""
    ends, durations = dict[GangKey, datetime](), dict[GangKey, timedelta]()
    for gang in gangs:
        ref = gang.source
        manifest = sources.get(group_of(ref.api_version), ref.kind, ref.namespace, ref.name)
        if manifest is None or (longest := _deadline(manifest)) is None:
            continue
        durations[gang.key] = longest
        start = instant(_section(manifest, "status").get("startTime"))
        if start is not None:
            ends[gang.key] = start + longest
    return Deadlines(ends, durations)


def estimated_starts(
    account: Account, waiting: Sequence[Gang], usage: Usage, deadlines: Deadlines, now: datetime
) -> Mapping[GangKey, datetime]:
    """Return when waiting gangs of a queue start at the latest, as far as known ends free enough quota.

    A gang for which the quota is free now has no estimate: it waits for something else.

    :param waiting: the gangs of the account's queue, in planning order.
    :param usage: the usage of all gangs.
    """
    events = [(max(end, now), str(key), key) for key, end in deadlines.ends.items() if key in usage.by_gang]
    events = heapq.nsmallest(MOST_ENDS, events)
    at, found = now, dict[GangKey, datetime]()
    for gang in waiting[:MOST_WAITING]:
        choice = _fitting(gang, account, usage)
        while choice is None and events:
            at, _, ended = heapq.heappop(events)
            usage = usage.without(ended)
            choice = _fitting(gang, account, usage)
        if choice is None:
            break
        if at > now:
            found[gang.key] = at
        usage = usage.having(gang.key, used_by(gang, gang.members, choice))
        longest = deadlines.durations.get(gang.key)
        # A Job that is not suspended has its startTime before its pods are released.
        if (end := deadlines.ends.get(gang.key) or (longest and at + longest)) is not None:
            heapq.heappush(events, (max(end, at), str(gang.key), gang.key))
    return found


def _fitting(gang: Gang, account: Account, usage: Usage) -> Choice | None:
    """Return the first choice of flavors in which the gang's quota is free. None if there is none."""
    wanted, total = needs(gang.members), usage.in_total()
    for choice in choices(account.queue, wanted):
        balances = {
            name: QuotaBalance(account.queue, flavor, name, account.cohort, account.cohorts)
            for name, flavor in choice.items()
        }
        if all(wanted[name] <= balance.left(total) for name, balance in balances.items()):
            return choice
    return None


def _deadline(manifest: Manifest) -> timedelta | None:
    """Return how long a workload may run: of a Job or RayJob in its spec, of Kubeflow's jobs in `runPolicy`."""
    spec = _section(manifest, "spec")
    for holder in (spec, _section(spec, "runPolicy")):
        seconds = holder.get("activeDeadlineSeconds")
        if isinstance(seconds, int) and not isinstance(seconds, bool) and 0 < seconds <= LONGEST.total_seconds():
            return timedelta(seconds=seconds)
    return None


def _section(manifest: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = manifest.get(name)
    return found if isinstance(found, Mapping) else {}
