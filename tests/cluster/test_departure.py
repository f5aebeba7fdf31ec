"""When a terminating pod counts as gone, and when it counts as running again.

-30 s          end of grace          +30 s
LATER     |      SOON        |      SOON       |     OVERDUE
"""

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from cluster.capturing import Capture
from cluster.departure import Departure, departure_of, next_change
from cluster.node_state import Tenant
from cluster.topology.domain_room import free_and_terminating_on
from kube.objects import Container, Node, NodeStatus, ObjectMeta, Pod, PodSpec, PodStatus, ResourceRequirements

END = datetime.fromisoformat("2026-01-01T00:00:00Z")


def pod(*, deletion: str | None = "2026-01-01T00:00:00Z") -> Pod:
    """A pod of 4 cpu on node n."""
    container = Container(name="main", resources=ResourceRequirements(requests={"cpu": "4"}))
    meta = ObjectMeta(name="p", namespace="default", uid="p", resource_version="1", deletion_timestamp=deletion)
    return Pod(metadata=meta, spec=PodSpec(node_name="n", containers=(container,)))


@pytest.mark.parametrize(
    ("seconds", "departure"),
    [
        (-31.0, Departure.LATER),
        (-30.0, Departure.SOON),
        (0.0, Departure.SOON),
        (30.0, Departure.SOON),
        (30.1, Departure.OVERDUE),
    ],
)
def test_departure_by_seconds_since_the_end_of_the_grace_period(seconds: float, departure: Departure) -> None:
    assert departure_of(pod(), END + timedelta(seconds=seconds)) is departure


def test_a_pod_that_does_not_terminate_has_no_departure() -> None:
    assert departure_of(pod(deletion=None), END) is None


@pytest.mark.parametrize("text", ["", "yesterday", "2026-01-01T00:00:00"])
def test_a_time_that_cannot_be_read_counts_as_soon(text: str) -> None:
    assert departure_of(pod(deletion=text), END) is Departure.SOON
    assert next_change(pod(deletion=text), END) is None


def test_a_capture_tells_when_a_pod_counts_otherwise() -> None:
    """The free cpu of the node, at the times at which the capture announces a change."""
    now = END - timedelta(seconds=100)
    capture = Capture(now=now)
    capture.put_node(Node(metadata=ObjectMeta(name="n"), status=NodeStatus(allocatable={"cpu": "4"})))
    capture.put_pod(pod())
    free = [capture.snapshot().nodes[0].room[0]["cpu"]]
    while (change := capture.next_departure) is not None:
        assert not capture.advance(change - timedelta(milliseconds=1))
        assert capture.advance(change)
        free.append(capture.snapshot().nodes[0].room[0]["cpu"])
    assert free == [0, 4000, 0]
    (tenant,) = capture.snapshot().nodes[0].departing
    assert tenant.overdue


@pytest.mark.parametrize("seconds", [-100.0, 0.0, 100.0])
def test_people_see_a_terminating_pod_until_it_is_gone(seconds: float) -> None:
    """A reservation waits for the pod. By the planner's rules, the pod counts as running at first and at last."""
    capture = Capture(now=END + timedelta(seconds=seconds))
    capture.put_node(Node(metadata=ObjectMeta(name="n"), status=NodeStatus(allocatable={"cpu": "8"})))
    capture.put_pod(pod())
    held = replace(
        pod(deletion=None), metadata=ObjectMeta(name="h", namespace="default", uid="h", resource_version="1")
    )
    capture.put_pod(replace(held, spec=replace(held.spec, node_name=""), status=PodStatus(nominated_node_name="n")))
    free, terminating = free_and_terminating_on(capture.snapshot().nodes[0])
    assert (free["cpu"], terminating) == (4000, {"cpu": 4000, "pods": 1})


def test_a_terminating_pod_is_no_victim_however_it_counts() -> None:
    for departure in (None, *Departure):
        tenant = Tenant(pod(), "n", {"cpu": 4000}, 0, departure=departure)
        assert tenant.terminating is (departure in (None, Departure.SOON))
    capture = Capture(now=END + timedelta(minutes=5))
    capture.put_node(Node(metadata=ObjectMeta(name="n"), status=NodeStatus(allocatable={"cpu": "4"})))
    capture.put_pod(pod())
    assert capture.snapshot().nodes[0].evictable == ()
