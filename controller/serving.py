"""Puts the controller together and runs it until it is told to stop."""

import logging
import threading
from dataclasses import dataclass

from cluster.access import AccessReviewer
from cluster.cache import ClusterCache
from cluster.connecting import connect
from cluster.transport import Transport
from controller.carrying import Carrier
from controller.certificates import Keeping, keep_certificate
from controller.deciding import Planner
from controller.election import Election, Timing
from controller.events import Recorder
from controller.leaving import Leaver
from controller.metrics import Metrics, Observer
from controller.metrics_server import MetricsServer
from controller.probe import Probes
from controller.refusing import Refuser
from controller.reporting import Reporter
from controller.rounds import Controller
from controller.showing import Shower
from controller.versions import tell_version
from controller.writes import Writer
from gangs.dialects import all_kinds
from gangs.protecting import protection
from planning.workers import shared_workers
from solver.problem import Limits

LOG = logging.getLogger(__name__)

SYNC_STEP_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Settings:
    """How a controller runs. `kubeconfig`: None for in-cluster, else the user's own.

    `observers` are told how the gangs stand after each round.
    """

    kubeconfig: str | None
    identity: str
    solve_seconds: float
    lease_seconds: float
    keeping: Keeping
    observers: tuple[Observer, ...] = ()


class Server:
    """One candidate: watches, waits for the lease, leads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._transport = connect(settings.kubeconfig)
        self._cache = ClusterCache(self._transport, all_kinds(), protecting=protection)
        self._metrics = Metrics()
        self._metrics.watch(self._cache)

    def unready(self) -> str:
        """What is missing before it could lead; "" when it could."""
        missing = self._cache.unsynced()
        return f"not listed yet: {', '.join(missing)}" if missing else ""

    def metrics_server(self, host: str, port: int) -> MetricsServer:
        """`/metrics` of this replica, whether it leads or not. Raises OSError where the port cannot be had."""
        return MetricsServer(host, port, self._metrics, AccessReviewer(self._transport))

    def run(self, stop: threading.Event) -> None:
        """Serve until `stop` is set."""
        self._cache.start()
        shared_workers().start()
        try:
            while not self._cache.wait_synced(SYNC_STEP_SECONDS):
                if stop.is_set():
                    return
            LOG.info("caches are synced")
            _lead(self._settings, self._transport, self._cache, self._metrics, stop)
        finally:
            self._cache.stop()
            shared_workers().close()


def _lead(
    settings: Settings, transport: Transport, cache: ClusterCache, metrics: Metrics, stop: threading.Event
) -> None:
    writer = Writer(transport)
    recorder = Recorder(transport, instance=settings.identity)
    reporter = Reporter(writer, recorder, metrics)
    planner = Planner(Limits(seconds=settings.solve_seconds), metrics)
    lease = settings.lease_seconds
    timing = Timing(lease=lease, renew_deadline=lease * 2 / 3, retry=lease * 2 / 15)
    election = Election(transport, identity=settings.identity, timing=timing)

    def lead(lost: threading.Event) -> None:
        keep_certificate(transport, settings.keeping, lost)
        tell_version(transport, recorder)
        controller = Controller(
            cache=cache,
            writer=writer,
            planner=planner,
            carrier=Carrier(writer, reporter, planner, Probes(writer)),
            reporter=reporter,
            refuser=Refuser(writer, recorder),
            shower=Shower(writer),
            leaver=Leaver(recorder),
            metrics=metrics,
            observers=settings.observers,
        )
        with metrics.leading():
            controller.lead(lost)

    try:
        election.run(lead, stop)
    finally:
        recorder.close()
        writer.close()
