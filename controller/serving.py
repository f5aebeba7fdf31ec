"""Assembles the controller and runs it until it is stopped."""

import contextlib
import faulthandler
import gc
import logging
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass

from cluster.api.connecting import connect
from cluster.api.token_reviews import AccessReviewer
from cluster.caches.cache import ClusterCache
from controller.acting.executing import PlanExecutor
from controller.acting.probe import Probes
from controller.acting.restarting import Restarter
from controller.acting.untried import Reclaimer
from controller.acting.wholeness_marks import WholenessMarker
from controller.acting.withdrawing import PartialGangRollback
from controller.coexistence import CoexistenceReporter
from controller.defaults import RESTART_SECONDS, UNTRIED_SECONDS, WRITES
from controller.error_backoff import ErrorBackoff
from controller.leadership.certificates import Keeping, keep_certificate
from controller.leadership.election import Election, Term
from controller.leadership.lease import timing_of
from controller.loop import ClusterReports, Controller, GangSteps
from controller.scheduling.planning_queue import PlanningQueue
from controller.scheduling.restart_checks import RestartChecks
from controller.scheduling.single_slot_executor import Lanes, ThreadExecutor
from controller.status.described_kinds import DescribedKinds
from controller.status.invalid_gangs import InvalidGangReporter
from controller.status.reporting import Reporter
from controller.status.status_sync import TREE_SECONDS, StatusSync
from controller.status.strays import Strays
from controller.telemetry.metrics import Metrics, Observer
from controller.telemetry.metrics_server import metrics_server
from controller.telemetry.recorder import Recorder
from controller.versions import SchedulerVersion, tell_version
from controller.writes.writer import Writer
from gangs.dialects.protection import protection
from gangs.dialects.table import all_kinds
from planning.solver_pool.pool import shared_workers
from serving.background import BackgroundPort
from serving.memory import keep_little
from solver.problem import Limits
from timing.clock import SYSTEM_CLOCK, Clock

LOG = logging.getLogger(__name__)

SYNC_STEP_SECONDS = 0.5
"""Seconds between two checks for a stop while the caches are filled at start."""
SWITCH_SECONDS = 0.001
"""How long a thread that computes keeps the interpreter while others wait for it; Python's default is 0.005.

The thread that renews the Lease takes the interpreter back after each of some ten system calls. Under load it would
wait each time behind every thread that computes: reconciles, planning, watches.
"""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one controller replica. All times are in seconds.

    `kubeconfig`: the path of a kubeconfig file; None for the service account of the pod.
    `identity`: the name of this replica in the Lease and in events.
    `solve_seconds`: the time limit of one solve.
    `lease_seconds`: the time after which the Lease of a silent leader expires.
    `partly_seconds`: how long a gang that cannot reach its minimum may run in part before it is withdrawn.
    `keeping`: the source of the webhook's certificate.
    `restart_seconds`: how long a lost member must have had no plan before its gang is restarted.
    `topology_seconds`: the least time between two writes of the statuses of topologies.
    `untried_seconds`: how long a scheduler may take to try a released member.
    `writes`: the most concurrent write requests.
    `placeholders`: whether capacity is reserved for pods that their workload creates only when others run.
    `scheduler_version`: the version of the stock scheduler, such as "1.36"; "" to read it from the cluster.
    `observers`: receive the changed states of the gangs after each reconcile.
    """

    kubeconfig: str | None
    identity: str
    solve_seconds: float
    lease_seconds: float
    partly_seconds: float
    keeping: Keeping
    topology_seconds: float = TREE_SECONDS
    untried_seconds: float = UNTRIED_SECONDS
    restart_seconds: float = RESTART_SECONDS
    writes: int = WRITES
    placeholders: bool = True
    scheduler_version: str = ""
    observers: tuple[Observer, ...] = ()


class Server:
    """One replica of the controller: it watches the cluster, waits for the Lease, and leads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._transport = connect(settings.kubeconfig)
        self._cache = ClusterCache(self._transport, all_kinds(), protecting=protection)
        self._metrics = Metrics()
        self._metrics.watch(self._cache)
        self._version = SchedulerVersion(self._transport, settings.scheduler_version)

    def unready(self) -> str:
        """Return which caches are not filled yet, as one line; "" if all are, so that this replica could lead."""
        missing = self._cache.unsynced()
        return f"not listed yet: {', '.join(missing)}" if missing else ""

    def metrics_server(self, host: str, port: int) -> BackgroundPort:
        """Return the server of this replica's `/metrics`. It answers requests whether the replica leads or not.

        :raises OSError: if the port is not available.
        """
        return metrics_server(host, port, self._metrics, AccessReviewer(self._transport))

    def run(self, stop: threading.Event) -> None:
        """Fill the caches, then wait for the Lease and lead, again and again, until `stop` is set."""
        faulthandler.enable()  # a crash of a native library names the threads and their Python frames
        sys.setswitchinterval(SWITCH_SECONDS)
        keep_little()
        self._cache.start()
        self._version.start(stop)
        shared_workers().start()
        try:
            while not self._cache.wait_synced(SYNC_STEP_SECONDS):
                if stop.is_set():
                    return
            LOG.info("caches are synced")
            self._cache.snapshot()
            gc.freeze()  # these objects live as long as the process; each full collection would scan them all
            _lead(self._settings, self._cache, self._metrics, self._version, stop)
        finally:
            self._cache.stop()
            shared_workers().close()


@dataclass(frozen=True, slots=True)
class Planners:
    """The objects that plan in background threads. They exist longer than one leader's term, so a replica that leads
    again reuses them.
    """

    planning_queue: PlanningQueue
    restart_checks: RestartChecks

    def close(self) -> None:
        """Stop planning and checking in the background threads."""
        self.planning_queue.close()
        self.restart_checks.close()


def controller_of(
    cache: ClusterCache,
    writer: Writer,
    planners: Planners,
    recorder: Recorder,
    *,
    metrics: Metrics,
    settings: Settings,
    forgets: Callable[[], bool] = lambda: False,
    clock: Clock = SYSTEM_CLOCK,
) -> Controller:
    """Return a controller for one term of leadership, assembled from new parts and the given ones.

    :param forgets: as in `Controller`.
    """
    error_backoff = ErrorBackoff(writer, metrics, clock=clock)
    reporter, planning_queue = Reporter(writer, recorder, metrics, error_backoff, clock=clock), planners.planning_queue
    rollback = PartialGangRollback(writer, reporter, error_backoff, seconds=settings.partly_seconds, clock=clock)
    steps = GangSteps(
        executor=PlanExecutor(writer, reporter, planning_queue, Probes(writer), error_backoff, clock=clock),
        reclaimer=Reclaimer(writer, reporter, metrics, error_backoff, seconds=settings.untried_seconds, clock=clock),
        marker=WholenessMarker(writer, error_backoff),
        rollback=rollback,
        restarter=Restarter(
            rollback, planners.restart_checks, error_backoff, seconds=settings.restart_seconds, clock=clock
        ),
        reporter=reporter,
    )
    reports = ClusterReports(
        coexistence=CoexistenceReporter(recorder),
        invalid_gangs=InvalidGangReporter(writer, recorder, clock=clock),
        status_sync=StatusSync(writer, settings.topology_seconds, clock=clock),
        strays=Strays(cache, recorder, clock=clock),
        described=DescribedKinds(writer, cache, clock=clock),
    )
    return Controller(
        cache,
        writer,
        planning_queue,
        steps=steps,
        reports=reports,
        error_backoff=error_backoff,
        metrics=metrics,
        observers=settings.observers,
        placeholders=settings.placeholders,
        forgets=forgets,
        clock=clock,
    )


def _lead(
    settings: Settings, cache: ClusterCache, metrics: Metrics, version: SchedulerVersion, stop: threading.Event
) -> None:
    transport = version.transport
    recorder = Recorder(transport, instance=settings.identity)
    lanes = Lanes(ThreadExecutor("plan-promptly"), ThreadExecutor("plan-patiently"))
    limits = Limits(seconds=settings.solve_seconds)
    planners = Planners(
        PlanningQueue(limits, metrics, lanes, cache.wake),
        RestartChecks(ThreadExecutor("plan-restarts"), limits, cache.wake),
    )
    election = Election(transport, identity=settings.identity, timing=timing_of(settings.lease_seconds))

    def lead(term: Term) -> None:
        fenced = transport.within(term.allowance)
        writer = Writer(fenced, settings.writes)
        keep_certificate(fenced, settings.keeping, term.lost)
        # In a thread of its own: a slow answer must not delay the first reconcile of a term.
        threading.Thread(target=tell_version, args=(version, recorder), name="version", daemon=True).start()
        controller = controller_of(
            cache, writer, planners, recorder, metrics=metrics, settings=settings, forgets=lambda: version.forgets
        )
        with metrics.leading(), contextlib.closing(writer):
            controller.lead(term.lost)

    try:
        election.run(lead, stop)
    finally:
        planners.close()
        recorder.close()
