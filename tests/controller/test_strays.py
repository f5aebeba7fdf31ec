"""Pods of no gang that wait for an absent scheduler: each gets one event, a bounded number at a time."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, cast

import msgspec
from manual_clock import ManualClock

from cluster.caches.cache import ClusterCache
from cluster.schedulers import SchedulerIndex
from controller.cluster_view import ClusterView
from controller.status.strays import MOST_AT_A_TIME, MOST_OF_A_NAMESPACE, Strays
from controller.telemetry.events import Reason
from controller.telemetry.recorder import Recorder
from gangs.model import ObjectRef
from gangs.sources import Sources
from kube.objects import Pod
from timing.clock import rfc3339

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Heard:
    """A recorder that keeps the recorded events."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, str]] = []

    def record(self, ref: ObjectRef, reason: Reason, note: str, *, related: ObjectRef | None = None) -> None:
        """Keep it."""
        assert (reason.name, related) == ("SchedulerAbsent", None)
        self.notes.append((f"{ref.namespace}/{ref.name}", note))


class Scene:
    """Pods that wait, a clock, and the events about them."""

    def __init__(self) -> None:
        self.index, self.heard, self.clock = SchedulerIndex(), Heard(), ManualClock()
        self.strays = Strays(
            cast("ClusterCache", self.index),
            cast("Recorder", self.heard),
            clock=self.clock,
        )

    def come(self, names: Sequence[str], scheduler: str = "kai-scheduler", **metadata: Any) -> None:
        """Pods are made now, each named `namespace/name`."""
        for each in names:
            namespace, _, name = each.partition("/")
            time = rfc3339(self.clock.wall())
            made = {"namespace": namespace, "name": name, "uid": each, "creationTimestamp": time, **metadata}
            self.index.put(msgspec.convert({"metadata": made, "spec": {"schedulerName": scheduler}}, Pod))

    def after(self, seconds: float) -> list[str]:
        """Return the names of the pods that get an event in a round at that time (seconds)."""
        self.clock.now, self.heard.notes = seconds, []
        self.strays.tell(cast("ClusterView", type("Seen", (), {"sources": Sources(tried=self.index.tried())})))
        return [name for name, _ in self.heard.notes]


def test_a_pod_is_told_of_once_when_its_scheduler_has_had_time_enough() -> None:
    scene = Scene()
    scene.come(["default/gpu-pod"])
    assert scene.after(10) == []
    assert scene.strays.unfinished
    assert scene.after(40) == ["default/gpu-pod"]
    assert scene.heard.notes[0][1] == (
        "names scheduler kai-scheduler, which does not run here: nothing will start it; "
        "make it again with schedulerName: default-scheduler, or none"
    )
    assert (scene.after(50), scene.strays.unfinished) == ([], False)


def test_so_many_at_a_time_and_so_many_of_a_namespace() -> None:
    scene = Scene()
    scene.come([f"a/p{number}" for number in range(200)])
    scene.come([f"b/p{number}" for number in range(5)])
    told = Counter[str]()
    for seconds in range(40, 140, 5):
        now = scene.after(seconds)
        assert len(now) <= MOST_AT_A_TIME
        told.update(name.partition("/")[0] for name in now)
    assert told == {"a": MOST_OF_A_NAMESPACE, "b": 5}
    assert not scene.strays.unfinished
    scene.come([f"a/more{number}" for number in range(30)])
    assert scene.after(200) == []
    scene.come([f"a/later{number}" for number in range(3)])
    assert len(scene.after(800)) == 3


def test_members_of_gangs_and_pods_of_schedulers_that_run_are_not_told_of() -> None:
    scene = Scene()
    scene.come(["default/member"], labels={"phalanx.dev/gang": "g"})
    scene.come(["default/waits"], "my-profile")
    running = {"name": "runs", "namespace": "default", "uid": "runs"}
    status = {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    spec = {"schedulerName": "my-profile", "nodeName": "n1"}
    scene.index.put(msgspec.convert({"metadata": running, "spec": spec, "status": status}, Pod))
    assert (scene.after(60), scene.strays.unfinished) == ([], False)


def test_who_has_gone_is_forgotten() -> None:
    scene = Scene()
    scene.come(["default/p"])
    assert scene.after(40) == ["default/p"]
    scene.index.drop("default/p")
    scene.after(50)
    assert scene.strays._seen == set()  # noqa: SLF001 - nothing grows
