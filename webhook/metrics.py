"""What the webhook counts, in Prometheus' words. One registry per application, so that tests do not share numbers."""

from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from cluster.freshness import Freshness, Watched

CONTENT_TYPE = CONTENT_TYPE_LATEST
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Metrics:
    """The webhook's numbers.

    `outcome` is one of admitted, patched, refused, bad-review, unavailable, forbidden, failed.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.admissions = Counter(
            "phalanx_admission_requests",
            "Admission requests answered",
            ("path", "resource", "operation", "outcome"),
            registry=self.registry,
        )
        self.admission_seconds = Histogram(
            "phalanx_admission_duration_seconds",
            "Time to answer an admission request",
            ("path",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self.forecasts = Counter("phalanx_forecasts", "Plans made at admission", ("result",), registry=self.registry)
        self.dry_runs = Counter("phalanx_dry_runs", "Requests to /v1/solve", ("status",), registry=self.registry)
        self._not_after = Gauge(
            "phalanx_certificate_not_after_timestamp_seconds", "End of the served certificate", registry=self.registry
        )

    def watch(self, watched: Watched) -> None:
        """Tell of these watch caches, too."""
        self.registry.register(Freshness(watched))

    def certificate_changed(self, not_after: datetime) -> None:
        """Note the certificate that is served now."""
        self._not_after.set(not_after.timestamp())

    def text(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self.registry)
