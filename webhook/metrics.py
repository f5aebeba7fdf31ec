"""What the webhook counts, in Prometheus' words. One registry per application, so that tests do not share numbers."""

from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from cluster.caches.freshness import Freshness, Watched
from gangs.dialects.table import all_kinds
from gangs.workloads.kind_table import WORKLOADS

CONTENT_TYPE = CONTENT_TYPE_LATEST
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

OTHER = "other"
"""Stands for whatever a caller names that is not known here: every word of his own would be a series for ever."""
_WORKLOADS = (shape.plural for shape in WORKLOADS.values())
_RESOURCES = frozenset({"pods", *(kind.plural for kind in all_kinds()), *_WORKLOADS})
_OPERATIONS = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"})


class Metrics:
    """The webhook's numbers.

    `outcome` is one of admitted, patched, refused, bad-review, unavailable, forbidden, failed.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.admissions = Counter(
            "phalanx_admission_requests",
            "Admission requests answered; other stands for resources and operations that Phalanx is not asked about",
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

    def answered(self, path: str, resource: str, operation: str, outcome: str, seconds: float) -> None:
        """An admission request was answered. `resource` and `operation`: as its caller says, who may be anybody."""
        known = resource if resource in _RESOURCES else OTHER, operation if operation in _OPERATIONS else OTHER
        self.admissions.labels(path, *known, outcome).inc()
        self.admission_seconds.labels(path).observe(seconds)

    def watch(self, watched: Watched) -> None:
        """Tell of these watch caches, too."""
        self.registry.register(Freshness(watched))

    def certificate_changed(self, not_after: datetime) -> None:
        """Note the certificate that is served now."""
        self._not_after.set(not_after.timestamp())

    def text(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self.registry)
