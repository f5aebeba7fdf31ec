"""The webhook's Prometheus metrics. Each application has its own registry, so that tests do not share numbers."""

from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from cluster.caches.freshness import Freshness, Watched
from gangs.dialects.table import all_kinds
from gangs.workloads.kind_table import WORKLOADS

CONTENT_TYPE = CONTENT_TYPE_LATEST
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

OTHER = "other"
"""The label value for unknown resources and operations. Otherwise every word that a caller sends would become a
permanent time series.
"""
_WORKLOADS = (row.plural for row in WORKLOADS.values())
_RESOURCES = frozenset({"pods", *(kind.plural for kind in all_kinds()), *_WORKLOADS})
_OPERATIONS = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"})


class Metrics:
    """The Prometheus metrics of the webhook.

    The label `outcome` of admissions is one of admitted, patched, refused, bad-review, unavailable, forbidden, failed.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.admissions = Counter(
            "phalanx_admission_requests",
            "Answered admission requests; other: a resource or operation that is not registered for Phalanx",
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
            "phalanx_certificate_not_after_timestamp_seconds",
            "End of validity of the served certificate",
            registry=self.registry,
        )

    def answered(self, path: str, resource: str, operation: str, outcome: str, seconds: float) -> None:
        """Count an answered admission request.

        :param resource: the resource in the request. An unknown resource or `operation` is counted as `OTHER`.
        :param seconds: the time from the request to the answer.
        """
        known = resource if resource in _RESOURCES else OTHER, operation if operation in _OPERATIONS else OTHER
        self.admissions.labels(path, *known, outcome).inc()
        self.admission_seconds.labels(path).observe(seconds)

    def watch(self, watched: Watched) -> None:
        """Also report how fresh these watch caches are (`cluster.caches.freshness`)."""
        self.registry.register(Freshness(watched))

    def certificate_changed(self, not_after: datetime) -> None:
        """Report the end of validity of the certificate that is served now."""
        self._not_after.set(not_after.timestamp())

    def text(self) -> bytes:
        """Return all metrics of the webhook in Prometheus' text format."""
        return generate_latest(self.registry)
