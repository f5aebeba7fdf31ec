"""`/v1/queues`: the reports of `phalanx queue`, computed once for callers of the same moment.

ClusterQueue research: 8 cpu      default/training: `first` runs with 8 cpu, `second` waits for 4
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from manual_clock import ManualClock
from pictures import Manifest, StillPicture, node, pod

from cluster.api.token_reviews import Access
from kube.keys import GATE
from webhook.app import create_app
from webhook.following import Observation
from webhook.live_view.changes import LiveFeed
from webhook.live_view.queues import KEPT_SECONDS, QueueAnswers
from webhook.metrics import Metrics

HEADERS = {"Authorization": "Bearer theirs"}
KUEUE = "kueue.x-k8s.io"


class Anybody:
    """An access check that allows every caller."""

    def access(self, token: str, verb: str, path: str) -> Access:
        """Always."""
        del token, verb, path
        return Access.ALLOWED


def kueue(kind: str, name: str, spec: Manifest, **metadata: str) -> Manifest:
    """An object of Kueue."""
    return {"apiVersion": f"{KUEUE}/v1beta2", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def member(of: str, number: int, total: int, **spec: Any) -> Manifest:
    """A pod of 4 cpu of one of Kueue's pod groups."""
    labels = {f"{KUEUE}/pod-group-name": of, f"{KUEUE}/queue-name": "training"}
    made = pod(f"{of}-{number}", labels=labels, annotations={f"{KUEUE}/pod-group-total-count": str(total)}, **spec)
    made["spec"]["containers"] = [{"name": "main", "resources": {"requests": {"cpu": "4"}}}]
    return made


def picture(**options: Any) -> StillPicture:
    """Two nodes of 8 cpu and the queue of the module's docstring."""
    flavors = [{"name": "any", "resources": [{"name": "cpu", "nominalQuota": "8"}]}]
    groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
    objects = [
        kueue("ResourceFlavor", "any", {}),
        kueue("ClusterQueue", "research", {"namespaceSelector": {}, "resourceGroups": groups}),
        kueue("LocalQueue", "training", {"clusterQueue": "research"}, namespace="default"),
    ]
    pods = [member("first", at, 2, nodeName=f"n{at}") for at in range(2)]
    pods.append(member("second", 0, 1, schedulingGates=[{"name": GATE}]))
    nodes = [node(f"n{at}", rack="r0") for at in range(2)]
    return StillPicture(objects, nodes=nodes, pods=pods, namespaces={"default": {}}, **options)


def test_a_queue_has_its_quota_the_gangs_that_use_it_and_the_line() -> None:
    client = create_app(picture(), Anybody(), Metrics()).test_client()
    answer = client.get("/v1/queues", headers=HEADERS)
    assert answer.status_code == 200, answer.text
    (queue,) = answer.get_json()["queues"]
    (quota,) = queue["quotas"]
    assert (queue["name"], quota["nominal"], quota["used"], quota["lent"], quota["free"]) == (
        "research",
        8000,
        8000,
        0,
        0,
    )
    assert [(each["name"], each["amounts"]) for each in queue["using"]] == [("first", {"cpu": 8000})]
    assert [(each["name"], each["amounts"]) for each in queue["waiting"]] == [("second", {"cpu": 4000})]


def test_gangs_name_the_cluster_queue_that_they_are_charged_to() -> None:
    found = create_app(picture(), Anybody(), Metrics()).test_client().get("/v1/gangs", headers=HEADERS).get_json()
    assert {(each["name"], each["queue"], each["clusterQueue"]) for each in found["gangs"]} == {
        ("first", "training", "research"),
        ("second", "training", "research"),
    }


def test_a_webhook_that_still_reads_the_cluster_says_so() -> None:
    answer = create_app(picture(synced=False), Anybody(), Metrics()).test_client().get("/v1/queues", headers=HEADERS)
    assert (answer.status_code, answer.get_json()["error"].partition(";")[0]) == (503, "still reading the cluster")


def test_callers_of_one_moment_share_a_report() -> None:
    clock, looks = ManualClock(), list[float]()

    def latest(seconds: float) -> Observation:
        looks.append(seconds)
        return picture().look()

    answers = QueueAnswers(latest, clock=clock)
    assert answers.answer() is answers.answer()
    clock.now += KEPT_SECONDS
    answers.answer()
    assert len(looks) == 2


def test_without_an_observation_there_is_no_answer_and_the_next_caller_looks_again() -> None:
    found: list[Observation | None] = [picture().look(), None]
    answers = QueueAnswers(lambda _: found.pop())
    assert answers.answer() is None
    assert answers.answer()


def test_a_feed_that_cannot_read_gives_no_observation() -> None:
    @contextlib.contextmanager
    def broken() -> Iterator[Any]:
        raise RuntimeError("no sight")
        yield

    feed = LiveFeed(broken)
    assert feed.latest(10.0) is None
    feed.close()
    assert feed.latest(10.0) is None
