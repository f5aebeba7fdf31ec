"""The controller's Prometheus metrics. Only the leader reports gangs. Every replica reports whether it leads.

The number of series is bounded: labels are dialects, phases, outcomes, causes, and the levels of the cluster's
topologies. No gang, pod or node has a series of its own. `ClusterMetrics` has the metrics of capacity, namespaces and
queues.
"""

import contextlib
from collections import Counter as Tally
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from cluster.caches.freshness import Freshness, Watched
from controller.cluster_view import ClusterView
from controller.gang_status import Phase
from controller.release.next_step import Cause
from controller.telemetry.cluster_metrics import ClusterMetrics, WaitingGang, lacks_devices, waiting_since
from gangs.dialects.table import DIALECTS
from gangs.model import GangKey
from planning.decision import Decision
from solver.objective import is_of_level
from timing.clock import SYSTEM_CLOCK, Clock

CONTENT_TYPE = CONTENT_TYPE_LATEST

_SOLVE_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_PLACES = tuple((dialect.name, phase) for dialect in DIALECTS for phase in Phase)
"""The label values of `phalanx_gangs`. Each has a value from the first reconcile on."""
_ROUND_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_GANG_SECONDS = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)


_CLASSES = ((1, "1"), (8, "2-8"), (64, "9-64"), (512, "65-512"))
_LARGER = "513-"


def size_class(pods: int) -> str:
    """Return the class of a gang's size: "1", "2-8", "9-64", "65-512" or "513-" pods."""
    return next((name for most, name in _CLASSES if pods <= most), _LARGER)


@dataclass(frozen=True, slots=True)
class GangSample:
    """The state of one gang at the end of a reconcile, as observers receive it.

    `created`: when the gang's first object was created (RFC 3339); "" if unknown. `status` and `uid`: of its Gang
    object; empty if there is none.
    """

    key: GangKey
    phase: Phase
    created: str
    status: Mapping[str, Any]
    uid: str = ""


class Observer(Protocol):
    """Receives the changed states of gangs at the end of each reconcile, for metrics or traces."""

    def stand(
        self,
        changed: Sequence[GangSample],
        invalid: Sequence[GangKey] = (),
        gone: Collection[GangKey] | None = None,
    ) -> None:
        """Receive the new states of these gangs. The states of other gangs have not changed.

        :param invalid: all gangs whose requests cannot be read.
        :param gone: gangs that no longer exist. None: `changed` contains all existing gangs.
        """


class _Tallies:
    """Two counts over all gangs: gangs by phase, and domains that plans use beyond the proven minimum.

    Each change of one gang updates them, so the cost does not depend on the number of gangs.
    """

    def __init__(self) -> None:
        self.gangs: Tally[tuple[str, Phase]] = Tally()
        """Gangs that can be read, by dialect and phase."""
        self.above: Tally[str] = Tally()
        """By level: how many domains all plans together use beyond the lower bounds that are proven for them."""
        self.namespaces: Tally[tuple[str, Phase]] = Tally()
        """Gangs by namespace and phase."""
        self.unplaced: dict[GangKey, WaitingGang] = {}
        """The gangs that are not placed."""
        self._planned: Tally[str] = Tally()
        """By level: how many gangs have a plan that minimizes the domains of this level."""
        self._samples: dict[GangKey, GangSample] = {}

    def put(self, sample: GangSample) -> None:
        """Count a gang in its new state, and no longer in its old state."""
        self.drop(sample.key)
        self._samples[sample.key] = sample
        self._add(sample, 1)
        since = waiting_since(sample.status, sample.created)
        if sample.phase is not Phase.PLACED and since is not None:
            reason = str(sample.status.get("reason") or sample.phase.value)
            self.unplaced[sample.key] = WaitingGang(sample.key.namespace, reason, since, lacks_devices(sample.status))

    def drop(self, key: GangKey) -> None:
        """Remove a gang from all counts, because it no longer exists."""
        if before := self._samples.pop(key, None):
            self._add(before, -1)
            self.unplaced.pop(key, None)

    def _add(self, sample: GangSample, sign: int) -> None:
        self.gangs[sample.key.dialect, sample.phase] += sign
        of_namespace = sample.key.namespace, sample.phase
        self.namespaces[of_namespace] += sign
        if not self.namespaces[of_namespace]:
            del self.namespaces[of_namespace]
        for goal in sample.status.get("objective") or () if sample.phase.planned else ():
            if is_of_level(goal["goal"]):
                level = goal["goal"].partition("/")[2]
                self.above[level] += sign * (goal["value"] - goal["bound"])
                self._planned[level] += sign
                if not self._planned[level]:
                    del self._planned[level], self.above[level]


@dataclass(frozen=True, slots=True)
class _Seen:
    """The last state of a gang. `placed`: whether the gang was ever placed.

    `since`: when its phase began, in monotonic seconds; None if it began before this leader saw the gang.
    """

    phase: Phase
    since: float | None
    placed: bool


class Metrics:
    """The Prometheus metrics of one controller replica. It is an `Observer` of gangs."""

    def __init__(self, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._seen: dict[GangKey, _Seen] = {}
        self._first_round = True
        self._shown: Mapping[tuple[str, Phase], int] | None = None
        """By dialect and phase: the present values of `phalanx_gangs` that are not 0; None before the first reconcile
        of a term. Only values that change are set.
        """
        self._tallies = _Tallies()
        self.registry = CollectorRegistry()
        self._cluster = ClusterMetrics(clock=clock)
        self._leader = Gauge("phalanx_leader", "1 while this replica leads", registry=self.registry)
        self.round_seconds = Histogram(
            "phalanx_round_duration_seconds",
            "Time of one reconcile over all gangs, by outcome: done, failed, or lost (the leader's term ended)",
            ("outcome",),
            buckets=_ROUND_SECONDS,
            registry=self.registry,
        )
        self._of_gangs(self.registry)
        self._of_plans(self.registry)
        self._of_members(self.registry)
        self._of_planning(self.registry)
        self.registry.register(self._cluster)

    def _of_gangs(self, registry: CollectorRegistry) -> None:
        self.gang_errors = Counter(
            "phalanx_gang_errors",
            "Internal errors of Phalanx at one gang, by the activity that failed: looking, planning, acting, telling",
            ("doing",),
            registry=registry,
        )
        for doing in ("looking", "planning", "acting", "telling"):
            self.gang_errors.labels(doing)
        self._gangs = Gauge("phalanx_gangs", "Gangs by phase", ("dialect", "phase"), registry=registry)
        self._phase_seconds = Histogram(
            "phalanx_gang_phase_duration_seconds",
            "Time gangs spent in a phase that they have left",
            ("dialect", "phase"),
            buckets=_GANG_SECONDS,
            registry=registry,
        )
        self._bound_seconds = Histogram(
            "phalanx_gang_time_to_bound_seconds",
            "Time from the first object of a gang to all its planned members bound",
            ("dialect",),
            buckets=_GANG_SECONDS,
            registry=registry,
        )
        self._waits = Histogram(
            "phalanx_gang_wait_seconds",
            "Time from the first object of a gang to all its planned members bound, by the number of its pods",
            ("size",),
            buckets=_GANG_SECONDS,
            registry=registry,
        )
        self._domains_above = Gauge(
            "phalanx_domains_above_minimum",
            "Domains that gangs with a plan use beyond what is proven to be the fewest, by level",
            ("level",),
            registry=registry,
        )

    def _of_plans(self, registry: CollectorRegistry) -> None:
        self._plans = Counter("phalanx_plans", "Planning results of gangs", ("outcome", "proof"), registry=registry)
        self._plan_seconds = Histogram(
            "phalanx_plan_duration_seconds",
            "Time to plan one gang, by step: snapshot (building the problem) or solve",
            ("stage",),
            buckets=_SOLVE_SECONDS,
            registry=registry,
        )

    def _of_members(self, registry: CollectorRegistry) -> None:
        self._victims = Counter("phalanx_victims", "Pods evicted for gangs", ("dialect",), registry=registry)
        self.untried = Gauge(
            "phalanx_untried_members",
            "Members that were released and that no scheduler has tried in time",
            registry=registry,
        )
        self.made_again = Counter(
            "phalanx_members_made_again",
            "Members deleted to be recreated because the scheduler that they name does not run here",
            registry=registry,
        )
        self.withdrawn = Counter(
            "phalanx_gangs_withdrawn",
            "Gangs withdrawn: some members had started and the others could not start, so all were evicted",
            registry=registry,
        )
        self.restarted = Counter(
            "phalanx_gangs_restarted",
            "Gangs that were evicted as a whole because a lost member could not be replaced beside the others",
            registry=registry,
        )

    def _of_planning(self, registry: CollectorRegistry) -> None:
        self._replans = Counter(
            "phalanx_replans", "Plans invalidated before release, by cause", ("cause",), registry=registry
        )
        for cause in Cause:
            self._replans.labels(cause.value)
        self._planning = Gauge("phalanx_gangs_being_planned", "Gangs that are being planned now", registry=registry)
        self._stale = Counter(
            "phalanx_stale_plans",
            "Plans that were stale when a reconcile took them up, and were replaced",
            registry=registry,
        )

    def watch(self, watched: Watched) -> None:
        """Also report how fresh these watch caches are (`cluster.caches.freshness`)."""
        self.registry.register(Freshness(watched))

    @contextlib.contextmanager
    def leading(self) -> Iterator[None]:
        """Report this replica as the leader until the `with` block ends. Drop data on gangs from an earlier term."""
        self._first_round = True
        self._seen.clear()
        self._tallies = _Tallies()
        self._leader.set(1)
        try:
            yield
        finally:
            self._leader.set(0)
            self._gangs.clear()
            self._shown = None
            self._planning.set(0)
            self._domains_above.clear()
            self._cluster.forget()

    def see(self, cluster_view: ClusterView) -> None:
        """Remember the cluster view of a reconcile, so that the next scrape shows its capacity and queues."""
        self._cluster.see(cluster_view.snapshot, cluster_view.topologies, cluster_view.reading.gangs)

    def decided(self, decisions: Iterable[Decision]) -> None:
        """Count these planning decisions by outcome and proof, and their planning times by step ("snapshot" or
        "solve").
        """
        for each in decisions:
            self._plans.labels(each.outcome.value, each.proof or "None").inc()
            for stage, seconds in each.seconds.items():
                self._plan_seconds.labels(stage).observe(seconds)

    def planning(self, gangs: int) -> None:
        """Set the gauge of gangs that are being planned now."""
        self._planning.set(gangs)

    def stale(self) -> None:
        """Count a plan that was found stale, so that its gang is replanned."""
        self._stale.inc()

    def evicted(self, dialect: str) -> None:
        """Count a victim that was evicted for a gang of this dialect."""
        self._victims.labels(dialect).inc()

    def invalidated(self, cause: Cause) -> None:
        """Count a plan that was invalidated before its gang was released."""
        self._replans.labels(cause.value).inc()

    def stand(
        self,
        changed: Sequence[GangSample],
        invalid: Sequence[GangKey] = (),
        gone: Collection[GangKey] | None = None,
    ) -> None:
        """Update the metrics of gangs at the end of a reconcile.

        The phase in which a new leader first finds a gang began at an unknown time, so its duration is not counted.

        :param changed: the gangs whose state has changed; all existing gangs if `gone` is None.
        :param invalid: all gangs whose requests cannot be read.
        :param gone: gangs that no longer exist; None: `changed` has all existing gangs.
        """
        if gone is None:
            gone = self._seen.keys() - {each.key for each in changed}
        for key in gone:
            self._tallies.drop(key)
            self._seen.pop(key, None)
        for each in changed:
            self._tallies.put(each)
            self._advance(each)
        self._first_round = False
        tally = self._tallies.gangs + Tally((key.dialect, Phase.INVALID) for key in invalid)
        shown, self._shown = self._shown, tally
        places = _PLACES if shown is None else {place for place, _ in tally.items() ^ shown.items()}
        for dialect, phase in places:
            self._gangs.labels(dialect, phase.value).set(tally[dialect, phase])
        namespaces = self._tallies.namespaces + Tally((key.namespace, Phase.INVALID) for key in invalid)
        self._cluster.stand(namespaces, list(self._tallies.unplaced.values()))
        self._domains_above.clear()
        for level, domains in self._tallies.above.items():
            self._domains_above.labels(level).set(domains)

    def text(self) -> bytes:
        """Return all metrics of the replica in Prometheus' text format: its own metrics, and those of its process and
        its events.
        """
        return generate_latest(self.registry) + generate_latest(REGISTRY)

    def _advance(self, standing: GangSample) -> None:
        now, before = self._clock.monotonic(), self._seen.get(standing.key)
        if before is not None and before.phase is standing.phase:
            return
        placed = standing.phase is Phase.PLACED
        unseen = before is None and self._first_round
        if before is not None and before.since is not None:
            self._phase_seconds.labels(standing.key.dialect, before.phase.value).observe(now - before.since)
        if placed and not unseen and not (before and before.placed) and standing.created:
            created = datetime.fromisoformat(standing.created).timestamp()
            waited = max(0.0, self._clock.wall().timestamp() - created)
            self._bound_seconds.labels(standing.key.dialect).observe(waited)
            pods = int((standing.status.get("members") or {}).get("expected") or 0)
            self._waits.labels(size_class(pods)).observe(waited)
        self._seen[standing.key] = _Seen(
            standing.phase, None if unseen else now, placed=placed or (before is not None and before.placed)
        )
