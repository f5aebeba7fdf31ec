"""A reflector keeps its copy right whatever the API server does."""

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from scripted_api import Answer, ScriptedApi, failed, listed, scripted, watched
from waiting import wait_for

from cluster.caches.reflector import Reflector
from cluster.caches.reflector_timing import ReflectorTiming
from cluster.caches.trouble import Trouble, TroubleReason
from kube.objects import Pod

QUICK = ReflectorTiming(page=2, silence=60.0, missing=0.02, first_retry=0.02, last_retry=0.1)
PATIENCE = 60.0
PODS = "/api/v1/pods"


class Names:
    """A sink with the names of the present pods, and of every event about them."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.story: list[str] = []
        self.faults = 0
        self.list_faults = 0

    def replace(self, objects: Sequence[Pod], api_version: str) -> None:
        """The list."""
        if self.list_faults:
            self.list_faults -= 1
            raise RuntimeError("a fault in the sink")
        self.names = {each.metadata.name for each in objects}
        self.story.append("list " + " ".join(sorted(self.names)) + api_version)

    def put(self, item: Pod) -> None:
        """An event."""
        if self.faults:
            self.faults -= 1
            raise RuntimeError("a fault in the sink")
        self.names.add(item.metadata.name)
        self.story.append(f"put {item.metadata.name}")

    def drop(self, item: Pod) -> None:
        """An event."""
        self.names.discard(item.metadata.name)
        self.story.append(f"drop {item.metadata.name}")


@contextmanager
def reflecting(
    api: ScriptedApi,
    sink: Names,
    paths: Sequence[str] = (PODS,),
    *,
    optional: bool = False,
    timing: ReflectorTiming = QUICK,
    of_kind: str = "",
) -> Iterator[Reflector[Pod]]:
    reflector = Reflector(api.transport, paths, Pod, sink, optional=optional, timing=timing, of_kind=of_kind)
    reflector.start()
    try:
        yield reflector
    finally:
        reflector.stop()
        assert reflector.join(PATIENCE)


def test_a_list_comes_in_pages_and_is_handed_over_as_one() -> None:
    sink = Names()
    with scripted([listed(7, "a", "b", more="next"), listed(7, "c")]) as api, reflecting(api, sink) as reflector:
        assert reflector.wait_synced(PATIENCE)
        assert sink.story == ["list a b c"]
        wait_for(lambda: len(api.requests) == 3)
        assert api.queries(watch=False, key="continue") == ["", "next"]
        assert api.queries(watch=False, key="limit") == ["2", "2"]
        assert api.queries(watch=True, key="resourceVersion") == ["7"]


def test_events_are_followed_in_their_order() -> None:
    sink = Names()
    events = [("ADDED", 2, "b"), ("MODIFIED", 3, "a"), ("DELETED", 4, "a")]
    with scripted([listed(1, "a")], [watched(*events)]) as api, reflecting(api, sink) as reflector:
        wait_for(lambda: len(sink.story) == 4)
        assert sink.story == ["list a", "put b", "put a", "drop a"]
        assert reflector.relists == 0


def test_a_watch_goes_on_from_the_last_event_or_bookmark() -> None:
    sink = Names()
    first = watched(("ADDED", 5, "a"), ("BOOKMARK", 9, ""), then="end")
    with scripted([listed(1)], [first, watched(("ADDED", 10, "b"))]) as api, reflecting(api, sink) as reflector:
        wait_for(lambda: sink.names == {"a", "b"})
        assert api.queries(watch=True, key="resourceVersion") == ["1", "9"]
        assert api.queries(watch=True, key="allowWatchBookmarks") == ["true", "true"]
        assert reflector.relists == 0


@pytest.mark.parametrize(
    "expired",
    [watched(("ERROR", 410, "too old resource version")), failed(410, "too old resource version")],
    ids=["as an event", "as a status"],
)
def test_when_the_version_has_expired_everything_is_listed_again(expired: Answer) -> None:
    sink = Names()
    with scripted([listed(1, "a"), listed(9, "b")], [expired]) as api, reflecting(api, sink) as reflector:
        wait_for(lambda: sink.names == {"b"})
        assert reflector.relists == 1
        wait_for(lambda: api.queries(watch=True, key="resourceVersion") == ["1", "9"])


@pytest.mark.parametrize("kind", [Pod, dict[str, Any]], ids=["typed", "plain"])
@pytest.mark.parametrize(
    ("event", "seen"),
    [
        ({"type": "ERROR", "object": {"kind": "Status", "status": "Failure", "code": 410}}, 0),
        ({"type": "ERROR", "object": {"kind": "Status", "code": 410}}, 0),
        ({"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": "7"}}}, 7),
        ({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "7"}, "spec": "none"}}, 7),
    ],
    ids=["error", "bare error", "bookmark", "odd bookmark"],
)
def test_an_event_without_an_object_of_the_kind_is_no_fault(kind: Any, event: Any, seen: int) -> None:
    with scripted([listed(5)]) as api:
        reflector: Reflector[Any] = Reflector(api.transport, [PODS], kind, Names())
        reflector.list_once()
        reflector.take(json.dumps(event).encode())
        assert (reflector.seen, reflector.relists, reflector.trouble) == (seen, 0 if seen else 1, None)


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
def test_an_object_that_cannot_be_decoded_is_told(kind: str) -> None:
    with scripted([listed(5)]) as api:
        reflector = Reflector(api.transport, [PODS], Pod, Names())
        reflector.list_once()
        reflector.take(json.dumps({"type": kind, "object": {"metadata": {"name": 5}}}).encode())
        assert reflector.trouble is not None
        assert "`$.object.metadata.name`" in reflector.trouble.text
        assert reflector.seen == 5


@pytest.mark.parametrize("status", [403, 500, 503, 429])
def test_after_an_error_it_tries_again_and_is_not_synced_before(status: int) -> None:
    sink = Names()
    with scripted([failed(status), failed(status), listed(1, "a")]) as api, reflecting(api, sink) as reflector:
        assert reflector.wait_synced(PATIENCE)
        assert sink.story == ["list a"]
        assert len(api.queries(watch=False, key="limit")) == 3


def test_it_waits_longer_after_each_failure() -> None:
    """After n tries the next pause is 0.02 s times 2 to the n: twenty tries would take hours on any machine."""
    sink, timing = Names(), replace(QUICK, last_retry=86_400.0, unsynced_retry=86_400.0)
    with scripted([failed(500)] * 1000) as api, reflecting(api, sink, timing=timing) as reflector:
        wait_for(lambda: len(api.requests) >= 3)
        time.sleep(1.0)  # long enough for a thousand tries without pauses
        assert len(api.requests) < 20
        assert not reflector.synced


def test_before_it_has_listed_anything_it_is_less_patient() -> None:
    """One hour between two tries (`last_retry`) is too long for a caller that needs the list."""
    sink, timing = Names(), replace(QUICK, last_retry=3600.0, first_retry=0.05, unsynced_retry=0.1)
    with scripted([failed(500)] * 20 + [listed(1, "a")]) as api, reflecting(api, sink, timing=timing) as reflector:
        assert reflector.wait_synced(PATIENCE)
        assert sink.names == {"a"}


def test_a_list_that_is_not_answered_is_asked_for_again() -> None:
    sink, timing = Names(), replace(QUICK, answer=0.3, silence=3600.0)
    silent = Answer(then="keep")
    with scripted([silent, listed(1, "a")]) as api, reflecting(api, sink, timing=timing) as reflector:
        assert reflector.wait_synced(PATIENCE)
        assert sink.names == {"a"}


def test_a_connection_that_breaks_is_opened_again_where_it_was() -> None:
    sink = Names()
    cut = watched(("ADDED", 5, "a"), then="cut")
    with scripted([listed(1)], [cut, watched(("ADDED", 6, "b"))]) as api, reflecting(api, sink) as reflector:
        wait_for(lambda: sink.names == {"a", "b"})
        assert api.queries(watch=True, key="resourceVersion") == ["1", "5"]
        assert reflector.relists == 0


def test_half_a_line_is_not_taken_for_an_event() -> None:
    sink = Names()
    half = Answer((b'{"type":"ADDED","object":{"metadata":{"name":"half"',), then="cut")
    with scripted([listed(1)], [half, watched(("ADDED", 6, "b"))]) as api, reflecting(api, sink):
        wait_for(lambda: sink.names == {"b"})
        assert sink.story == ["list ", "put b"]


def test_a_watch_that_says_nothing_at_all_is_opened_again() -> None:
    sink, timing = Names(), replace(QUICK, silence=0.3)
    watches = [watched(), watched(("ADDED", 6, "b"))]
    with scripted([listed(1)], watches) as api, reflecting(api, sink, timing=timing) as reflector:
        wait_for(lambda: sink.names == {"b"})
        assert api.queries(watch=True, key="resourceVersion")[:2] == ["1", "1"]
        assert reflector.relists == 0


@pytest.mark.parametrize("nonsense", [b"<html>\n", b'{"type":"ADDED","object":{"metadata":7}}\n'])
def test_nonsense_is_survived(nonsense: bytes) -> None:
    sink = Names()
    with scripted([listed(1)], [Answer((nonsense,)), watched(("ADDED", 6, "b"))]) as api, reflecting(api, sink):
        wait_for(lambda: sink.names == {"b"})


def test_a_fault_in_the_sink_does_not_end_the_copy() -> None:
    sink = Names()
    sink.faults = 1
    lists = [listed(1), listed(5, "a")]
    with scripted(lists, [watched(("ADDED", 5, "a"))]) as api, reflecting(api, sink):
        wait_for(lambda: sink.names == {"a"})
        assert sink.story == ["list ", "list a"]


def test_a_fault_of_ours_that_stays_is_told_and_tried_ever_more_seldom() -> None:
    """Each try is a full list for the API server."""
    sink = Names()
    sink.faults = 1000
    timing = replace(QUICK, first_retry=0.05, last_retry=3600.0)
    events = [watched(("ADDED", 5, "a")) for _ in range(1000)]
    with scripted([listed(1)] * 1000, events) as api, reflecting(api, sink, timing=timing) as reflector:
        wait_for(lambda: reflector.relists >= 3)
        assert reflector.trouble is not None
        assert "RuntimeError" in reflector.trouble.text
        time.sleep(1.0)  # long enough for a thousand tries without pauses
        assert reflector.relists < 17  # the pause after them would be an hour
        sink.faults = 0
        wait_for(lambda: sink.names == {"a"})
        wait_for(lambda: reflector.trouble is None)


def test_a_fault_of_ours_while_listing_is_told_as_well() -> None:
    sink = Names()
    sink.list_faults = 3
    with scripted([listed(1, "a")] * 10) as api, reflecting(api, sink) as reflector:
        wait_for(reflector.tried.is_set)
        assert reflector.trouble is not None
        assert "RuntimeError" in reflector.trouble.text
        assert reflector.wait_synced(PATIENCE)
        assert sink.names == {"a"}
        wait_for(lambda: reflector.trouble is None)


def test_a_resource_that_is_not_installed_counts_as_empty_until_it_is() -> None:
    sink = Names()
    absent = [failed(404)] * 3
    with scripted([*absent, listed(1, "a")]) as api, reflecting(api, sink, optional=True) as reflector:
        assert reflector.wait_synced(PATIENCE)
        wait_for(lambda: sink.names == {"a"})
        assert sink.story == ["list ", "list ", "list ", "list a"]


SERVED = Answer((b'{"resources": [{"name": "pods", "kind": "Pod", "namespaced": true}]}',))
MADE = failed(429, "storage is (re)initializing")
JUST_COME = {
    "not served": ("", [failed(404), listed(1, "a"), listed(2, "a", "b"), listed(3, "c")]),
    "its store is made": (
        "Pod",
        [
            SERVED,
            failed(429, "storage is (re)initializing"),
            SERVED,
            listed(1, "a"),
            SERVED,
            listed(2, "a", "b"),
            SERVED,
            listed(3, "c"),
        ],
    ),
}


@pytest.mark.parametrize(("of_kind", "answers"), JUST_COME.values(), ids=JUST_COME)
def test_a_resource_that_has_just_come_is_listed_again_soon_and_then_no_more(
    of_kind: str, answers: list[Answer]
) -> None:
    """The API server recreates the store of a definition, and a watch of the old store receives nothing."""
    sink, timing = Names(), replace(QUICK, doubt=0.2, silence=0.5)
    with scripted(answers) as api, reflecting(api, sink, optional=True, timing=timing, of_kind=of_kind) as reflector:
        wait_for(lambda: sink.names == {"c"})
        wait_for(lambda: len(api.queries(watch=True, key="resourceVersion")) >= 4)
        assert api.queries(watch=True, key="resourceVersion")[:4] == ["1", "2", "3", "3"]
        assert len(api.queries(watch=False, key="limit")) == len(answers)
        assert reflector.relists == 0


def test_who_is_told_that_all_is_well_finds_it_synced() -> None:
    seen: list[tuple[Trouble | None, bool]] = []
    with scripted([failed(429), listed(1, "a")]) as api:
        reflector: Reflector[Pod]
        reflector = Reflector(
            api.transport,
            [PODS],
            Pod,
            Names(),
            timing=QUICK,
            on_change=lambda: seen.append((reflector.trouble, reflector.synced)),
        )
        reflector.start()
        wait_for(lambda: len(seen) == 2)
        assert seen == [(Trouble(TroubleReason.UNREADABLE, "no"), False), (None, True)]
        reflector.stop()
        assert reflector.join(PATIENCE)


def test_a_resource_that_is_not_installed_is_looked_for_ever_more_seldom() -> None:
    timing = replace(QUICK, missing=0.05, last_missing=3600.0)
    with scripted([failed(404)] * 1000) as api, reflecting(api, Names(), optional=True, timing=timing) as reflector:
        assert reflector.wait_synced(PATIENCE)
        time.sleep(1.0)  # long enough for a thousand tries without pauses
        assert len(api.requests) < 17  # the pause after them would be an hour


def test_a_resource_that_is_taken_away_becomes_empty() -> None:
    sink = Names()
    with (
        scripted([listed(1, "a"), failed(404)], [watched(then="end"), failed(404)]) as api,
        reflecting(api, sink, optional=True),
    ):
        wait_for(lambda: sink.story[:2] == ["list a", "list "])


def test_a_resource_that_must_be_there_is_not_synced_without_it() -> None:
    sink = Names()
    with scripted([failed(404)] * 1000) as api, reflecting(api, sink) as reflector:
        wait_for(lambda: len(api.requests) >= 3)
        assert not reflector.synced
        assert sink.story == []


def test_the_first_version_that_is_served_is_used() -> None:
    sink = Names()
    paths = ["/apis/x/v2/pods", "/apis/x/v1/pods"]
    with scripted([failed(404), listed(1, "a")]) as api, reflecting(api, sink, paths, optional=True) as reflector:
        assert reflector.wait_synced(PATIENCE)
        wait_for(lambda: len(api.requests) == 3)
        assert [each.path for each in api.requests] == [paths[0], paths[1], paths[1]]
        assert sink.story == ["list a"]


def test_it_stops_at_once_though_its_watch_is_quiet() -> None:
    sink = Names()
    with scripted([listed(1)]) as api:
        reflector = Reflector(api.transport, [PODS], Pod, sink, timing=replace(QUICK, silence=3600.0))
        reflector.start()
        wait_for(lambda: len(api.requests) == 2)
        reflector.stop()
        assert reflector.join(PATIENCE)
    assert not [each for each in threading.enumerate() if each.name.startswith("reflector")]


def test_it_can_be_stopped_before_it_was_started() -> None:
    with scripted() as api:
        reflector = Reflector(api.transport, [PODS], Pod, Names())
        reflector.stop()
        assert reflector.join(0)


def test_its_age_is_the_time_since_it_heard_of_the_server() -> None:
    sink, began = Names(), time.monotonic()
    with scripted([listed(1)], [watched(("BOOKMARK", 2, ""))]) as api, reflecting(api, sink) as reflector:
        assert reflector.wait_synced(PATIENCE)
        wait_for(lambda: reflector.seen == 2)
        time.sleep(0.1)
        assert 0.05 < reflector.last_event_age < time.monotonic() - began
