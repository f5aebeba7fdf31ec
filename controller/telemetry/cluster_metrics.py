"""Metrics of capacity, namespaces and queues: a collector that computes them at a scrape from the last cluster view.

The number of series is bounded. The largest `MOST_NAMESPACES` namespaces have series of their own, and the others share
the label `REST`. The first `MOST_QUEUES` queues and `MOST_CLASSES` DeviceClasses have series, and the others have none.
No gang, pod, node or device has a series of its own.
"""

import threading
from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cluster.snapshot import Snapshot
from cluster.times import instant
from cluster.topology.capacity import CPU, CapacityFigures, CapacityReader
from controller.gang_status import CLAIMS_MISSING, DEVICES_LEAVING, Phase
from gangs.model import Gang
from kube.keys import GATE
from kube.topology import Topology
from planning.decision import WaitReason
from planning.devices.counts import ClassCount, class_counts
from planning.queue_report import QueueReport, queue_reports
from timing.clock import SYSTEM_CLOCK, Clock

_REASONS_OF_DEVICES = (WaitReason.RESOURCE_CLAIMS.value, CLAIMS_MISSING, DEVICES_LEAVING)
KEPT_SECONDS = 15.0
"""For this long all scrapers get the same figures, so many scrapers cause no more work than one."""
MOST_NAMESPACES = 200
"""The most namespaces with series of their own: the ones with most gangs, or with the largest use."""
MOST_QUEUES = 500
"""The most queues with series. Further queues have none."""
MOST_CLASSES = 100
"""The most DeviceClasses with series, by name. Further classes have none."""
REST = "_other"
"""The label value that all further namespaces share. No namespace has this name, because it contains an underscore."""


@dataclass(frozen=True, slots=True)
class WaitingGang:
    """A gang that is not placed. `reason`: the reason in its status. `since`: when it was created, or when it last
    ceased to be placed. `lacks_devices`: whether it waits for devices, or for claims of devices.
    """

    namespace: str
    reason: str
    since: datetime
    lacks_devices: bool = False


@dataclass(frozen=True, slots=True)
class ClusterFigures:
    """The parts of a cluster view from which the metrics of capacity and queues are computed."""

    snapshot: Snapshot
    topologies: Sequence[Topology]
    gangs: Sequence[Gang]


def waiting_since(status: Mapping[str, Any], created: str) -> datetime | None:
    """Return since when a gang waits: since its condition `Placed` became False, else since its creation.

    None if neither time is known.

    :param created: the creation time (RFC 3339).
    """
    lost = (
        each.get("lastTransitionTime")
        for each in status.get("conditions") or ()
        if each.get("type") == "Placed" and each.get("status") == "False"
    )
    return instant(next(lost, None)) or instant(created)


def lacks_devices(status: Mapping[str, Any]) -> bool:
    """Return whether a gang waits for devices, by its status: its reason names devices or claims, or the domain nearest
    to holding the rejected gang lacks devices.
    """
    near = (status.get("explanation") or {}).get("nearest") or ()
    short = any(each["free"] < each["needed"] for each in (near[0].get("devices") or () if near else ()))
    return status.get("reason") in _REASONS_OF_DEVICES or short


class ClusterMetrics(Collector):
    """The Prometheus collector of the metrics of capacity, namespaces and queues. Safe to share between threads,
    because a scrape only reads objects that nothing changes later.
    """

    def __init__(self, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._view: ClusterFigures | None = None
        self._phases: Mapping[tuple[str, Phase], int] = {}
        self._waiting: Iterable[WaitingGang] = ()
        self._reader = CapacityReader()
        self._computed: ClusterFigures | None = None
        self._families: Sequence[Metric] = ()
        self._until = 0.0

    def see(self, snapshot: Snapshot, topologies: Sequence[Topology], gangs: Sequence[Gang]) -> None:
        """Remember the cluster view of a reconcile. The next scrape computes the figures from it."""
        self._view = ClusterFigures(snapshot, topologies, gangs)

    def stand(self, phases: Mapping[tuple[str, Phase], int], waiting: Sequence[WaitingGang]) -> None:
        """Remember the numbers of gangs by namespace and phase, and the gangs that are not placed."""
        self._phases, self._waiting = phases, waiting

    def forget(self) -> None:
        """Report nothing from now on, because another replica leads."""
        with self._lock:
            self._view, self._computed, self._families = None, None, ()
            self._phases, self._waiting = {}, ()
            self._reader = CapacityReader()

    def describe(self) -> Iterable[Metric]:
        """Return the metrics without samples, from which Prometheus' registry learns their names."""
        return [*_of_capacity(CapacityFigures()), *_of_devices(()), *_of_queues(()), *self._of_gangs({}, ())]

    def collect(self) -> Iterable[Metric]:
        """Return the metrics. The figures of capacity and queues are at most `KEPT_SECONDS` older than the view."""
        yield from self._of_gangs(self._phases, self._waiting)
        with self._lock:
            view, now = self._view, self._clock.monotonic()
            if view is not None and view is not self._computed and now >= self._until:
                reports = queue_reports(view.gangs, view.snapshot)[:MOST_QUEUES]
                capacity = self._reader.read(view.snapshot, view.topologies)
                devices = _class_counts(view)
                self._families = [*_of_capacity(capacity), *_of_devices(devices), *_of_queues(reports)]
                self._computed, self._until = view, now + KEPT_SECONDS
            families = self._families
        yield from families

    def _of_gangs(
        self, phases: Mapping[tuple[str, Phase], int], waiting: Iterable[WaitingGang]
    ) -> Iterator[GaugeMetricFamily]:
        gangs = GaugeMetricFamily(
            "phalanx_namespace_gangs", "Gangs by namespace and phase", labels=("namespace", "phase")
        )
        shown = _largest(_sums((name, count) for (name, _), count in phases.items()))
        counts = _sums(((shown.get(name, REST), phase.value), count) for (name, phase), count in phases.items())
        for (namespace, phase), count in sorted(counts.items()):
            gangs.add_metric((namespace, phase), count)
        yield gangs
        oldest = GaugeMetricFamily(
            "phalanx_gang_oldest_wait_seconds",
            "Longest present wait of a gang without a place, by namespace and reason",
            labels=("namespace", "reason"),
        )
        now = self._clock.wall()
        longest: dict[tuple[str, str], float] = {}
        for each in waiting:
            key = shown.get(each.namespace, REST), each.reason
            longest[key] = max(longest.get(key, 0.0), (now - each.since).total_seconds())
        for key, seconds in sorted(longest.items()):
            oldest.add_metric(key, seconds)
        yield oldest
        lacking = GaugeMetricFamily(
            "phalanx_gangs_waiting_for_devices",
            "Gangs that are not placed and wait for devices or for their ResourceClaims, by reason",
            labels=("reason",),
        )
        for reason, count in sorted(Tally(each.reason for each in waiting if each.lacks_devices).items()):
            lacking.add_metric((reason,), count)
        yield lacking


def _of_capacity(figures: CapacityFigures) -> Iterator[GaugeMetricFamily]:
    capacity = GaugeMetricFamily(
        "phalanx_capacity",
        "Capacity of all nodes, in cores or pieces, by state: free, used, reserved, terminating, closed",
        labels=("resource", "state"),
    )
    for resource, states in figures.by_state.items():
        for state, amount in states.items():
            capacity.add_metric((resource, state), _in_units(resource, amount))
    yield capacity
    startable = GaugeMetricFamily(
        "phalanx_startable_pods",
        "Pods of `size` that could start together in one domain of a level now, without evictions",
        labels=("topology", "level", "resource", "size"),
    )
    for each in figures.startable:
        size = _in_units(each.resource, each.size)
        startable.add_metric((each.topology, each.level, each.resource, f"{size:g}"), each.pods)
    yield startable
    fragmentation = GaugeMetricFamily(
        "phalanx_fragmented_capacity_ratio",
        "Part of the free capacity that is in partly used domains of a level, 0 to 1",
        labels=("topology", "level", "resource"),
    )
    for part in figures.fragmentation:
        fragmentation.add_metric((part.topology, part.level, part.resource), part.ratio)
    yield fragmentation
    used = GaugeMetricFamily(
        "phalanx_namespace_used",
        "Capacity that pods of a namespace use, in cores or pieces; terminating pods are not counted",
        labels=("namespace", "resource"),
    )
    shown = _largest(_sums((name, amount) for (name, _), amount in figures.used_by.items()))
    by_name = _sums(((shown.get(name, REST), resource), amount) for (name, resource), amount in figures.used_by.items())
    for (namespace, resource), amount in sorted(by_name.items()):
        used.add_metric((namespace, resource), _in_units(resource, amount))
    yield used


def _class_counts(view: ClusterFigures) -> Sequence[ClassCount]:
    """Return the numbers of devices by DeviceClass; empty if Phalanx plans no devices."""
    devices = view.snapshot.devices
    if devices is None or not devices.classes:
        return ()
    gated = {each.pod.key for gang in view.gangs for each in gang.members if each.pod.gated_by(GATE)}
    return class_counts(devices, gated, MOST_CLASSES)


def _of_devices(counts: Iterable[ClassCount]) -> Iterator[GaugeMetricFamily]:
    devices = GaugeMetricFamily(
        "phalanx_devices",
        "Devices that match a DeviceClass, by state: free, held (for gangs that are not released), used",
        labels=("device_class", "state"),
    )
    for each in counts:
        for state, amount in (("free", each.free), ("held", each.held), ("used", each.used)):
            devices.add_metric((each.name, state), amount)
    yield devices


def _of_queues(reports: Iterable[QueueReport]) -> Iterator[GaugeMetricFamily]:
    quota = GaugeMetricFamily(
        "phalanx_queue_quota",
        "Quota of a queue, in cores, bytes or pieces, by figure: nominal, used, borrowed, lent, free",
        labels=("queue", "flavor", "resource", "figure"),
    )
    gangs = GaugeMetricFamily(
        "phalanx_queue_gangs", "Gangs that use the quota of a queue or wait for it", labels=("queue", "state")
    )
    for report in reports:
        for each in report.quotas:
            amounts = (each.nominal, each.used, each.borrowed, each.lent, each.free)
            for figure, amount in zip(("nominal", "used", "borrowed", "lent", "free"), amounts, strict=True):
                labels = report.name, each.flavor, each.resource, figure
                quota.add_metric(labels, _in_units(each.resource, amount))
        gangs.add_metric((report.name, "using"), len(report.using))
        gangs.add_metric((report.name, "waiting"), len(report.waiting))
    yield quota
    yield gangs


def _in_units(resource: str, amount: float) -> float:
    """Return an amount of `cpu` in cores instead of millicores. Other amounts are returned as they are."""
    return amount / 1000 if resource == CPU else amount


def _sums(pairs: Iterable[tuple[Any, int]]) -> "Tally[Any]":
    """Return the sum of the amounts of each key."""
    found: Tally[Any] = Tally()
    for key, amount in pairs:
        found[key] += amount
    return found


def _largest(amounts: "Tally[str]") -> Mapping[str, str]:
    """Return the namespaces that have series of their own, each with the value of their label, which is its name.

    A caller gives namespaces that are not in the mapping the label `REST`.

    :param amounts: by namespace; the largest `MOST_NAMESPACES` amounts count.
    """
    return {name: name for name, _ in amounts.most_common(MOST_NAMESPACES)}
