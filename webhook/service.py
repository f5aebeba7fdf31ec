"""What one worker process of the webhook holds: caches, application, metrics."""

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
from webhook.app import FEED, create_app
from webhook.client_certificates import Caller, anybody
from webhook.fresh_kinds import FreshKinds
from webhook.health import Check
from webhook.metrics import Metrics
from webhook.picture import LivePicture
from webhook.rereading import Rereader

SYNC_SECONDS = 600.0


class WebhookService:
    """The webhook over one cluster. Its caches fill from the start on; `checks` tells when they are complete.

    :param placeholders: whether the controller holds room for pods that their workload makes later.
    """

    def __init__(self, transport: Transport, caller: Caller = anybody, *, placeholders: bool = True) -> None:
        self._cache = ClusterCache(transport, all_kinds(), protecting=protection, groups_of=places_of)
        self._cache.start()
        shared_workers().start()
        threading.Thread(target=self._settle, name="settle", daemon=True).start()
        picture = LivePicture(self._cache, Rereader(transport), FreshKinds(transport), placeholders=placeholders)
        self._metrics = Metrics()
        self._metrics.watch(self._cache)
        self.app: Flask = create_app(picture, AccessReviewer(transport), self._metrics, caller, transport.for_bearers())

    def checks(self) -> dict[str, Check]:
        """What must hold before requests are sent here."""
        return {"caches": self._caches}

    def certificate_changed(self, not_after: datetime) -> None:
        """Note the certificate that is served now."""
        self._metrics.certificate_changed(not_after)

    def close(self) -> None:
        """End the watches and the solving processes."""
        self.app.extensions[FEED].close()
        self._cache.stop()
        shared_workers().close()

    def _settle(self) -> None:
        """Once all is listed, take it out of the garbage collector's rounds: it lives as long as the process."""
        if self._cache.wait_synced(SYNC_SECONDS):
            self._cache.snapshot()
            gc.freeze()

    def _caches(self) -> str:
        unsynced = self._cache.unsynced()
        return f"not listed yet: {', '.join(unsynced)}" if unsynced else ""
