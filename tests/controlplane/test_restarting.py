"""Components can be ended and started again, in every way a machine may do that to them.

On a control plane of their own: clients of an API server that was away come back slowly, and others would wait for it.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from controlplane.control_plane import ControlPlane, wait_until
from controlplane.recording import Recorder

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

PODS = "/api/v1/namespaces/default/pods"
COMEBACK_SECONDS = 240.0
"""The time limit for recovery: a restarted kwok gets its nodes only when their leases have expired, after 40 s."""


@pytest.fixture(scope="module")
def fragile() -> Iterator[ControlPlane]:
    """A control plane for this module, with one node."""
    with ControlPlane() as running:
        status = {"allocatable": {"cpu": "100", "memory": "8Gi", "pods": "100"}}
        running.add_nodes([{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n-0"}, "status": status}])
        yield running


def pod(name: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": "main"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize(
    ("component", "end"),
    [
        ("kube-scheduler", "kill"),
        pytest.param("kube-scheduler", "stop", marks=pytest.mark.long),
        pytest.param("kube-controller-manager", "kill", marks=pytest.mark.long),
        pytest.param("kube-controller-manager", "stop", marks=pytest.mark.long),
        pytest.param("kwok", "kill", marks=pytest.mark.long),
        ("kube-apiserver", "kill"),
        pytest.param("kube-apiserver", "stop", marks=pytest.mark.long),
        ("etcd", "kill"),
        pytest.param("etcd", "stop", marks=pytest.mark.long),
    ],
)
def test_each_component_can_be_ended_and_started_again(fragile: ControlPlane, component: str, end: str) -> None:
    program = fragile.program(component)
    before = program.pid
    getattr(program, end)()
    assert not program.running
    program.start()
    fragile.await_ready(component)
    fragile.await_ready("kube-apiserver")
    assert program.pid not in (0, before)
    name = f"after-{component}-{end}"
    fragile.create(PODS, [pod(name)])
    running = "Running"
    wait_until(lambda: fragile.request("GET", f"{PODS}/{name}")["status"]["phase"] == running, COMEBACK_SECONDS, name)


def test_a_recorder_says_when_the_server_ended_the_watch(fragile: ControlPlane) -> None:
    with Recorder(fragile) as recorder:
        fragile.program("kube-apiserver").kill()
        with pytest.raises(TimeoutError, match=r"\(the watch broke|\(the server ended the watch"):
            recorder.wait_for(bool)
    fragile.program("kube-apiserver").start()
    fragile.await_ready("kube-apiserver")
