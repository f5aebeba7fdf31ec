"""Prometheus metrics that report how fresh the watch caches are. They have the same names in all servers of Phalanx."""

from collections.abc import Iterable
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class Watched(Protocol):
    """The part of the watch caches that these metrics read (`cluster.caches.cache.ClusterCache`)."""

    def synced(self) -> bool:
        """Whether every watched resource has been listed once."""

    def age(self) -> float:
        """Seconds since the API server was last heard of, on the watch that has been silent longest."""

    def relists(self) -> int:
        """How often any resource had to be listed again because its watch was lost."""


class Freshness(Collector):
    """A Prometheus collector of the caches' freshness, which reads the caches at each scrape."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics with their present values: whether the caches are complete, their age, and the number of
        relists.
        """
        yield GaugeMetricFamily(
            "phalanx_cache_synced", "1 when the caches are complete", value=float(self._watched.synced())
        )
        yield GaugeMetricFamily(
            "phalanx_cache_age_seconds",
            "Time since the caches last heard from the API server, on the watch that has been silent longest",
            value=self._watched.age(),
        )
        yield CounterMetricFamily(
            "phalanx_watch_relists", "Resources listed again after a watch was lost", value=self._watched.relists()
        )
