"""What one worker process of the webhook holds: caches, application, metrics."""

from datetime import datetime

from flask import Flask

from cluster.access import AccessReviewer
from cluster.cache import ClusterCache
from cluster.transport import Transport
from gangs.dialects import all_kinds, protected
from webhook.app import create_app
from webhook.health import Check
from webhook.metrics import Metrics
from webhook.picture import LivePicture


class WebhookService:
    """The webhook over one cluster. Its caches fill from the start on; `checks` tells when they are complete."""

    def __init__(self, transport: Transport) -> None:
        self._cache = ClusterCache(transport, all_kinds(), protected=protected)
        self._cache.start()
        picture = LivePicture(self._cache)
        self._metrics = Metrics(picture.synced, picture.age)
        self.app: Flask = create_app(picture, AccessReviewer(transport), self._metrics)

    def checks(self) -> dict[str, Check]:
        """What must hold before requests are sent here."""
        return {"caches": self._caches}

    def certificate_changed(self, not_after: datetime) -> None:
        """Note the certificate that is served now."""
        self._metrics.certificate_changed(not_after)

    def close(self) -> None:
        """End the watches."""
        self._cache.stop()

    def _caches(self) -> str:
        unsynced = self._cache.unsynced()
        return f"not listed yet: {', '.join(unsynced)}" if unsynced else ""
