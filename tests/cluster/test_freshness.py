"""The metrics of the watch caches, computed when they are scraped."""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from cluster.caches.freshness import Freshness


@dataclass
class Caches:
    """Caches in a state that a test sets."""

    complete: bool = False
    silent: float = 0.0
    lost: int = 0

    def synced(self) -> bool:
        """As set."""
        return self.complete

    def age(self) -> float:
        """As set."""
        return self.silent

    def relists(self) -> int:
        """As set."""
        return self.lost


def test_the_numbers_are_those_of_the_moment() -> None:
    caches, registry = Caches(), CollectorRegistry()
    registry.register(Freshness(caches))
    names = ("phalanx_cache_synced", "phalanx_cache_age_seconds", "phalanx_watch_relists_total")
    assert [registry.get_sample_value(name) for name in names] == [0, 0, 0]
    caches.complete, caches.silent, caches.lost = True, 2.5, 3
    assert [registry.get_sample_value(name) for name in names] == [1, 2.5, 3]
