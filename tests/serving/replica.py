"""Replicas of the webhook as processes, asked by the real API server through the Service, as in a cluster.

The test does the work of a node, because no pod really runs. It keeps the Secret's files in a folder like a mounted
volume, where an update exchanges one symbolic link. It also makes the Service lead to this machine.
"""

import base64
import contextlib
import http.client
import json
import os
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

from emptying import empty
from kubernetes.client.exceptions import ConflictException

from certs.cluster_edge import CONFIGURATIONS, DEFAULT_PLACE, ensure_serving_certificate
from cluster.api.connecting import connect
from cluster.api.transport import Transport
from controlplane.control_plane import ControlPlane, free_ports, wait_until
from controlplane.running.processes import Program
from kube.keys import SYSTEM_NAMESPACE

MANIFESTS = Path(__file__).parents[2] / "manifests" / "default"
PATIENCE = 180.0
"""Seconds; the API server, the replicas and their clients may have to share two slow cores. Only a failure takes it."""
PAUSE_SECONDS = 0.02
"""Seconds between an answer and a client's next request. They leave capacity for a replica that starts meanwhile."""
PATH = f"{DEFAULT_PLACE.secrets_path}/{DEFAULT_PLACE.secret}"
PODS = "/api/v1/namespaces/default/pods?dryRun=All"
MEMBER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "member", "namespace": "default", "labels": {"phalanx.dev/gang": "asked"}},
    "spec": {"containers": [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1"}}}]},
}
"""Asks for a gate: that it got one means that the webhook was called and believed."""
_COMMAND = [sys.executable, "-c", "from cli.main import main; main()"]


class Mount:
    """The files of the certificate's Secret, kept as the Secret is, like the kubelet does it."""

    def __init__(self, plane: ControlPlane) -> None:
        self.folder = plane.directory / "mounted-certificates"
        self.folder.mkdir(exist_ok=True)
        self._plane = plane
        self._version = 0
        self._held: dict[str, bytes] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="mount", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Keep them no more."""
        self._over.set()
        self._thread.join()

    def _keep(self) -> None:
        while not self._over.wait(0.1):
            with contextlib.suppress(OSError, http.client.HTTPException):
                found = self._plane.request("GET", PATH)
                if isinstance(found, dict) and found.get("kind") == "Secret":  # else it was not told, as by kubelets
                    held = {name: value for name, value in parts_of(found).items() if name.startswith("tls.")}
                    if held != self._held:
                        self._exchange(held)

    def _exchange(self, held: dict[str, bytes]) -> None:
        self._version += 1
        version = self.folder / f"..{self._version}"
        version.mkdir()
        for name, content in held.items():
            (version / name).write_bytes(content)
        for link, target in (("..data", version.name), *((name, f"..data/{name}") for name in ("tls.crt", "tls.key"))):
            new = self.folder / "..new"
            new.symlink_to(target)
            new.replace(self.folder / link)
        self._held = held


class Replica:
    """One process of the webhook."""

    def __init__(self, plane: ControlPlane, name: str, folder: Path, *options: str) -> None:
        self.port, self.health_port = free_ports(2)
        config = plane.kubeconfig_for(SYSTEM_NAMESPACE, "phalanx-webhook")
        where = [f"--port={self.port}", f"--health-port={self.health_port}", "--host=127.0.0.1"]
        command = [*_COMMAND, "webhook", *where, f"--cert-dir={folder}", f"--kubeconfig={config}", *options]
        environment = {**os.environ, "HOME": str(plane.directory)}
        self.program: Program = plane.run(name, [*command, "--certificate-poll-seconds=0.1"], environment)

    def readiness(self) -> tuple[int, str]:
        """Return status and body of `/readyz`; 0 and "" if the replica does not answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.health_port, timeout=10)
        with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("GET", "/readyz")
            response = connection.getresponse()
            return response.status, response.read().decode()
        return 0, ""

    def await_ready(self) -> None:
        """Wait until it can do its work."""
        self.await_that(lambda: self.readiness()[0] == http.HTTPStatus.OK, "to be ready")

    def await_that(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for something that depends on it, and no longer than it runs; a failure tells what it said of itself."""
        try:
            wait_until(lambda: condition() or not self.program.running, PATIENCE, f"{self.program.name} {what}")
            assert condition(), f"{self.program.name} ended before it came {what}"
        except (TimeoutError, AssertionError) as error:
            error.add_note(f"/readyz: {self.readiness()}; its log ends with\n{self.program.tail()}")
            raise

    def shown(self) -> bytes:
        """The certificate (PEM) that a new connection is shown."""
        return ssl.get_server_certificate(("127.0.0.1", self.port), timeout=PATIENCE).encode()

    def connect(self) -> http.client.HTTPSConnection:
        """Return a connection after its TLS handshake. The certificate is not verified."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE, context=context)
        connection.connect()
        return connection

    def end(self) -> None:
        """Ask it to end as a cluster would, and wait until it has by itself."""
        self.program.terminate()
        self.await_that(lambda: not self.program.running, "to end")


def secret(plane: ControlPlane) -> dict[str, bytes]:
    """Return the decoded data of the certificate's Secret; empty while the Secret does not exist."""
    return parts_of(plane.request("GET", PATH))


def parts_of(found: dict[str, Any]) -> dict[str, bytes]:
    """The data of a Secret, decoded; nothing of anything else."""
    return {name: base64.b64decode(value) for name, value in (found.get("data") or {}).items()}


def as_controller(plane: ControlPlane) -> Transport:
    """The API server as the controller's service account may use it."""
    return connect(str(plane.kubeconfig_for(SYSTEM_NAMESPACE, "phalanx-controller")))


def certify(plane: ControlPlane) -> None:
    """Run the controller's own code that issues and trusts the certificate; retry after a conflicting write."""

    def certified() -> bool:
        try:
            ensure_serving_certificate(as_controller(plane))
        except ConflictException:
            return False
        return True

    wait_until(certified, PATIENCE, "the certificate")


def lead_the_service_to(plane: ControlPlane, port: int) -> None:
    """Make the Service, and the entries of the webhook configurations, lead to `port` on this machine."""
    to_here = {"spec": {"type": "ExternalName", "externalName": "localhost", "clusterIP": None, "selector": None}}
    names = (DEFAULT_PLACE.service, "-n", SYSTEM_NAMESPACE)
    plane.kubectl("patch", "service", *names, "--type=merge", "-p", json.dumps(to_here))
    for kind, name in CONFIGURATIONS:
        found: dict[str, Any] = json.loads(plane.kubectl("get", kind, name, "-o", "json"))
        patch = [
            {"op": "replace", "path": f"/webhooks/{index}/clientConfig/service/port", "value": port}
            for index in range(len(found["webhooks"]))
        ]
        plane.kubectl("patch", kind, name, "--type=json", "-p", json.dumps(patch))


def gated(plane: ControlPlane) -> bool:
    """Whether a member that is created now gets its gate."""
    answer = plane.request("POST", PODS, MEMBER)
    return bool(answer.get("spec", {}).get("schedulingGates"))


@contextlib.contextmanager
def installed(plane: ControlPlane) -> Iterator[None]:
    """The manifests as a user applies them, without pods of the Deployments; nothing of it is left at the end."""
    empty(plane)
    plane.kubectl("apply", "-k", str(MANIFESTS))
    plane.kubectl("delete", "deployment", "-n", SYSTEM_NAMESPACE, "--all")
    try:
        yield
    finally:
        for kind, name in CONFIGURATIONS:
            plane.kubectl("delete", kind, name, "--ignore-not-found")
        for kind, name in (("secret", DEFAULT_PLACE.secret), ("service", DEFAULT_PLACE.service)):
            plane.kubectl("delete", kind, name, "-n", SYSTEM_NAMESPACE, "--ignore-not-found")


class Load:
    """Clients that create members (`dryRun`) one after the other, with a short pause between, until the end."""

    def __init__(self, plane: ControlPlane, clients: int = 4) -> None:
        self.answered = 0
        self.failures: list[str] = []
        self._plane = plane
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._ask, name=f"client-{each}") for each in range(clients)]

    def __enter__(self) -> Self:
        """Begin."""
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End, each client after the answer it waits for."""
        self._over.set()
        for each in self._threads:
            each.join(PATIENCE)

    def await_more(self, count: int = 20) -> None:
        """Wait until so many more requests have been answered."""
        wanted = self.answered + count
        wait_until(lambda: self.answered + len(self.failures) >= wanted, PATIENCE, "admissions")

    def _ask(self) -> None:
        context = ssl.create_default_context(cafile=str(self._plane.ca_file))
        host = self._plane.server.removeprefix("https://")
        headers = {"Authorization": f"Bearer {self._plane.token}", "Content-Type": "application/json"}
        with contextlib.closing(http.client.HTTPSConnection(host, timeout=PATIENCE, context=context)) as connection:
            while not self._over.wait(PAUSE_SECONDS):
                connection.request("POST", PODS, json.dumps(MEMBER), headers)
                response = connection.getresponse()
                self._note(response.status, json.loads(response.read()))

    def _note(self, status: int, answer: dict[str, Any]) -> None:
        with self._lock:
            if status == http.HTTPStatus.CREATED and answer["spec"].get("schedulingGates"):
                self.answered += 1
            else:
                self.failures.append(f"{time.strftime('%X')} {status} {answer.get('message', 'not gated')}")
