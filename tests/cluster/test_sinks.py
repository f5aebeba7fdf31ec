"""Of kinds of which only some objects matter, the others wake nobody and take no memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cluster.caches.sinks import Manifests


class Cache:
    """Counts the changes."""

    changes = 0

    @contextmanager
    def changing(self, *, captured: bool) -> Iterator[None]:
        """A change is made within it."""
        del captured
        yield
        self.changes += 1

    @contextmanager
    def still(self) -> Iterator[None]:
        """Nothing changes within it."""
        yield


def workload(name: str, wish: str = "") -> dict[str, Any]:
    """A workload, as an event brings it."""
    labels = {"wish": wish} if wish else {}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name, "labels": labels}}


def test_only_what_matters_is_kept_and_heard_of() -> None:
    cache = Cache()
    manifests = Manifests(cache)
    sink = manifests.of("apps", "StatefulSet", lambda each: "wish" in each["metadata"]["labels"])
    sink.replace([workload("a"), workload("b")], "apps/v1")
    sink.put(workload("c"))
    sink.drop(workload("a"))
    assert (dict(manifests.all()), cache.changes) == ({}, 0)
    sink.put(workload("c", wish="rack"))
    assert [key[3] for key in manifests.all()] == ["c"]
    sink.put(workload("c"))
    assert (dict(manifests.all()), cache.changes) == ({}, 2)
    sink.replace([workload("a", wish="rack"), workload("b")], "apps/v1")
    assert [key[3] for key in manifests.all()] == ["a"]
    sink.drop(workload("a"))
    assert (dict(manifests.all()), cache.changes) == ({}, 4)
