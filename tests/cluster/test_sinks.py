"""A sink that keeps only some objects of a kind: the other objects signal no change and take no memory."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from cluster.caches.manifest_sinks import Manifests


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


def broken(thing: Mapping[str, Any]) -> Mapping[str, Any]:
    """Fails to read objects that are called so."""
    if thing["metadata"]["name"].startswith("broken"):
        raise AttributeError("'str' object has no attribute 'get'")
    return thing


def test_one_object_that_we_fail_to_read_is_left_out_and_told() -> None:
    cache = Cache()
    manifests = Manifests(cache)
    sink = manifests.of("apps", "StatefulSet", as_read=broken)
    sink.replace([workload("a"), workload("broken"), workload("b")], "apps/v1")
    assert [key[3] for key in manifests.all()] == ["a", "b"]
    assert sink.left_out == "except broken, which Phalanx fails to read (AttributeError)"
    changes = cache.changes
    sink.put(workload("broken"))
    sink.put(workload("c"))
    assert [key[3] for key in manifests.all()] == ["a", "b", "c"]
    assert cache.changes > changes
    sink.drop(workload("broken"))
    assert sink.left_out == ""


def test_an_object_that_we_fail_to_read_any_more_is_not_kept_as_it_was() -> None:
    cache = Cache()
    manifests = Manifests(cache)
    failing: set[str] = set()

    def as_read(thing: Mapping[str, Any]) -> Mapping[str, Any]:
        if thing["metadata"]["name"] in failing:
            raise TypeError("no")
        return thing

    sink = manifests.of("apps", "StatefulSet", as_read=as_read)
    sink.replace([workload("a"), workload("b")], "apps/v1")
    failing.add("a")
    sink.put(workload("a"))
    assert [key[3] for key in manifests.all()] == ["b"]
    assert sink.left_out == "except a, which Phalanx fails to read (TypeError)"
    failing.clear()
    sink.put(workload("a"))
    assert {key[3] for key in manifests.all()} == {"a", "b"}
    assert sink.left_out == ""


def test_that_an_object_is_left_out_is_heard_of_though_nothing_is_kept() -> None:
    cache = Cache()
    sink = Manifests(cache).of("apps", "StatefulSet", lambda each: "wish" in each["metadata"]["labels"], broken)
    sink.put(workload("broken"))
    assert (cache.changes, bool(sink.left_out)) == (1, True)
    sink.replace([], "apps/v1")
    assert (cache.changes, sink.left_out) == (2, "")


def test_of_many_that_we_fail_to_read_few_are_remembered() -> None:
    sink = Manifests(Cache()).of("apps", "StatefulSet", as_read=broken)
    sink.replace([workload(f"broken-{number}") for number in range(1000)], "apps/v1")
    assert sink.left_out.startswith("except broken-0, broken-1, broken-10 and others, which Phalanx fails to read (")
    for number in range(900):
        sink.drop(workload(f"broken-{number}"))
    assert sink.left_out == "except others, which Phalanx fails to read (see the log)"
    sink.replace([], "apps/v1")
    assert sink.left_out == ""


def test_whether_an_object_matters_may_fail_for_one_alone() -> None:
    manifests = Manifests(Cache())
    sink = manifests.of("apps", "StatefulSet", lambda each: "wish" in each["metadata"]["labels"])
    sink.replace([{"metadata": {"name": "n", "labels": 3}}, workload("a", wish="rack")], "apps/v1")
    assert [key[3] for key in manifests.all()] == ["a"]
    assert "except n," in sink.left_out
