"""A member is released, and its node fills up before the scheduler binds it.

team-0, team-1 released   ── scheduler killed ──►   filler takes the node of team-1   ── scheduler back ──►

A gang with the guarantee all-or-none is withdrawn then. Another gang stays as it is until there is capacity.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from proxy import Proxy, Request
from system import Phalanx, node, numbered, pod, pod_group
from test_release_protocol import MUST_SPINE, topology

from kube.keys import SYSTEM_NAMESPACE

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

MEMBERS = numbered("team", 2)


def releases(request: Request) -> bool:
    """The patch that takes a member's gate away."""
    return request.verb == "PATCH" and request.path.split("?")[0].endswith(tuple(f"/pods/{each}" for each in MEMBERS))


@contextmanager
def scheduler_dies_at_release(phalanx: Phalanx, folder: Path) -> Iterator[None]:
    """Members that are released during this context wait for a scheduler."""
    scheduler = phalanx.cluster.program("kube-scheduler")
    phalanx.cluster.program("controller").kill()

    killed: list[str] = []

    def kill(request: Request) -> None:
        if releases(request) and not killed:
            killed.append(request.path)
            scheduler.kill()

    with Proxy(phalanx.cluster.kubeconfig_for(SYSTEM_NAMESPACE, "phalanx-controller"), folder) as proxy:
        proxy.before = kill
        controller = phalanx.deployment.start_controller(proxy.kubeconfig())
        yield
        controller.terminate()
        controller.wait()


def gated(phalanx: Phalanx, name: str) -> bool:
    return bool(phalanx.pod(name)["spec"].get("schedulingGates"))


def let_go(phalanx: Phalanx, mode: str) -> str:
    """Create the gang, and wait until its members are released; return the node of team-1."""
    group = pod_group("team", 2, MUST_SPINE)
    group["metadata"]["annotations"]["gang.scheduling.koordinator.sh/mode"] = mode
    phalanx.submit(group, *(pod(each, "team") for each in MEMBERS))
    phalanx.wait(lambda: not any(gated(phalanx, each) for each in MEMBERS), "both to be released")
    return str(phalanx.pod("team-1")["status"]["nominatedNodeName"])


def test_a_gang_of_all_or_nothing_whose_member_lost_its_node_is_withdrawn(phalanx: Phalanx, tmp_path: Path) -> None:
    phalanx.cluster.add_nodes(node(f"node-{i}", "spine-0", "block-0") for i in range(2))
    phalanx.submit(topology())
    with scheduler_dies_at_release(phalanx, tmp_path):
        lost = let_go(phalanx, "Strict")
        phalanx.submit(pod("filler", nodeName=lost))
        phalanx.cluster.program("kube-scheduler").start()
        phalanx.cluster.await_ready("kube-scheduler")
        phalanx.wait(lambda: not set(MEMBERS) & {each["metadata"]["name"] for each in phalanx.pods()}, "both to go")
        begins = "waits for 2 more pods: 0 of 2 exist; withdrawn: 1 of 2 pods that must run together had"
        phalanx.wait(lambda: phalanx.status("team").get("message", "").startswith(begins), "the gang to wait")
        said = phalanx.status("team")["message"]
        assert f"(team-1 was released to {lost}, which cannot take it: Insufficient cpu), so those were evicted" in said
        assert said.endswith("pods that no controller makes again have to be created again")
        whole = next(each for each in phalanx.status("team")["conditions"] if each["type"] == "Whole")
        assert (whole["status"], whole["reason"]) == ("False", "Withdrawn")
        path = "/apis/events.k8s.io/v1/namespaces/default/events"
        reasons = {"GangWithdrawn", "MemberWithdrawn"}
        phalanx.wait(
            lambda: reasons <= {each.get("reason") for each in phalanx.cluster.request("GET", path)["items"]}, "events"
        )
        phalanx.cluster.kubectl("delete", "pod", "filler", "--force", "--grace-period=0")
        phalanx.submit(*(pod(each, "team") for each in MEMBERS))
        phalanx.await_bound(MEMBERS)
        assert "withdrawn" not in phalanx.await_phase("team", "Placed")["message"]


@pytest.mark.allows("PARTLY_BOUND")  # a group that is not strict may run in part
def test_a_member_whose_node_filled_up_is_told_of_until_there_is_room(phalanx: Phalanx, tmp_path: Path) -> None:
    phalanx.cluster.add_nodes(node(f"node-{i}", "spine-0", "block-0") for i in range(2))
    phalanx.submit(topology())
    with scheduler_dies_at_release(phalanx, tmp_path):
        lost = let_go(phalanx, "NonStrict")
        assert phalanx.await_phase("team", "Released")["proof"] == "Optimal"
        phalanx.submit(pod("filler", nodeName=lost))
        said = (
            f"pod team-1 was released to {lost} and cannot be bound there (Insufficient cpu): "
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
