"""Workloads that make their later pods only when earlier ones run: room is held for pods that do not exist yet.

Racks r1: n0, n1, n2; r2: n3, n4. A pod fills a node, so that a gang of three fits in r1 alone. The StatefulSet's
controller is the real one: it makes the next pod when the one before is ready, and a
readiness gate lets the test say when that is.
"""

import json
from typing import Any

import pytest
from node_manifests import node_manifest
from system import Object, Phalanx, all_bound, numbered, pod, unschedulable

from controlplane.recording import bound
from kube.keys import SYSTEM_NAMESPACE
from kube.placeholders import HELD_FOR

pytestmark = pytest.mark.controlplane

RACK = "example.com/rack"
GO = "test.phalanx.dev/go"
"""A readiness gate: the condition that the test writes where the next pod may come."""
R1 = ["n0", "n1", "n2"]


@pytest.fixture
def racks(phalanx: Phalanx) -> Phalanx:
    """Five nodes in two racks, and a topology over them."""
    phalanx.apply(
        *(node_manifest(f"n{number}", {RACK: "r1" if number < 3 else "r2"}) for number in range(5)),
        {
            "apiVersion": "phalanx.dev/v1alpha1",
            "kind": "Topology",
            "metadata": {"name": "datacenter"},
            "spec": {"levels": [{"name": "rack", "nodeLabel": RACK}]},
        },
    )
    phalanx.cluster.await_nodes(f"n{number}" for number in range(5))
    return phalanx


def stateful_set(name: str, **spec: Any) -> Object:
    """Three pods that come one after the other, all of one gang in one rack; `spec`: of the pods."""
    container = {"name": "c", "image": "b", "resources": {"requests": {"cpu": "6", "memory": "1Gi"}}}
    said = {"phalanx.dev/gang": "true", "phalanx.dev/required": "rack"}
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"readinessGates": [{"conditionType": GO}], "containers": [container], **spec},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": "default", "annotations": said},
        "spec": {
            "replicas": 3,
            "serviceName": name,
            "selector": {"matchLabels": {"app": name}},
            "template": template,
        },
    }


def make_ready(phalanx: Phalanx, name: str) -> None:
    """Let the pod be ready, so that the next one is made."""
    phalanx.wait(lambda: phalanx.pod(name)["status"]["phase"] == "Running", f"{name} to run")
    conditions = [{"type": each, "status": "True"} for each in (GO, "Ready", "ContainersReady")]
    patch = json.dumps({"status": {"conditions": conditions}})
    phalanx.cluster.kubectl("patch", "pod", name, "--subresource=status", "--type=strategic", "-p", patch)


def placeholders(phalanx: Phalanx) -> dict[str, Object]:
    """The placeholders by the names of the pods that they hold room for."""
    items = phalanx.cluster.request("GET", f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods")["items"]
    held = ((each["metadata"].get("annotations", {}).get(HELD_FOR, ""), each) for each in items)
    return {name.removeprefix("default/"): each for name, each in held if name}


def held(phalanx: Phalanx) -> dict[str, str]:
    """The node that each placeholder holds."""
    return {name: each["status"].get("nominatedNodeName", "") for name, each in placeholders(phalanx).items()}


def rival(number: int, **spec: Any) -> Object:
    """A pod that wants a node of the first rack."""
    return pod(f"rival-{number}", cpu=6, nodeSelector={"kubernetes.io/hostname": f"n{number}"}, **spec)


def test_the_room_of_pods_that_do_not_exist_yet_is_held_until_they_come(racks: Phalanx) -> None:
    names = numbered("w", 3)
    racks.apply_once_told("gang default/w: 3 pods fit in r1: n0..2", stateful_set("w"))
    racks.await_bound(names[:1])
    planned = {each["pod"]: each["node"] for each in racks.status("w")["assignments"]}
    assert sorted(planned.values()) == R1
    racks.wait(lambda: held(racks) == {name: planned[name] for name in names[1:]}, "room to be held for the others")
    racks.wait(lambda: racks.status("w").get("reason") == "PodsToCome", "the gang to say so")
    status = racks.status("w")
    assert "room is held for w-1..2, until StatefulSet default/w makes them" in status["message"]
    assert {key: status["members"][key] for key in ("expected", "existing", "bound")} == {
        "expected": 3,
        "existing": 1,
        "bound": 1,
    }
    with racks.record() as recorder:
        racks.apply(*(rival(int(node[1:])) for name, node in planned.items() if name != "w-0"))
        rivals = [f"rival-{planned[name][1:]}" for name in names[1:]]
        racks.wait(lambda: all(unschedulable(racks.pod(each)) for each in rivals), "the rivals to be turned away")
        for name in names[:2]:
            make_ready(racks, name)
            racks.await_bound(names[: names.index(name) + 2])
        events = recorder.wait_for(all_bound(names[1:]))
    assert {e.name: bound(e) for e in events if e.name in names and bound(e)} == planned
    assert not any(bound(event) for event in events if event.name.startswith("rival-"))
    racks.wait(lambda: not placeholders(racks), "no placeholder to be left")
    racks.await_phase("w", "Placed")
