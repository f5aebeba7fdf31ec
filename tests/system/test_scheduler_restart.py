"""The scheduler restarts while a gang's capacity is reserved, and another pod requests a part of it.

    held-0..3 gated, nominated to spine-1   ── scheduler restarts ──►   intruder wants node-5, all of it

From Kubernetes 1.37 on, the new scheduler counts the nominations, and the intruder waits. Before, it does not count
them, and the intruder gets the node. No member of the gang is released by then: it is planned again and starts whole
elsewhere.
"""

import threading
from pathlib import Path

import pytest
from proxy import Proxy, Request
from system import Phalanx, numbered, pod, pod_group, unschedulable

from kube.keys import SYSTEM_NAMESPACE
from kube.versions import Holding, holding, version_of

pytestmark = pytest.mark.controlplane

MEMBERS = numbered("held", 4)
SPINE_1 = [f"node-{index}" for index in range(5, 9)]


def probes(request: Request) -> bool:
    """Return whether the request creates the probe, after which capacity is counted for the last time."""
    return request.verb == "POST" and request.path.split("?")[0].endswith(f"{SYSTEM_NAMESPACE}/pods")


def notes(phalanx: Phalanx) -> dict[str, str]:
    """The events of the default namespace: of each reason, the last note."""
    items = phalanx.cluster.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    return {each["reason"]: each.get("note", "") for each in items}


def test_room_is_held_over_a_restart_or_the_gang_is_planned_again_whole(phalanx: Phalanx, tmp_path: Path) -> None:
    version = phalanx.cluster.request("GET", "/version")["gitVersion"]
    phalanx.guide_nodes()
    phalanx.cluster.program("controller").kill()
    go_on, reached = threading.Event(), threading.Event()

    def wait(request: Request) -> None:
        if probes(request):
            reached.set()
            go_on.wait(120)

    with Proxy(phalanx.cluster.kubeconfig_for(SYSTEM_NAMESPACE, "phalanx-controller"), tmp_path) as proxy:
        proxy.before = wait
        controller = phalanx.deployment.start_controller(proxy.kubeconfig())
        phalanx.submit(pod_group("held", 4, ("SpineLayer", "MustGather")), *(pod(each, "held") for each in MEMBERS))
        phalanx.wait(reached.is_set, "the controller to have nominated all")
        held = sorted(phalanx.pod(each)["status"]["nominatedNodeName"] for each in MEMBERS)
        scheduler = phalanx.cluster.program("kube-scheduler")
        scheduler.kill()
        scheduler.start()
        phalanx.cluster.await_ready("kube-scheduler")
        phalanx.submit(pod("intruder", nodeSelector={"kubernetes.io/hostname": "node-5"}))
        keeps = holding(version_of(version)) is Holding.ALWAYS
        if keeps:
            phalanx.wait(lambda: unschedulable(phalanx.pod("intruder")), "the intruder to be turned away")
        else:
            phalanx.await_bound(["intruder"])
        go_on.set()
        places = phalanx.await_bound(MEMBERS)
        proxy.before = lambda _: None
        controller.terminate()
        controller.wait()
    assert held == SPINE_1
    if keeps:
        assert sorted(places.values()) == SPINE_1, notes(phalanx)
        assert not phalanx.pod("intruder")["spec"].get("nodeName")
    else:
        assert set(places.values()) <= {f"node-{index}" for index in range(5)}
        assert {"RoomLost", "RoomNotHeld"} <= notes(phalanx).keys()
