"""Assembles the webhook in its worker process: watch caches, HTTP application and metrics."""

import gc
import threading
from datetime import datetime

from flask import Flask

from cluster.api.token_reviews import AccessReviewer
from cluster.api.transport import Transport
from cluster.caches.cache import ClusterCache
from gangs.dialects.concerned import places_of
from gangs.dialects.protection import protection
from gangs.dialects.table import all_kinds
from planning.solver_pool.pool import shared_workers
from webhook.app import FEED, LONGEST_FORECAST, create_app
from webhook.client_certificates import Caller, anybody
from webhook.fresh_kinds import FreshKinds
from webhook.health import Check
from webhook.live_view.history import History
from webhook.metrics import Metrics
from webhook.picture import LivePicture
from webhook.rereading import Rereader

SYNC_SECONDS = 600.0
"""The most seconds to wait for complete caches before their objects are frozen for the garbage collector."""


class WebhookService:
    """The webhook in one process: watch caches, HTTP application and metrics.

    The caches start to fill at once. The readiness check `caches` passes when they are complete.

    :param placeholders: whether the controller reserves capacity for expected pods.
    :param longest_forecast: the time within which a forecast must end, in seconds since its request was received.
    """

    def __init__(
        self,
        transport: Transport,
        caller: Caller = anybody,
        *,
        placeholders: bool = True,
        longest_forecast: float = LONGEST_FORECAST,
    ) -> None:
        self._cache = ClusterCache(transport, all_kinds(), protecting=protection, groups_of=places_of)
        self._cache.start()
        shared_workers().start()
        threading.Thread(target=self._settle, name="settle", daemon=True).start()
        picture = LivePicture(self._cache, Rereader(transport), FreshKinds(transport), placeholders=placeholders)
        self._metrics = Metrics()
        self._metrics.watch(self._cache)
        self._history = History(picture)
        self._history.start()
        self.app: Flask = create_app(
            picture,
            AccessReviewer(transport),
            self._metrics,
            caller,
            transport.for_bearers(),
            history=self._history,
            longest_forecast=longest_forecast,
        )

    def checks(self) -> dict[str, Check]:
        """Return the readiness checks of the process, by name. The process is ready if all of them pass."""
        return {"caches": self._caches}

    def certificate_changed(self, not_after: datetime) -> None:
        """Report the end of validity of the certificate that is served now, as a metric."""
        self._metrics.certificate_changed(not_after)

    def close(self) -> None:
        """Stop the live feed, the record of ended gangs, the watches, and the processes that solve."""
        self.app.extensions[FEED].close()
        self._history.close()
        self._cache.stop()
        shared_workers().close()

    def _settle(self) -> None:
        """Wait until the caches are complete, then exclude their objects from garbage collection, which would scan them
        in vain.
        """
        if self._cache.wait_synced(SYNC_SECONDS):
            self._cache.snapshot()
            gc.freeze()

    def _caches(self) -> str:
        unsynced = self._cache.unsynced()
        return f"not listed yet: {', '.join(unsynced)}" if unsynced else ""
