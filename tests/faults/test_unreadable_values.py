"""Times and quantities that cannot be read: one error line in files, never an exception on the live cluster."""

from pathlib import Path

import pytest
from solving import solved, written

from cluster.capturing import snapshot_of
from kube.objects import Node, NodeStatus, ObjectMeta, Pod, PodSpec, PodStatus
from planning.stories.timeline import step_of, story

HERE = Path(__file__).parent / "unreadable_values"

SCENE = (HERE / "start_time.yaml").read_text().replace("startTime: yesterday", "STATUS")
AT_ALL = "write a time in RFC 3339, such as 2026-01-31T12:00:00Z"
LARGEST = "9223372036854775807, the largest quantity; write a smaller one"


def errors(said: str) -> list[str]:
    """The error lines, without the warning that a cluster without its one node has none."""
    return [line for line in said.splitlines() if line.startswith("error: ")]


def test_a_start_time_that_is_not_a_time_is_one_error_line() -> None:
    answer = solved(HERE / "start_time.yaml")
    assert (
        answer.said == f'error: start_time.yaml: Pod default/v: status.startTime: "yesterday" is not a time; {AT_ALL}\n'
    )
    assert answer.status == 2


TIMES = {
    "only a date": "startTime: 2026-11-29",
    "no zone": "startTime: '2026-11-29T10:00:00'",
    "a month of no year": "startTime: 2026-13-29T10:00:00Z",
    "a year before the first": "startTime: 0000-01-01T00:00:00Z",
    "before the first year elsewhere": "startTime: 0001-01-01T00:00:00+10:00",
    "of a condition": "conditions: [{type: Ready, status: 'True', lastTransitionTime: now}]",
}


@pytest.mark.parametrize("status", TIMES.values(), ids=TIMES)
def test_no_other_time_is_a_traceback(tmp_path: Path, status: str) -> None:
    answer = solved(written(tmp_path, SCENE.replace("STATUS", status)))
    assert answer.status == 2
    assert answer.said.count("\n") == 1
    assert "is not a time" in answer.said


@pytest.mark.parametrize("field", ["creationTimestamp", "deletionTimestamp"])
@pytest.mark.parametrize("kind", ["Pod", "Gang", "Node"])
def test_times_of_the_metadata(tmp_path: Path, kind: str, field: str) -> None:
    name = {"Pod": "name: v,", "Gang": "name: g,", "Node": "name: n1"}[kind]
    broken = SCENE.replace(name, f"{name.rstrip(',')}, {field}: soon{',' * name.endswith(',')}", 1)
    answer = solved(written(tmp_path, broken.replace("STATUS", "reason: none")))
    where = {"Pod": "Pod default/v", "Gang": "Gang default/g", "Node": "Node n1"}[kind]
    assert errors(answer.said) == [f'error: written.yaml: {where}: metadata.{field}: "soon" is not a time; {AT_ALL}']
    assert answer.status == 2


HUGE = {
    "a node's": ('cpu: "4"', 'cpu: "1e999999999"', "Node n1: status.allocatable.cpu: '1e999999999'"),
    "a member's": (
        'cpu: "1"',
        'cpu: "1e999999999"',
        "Pod default/g-0: spec.containers[0].resources.requests.cpu: '1e999999999'",
    ),
    "in decimal units": ('cpu: "4"', 'memory: "10E"', "Node n1: status.allocatable.memory: '10E'"),
    "what a node has allocated": (
        "STATUS",
        'allocatedResources: {cpu: "1e999999999"}',
        "Pod default/v: status.allocatedResources.cpu: '1e999999999'",
    ),
    "what a container has": (
        "STATUS",
        'containerStatuses: [{name: c, resources: {requests: {cpu: "1e999999999"}}}]',
        "Pod default/v: status.containerStatuses[0].resources.requests.cpu: '1e999999999'",
    ),
}


@pytest.mark.parametrize(("before", "after", "said"), HUGE.values(), ids=HUGE)
def test_a_quantity_beyond_the_largest_is_one_error_line(tmp_path: Path, before: str, after: str, said: str) -> None:
    answer = solved(written(tmp_path, SCENE.replace(before, after, 1).replace("STATUS", "reason: none")))
    assert errors(answer.said) == [f"error: written.yaml: {said} is more than {LARGEST}"]
    assert answer.status == 2


UNREADABLE = {
    "what a node has allocated": ("allocatedResources: {cpu: much}", "status.allocatedResources.cpu"),
    "what a container has been given": (
        "containerStatuses: [{name: c, allocatedResources: {cpu: much}}]",
        "status.containerStatuses[0].allocatedResources.cpu",
    ),
    "of an init container": (
        "initContainerStatuses: [{name: c, resources: {limits: {cpu: much}}}]",
        "status.initContainerStatuses[0].resources.limits.cpu",
    ),
}


@pytest.mark.parametrize(("status", "field"), UNREADABLE.values(), ids=UNREADABLE)
def test_quantities_of_a_status_are_read_too(tmp_path: Path, status: str, field: str) -> None:
    answer = solved(written(tmp_path, SCENE.replace("STATUS", status)))
    assert answer.said == f"error: written.yaml: Pod default/v: {field}: 'much' is not a quantity\n"
    assert answer.status == 2


def test_a_quota_beyond_the_largest(tmp_path: Path) -> None:
    quota = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q}\nspec: {hard: {pods: 1e999999999}}\n---\n"
    answer = solved(written(tmp_path, quota + SCENE.replace("STATUS", "reason: none")))
    assert answer.said.startswith("error: written.yaml: ResourceQuota default/q: spec.hard")
    assert answer.said.count("\n") == 1
    assert answer.status == 2


QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: f}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: cq}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: f, resources: [{name: cpu, nominalQuota: "1E99999999999999999999"}]}]
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: lq}
spec: {clusterQueue: cq}
---
"""


def test_a_queue_whose_quota_has_no_end_is_a_mistake(tmp_path: Path) -> None:
    """Kueue's own schema takes the text, so the controller meets it, too."""
    scene = SCENE.replace("STATUS", "reason: none").replace("spec: {podSets", "spec: {queue: lq, podSets")
    answer = solved(written(tmp_path, QUEUES + scene))
    assert "ClusterQueue cq: spec.resourceGroups[0].flavors[0].resources[0].nominalQuota" in answer.said
    assert "is not a quantity from 0 up" in answer.said
    assert answer.said.count("\n") == 1
    assert answer.status == 2


@pytest.mark.parametrize("start", ["yesterday", "0000-01-01T00:00:00Z", "0001-01-01T00:00:00+10:00", "2026-11-29", ""])
def test_a_live_pod_whose_start_cannot_be_read_counts_as_the_oldest(start: str) -> None:
    """The API server stores the year 0; Python has no such year."""
    pods = [
        Pod(
            metadata=ObjectMeta(name=name, namespace="default"),
            spec=PodSpec(node_name="n1", priority=0),
            status=PodStatus(phase="Running", start_time=time),
        )
        for name, time in (("bad", start), ("good", "2026-11-29T10:00:00Z"))
    ]
    node = Node(metadata=ObjectMeta(name="n1"), status=NodeStatus(allocatable={"cpu": "4"}))
    starts = snapshot_of([node], pods).nodes[0].evictable_columns[-1]
    assert starts == (0, 1795946400)


def test_a_story_passes_over_times_that_cannot_be_read() -> None:
    gang = {
        "metadata": {"name": "g", "namespace": "default", "creationTimestamp": "2026-11-29T10:00:00Z"},
        "status": {"conditions": [{"type": "Placed", "status": "True", "lastTransitionTime": "soon", "message": "x"}]},
    }
    event = {"metadata": {}, "reason": "GangPlaced", "lastTimestamp": "0000-01-01T00:00:00Z"}
    assert step_of(event) is None
    assert [step.what for step in story(gang, [event])] == ["asked for"]
