"""Kinds that objects of another kind name are watched as those objects come, change and go.

No caller waits for such a kind in vain.
"""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from scripted_api import Answer, ScriptedApi, failed, scripted
from waiting import wait_for
from watched_kind import WatchedKind

from cluster.caches.cache import ClusterCache
from cluster.caches.further_kinds import FurtherKinds, GroupKind
from cluster.caches.manifest_sinks import AsRead, Manifests, ManifestsOfKind
from cluster.caches.reflector import Reflector, Sink
from cluster.caches.reflector_timing import ReflectorTiming
from cluster.caches.trouble import Trouble, TroubleReason

QUICK = ReflectorTiming(missing=0.02, first_retry=0.02, last_retry=0.05, unsynced_retry=0.05, overloaded=1.0)
Object = dict[str, Any]
AT = "ml.example.com", "Run"


def naming(**spec: str) -> Object:
    """An object that names a kind."""
    return {"metadata": {"name": "runs"}, "spec": {"group": AT[0], "kind": AT[1], **spec}}


def served(kind: str = "Run", *, namespaced: bool = True) -> Answer:
    """Return the answer to discovery: the resources of the group."""
    found = {"resources": [{"name": "runs", "kind": kind, "namespaced": namespaced}, {"name": "runs/status"}]}
    return Answer((json.dumps(found).encode(),))


def listed(*names: str) -> Answer:
    """Return the answer to a list of these objects."""
    items = [{"metadata": {"name": each, "namespace": "default"}} for each in names]
    page = {"apiVersion": "ml.example.com/v1", "metadata": {"resourceVersion": "1"}, "items": items}
    return Answer((json.dumps(page).encode(),))


class Scene:
    """The watches of further kinds over an API server, and the objects that they keep."""

    def __init__(self, api: ScriptedApi, as_read: AsRead | None = None, timing: ReflectorTiming = QUICK) -> None:
        self._timing = timing
        self._as_read = as_read
        self._kept = Manifests(ClusterCache(api.transport, timing=QUICK))
        self._api = api
        self.writers: list[Sink[Object]] = []
        self.further = FurtherKinds(_Nowhere(), self._user_defined, self._sink, self._watch)

    def _user_defined(self, objects: Sequence[Object]) -> Iterable[GroupKind]:
        specs = [each["spec"] for each in objects]
        return [WatchedKind(each["group"], ("v1",), each["kind"], "runs", as_read=self._as_read) for each in specs]

    def _sink(self, kind: GroupKind) -> ManifestsOfKind:
        return self._kept.of(kind.group, kind.kind)

    def _watch(self, kind: GroupKind, sink: Sink[Object]) -> Reflector[Object]:
        self.writers.append(sink)
        path = "/apis/ml.example.com/v1/runs"
        return Reflector(
            self._api.transport, [path], dict[str, Any], sink, optional=True, timing=self._timing, of_kind=kind.kind
        )

    @property
    def names(self) -> set[str]:
        """Of the objects that are kept."""
        return {name for *_, name in self._kept.all()}

    def trouble(self) -> Trouble | None:
        """Of the kind."""
        return self.further.troubles().get(AT)

    @property
    def is_known(self) -> bool:
        """Whether the watch of the kind has a result."""
        return AT in self.further.troubles()

    def end(self) -> None:
        """No watch is left."""
        for each in list(self.further.stop()):
            each.join(5)


class _Nowhere:
    """A sink for the objects that name kinds. It ignores everything."""

    def replace(self, objects: Sequence[Object], api_version: str) -> None:
        """Ignore the list."""

    def put(self, item: Object) -> None:
        """Ignore the object."""

    def drop(self, item: Object) -> None:
        """Ignore the object."""


def test_a_watch_that_was_stopped_writes_nothing_where_its_successor_does() -> None:
    with scripted([served(), listed("a"), served(), listed("b")]) as api:
        scene = Scene(api)
        scene.further.put(naming())
        wait_for(lambda: scene.names == {"a"})
        scene.further.put(naming(more="1"))
        wait_for(lambda: scene.names == {"b"})
        late, _ = scene.writers
        late.put({"metadata": {"name": "late", "namespace": "default"}})
        late.replace([], "ml.example.com/v1")
        late.drop({"metadata": {"name": "b", "namespace": "default"}})
        assert scene.names == {"b"}
        scene.further.drop(naming())
        assert scene.names == set()
        scene.writers[1].put({"metadata": {"name": "late", "namespace": "default"}})
        assert scene.names == set()
        scene.end()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (served("Other"), Trouble(TroubleReason.WRONG_KIND, "are of kind Other")),
        (served(namespaced=False), Trouble(TroubleReason.NOT_NAMESPACED, "are in no namespace")),
    ],
    ids=["another kind", "cluster-scoped"],
)
def test_what_is_not_what_was_named_is_not_read_until_it_is(answer: Answer, said: Trouble) -> None:
    with scripted([answer] * 3 + [served(), listed("a")]) as api:
        scene = Scene(api)
        scene.further.put(naming())
        wait_for(lambda: scene.trouble() == said)
        assert scene.names == set()
        wait_for(lambda: scene.names == {"a"})
        assert scene.is_known
        assert scene.trouble() is None
        scene.end()


def test_a_resource_that_its_group_does_not_have_is_not_served() -> None:
    with scripted([Answer((b'{"resources": []}',))] * 1000) as api:
        scene = Scene(api)
        scene.further.put(naming())
        wait_for(lambda: scene.trouble() == Trouble(TroubleReason.NOT_SERVED, "is not served by this API server"))
        scene.end()


def test_an_object_that_we_fail_to_read_is_told_of_its_kind_and_hides_no_other() -> None:
    def as_read(item: Mapping[str, Any]) -> Mapping[str, Any]:
        if item["metadata"]["name"] == "a":
            raise AttributeError("'str' object has no attribute 'get'")
        return item

    with scripted([served(), listed("a", "b")]) as api:
        scene = Scene(api, as_read)
        scene.further.put(naming())
        wait_for(lambda: scene.names == {"b"})
        text = "except default/a, which Phalanx fails to read (AttributeError)"
        wait_for(lambda: scene.trouble() == Trouble(TroubleReason.SOME_LEFT_OUT, text))
        scene.end()


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_server_that_is_overloaded_has_not_been_asked_yet(status: int) -> None:
    with scripted([failed(status)] * 3 + [served(), listed("a")]) as api:
        scene = Scene(api)
        assert not scene.is_known
        scene.further.put(naming())
        (reflector,) = scene.further.reflectors()
        wait_for(lambda: (trouble := scene.trouble()) is not None and trouble.reason is TroubleReason.UNREADABLE)
        assert not reflector.tried.is_set()
        wait_for(lambda: scene.names == {"a"})
        assert reflector.tried.is_set()
        assert scene.is_known
        assert scene.trouble() is None
        scene.end()


def test_one_that_never_answers_keeps_nobody_waiting_for_good() -> None:
    with scripted([failed(503)] * 1000) as api:
        scene = Scene(api)
        start = time.monotonic()
        scene.further.put(naming())
        (reflector,) = scene.further.reflectors()
        wait_for(reflector.tried.is_set)
        assert time.monotonic() - start >= QUICK.overloaded
        scene.end()


def test_a_refusal_is_an_answer() -> None:
    with scripted([failed(403, "runs is forbidden")] * 1000) as api:
        scene = Scene(api, timing=replace(QUICK, overloaded=3600.0))
        scene.further.put(naming())
        (reflector,) = scene.further.reflectors()
        wait_for(reflector.tried.is_set)
        assert scene.trouble() == Trouble(TroubleReason.FORBIDDEN, "runs is forbidden")
        scene.end()
