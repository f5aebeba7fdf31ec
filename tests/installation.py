"""Phalanx as `kubectl apply -k manifests/all-dialects` installs it, with only the permissions that the manifests grant.

The API server reaches the webhook through the Service and trusts it by the certificate that the controller issues. This
module takes the part of a node. It runs the containers' commands as processes with the tokens of their service
accounts, and writes the Secret where the container mounts it. The Service points to this machine, because no pod really
runs.
"""

import base64
import contextlib
import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.error import URLError
from urllib.request import urlopen

import yaml
from access_rules import ACCOUNTS, Right

from certs.cluster_edge import CONFIGURATIONS, DEFAULT_PLACE
from controlplane.api import ApiServer
from controlplane.control_plane import ControlPlane, Options, free_ports, wait_until
from controlplane.programs.other_versions import asked_for
from controlplane.running.processes import Program
from kube.keys import SYSTEM_NAMESPACE

MANIFESTS = Path(__file__).parents[1] / "manifests" / "all-dialects"
PATIENCE = 300.0
USER = f"system:serviceaccount:{SYSTEM_NAMESPACE}:"
FORBIDDEN = 403
_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "users": [f"{USER}{each}" for each in ACCOUNTS]}, {"level": "None"}],
}
_CRITICAL = {"operator": "In", "scopeName": "PriorityClass", "values": ["system-cluster-critical"]}
_RATIONED = {"resource": "pods", "matchScopes": [_CRITICAL]}
_STRICT = {
    "apiVersion": "apiserver.config.k8s.io/v1",
    "kind": "AdmissionConfiguration",
    "plugins": [
        {
            "name": "ResourceQuota",
            "configuration": {
                "apiVersion": "apiserver.config.k8s.io/v1",
                "kind": "ResourceQuotaConfiguration",
                "limitedResources": [_RATIONED],
            },
        }
    ],
}
"""Admits pods of critical priority only in namespaces that have a quota for them, as some cloud providers configure."""
_COMMAND = [sys.executable, "-c", "from cli.main import main; main()"]

Request = Mapping[str, Any]
"""An entry of the audit log."""


class Installation:
    """A separate control plane with Phalanx installed. Use it as a context manager.

    :param more: more flags for the control plane's components (`controlplane.control_plane.Options`).
    """

    def __init__(self, more: Mapping[str, Sequence[str]] | None = None) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="phalanx-installation-"))
        self._audit = self._folder / "audit.log"
        policy, strict = self._folder / "policy.yaml", self._folder / "admission.yaml"
        policy.write_text(yaml.safe_dump(_POLICY))
        strict.write_text(yaml.safe_dump(_STRICT))
        self.plane = ControlPlane(
            Options(
                slow_deletion={"low-priority": 3.0},
                api_server=(
                    f"--audit-policy-file={policy}",
                    f"--audit-log-path={self._audit}",
                    "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
                    f"--admission-control-config-file={strict}",
                ),
                more=more or {},
            ),
            asked_for(),
        )
        self.port, self.metrics_port, webhook_health, controller_health = free_ports(4)
        self.tokens: list[str] = []
        """All tokens that this object has sent to one of the servers."""
        self.health = {"webhook": webhook_health, "controller": controller_health}
        self.certificates = self._folder / "certificates"
        """The folder with the webhook's certificate and key, in place of the Secret that its container mounts."""
        self.certificates.mkdir()
        self._over = threading.Event()
        self._kubelet = threading.Thread(target=self._mount, name="kubelet", daemon=True)

    def __enter__(self) -> Self:
        """Install, and wait until both servers are ready and the API server trusts the webhook."""
        self.plane.__enter__()
        try:
            self._install()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop everything and remove its files."""
        self._over.set()
        self.plane.__exit__(kind, error, trace)
        shutil.rmtree(self._folder)

    def objects(self) -> list[dict[str, Any]]:
        """The manifests of the installation, as `kubectl kustomize` prints them."""
        return [each for each in yaml.safe_load_all(self.plane.kubectl("kustomize", str(MANIFESTS))) if each]

    def requests(self) -> Iterator[Request]:
        """The requests that the two service accounts have sent to the API server so far."""
        yield from next(self.audit())

    def audit(self) -> Iterator[list[Request]]:
        """Yield all requests of the two service accounts so far, and then, each time, those since the time before."""
        with self._audit.open() as log:
            begun = ""
            while True:
                *lines, begun = (begun + log.read()).split("\n")
                yield [json.loads(line) for line in lines]

    def start(self, name: str) -> Program:
        """Run the command of the container `name`, under its own service account."""
        config = self.plane.kubeconfig_for(SYSTEM_NAMESPACE, f"phalanx-{name}")
        self.tokens.append(yaml.safe_load(config.read_text())["users"][0]["user"]["token"])
        own = {
            "webhook": [f"--port={self.port}", "--host=127.0.0.1"],
            "controller": ["--health-address=127.0.0.1", "--lease-seconds=10", f"--metrics-port={self.metrics_port}"],
        }[name]
        own += [f"--health-port={self.health[name]}", "--log-level=debug"]
        command = self.command(name, [*self.pod(name)["containers"][0]["args"], *own], config)
        return self.plane.run(name, command, {**os.environ, "HOME": str(self.plane.directory)})

    def command(self, name: str, arguments: list[str], kubeconfig: Path) -> list[str]:
        """Return the command that runs the container `name` on this machine, in the foreground."""
        here = [f"--cert-dir={self.certificates}"] if name == "webhook" else []
        return [*_COMMAND, *arguments, f"--kubeconfig={kubeconfig}", *here]

    def pod(self, name: str) -> dict[str, Any]:
        """The spec of a server's pods."""
        deployment = next(
            each
            for each in self.objects()
            if (each["kind"], each["metadata"]["name"]) == ("Deployment", f"phalanx-{name}")
        )
        spec: dict[str, Any] = deployment["spec"]["template"]["spec"]
        return spec

    @contextlib.contextmanager
    def stopped(self, name: str) -> Iterator[None]:
        """Terminate a server as a cluster does (SIGTERM), and start it again when the context ends."""
        program = self.plane.program(name)
        program.terminate()
        program.wait()
        yield
        self.start(name)
        self.await_ready(name)

    def await_ready(self, name: str) -> None:
        """Wait until a server's readiness endpoint answers 200. Raises `TimeoutError` with the end of its log."""
        url = f"http://127.0.0.1:{self.health[name]}/readyz"

        def ready() -> bool:
            try:
                with urlopen(url, timeout=5) as answer:
                    return bool(answer.status == 200)
            except (URLError, OSError):
                return False

        try:
            wait_until(ready, PATIENCE, f"the {name} to be ready")
        except TimeoutError as error:
            error.add_note(self.plane.program(name).tail())
            raise

    def ask(self, method: str, path: str, token: str) -> int:
        """Send the webhook a request without a body and return the HTTP status of its answer.

        :param token: the bearer token; empty: no `Authorization` header.
        """
        self.tokens.append(token)
        trust = ssl.create_default_context(cadata=self.secret()["ca.crt"].decode())
        connection = http.client.HTTPSConnection("localhost", self.port, timeout=120, context=trust)
        with contextlib.closing(connection):
            connection.sock = self._tls(trust)
            connection.request(method, path, headers={"Authorization": f"Bearer {token}"} if token else {})
            return connection.getresponse().status

    def ask_controller(self, path: str, token: str) -> int:
        """Send the controller's metrics port a GET request and return the HTTP status of its answer.

        The controller's certificate is self-signed, so this method does not verify it.

        :param token: the bearer token; empty: no `Authorization` header.
        """
        self.tokens.append(token)
        trust = ssl.create_default_context()
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection("127.0.0.1", self.metrics_port, timeout=120, context=trust)
        with contextlib.closing(connection):
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
            return connection.getresponse().status

    @contextlib.contextmanager
    def ui(self, account: str) -> Iterator[str]:
        """Run `phalanx ui` for a service account and yield the address that it prints."""
        config = str(self.plane.kubeconfig)
        options = [f"--server=https://127.0.0.1:{self.port}", f"--service-account={account}", f"--kubeconfig={config}"]
        command = [*_COMMAND, "ui", "--no-open", *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                yield process.stdout.readline().strip()
            finally:
                process.terminate()

    def shake_hands(self, version: ssl.TLSVersion) -> str | None:
        """Return the TLS version that the webhook negotiates with a client that offers only `version`, any cipher."""
        trust = ssl.create_default_context(cadata=self.secret()["ca.crt"].decode())
        trust.set_ciphers("ALL:@SECLEVEL=0")  # otherwise OpenSSL on the client side rejects old versions first
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            trust.minimum_version = trust.maximum_version = version
        with self._tls(trust) as agreed:
            return agreed.version()

    def _tls(self, trust: ssl.SSLContext) -> ssl.SSLSocket:
        """Open a TLS connection to the webhook under the host name of its certificate."""
        name = f"{DEFAULT_PLACE.service}.{SYSTEM_NAMESPACE}.svc"
        return trust.wrap_socket(socket.create_connection(("127.0.0.1", self.port), 30), server_hostname=name)

    def trusted(self) -> bool:
        """Whether a member gets its gate: then the API server called the webhook and trusted its certificate."""
        labels = {"pod-group.scheduling.sigs.k8s.io": "none"}
        spec = {"containers": [{"name": "main", "image": "pause"}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe", "labels": labels}, "spec": spec}
        answer = self.plane.request("POST", "/api/v1/namespaces/default/pods?dryRun=All", pod)
        return bool(answer.get("spec", {}).get("schedulingGates"))

    def account(self, name: str) -> ApiServer:
        """A client of the API server with the token of one service account."""
        config = yaml.safe_load(self.plane.kubeconfig_for(SYSTEM_NAMESPACE, name).read_text())
        token = config["users"][0]["user"]["token"]
        return ApiServer(self.plane.server.removeprefix("https://"), token, self.plane.ca_file)

    def secret(self) -> dict[str, bytes]:
        """The decoded data of the certificate's Secret; empty while the Secret does not exist."""
        found = self.plane.request("GET", f"{DEFAULT_PLACE.secrets_path}/{DEFAULT_PLACE.secret}")
        return {name: base64.b64decode(value) for name, value in (found.get("data") or {}).items()}

    def logs(self) -> str:
        """The logs of both servers, one after the other."""
        return "".join((self.plane.directory / f"{name}.log").read_text() for name in self.health)

    def _install(self) -> None:
        for _ in range(2):
            self.plane.kubectl("apply", "--server-side", "-k", str(MANIFESTS))
        self.plane.kubectl("scale", "deployment", "--all", "--replicas=0", "-n", SYSTEM_NAMESPACE)
        self._lead_the_service_here()
        self._kubelet.start()
        for name in self.health:
            self.start(name)
        for name in self.health:
            self.await_ready(name)
        wait_until(self.trusted, PATIENCE, "the API server to trust the webhook")

    def _lead_the_service_here(self) -> None:
        to_here = {"spec": {"type": "ExternalName", "externalName": "localhost", "clusterIP": None, "selector": None}}
        self.plane.kubectl(
            "patch", "service", DEFAULT_PLACE.service, "-n", SYSTEM_NAMESPACE, "--type=merge", "-p", json.dumps(to_here)
        )
        for kind, name in CONFIGURATIONS:
            count = len(json.loads(self.plane.kubectl("get", kind, name, "-o", "json"))["webhooks"])
            path = "/webhooks/{}/clientConfig/service/port"
            patch = [{"op": "replace", "path": path.format(index), "value": self.port} for index in range(count)]
            self.plane.kubectl("patch", kind, name, "--type=json", "-p", json.dumps(patch))

    def _mount(self) -> None:
        """Update the mounted files whenever the Secret changes, as a kubelet does."""
        while not self._over.wait(0.2):
            try:
                held = self.secret()
            except OSError:
                continue
            for name in ("tls.crt", "tls.key"):
                path = self.certificates / name
                if name in held and (not path.exists() or path.read_bytes() != held[name]):
                    path.write_bytes(held[name])


def right_of(request: Request) -> Right:
    """Return the right that a request used, or that it lacked."""
    found = request["objectRef"]
    below = f"/{found['subresource']}" if "subresource" in found else ""
    return Right(
        account=request["user"]["username"].removeprefix(USER),
        verb=request["verb"],
        group=found.get("apiGroup", ""),
        resource=found["resource"] + below,
        namespace=found.get("namespace", ""),
        name=found.get("name", ""),
    )


def wait_for_use(installation: Installation, rights: set[Right], seconds: float = PATIENCE) -> set[Right]:
    """Wait until every right has been used or the time is over, and return the unused rights."""
    deadline, idle = time.monotonic() + seconds, set(rights)
    for entries in installation.audit():
        used = {right_of(each) for each in entries if "objectRef" in each}
        idle = {each for each in idle if not any(each.covers(one) for one in used)}
        if not idle or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    return idle
