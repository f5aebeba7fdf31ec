"""The status of ClusterQueues and LocalQueues: counts of gangs, use of flavors, and the condition Active.

One node b1 of flavor blue; pool has 4 cpu of blue and 8 of red, of the cohort c; each gang is one pod of 4 cpu.
"""

from dataclasses import replace
from typing import Any

import msgspec
import pytest
import yaml

from cluster.capturing import snapshot_of
from controller.cluster_view import ClusterView
from controller.status.status_sync import _concerns_queues, queue_statuses
from gangs.coexistence.ownership import CededToOthers, Neighbour
from gangs.dialects.reading import read_all
from gangs.manifests import key_of
from gangs.model import GangKey, ObjectRef
from gangs.sources import Sources
from kube.objects import Node, Pod

GROUP = "kueue.x-k8s.io"
NOW = "2026-01-01T00:00:00Z"
OBJECTS = f"""
apiVersion: {GROUP}/v1beta2
kind: ClusterQueue
metadata: {{name: pool, generation: 3}}
spec:
  cohortName: c
  namespaceSelector: {{}}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - {{name: blue, resources: [{{name: cpu, nominalQuota: 4}}]}}
    - {{name: red, resources: [{{name: cpu, nominalQuota: 8}}]}}
---
apiVersion: {GROUP}/v1beta2
kind: ClusterQueue
metadata: {{name: other}}
spec:
  cohortName: c
  resourceGroups:
  - {{coveredResources: [cpu], flavors: [{{name: blue, resources: [{{name: cpu, nominalQuota: 9}}]}}]}}
---
apiVersion: {GROUP}/v1beta2
kind: LocalQueue
metadata: {{name: q, namespace: default}}
spec: {{clusterQueue: pool}}
---
apiVersion: {GROUP}/v1beta2
kind: LocalQueue
metadata: {{name: q, namespace: team}}
spec: {{clusterQueue: pool}}
---
apiVersion: {GROUP}/v1beta2
kind: ResourceFlavor
metadata: {{name: blue}}
spec: {{nodeLabels: {{color: blue}}}}
---
apiVersion: {GROUP}/v1beta2
kind: ResourceFlavor
metadata: {{name: red}}
spec: {{nodeLabels: {{color: red}}}}
"""
BLUE = msgspec.convert({"metadata": {"name": "b1", "labels": {"color": "blue"}}}, Node)


def pod(name: str, *, namespace: str = "default", on: str = "", nominated: str = "") -> Pod:
    """A gang of one pod of 4 cpu in the queue q of its namespace."""
    gates = [] if on else [{"name": "phalanx.dev/gang"}]
    container = {"name": "c", "resources": {"requests": {"cpu": "4"}}}
    labels = {f"{GROUP}/queue-name": "q"}
    manifest = {
        "metadata": {"name": name, "namespace": namespace, "uid": name, "labels": labels},
        "spec": {"nodeName": on, "schedulingGates": gates, "containers": [container]},
        "status": {"nominatedNodeName": nominated},
    }
    return msgspec.convert(manifest, Pod)


def picture(*pods: Pod, without: str = "", beside: str = "", **changed: Any) -> ClusterView:
    """Return a cluster view with these pods.

    :param without: the name of an object that is left out.
    :param beside: more objects, as YAML.
    :param changed: fields of the spec of the ClusterQueue pool.
    """
    objects = [
        each for each in yaml.safe_load_all(f"{OBJECTS}---{beside}") if each and each["metadata"]["name"] != without
    ]
    objects[0]["spec"].update(changed)
    sources = Sources(pods, {key_of(each): each for each in objects})
    return ClusterView(sources, read_all(sources), (), (), snapshot_of([BLUE], pods), {})


def shown(there: ClusterView, kind: str, name: str, namespace: str = "") -> dict[str, Any]:
    """The status of one queue."""
    statuses = {each.ref: each.status for each in queue_statuses(there, NOW)}
    return statuses[ObjectRef(f"{GROUP}/v1beta2", kind, namespace, name)]


def condition(status: dict[str, Any]) -> tuple[str, str]:
    """Return status and reason of the condition Active."""
    (active,) = status["conditions"]
    assert (active["type"], active["lastTransitionTime"]) == ("Active", NOW)
    return active["status"], active["reason"]


GANG = """
apiVersion: phalanx.dev/v1alpha1
kind: Gang
metadata: {name: llm, namespace: default}
spec: {minMember: 1, queue: q}
"""


def of_a_gang(name: str, **there: str) -> Pod:
    """A pod of the Gang llm, which is in the queue q of its namespace; the pod names no queue itself."""
    made = pod(name, **there)
    labels = {"phalanx.dev/gang": "llm"}
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, labels=labels))


RUNNING, HELD, WAITING = pod("runs", on="b1"), pod("held", nominated="b1"), pod("waits", namespace="team")


def test_a_cluster_queue_counts_its_gangs_and_what_they_use_and_borrow() -> None:
    status = shown(picture(RUNNING, HELD, WAITING), "ClusterQueue", "pool")
    assert [status[f"{what}Workloads"] for what in ("pending", "reserving", "admitted")] == [1, 2, 1]
    assert status["flavorsReservation"] == [
        {"name": "blue", "resources": [{"name": "cpu", "total": "8", "borrowed": "4"}]},
        {"name": "red", "resources": [{"name": "cpu", "total": "0", "borrowed": "0"}]},
    ]
    assert status["flavorsUsage"][0] == {"name": "blue", "resources": [{"name": "cpu", "total": "4", "borrowed": "0"}]}
    assert condition(status) == ("True", "Ready")
    assert status["conditions"][0]["observedGeneration"] == 3


def test_a_local_queue_counts_those_of_its_namespace() -> None:
    there = picture(RUNNING, HELD, WAITING)
    mine, theirs = shown(there, "LocalQueue", "q", "default"), shown(there, "LocalQueue", "q", "team")
    assert [mine[f"{what}Workloads"] for what in ("pending", "reserving", "admitted")] == [0, 2, 1]
    assert [theirs[f"{what}Workloads"] for what in ("pending", "reserving", "admitted")] == [1, 0, 0]
    assert mine["flavorsUsage"][0] == {"name": "blue", "resources": [{"name": "cpu", "total": "4"}]}
    assert condition(mine) == ("True", "Ready")


def test_a_gang_object_counts_in_its_queue_like_any_other() -> None:
    status = shown(picture(RUNNING, of_a_gang("llm-0", on="b1"), beside=GANG), "LocalQueue", "q", "default")
    assert [status[f"{what}Workloads"] for what in ("pending", "reserving", "admitted")] == [0, 2, 2]
    assert status["flavorsUsage"][0] == {"name": "blue", "resources": [{"name": "cpu", "total": "8"}]}
    waits = picture(of_a_gang("llm-0"), without="pool", beside=GANG)
    assert shown(waits, "LocalQueue", "q", "default")["pendingWorkloads"] == 1


def test_a_queue_is_shown_anew_when_a_gang_object_in_it_has_changed() -> None:
    there = replace(picture(beside=GANG), concerned=frozenset({GangKey("phalanx", "default", "llm")}))
    assert _concerns_queues(there)
    assert not _concerns_queues(replace(there, concerned=frozenset({GangKey("ack", "default", "llm")})))


def test_a_queue_that_nobody_uses_shows_noughts() -> None:
    status = shown(picture(RUNNING), "ClusterQueue", "other")
    assert [status[f"{what}Workloads"] for what in ("pending", "reserving", "admitted")] == [0, 0, 0]
    assert status["flavorsUsage"] == [{"name": "blue", "resources": [{"name": "cpu", "total": "0", "borrowed": "0"}]}]


@pytest.mark.parametrize(
    ("there", "cluster_queue", "local_queue"),
    [
        (picture(stopPolicy="Hold"), ("False", "Stopped"), ("False", "ClusterQueueIsInactive")),
        (picture(without="red"), ("False", "FlavorNotFound"), ("False", "ClusterQueueIsInactive")),
        (picture(resourceGroups=3), ("False", "Invalid"), ("False", "ClusterQueueIsInactive")),
        (picture(stopPolicy="None"), ("True", "Ready"), ("True", "Ready")),
    ],
    ids=["stopped", "no flavor", "wrong", "open"],
)
def test_a_queue_that_takes_no_gangs_says_why(
    there: ClusterView, cluster_queue: tuple[str, str], local_queue: tuple[str, str]
) -> None:
    assert condition(shown(there, "ClusterQueue", "pool")) == cluster_queue
    assert condition(shown(there, "LocalQueue", "q", "default")) == local_queue


def test_a_local_queue_that_leads_nowhere_says_so() -> None:
    status = shown(picture(RUNNING, without="pool"), "LocalQueue", "q", "default")
    assert condition(status) == ("False", "ClusterQueueDoesNotExist")
    assert status["flavorsUsage"] == []


def test_what_runs_stays_charged_while_the_queue_is_stopped() -> None:
    status = shown(picture(RUNNING, stopPolicy="Hold"), "ClusterQueue", "pool")
    assert status["flavorsUsage"][0]["resources"][0]["total"] == "4"
    (gang,) = picture(pod("new"), stopPolicy="Hold").reading.gangs
    assert gang.waiting_for == ("ClusterQueue pool to be resumed (spec.stopPolicy)",)


def test_kueues_own_queues_are_left_to_it() -> None:
    left = CededToOthers({"kueue": Neighbour("kueue", "Kueue")})
    assert not list(queue_statuses(replace(picture(RUNNING), left=left), NOW))


def test_a_condition_keeps_the_time_of_its_last_change() -> None:
    there = picture(RUNNING)
    for key, manifest in there.sources.objects.items():
        if key[1] == "ClusterQueue":
            then = "2025-01-01T00:00:00Z"
            manifest["status"] = {"conditions": [{"type": "Active", "status": "True", "lastTransitionTime": then}]}  # type: ignore[index]
    assert shown(there, "ClusterQueue", "pool")["conditions"][0]["lastTransitionTime"] == "2025-01-01T00:00:00Z"
