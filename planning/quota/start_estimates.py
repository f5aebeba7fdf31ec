"""Estimates when gangs that wait for quota can start, from the expected ends of the gangs that use the quota.

An estimate assumes that each gang with a known end runs until then, and that all other gangs go on. Gangs start in
planning order. Free capacity is not considered: quota is the only thing that a gang waits for.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from cluster.times import instant
from gangs.manifests import group_of
from gangs.model import Gang, GangKey, Manifest
from gangs.quota_model import Account
from gangs.sources import Sources
from gangs.workloads.expected_duration import expected_seconds
from kube import keys
from planning.decision import Refusal
from planning.quota.flavors import Choice, choices
from planning.quota.usage import QuotaBalance, Usage, needs, used_by
from planning.stories.facts import placed_at, shown_key

MOST_WAITING, MOST_ENDS = 20, 200
"""The most gangs of a queue that get an estimate, and the most ends that are considered. They bound the time."""
LONGEST = timedelta(days=3650)
"""Longer durations than this are ignored: they are no estimate of an end."""
End = tuple[datetime, str, GangKey]
"""The expected end of a gang that uses quota: the time, the gang's name as text, which breaks ties, and its key."""


class EstimatedStart(NamedTuple):
    """When a waiting gang's quota will be free, and the gang whose end frees the last part of it."""

    at: datetime
    after: GangKey


@dataclass(frozen=True, slots=True)
class ExpectedEnds:
    """When gangs end. `ends`: the expected end of running gangs. `durations`: how long a gang runs after its start.

    `never`: gangs that fit nowhere, even in an empty cluster, so they never start. No estimate waits for them.
    """

    ends: Mapping[GangKey, datetime] = field(default_factory=dict)
    durations: Mapping[GangKey, timedelta] = field(default_factory=dict)
    never: frozenset[GangKey] = frozenset()


def expected_ends_of(gangs: Iterable[Gang], sources: Sources, now: datetime) -> ExpectedEnds:
    """Return the ends and durations that the gangs' workloads state.

    The annotation `phalanx.dev/expected-duration` counts from the time at which the gang was placed. The field
    `activeDeadlineSeconds` counts from the workload's `startTime`. The annotation is preferred until its time is over.
    """
    ends, durations = dict[GangKey, datetime](), dict[GangKey, timedelta]()
    statuses = _statuses(sources)
    for gang in gangs:
        ref = gang.source
        manifest = sources.get(group_of(ref.api_version), ref.kind, ref.namespace, ref.name)
        if manifest is None:
            continue
        expected, longest = _expected(manifest), _deadline(manifest)
        if (duration := expected or longest) is not None:
            durations[gang.key] = duration
        if expected is not None:
            began = placed_at(statuses.get(gang.key) or {})
            if began is not None and began + expected > now:
                ends[gang.key] = began + expected
        start = instant(_section(manifest, "status").get("startTime"))
        if longest is not None and start is not None:
            ends.setdefault(gang.key, start + longest)
    never = (key for key, status in statuses.items() if status.get("reason") == Refusal.NEVER_FITS.value)
    return ExpectedEnds(ends, durations, frozenset(never))


def _statuses(sources: Sources) -> Mapping[GangKey, Mapping[str, Any]]:
    """Return the status of each Gang object, by the gang that it shows."""
    shown = ((shown_key(each), _section(each, "status")) for each in sources.of_kind(keys.GROUP, "Gang"))
    return {key: status for key, status in shown if key is not None}


def nearest_ends(usage: Usage, expected: ExpectedEnds, now: datetime) -> Sequence[End]:
    """Return the next ends of gangs that use quota, in order of time. An end in the past counts as now."""
    ends = ((max(end, now), str(key), key) for key, end in expected.ends.items() if key in usage.by_gang)
    return heapq.nsmallest(MOST_ENDS, ends)


def estimated_starts(
    account: Account,
    waiting: Sequence[Gang],
    usage: Usage,
    expected: ExpectedEnds,
    *,
    ends: Sequence[End],
    now: datetime,
) -> Mapping[GangKey, EstimatedStart]:
    """Return when the waiting gangs of a queue can start, as far as known ends free enough quota.

    If an earlier gang of the queue starts at the same time, both estimates name the gang whose end lets both start.

    A gang for which the quota is free now has no estimate, because it does not wait for quota.

    :param waiting: the gangs of the account's queue, in planning order.
    :param usage: the quota that all gangs use.
    :param ends: `nearest_ends` of this usage, computed once for all queues.
    """
    events = list(ends)
    at, last, found = now, None, dict[GangKey, EstimatedStart]()
    for gang in waiting[:MOST_WAITING]:
        choice = _fitting(gang, account, usage)
        while choice is None and events:
            at, _, ended = heapq.heappop(events)
            usage, last = usage.without(ended), ended
            choice = _fitting(gang, account, usage)
        if choice is None:
            break
        if at > now and last is not None:
            found[gang.key] = EstimatedStart(at, last)
        usage = usage.having(gang.key, used_by(gang, gang.members, choice))
        longest = expected.durations.get(gang.key)
        # A Job that is not suspended has its startTime before its pods are released.
        end = expected.ends.get(gang.key) or (None if longest is None else at + longest)
        if end is not None:
            heapq.heappush(events, (max(end, at), str(gang.key), gang.key))
    return found


def _fitting(gang: Gang, account: Account, usage: Usage) -> Choice | None:
    """Return the first choice of flavors whose free quota suffices for the gang; None if there is none."""
    wanted, total = needs(gang.members), usage.in_total()
    for choice in choices(account.queue, wanted):
        balances = {
            name: QuotaBalance(account.queue, flavor, name, account.cohort, account.cohorts)
            for name, flavor in choice.items()
        }
        if all(wanted[name] <= balance.left(total) for name, balance in balances.items()):
            return choice
    return None


def _expected(manifest: Manifest) -> timedelta | None:
    """Return how long a workload is expected to run, by its annotation `phalanx.dev/expected-duration`; None without
    it.
    """
    annotations = _section(_section(manifest, "metadata"), "annotations")
    seconds = expected_seconds({key: each for key, each in annotations.items() if isinstance(each, str)})
    return None if seconds is None or seconds > LONGEST.total_seconds() else timedelta(seconds=seconds)


def _deadline(manifest: Manifest) -> timedelta | None:
    """Return how long a workload may run (`activeDeadlineSeconds`); None if it has no limit.

    A Job or RayJob has the field in its spec, Kubeflow's jobs have it in `runPolicy`.
    """
    spec = _section(manifest, "spec")
    for holder in (spec, _section(spec, "runPolicy")):
        seconds = holder.get("activeDeadlineSeconds")
        if isinstance(seconds, int) and not isinstance(seconds, bool) and 0 < seconds <= LONGEST.total_seconds():
            return timedelta(seconds=seconds)
    return None


def _section(manifest: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = manifest.get(name)
    return found if isinstance(found, Mapping) else {}
