"""Three webhook replicas, called in turn, that see the cluster up to four seconds late: nothing is lost or doubled.

API server ──► replica 1: as it is      ──► replica 2: two seconds ago      ──► replica 3: four seconds ago
"""

import http.client
import os
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from proxy import Proxy
from system import SPINE, Phalanx, node, numbered, pod, pod_group, ready
from test_release_protocol import MUST_SPINE, topology

from controlplane.control_plane import free_ports
from kube.keys import GATE, SYSTEM_NAMESPACE

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

LAGS = (0.0, 2.0, 4.0)
GANGS = 12
SIZE = 3
_COMMAND = [sys.executable, "-c", "from cli.main import main; main()", "webhook"]


class InTurn:
    """A server at the webhook's address that calls one replica after the other."""

    def __init__(self, port: int, certificates: Path, replicas: list[int]) -> None:
        self.asked = dict.fromkeys(replicas, 0)
        turns, choosing = cycle(replicas), threading.Lock()
        trust = ssl.create_default_context(cafile=certificates / "ca.crt")
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                with choosing:
                    replica = next(turns)
                    asked[replica] += 1
                headers = {"Content-Type": self.headers.get("Content-Type") or "application/json"}
                with closing(http.client.HTTPSConnection("localhost", replica, context=trust)) as upstream:
                    upstream.request("POST", self.path, body, headers)
                    answer = upstream.getresponse()
                    text = answer.read()
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.getheader("Content-Type") or "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - name of the base class
                del format, args

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates / "tls.crt", certificates / "tls.key")
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Until the end."""
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()


@contextmanager
def replicas(phalanx: Phalanx, folder: Path) -> Iterator[InTurn]:
    """The replicas, each with its own way to the API server, in place of the installation's webhook."""
    config = phalanx.cluster.kubeconfig_for(SYSTEM_NAMESPACE, "phalanx-webhook")
    certificates = phalanx.cluster.directory / "webhook-certs"
    ports = free_ports(2 * len(LAGS))
    with ExitStack() as stack:
        for place, lag in enumerate(LAGS):
            (own := folder / f"replica-{place}").mkdir()
            proxy = stack.enter_context(Proxy(config, own))
            proxy.lag = lag
            port, health = ports[2 * place : 2 * place + 2]
            command = [*_COMMAND, f"--kubeconfig={proxy.kubeconfig()}", "--host=127.0.0.1", f"--port={port}"]
            command += [f"--health-port={health}", f"--cert-dir={certificates}", "--shutdown-notice-seconds=0"]
            environment = {**os.environ, "HOME": str(phalanx.cluster.directory)}
            stack.callback(phalanx.cluster.run(f"replica-{place}", command, environment).stop)
        for health in ports[1::2]:
            phalanx.wait(lambda health=health: ready(health), "a replica to be ready")  # type: ignore[misc]
        phalanx.cluster.program("webhook").stop()
        turn = InTurn(urlsplit(phalanx.deployment.webhook_url()).port or 0, certificates, ports[::2])
        stack.enter_context(turn.serving())
        yield turn


def spines_of(phalanx: Phalanx, names: list[str]) -> set[str]:
    """The spines in which these pods run."""
    nodes = phalanx.await_bound(names).values()
    labels = {each: phalanx.cluster.request("GET", f"/api/v1/nodes/{each}")["metadata"]["labels"] for each in nodes}
    return {each[SPINE] for each in labels.values()}


def test_replicas_that_see_the_cluster_late_lose_and_double_nothing(phalanx: Phalanx, tmp_path: Path) -> None:
    phalanx.cluster.add_nodes(node(f"node-{i}", f"spine-{i // 4}", "block", 40) for i in range(12))
    phalanx.submit(topology())
    with replicas(phalanx, tmp_path) as turn, phalanx.record() as pods:
        for number in range(GANGS):
            name = f"team-{number}"
            phalanx.submit(pod_group(name, SIZE, MUST_SPINE), *(pod(each, name) for each in numbered(name, SIZE)))
            if number % 2:  # one member comes anew while some still see the old one
                phalanx.await_bound(numbered(name, SIZE))
                phalanx.cluster.kubectl("delete", "pod", f"{name}-1", "--force", "--grace-period=0")
                phalanx.submit(pod(f"{name}-1", name))
            elif number % 4:  # all pods are replaced, before or after their release
                phalanx.cluster.kubectl("delete", "pod", *numbered(name, SIZE), "--force", "--grace-period=0")
                phalanx.submit(*(pod(each, name) for each in numbered(name, SIZE)))
        for number in range(GANGS):
            assert len(spines_of(phalanx, numbered(f"team-{number}", SIZE))) == 1
            phalanx.await_phase(f"team-{number}", "Placed")
        seen = pods.events
    assert min(turn.asked.values()) >= GANGS
    came = [e.object["spec"] for e in seen if e.type == "ADDED" and e.name.startswith("team-")]
    assert [spec.get("schedulingGates") for spec in came] == [[{"name": GATE}]] * len(came)
    gangs = phalanx.cluster.request("GET", "/apis/phalanx.dev/v1alpha1/namespaces/default/gangs")["items"]
    assert sorted(each["metadata"]["name"] for each in gangs) == sorted(f"team-{number}" for number in range(GANGS))
