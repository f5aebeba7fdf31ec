"""A member is let go, and before the scheduler binds it its node fills up.

team-0, team-1 let go   ── scheduler killed ──►   filler takes the node of team-1   ── scheduler back ──►
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from proxy import Proxy, Request
from system import Phalanx, node, numbered, pod, pod_group
from test_release_protocol import MUST_SPINE, topology

from kube.keys import SYSTEM_NAMESPACE

pytestmark = pytest.mark.controlplane

MEMBERS = numbered("team", 2)


def releases(request: Request) -> bool:
    """The patch that takes a member's gate away."""
    return request.verb == "PATCH" and request.path.split("?")[0].endswith(tuple(f"/pods/{each}" for each in MEMBERS))


@contextmanager
def scheduler_dies_at_release(phalanx: Phalanx, folder: Path) -> Iterator[None]:
    """Whoever is let go meanwhile waits for a scheduler."""
    scheduler = phalanx.cluster.program("kube-scheduler")
    phalanx.cluster.program("controller").kill()

    def kill(request: Request) -> None:
        if releases(request) and scheduler.running:
            scheduler.kill()

    with Proxy(phalanx.cluster.kubeconfig_for(SYSTEM_NAMESPACE, "phalanx-controller"), folder) as proxy:
        proxy.before = kill
        controller = phalanx.deployment.start_controller(proxy.kubeconfig())
        yield
        controller.terminate()
        controller.wait()


def gated(phalanx: Phalanx, name: str) -> bool:
    return bool(phalanx.pod(name)["spec"].get("schedulingGates"))


def test_a_member_whose_node_filled_up_is_told_of_until_there_is_room(phalanx: Phalanx, tmp_path: Path) -> None:
    phalanx.cluster.add_nodes(node(f"node-{i}", "spine-0", "block-0") for i in range(2))
    phalanx.apply(topology())
    with scheduler_dies_at_release(phalanx, tmp_path):
        phalanx.apply(pod_group("team", 2, MUST_SPINE), *(pod(each, "team") for each in MEMBERS))
        phalanx.wait(lambda: not any(gated(phalanx, each) for each in MEMBERS), "both to be let go")
        lost = phalanx.pod("team-1")["status"]["nominatedNodeName"]
        assert phalanx.await_phase("team", "Released")["proof"] == "Optimal"
        phalanx.apply(pod("filler", nodeName=lost))
        said = (
            f"pod team-1 was let go to {lost} and cannot be bound there (Insufficient cpu): "
            "make room, or delete it to be planned anew"
        )
        phalanx.wait(lambda: phalanx.status("team").get("message") == said, "the gang's message")
        status = phalanx.status("team")
        assert (status["phase"], status["reason"]) == ("Released", "RoomTaken")
        assert "proof" not in status
        phalanx.cluster.program("kube-scheduler").start()
        phalanx.cluster.await_ready("kube-scheduler")
        phalanx.await_bound(["team-0"])
        assert phalanx.status("team")["message"] == said
        assert not phalanx.nodes_of(["team-1"])["team-1"]
        events = "/apis/events.k8s.io/v1/namespaces/default/events"
        phalanx.wait(
            lambda: said in {each.get("note") for each in phalanx.cluster.request("GET", events)["items"]}, "the event"
        )
        phalanx.cluster.kubectl("delete", "pod", "filler", "--force", "--grace-period=0")
        assert phalanx.await_bound(MEMBERS)["team-1"] == lost
        assert phalanx.await_phase("team", "Placed")["reason"] == "AllBound"
