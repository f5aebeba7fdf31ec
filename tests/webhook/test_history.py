"""`/v1/history`: what the webhook records of gangs that have ended, and how much of it.

A gang of a Job: asked for at 11:55:00, seen each second from then on, on nodes with 2 GPUs for each of its two pods.
"""

import csv
import io
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from manual_clock import ManualClock, clock_at
from pictures import Manifest, StillPicture, pod

from cluster.api.token_reviews import Access
from gangs.mirrors import MARK
from kube.keys import MIRRORS
from webhook.app import create_app
from webhook.live_view.history import (
    COLUMNS,
    KEPT,
    LOOK_SECONDS,
    MOST,
    MOST_EVICTIONS,
    MOST_OF_A_NAMESPACE,
    PATIENCE,
    History,
)
from webhook.metrics import Metrics

HEADERS = {"Authorization": "Bearer theirs"}
ASKED = "2026-11-21T11:55:00Z"


class Anybody:
    """An access check that allows every caller."""

    def access(self, token: str, verb: str, path: str) -> Access:
        """Always."""
        del token, verb, path
        return Access.ALLOWED


class Moving(StillPicture):
    """A cluster view that the test replaces."""

    def show(self, *objects: Manifest, pods: tuple[Manifest, ...] = ()) -> None:
        """Show these objects and pods from now on."""
        vars(self).update(vars(StillPicture(objects, pods=pods)))


class Watched:
    """A history with a cluster view and a clock, for one gang."""

    def __init__(self) -> None:
        self.clock: ManualClock = clock_at(ASKED)
        self.picture = Moving()
        self.history = History(self.picture, clock=self.clock)

    def after(self, seconds: float, *objects: Manifest, pods: tuple[Manifest, ...] = ()) -> None:
        """Show the objects when so many seconds have passed, and look."""
        self.clock.now += seconds
        self.picture.show(*objects, pods=pods)
        self.history.look()

    def ended(self) -> list[dict[str, Any]]:
        """The record as its readers get it."""
        return [each.as_data() for each in self.history.gangs()]


@pytest.fixture
def watched() -> Watched:
    """Nothing is there yet."""
    return Watched()


def mirror(name: str = "train", namespace: str = "default", **status: Any) -> Manifest:
    """The Gang object of a Job."""
    claim = f"phalanx/{namespace}/{name}"
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"job-{name}"}
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "creationTimestamp": ASKED}
    return {
        "apiVersion": "phalanx.dev/v1alpha1",
        "kind": "Gang",
        "metadata": {**metadata, "annotations": {MIRRORS: claim}, "ownerReferences": [owner]},
        "spec": {"queue": "training"},
        "status": {MARK: claim, "members": {"expected": 2}, **status},
    }


def job(name: str = "train", **status: Any) -> Manifest:
    """The Job."""
    metadata = {"name": name, "namespace": "default", "uid": f"job-{name}"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {}, "status": status}


def members(**spec: Any) -> tuple[Manifest, ...]:
    """The two pods of the Job, each with 2 GPUs and 500m."""
    requests = {"nvidia.com/gpu": "2", "cpu": "500m", "memory": "1Gi"}
    containers = [{"name": "main", "image": "none", "resources": {"requests": requests}}]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job-train", "controller": True}
    found = []
    for at in range(2):
        made = pod(f"train-{at}", annotations={"phalanx.dev/gang": "true"}, containers=containers, **spec)
        made["metadata"]["labels"] = {"phalanx.dev/gang": "train"}
        made["metadata"]["ownerReferences"] = [owner]
        found.append(made)
    return tuple(found)


def placed(at: str) -> Mapping[str, Any]:
    """The status of a gang that runs since then."""
    conditions = [{"type": "Placed", "status": "True", "lastTransitionTime": at}]
    return {"phase": "Placed", "reason": "AllBound", "conditions": conditions, "summary": {"domain": "s0 / r1"}}


COMPLETE: dict[str, Any] = {
    "completionTime": "2026-11-21T12:55:30Z",
    "conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": "2026-11-21T12:55:31Z"}],
}


def test_a_gang_that_has_ended_shows_its_times_its_waits_and_what_it_used(watched: Watched) -> None:
    bound = members(nodeName="n0")
    watched.after(1, mirror(phase="Waiting", reason="QuotaExhausted"), job(), pods=members())
    watched.after(19, mirror(phase="Unplaceable", reason="NoRoom"), job(), pods=members())
    watched.after(10, mirror(**placed("2026-11-21T11:55:30Z")), job(), pods=bound)
    watched.after(3600, job(**COMPLETE))
    assert watched.ended() == [
        {
            "namespace": "default",
            "name": "train",
            "dialect": "phalanx",
            "outcome": "Succeeded",
            "queue": "training",
            "pods": 2,
            "domain": "s0 / r1",
            "submitted": ASKED,
            "started": "2026-11-21T11:55:30Z",
            "finished": "2026-11-21T12:55:30Z",
            "waitedSeconds": 30,
            "ranSeconds": 3600,
            "waitedFor": [{"reason": "QuotaExhausted", "seconds": 20}, {"reason": "NoRoom", "seconds": 10}],
            "hours": {"cpu": 1, "nvidia.com/gpu": 4},
            "evictions": 0,
            "restarts": 0,
            "gangObject": "train",
            "displaced": [],
        }
    ]


def test_a_gang_that_ran_before_the_webhook_counts_from_its_start(watched: Watched) -> None:
    watched.after(1830, mirror(**placed("2026-11-21T11:55:30Z")), job(), pods=members(nodeName="n0"))
    watched.after(1800, job(**COMPLETE))
    (ended,) = watched.ended()
    assert (ended["waitedSeconds"], ended["waitedFor"], ended["hours"]["nvidia.com/gpu"]) == (30, [], 4)


def test_evictions_and_restarts_are_counted_apart(watched: Watched) -> None:
    run = placed("2026-11-21T11:55:01Z")
    watched.after(1, mirror(**run), job())
    watched.after(10, mirror(phase="Waiting", reason="MembersMissing"), job())
    watched.after(10, mirror(**run), job())
    watched.after(10, mirror(phase="Waiting", reason="MembersMissing", restarts=1), job())
    watched.after(10, mirror(**run, restarts=1), job())
    watched.after(10, job(conditions=[{"type": "Failed", "status": "True"}]))
    (ended,) = watched.ended()
    assert (ended["outcome"], ended["evictions"], ended["restarts"]) == ("Failed", 1, 1)
    assert ended["waitedFor"] == [{"reason": "MembersMissing", "seconds": 20}]


@pytest.mark.parametrize(
    ("status", "evictions"),
    [
        ({"phase": "Succeeded"}, 0),
        ({"phase": "Failed"}, 0),
        ({"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True"}]}, 1),
    ],
)
def test_a_loss_of_pods_that_completed_or_failed_is_no_eviction(
    watched: Watched, status: Manifest, evictions: int
) -> None:
    """The first pod ends, and the gang misses a member until the Job counts the pod or creates another one."""
    first, second = members(nodeName="n0")
    watched.after(1, mirror(**placed("2026-11-21T11:55:01Z")), job(), pods=(first, second))
    lost = mirror(phase="Waiting", reason="MembersMissing")
    watched.after(10, lost, job(), pods=({**first, "status": status}, second))
    watched.after(10, mirror(**placed("2026-11-21T11:55:01Z")), job(), pods=(first, second))
    watched.after(10, job(**COMPLETE))
    (ended,) = watched.ended()
    assert (ended["evictions"], len(ended["displaced"])) == (evictions, evictions)


def test_a_gang_is_evicted_after_other_pods_of_it_completed(watched: Watched) -> None:
    first, second = members(nodeName="n0")
    done = {**first, "status": {"phase": "Succeeded"}}
    watched.after(1, mirror(**placed("2026-11-21T11:55:01Z")), job(), pods=(first, second))
    watched.after(1, mirror(**placed("2026-11-21T11:55:02Z")), job(), pods=(done, second))
    watched.after(1, mirror(phase="Waiting", reason="MembersMissing"), job(), pods=(done,))
    watched.after(10, job(**COMPLETE))
    (ended,) = watched.ended()
    assert ended["evictions"] == 1


def test_an_eviction_names_the_gang_whose_plan_took_the_place(watched: Watched) -> None:
    run = placed("2026-11-21T11:55:01Z")
    planned = [{"type": "Planned", "status": "True", "lastTransitionTime": "2026-11-21T11:55:05Z"}]
    victims = [{"namespace": "default", "pod": "train-0", "gang": "default/train"}]
    urgent = mirror("urgent", phase="Evicting", victims=victims, conditions=planned)
    old = mirror("old", phase="Placed", victims=victims, conditions=[{**planned[0], "lastTransitionTime": ASKED}])
    watched.after(1, mirror(**run), old, job())
    watched.after(5, mirror(**run), old, urgent, job())
    watched.after(1, mirror(phase="Waiting", reason="MembersMissing"), old, urgent, job())
    client = create_app(watched.picture, Anybody(), Metrics(), history=watched.history).test_client()
    story = client.get("/v1/story?namespace=default&name=train", headers=HEADERS).get_json()
    assert story["displaced"] == [{"at": "2026-11-21T11:55:07Z", "by": "default/urgent"}]
    watched.after(9, old, urgent, job(**COMPLETE))
    (ended,) = watched.ended()
    assert ended["displaced"] == [{"at": "2026-11-21T11:55:07Z", "by": "default/urgent"}]


def test_only_the_last_evictions_have_a_time(watched: Watched) -> None:
    for _ in range(MOST_EVICTIONS + 1):
        watched.after(1, mirror(**placed("2026-11-21T11:55:01Z")), job())
        watched.after(1, mirror(phase="Waiting"), job())
    watched.after(1, job(**COMPLETE))
    (ended,) = watched.ended()
    assert (ended["evictions"], len(ended["displaced"])) == (MOST_EVICTIONS + 1, MOST_EVICTIONS)
    assert ended["displaced"][0] == {"at": "2026-11-21T11:55:04Z", "by": ""}


def test_a_job_without_remaining_pods_has_time_to_report_its_end(watched: Watched) -> None:
    watched.after(1, mirror(**placed("2026-11-21T11:55:01Z")), job())
    watched.after(1, job())
    assert watched.ended() == []
    watched.after(5, job(**COMPLETE))
    assert [each["outcome"] for each in watched.ended()] == ["Succeeded"]


@pytest.mark.parametrize(("left", "outcome"), [((), "Deleted"), ((job(),), "Ended")])
def test_a_gang_whose_workload_reports_no_end_is_recorded_after_a_while(
    watched: Watched, left: tuple[Manifest, ...], outcome: str
) -> None:
    watched.after(1, mirror(phase="Waiting"), job())
    watched.after(1, *left)
    watched.after(PATIENCE[outcome].total_seconds() - 1, *left)
    assert watched.ended() == []
    watched.after(1, *left)
    (ended,) = watched.ended()
    assert (ended["outcome"], ended["started"], ended["finished"]) == (outcome, None, "2026-11-21T11:55:02Z")


def test_an_object_that_only_claims_to_show_a_gang_is_not_recorded(watched: Watched) -> None:
    forged = mirror(namespace="default")
    forged["metadata"]["annotations"][MIRRORS] = "phalanx/other/train"
    watched.after(1, forged)
    watched.after(60)
    assert watched.ended() == []


def test_the_record_is_bounded_by_namespace_by_number_and_by_age(watched: Watched) -> None:
    many = [mirror(f"g{at}", "greedy") for at in range(MOST_OF_A_NAMESPACE + 1)]
    others = [mirror(f"g{at}", f"ns-{at}") for at in range(MOST)]
    watched.after(1, mirror("first"))
    watched.after(60)
    watched.after(1, *many)
    watched.after(1)
    watched.after(60)
    namespaces = [each["namespace"] for each in watched.ended()]
    assert (namespaces.count("greedy"), namespaces.count("default")) == (MOST_OF_A_NAMESPACE, 1)
    assert [each.key.name for each in watched.history.gangs("default")] == ["first"]
    watched.after(1, *others)
    watched.after(60)
    watched.after(60)
    assert len(watched.ended()) == MOST
    watched.clock.now += (KEPT + timedelta(minutes=5)).total_seconds()
    assert watched.ended() == []


def test_the_answer_is_json_or_csv_of_all_or_of_one_namespace(watched: Watched) -> None:
    watched.after(1, mirror(**placed("2026-11-21T11:55:01Z")), job(), pods=members(nodeName="n0"))
    watched.after(3600, job(**COMPLETE))
    client = create_app(watched.picture, Anybody(), Metrics(), history=watched.history).test_client()

    def answer(query: str) -> Any:
        return client.get(f"/v1/history{query}", headers=HEADERS)

    assert [each["name"] for each in answer("").get_json()["gangs"]] == ["train"]
    assert answer("?namespace=other").get_json() == {"gangs": []}
    written = answer("?format=csv&namespace=default")
    assert written.mimetype == "text/csv"
    (row,) = csv.DictReader(io.StringIO(written.text))
    assert list(row) == [*COLUMNS, "waitedFor", "cpu-hours", "nvidia.com/gpu-hours"]
    assert (row["name"], row["outcome"], row["nvidia.com/gpu-hours"]) == ("train", "Succeeded", "4.0")
    assert answer("?format=xml").status_code == 400


def test_nothing_is_read_before_the_caches_are_complete() -> None:
    history = History(StillPicture([mirror()], synced=False), clock=clock_at(ASKED))
    history.look()
    assert history.gangs() == []


def test_a_thread_reads_until_it_is_closed(watched: Watched) -> None:
    seen = list[float]()

    class Stopping(ManualClock):
        def wait(self, event: Any, seconds: float | None) -> bool:
            """Stop the thread at the third wait; the second look fails."""
            seen.append(seconds or 0)
            if len(seen) == 2:
                watched.picture.synced = _broken  # type: ignore[method-assign]
            return len(seen) == 3 or event.is_set()

    history = History(watched.picture, clock=Stopping())
    history._run()  # noqa: SLF001 -- the body of the thread
    assert seen == [LOOK_SECONDS] * 3


def _broken() -> bool:
    raise RuntimeError("no sight")
