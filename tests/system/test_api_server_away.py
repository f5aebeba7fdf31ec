"""The API server or its store goes away in the middle of a release: the gang is whole when it is back, and nothing is
done twice.

leader             ── release ● ● │ it stands still, or is killed │ ● ● ● ● whole
API server, etcd   ───────────────┤ ······························├────────────
"""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from proxy import Proxy, Request
from system import Phalanx, node, numbered, pod
from test_killed_releases import releases

from controller.defaults import LEASE_SECONDS
from kube.keys import GATE, SYSTEM_NAMESPACE

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(300), pytest.mark.long]

AWAY_SECONDS = LEASE_SECONDS + 3
MEMBERS = numbered("member", 6)


@pytest.fixture
def whoever_binds_starts_anew(phalanx: Phalanx) -> Iterator[None]:
    """Restart the stock scheduler after a test, for the sake of later tests.

    If the scheduler was binding when the API server died, it may try for ever to bind a pod that is bound or gone. It
    then counts that pod on its node.
    """
    yield
    scheduler = phalanx.cluster.program("kube-scheduler")
    scheduler.stop()
    scheduler.start()
    phalanx.cluster.await_ready("kube-scheduler")


@pytest.mark.usefixtures("whoever_binds_starts_anew")
@pytest.mark.parametrize(
    ("what", "how"),
    [
        ("kube-apiserver", "is killed"),
        pytest.param("kube-apiserver", "stands still", marks=pytest.mark.long),
        pytest.param("etcd", "is killed", marks=pytest.mark.long),
        pytest.param("etcd", "stands still", marks=pytest.mark.long),
    ],
)
def test_a_gang_that_is_being_let_go_is_whole_once_it_is_back(
    phalanx: Phalanx, tmp_path: Path, what: str, how: str
) -> None:
    phalanx.cluster.add_nodes(node(each, "spine", "block") for each in numbered("node", 6))
    phalanx.cluster.program("controller").kill()
    server, begun = phalanx.cluster.program(what), threading.Event()

    def away(request: Request) -> None:
        if releases(request) and not begun.is_set():
            begun.set()
            server.freeze() if how == "stands still" else server.kill()

    with Proxy(phalanx.cluster.kubeconfig_for(SYSTEM_NAMESPACE, "phalanx-controller"), tmp_path) as proxy:
        phalanx.deployment.start_controller(proxy.kubeconfig())
        proxy.after = away
        meta = {"name": "llm", "namespace": "default"}
        made = {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", "metadata": meta, "spec": {"minMember": 6}}
        members = [pod(each) for each in MEMBERS]
        for each in members:
            each["metadata"]["labels"] = {"phalanx.dev/gang": "llm"}
        phalanx.cluster.create("/apis/phalanx.dev/v1alpha1/namespaces/default/gangs", [made])
        phalanx.cluster.create("/api/v1/namespaces/default/pods", members)
        uids = {each["metadata"]["name"]: each["metadata"]["uid"] for each in phalanx.pods()}
        assert begun.wait(60)
        time.sleep(AWAY_SECONDS)
        server.thaw() if how == "stands still" else server.start()
        for program in ("etcd", "kube-apiserver"):
            phalanx.cluster.await_ready(program)
        where = phalanx.await_bound(MEMBERS)
        assert len(set(where.values())) == len(MEMBERS)
        now = {each["metadata"]["name"]: each for each in phalanx.pods()}
        assert {name: each["metadata"]["uid"] for name, each in now.items()} == uids
        assert not any({"name": GATE} in each["spec"].get("schedulingGates", ()) for each in now.values())
        phalanx.await_phase("llm", "Placed")


def test_the_next_test_does_not_go_on_with_a_controller_behind_this_proxy(phalanx: Phalanx, tmp_path: Path) -> None:
    """It would, by the connections that it had, until it needed another: for a kind that is served later, say."""
    phalanx.cluster.program("controller").kill()
    with Proxy(phalanx.cluster.kubeconfig_for(SYSTEM_NAMESPACE, "phalanx-controller"), tmp_path) as proxy:
        behind = phalanx.deployment.start_controller(proxy.kubeconfig())
    phalanx.ensure_servers()
    usual = phalanx.cluster.program("controller")
    assert usual.running
    assert not behind.running
    phalanx.ensure_servers()
    assert phalanx.cluster.program("controller") is usual
