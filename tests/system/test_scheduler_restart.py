"""The scheduler restarts while a gang's capacity is reserved, and another pod requests a part of it.

    held-0..3 gated, nominated to spine-1   ── scheduler restarts ──►   intruder wants node-5, all of it

From Kubernetes 1.37 on, the new scheduler counts the nominations of the members, and the intruder waits. Before, it
counts only those of the placeholders, which have no gate. The intruder waits, too.
"""

import threading
from pathlib import Path

import pytest
from proxy import Proxy, Request
from system import Phalanx, numbered, pod, pod_group, unschedulable

from controlplane.programs.other_versions import scheduler_asked_for
from kube.keys import SYSTEM_NAMESPACE
from kube.placeholders import PLACEHOLDER
from kube.versions import forgets, version_of

pytestmark = pytest.mark.controlplane

MEMBERS = numbered("held", 4)
SPINE_1 = [f"node-{index}" for index in range(5, 9)]


def probes(request: Request) -> bool:
    """Return whether the request creates the probe, after which capacity is counted for the last time."""
    is_pod = request.verb == "POST" and request.path.split("?")[0].endswith(f"{SYSTEM_NAMESPACE}/pods")
    return is_pod and PLACEHOLDER not in request.body["metadata"]["labels"]


def held(phalanx: Phalanx) -> list[str]:
    """Return the nodes whose capacity is reserved, by members or placeholders.

    The API server of 1.34 keeps the nomination of a pod that is bound.
    """
    pods = [*phalanx.pods(), *phalanx.cluster.request("GET", f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods")["items"]]
    waiting = (each for each in pods if not each["spec"].get("nodeName"))
    return sorted(filter(None, (each["status"].get("nominatedNodeName") for each in waiting)))


def test_capacity_is_held_over_a_restart(phalanx: Phalanx, tmp_path: Path) -> None:
    version = scheduler_asked_for() or phalanx.cluster.request("GET", "/version")["gitVersion"]
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
        reserved = held(phalanx)
        placeholders = [each for each in MEMBERS if not phalanx.pod(each)["status"].get("nominatedNodeName")]
        scheduler = phalanx.cluster.program("kube-scheduler")
        scheduler.kill()
        scheduler.start()
        phalanx.cluster.await_ready("kube-scheduler")
        phalanx.submit(pod("intruder", nodeSelector={"kubernetes.io/hostname": "node-5"}))
        phalanx.wait(lambda: unschedulable(phalanx.pod("intruder")), "the intruder to be turned away")
        go_on.set()
        places = phalanx.await_bound(MEMBERS)
        proxy.before = lambda _: None
        controller.terminate()
        controller.wait()
    assert reserved == SPINE_1
    assert placeholders == (MEMBERS if forgets(version_of(version)) else [])
    assert sorted(places.values()) == SPINE_1
    assert not phalanx.pod("intruder")["spec"].get("nodeName")
    assert not [each for each in held(phalanx) if each in SPINE_1]
