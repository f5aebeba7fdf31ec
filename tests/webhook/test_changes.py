"""`/v1/changes`: a client gets the changes since its last request. Without clients the webhook reads nothing."""

import gzip
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from pictures import StillPicture, node, pod, pod_group, topology
from waiting import PATIENCE_SECONDS, wait_for

from cluster.capturing import snapshot_of
from gangs.dialects.reading import read_all
from gangs.dialects.topologies import topologies
from gangs.sources import Sources
from kube.objects import Node, Pod
from timing.clock import SystemClock
from webhook.following import Observation
from webhook.live_view import changes
from webhook.live_view.answer_rates import MOST_KNOWN, AnswerRates
from webhook.live_view.changes import ANSWERS_A_SECOND, ANSWERS_AT_ONCE, WAIT_SECONDS, LiveFeed
from webhook.serving import GUARDED, VIEWERS, pool_of

GROUP = "pod-group.scheduling.sigs.k8s.io"
LOOK = 0.02


class MovingPicture:
    """A cluster view that the test changes."""

    def __init__(self) -> None:
        self.objects = [topology("rack"), pod_group()]
        self.nodes = [msgspec.convert(node(f"node-{at}", rack=f"r{at // 2}"), Node) for at in range(4)]
        self.pods: list[Pod] = []
        self.looks = 0
        self.broken = False
        self.ending = threading.Event()
        self.may_end = threading.Event()
        self.may_end.set()

    def bind(self, name: str, node_name: str) -> None:
        """One more member, on a node."""
        self.pods = [*self.pods, msgspec.convert(pod(name, labels={GROUP: "llm"}, nodeName=node_name), Pod)]

    @contextmanager
    def following(self) -> Iterator["MovingPicture"]:
        """Itself."""
        yield self
        self.ending.set()
        self.may_end.wait()

    def look(self) -> Observation:
        """Return the current state. All its objects are new, except the nodes."""
        self.looks += 1
        if self.broken:
            raise RuntimeError("no sight")
        sources = replace(StillPicture(self.objects).sources(), pods=self.pods)
        return observed(sources, self)


def observed(sources: Sources, picture: MovingPicture) -> Observation:
    """Return an observation of the current state, read again from the sources."""
    snapshot = snapshot_of(picture.nodes, picture.pods)
    return Observation(picture.looks, sources, read_all(sources).gangs, topologies(sources)[0], snapshot)


@pytest.fixture
def picture() -> MovingPicture:
    """Four nodes in two racks and a gang without members."""
    return MovingPicture()


@pytest.fixture
def feed(picture: MovingPicture) -> Iterator[LiveFeed]:
    """A feed that reads the cluster view often."""
    made = LiveFeed(picture.following, look_seconds=LOOK)
    yield made
    made.close()


def asked(feed: LiveFeed, since: str = "", seconds: float = 10.0) -> Any:
    """An answer as its reader has it."""
    found = feed.changes(since, seconds)
    assert found is not None
    return msgspec.json.decode(found.plain)


def test_who_comes_gets_everything_and_then_what_has_changed(feed: LiveFeed, picture: MovingPicture) -> None:
    first = asked(feed)
    assert first["whole"]
    assert first["topologies"][0]["nodes"] == {f"node-{at}": [f"r{at // 2}"] for at in range(4)}
    assert (list(first["gangs"]), sorted(first["nodes"])) == (
        ["koordinator/default/llm"],
        [f"node-{n}" for n in range(4)],
    )
    picture.bind("llm-0", "node-2")
    second = asked(feed, first["stamp"])
    assert not second["whole"]
    assert [each["node"] for each in second["gangs"]["koordinator/default/llm"]["members"]] == ["node-2"]
    assert {name: each["free"]["cpu"] for name, each in second["nodes"].items()} == {"node-2": 4000}
    picture.objects, picture.pods = [topology("rack")], []
    third = asked(feed, second["stamp"])
    assert (third["gangs"], third["goneGangs"], list(third["nodes"])) == ({}, ["koordinator/default/llm"], ["node-2"])


def test_who_heard_of_nothing_new_waits_and_all_who_wait_hear_at_once(feed: LiveFeed, picture: MovingPicture) -> None:
    stamp = asked(feed)["stamp"]
    again = asked(feed, stamp, 0.3)
    assert (again["stamp"], again["gangs"], again["nodes"]) == (stamp, {}, {})
    answers: list[Any] = []
    waiting = [threading.Thread(target=lambda: answers.append(asked(feed, stamp))) for _ in range(20)]
    looks = picture.looks
    for each in waiting:
        each.start()
    picture.bind("llm-0", "node-0")
    for each in waiting:
        each.join()
    assert [list(each["nodes"]) for each in answers] == [["node-0"]] * 20
    assert picture.looks - looks < 20, "viewers share their looks"


@pytest.mark.parametrize(
    "stamp", ["", "other-1", "x", "{epoch}-", "{epoch}--1", "{epoch}-99999999999999999999", "{epoch}-²"]
)
def test_who_heard_of_what_is_not_known_here_gets_everything(feed: LiveFeed, stamp: str) -> None:
    epoch = asked(feed)["stamp"].partition("-")[0]
    assert asked(feed, stamp.replace("{epoch}", epoch), 0)["whole"]


def test_room_that_is_held_or_to_come_is_told_apart(feed: LiveFeed, picture: MovingPicture) -> None:
    coming, leaving = pod("next"), pod("old", nodeName="node-1")
    coming["status"] = {"nominatedNodeName": "node-0"}
    leaving["metadata"]["deletionTimestamp"] = "2026-11-21T11:59:00Z"
    picture.pods = msgspec.convert([coming, leaving, pod("here", nodeName="node-2")], list[Pod])
    picture.nodes[3] = msgspec.convert({**node("node-3"), "spec": {"unschedulable": True}}, Node)
    nodes = asked(feed)["nodes"]
    plain = {"allocatable", "free", "pods", "reserved"}
    assert {name: sorted(each.keys() - plain) for name, each in nodes.items()} == {
        "node-0": ["held"],
        "node-1": ["leaving"],
        "node-2": [],
        "node-3": ["open", "unschedulable"],
    }
    assert {name: (each["free"]["cpu"], each["pods"], each["reserved"]) for name, each in nodes.items()} == {
        "node-0": (4000, 0, 1),
        "node-1": (8000, 1, 0),
        "node-2": (4000, 1, 0),
        "node-3": (8000, 0, 0),
    }
    assert (nodes["node-0"]["held"]["cpu"], nodes["node-1"]["leaving"]["cpu"]) == (4000, 4000)


def test_a_large_answer_is_compressed_once(feed: LiveFeed, picture: MovingPicture) -> None:
    small = feed.changes("")
    assert small is not None
    assert small.compressed is None
    picture.objects = [topology("rack"), *(pod_group(f"g{at}") for at in range(1000))]
    asked(feed, asked(feed)["stamp"])
    large, again = feed.changes(""), feed.changes("")
    assert large is not None
    assert again is not None
    assert large.compressed is not None
    assert gzip.decompress(large.compressed) == large.plain
    assert again.compressed is large.compressed


def test_another_topology_is_everything_anew(feed: LiveFeed, picture: MovingPicture) -> None:
    stamp = asked(feed)["stamp"]
    picture.nodes = [*picture.nodes, msgspec.convert(node("node-4", rack="r2"), Node)]
    found = asked(feed, stamp)
    assert (found["whole"], found["topologies"][0]["nodes"]["node-4"]) == (True, ["r2"])


def test_so_many_gone_that_nobody_remembers_them_is_everything_anew(
    feed: LiveFeed, picture: MovingPicture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "MOST_GONE", 20)  # as many as are remembered take a busy machine a minute to look at
    picture.objects = [topology("rack"), *(pod_group(f"g{at}") for at in range(41))]
    stamp = asked(feed)["stamp"]
    picture.objects = picture.objects[:22]
    some_gone = asked(feed, stamp)
    assert (some_gone["whole"], len(some_gone["gangs"]), len(some_gone["goneGangs"])) == (False, 0, 20)
    picture.objects = picture.objects[:1]
    found = asked(feed, some_gone["stamp"])
    assert (found["whole"], found["gangs"]) == (True, {})


def test_a_look_that_fails_is_nobodys_answer_and_the_next_who_asks_has_it_tried_again(
    feed: LiveFeed, picture: MovingPicture, caplog: pytest.LogCaptureFixture
) -> None:
    picture.broken = True
    assert feed.changes("") is None
    assert "the live feed ends" in caplog.text
    picture.broken = False
    assert asked(feed)["whole"]


def test_nobody_looks_where_nobody_asks(picture: MovingPicture) -> None:
    feed = LiveFeed(picture.following, look_seconds=LOOK, idle_seconds=0.1)
    stamp = asked(feed)["stamp"]
    assert picture.ending.wait(PATIENCE_SECONDS)
    looks = picture.looks
    time.sleep(0.2)
    assert picture.looks == looks
    assert asked(feed, stamp)["whole"], "what was seen is forgotten, and looked at anew"
    feed.close()


def test_who_asks_in_the_moment_in_which_the_looking_ends_has_it_begun_anew(picture: MovingPicture) -> None:
    feed = LiveFeed(picture.following, look_seconds=LOOK, idle_seconds=0.05)
    stamp = asked(feed)["stamp"]
    picture.may_end.clear()
    assert picture.ending.wait(PATIENCE_SECONDS)
    assert asked(feed, stamp)["whole"]
    picture.may_end.set()
    feed.close()


class JumpingClock(SystemClock):
    """A clock that a test sets forward."""

    ahead = 0.0

    def monotonic(self) -> float:
        """Return the machine's monotonic seconds and those by which the clock was set forward."""
        return super().monotonic() + self.ahead


def test_a_feed_stays_up_to_date_while_a_client_waits_longer_than_the_idle_time(picture: MovingPicture) -> None:
    clock = JumpingClock()
    feed = LiveFeed(picture.following, look_seconds=LOOK, idle_seconds=1000.0, clock=clock)
    stamp = asked(feed)["stamp"]

    def bind_later() -> None:
        wait_for(lambda: feed._waiting)  # noqa: SLF001 - nothing public shows that a client waits
        clock.ahead = 2000.0
        looks = picture.looks
        wait_for(lambda: picture.looks > looks + 1, "the feed to look again after its idle time")
        picture.bind("llm-0", "node-0")

    thread = threading.Thread(target=bind_later)
    thread.start()
    assert list(asked(feed, stamp)["nodes"]) == ["node-0"]
    thread.join()
    feed.close()


def test_who_waits_while_a_look_fails_is_told_at_once(feed: LiveFeed, picture: MovingPicture) -> None:
    stamp = asked(feed)["stamp"]
    picture.broken = True
    assert feed.changes(stamp) is None, "it would have been an answer without changes"


class StandingClock(SystemClock):
    """A clock that stands still, so that no caller's credit grows while a test runs."""

    def monotonic(self) -> float:
        """Return 100 s."""
        return 100.0


class RecordedRates(AnswerRates):
    """Rates that note for how long each answer is delayed."""

    def __init__(self, a_second: float, at_once: int) -> None:
        super().__init__(a_second, at_once)
        self.pauses: list[float] = []

    def pause(self, who: str, now: float) -> float:
        """Return the pause of the real rates, and note it."""
        self.pauses.append(super().pause(who, now))
        return self.pauses[-1]


def test_who_wants_everything_again_and_again_is_answered_at_a_pace_and_others_at_once(
    picture: MovingPicture, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = RecordedRates(ANSWERS_A_SECOND, ANSWERS_AT_ONCE)
    monkeypatch.setattr(changes, "AnswerRates", lambda *_: rates)
    feed = LiveFeed(picture.following, look_seconds=LOOK, clock=StandingClock())
    asked(feed)
    for who in ["greedy"] * (ANSWERS_AT_ONCE + 2) + ["eager"] * ANSWERS_AT_ONCE + ["modest"]:
        assert feed.changes("", who=who)
    feed.close()
    held_back = [number / ANSWERS_A_SECOND for number in (1, 2)]
    assert rates.pauses == pytest.approx([0.0] * ANSWERS_AT_ONCE + held_back + [0.0] * (ANSWERS_AT_ONCE + 1))


def test_a_pace_is_kept_by_each_and_only_so_many_are_remembered() -> None:
    pace = AnswerRates(2.0, 3)
    assert [pace.pause("a", 100.0) for _ in range(5)] == [0, 0, 0, 0.5, 1.0]
    assert pace.pause("b", 100.0) == 0
    assert pace.pause("a", 101.0) == pytest.approx(0.5)
    assert [pace.pause("a", 110.0) for _ in range(4)] == [0, 0, 0, 0.5]
    for number in range(2 * MOST_KNOWN):
        pace.pause(f"other-{number}", 111.0)
    assert len(pace._due) == MOST_KNOWN  # noqa: SLF001 -- what is remembered is not told


def test_the_end_is_an_answer_to_all_who_wait(feed: LiveFeed) -> None:
    stamp = asked(feed)["stamp"]
    answers: list[Any] = []
    waiting = threading.Thread(target=lambda: answers.append(asked(feed, stamp, WAIT_SECONDS)))
    waiting.start()
    wait_for(lambda: feed._waiting, "somebody to wait")  # noqa: SLF001 -- how many wait is not told
    feed.close()
    waiting.join()
    assert answers[0]["stamp"] == stamp


def test_who_waits_takes_no_thread_from_others() -> None:
    assert (pool_of("/v1/changes"), pool_of("/v1/gangs"), pool_of("/v1/changes/")) == (VIEWERS, GUARDED, GUARDED)
