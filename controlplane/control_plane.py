"""The control plane as one thing: start it, use it, stop it.

Flags and their reasons: a loopback advertise address is refused by the endpoint reconciler, so there is none; etcd
need not survive a power cut here; controllers for the addresses of real nodes have nothing to do.
"""

import http.client
import json
import os
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from controlplane.binaries import Binaries, find_binaries
from controlplane.directories import RunDirectory
from controlplane.processes import Program
from controlplane.stages import pod_deletion

READY_SECONDS = 90.0
NODES_SECONDS = 60.0
REQUEST_SECONDS = 30.0
_POLL_SECONDS = 0.1

Manifest = Mapping[str, Any]


class StartError(Exception):
    """A component did not come up; the text holds the end of its log."""


@dataclass(frozen=True, slots=True)
class Options:
    """What differs between runs.

    `slow_deletion`: seconds a pod of that priority class stays Terminating. `feature_gates` go to the API server, the
    scheduler and the controller-manager; `runtime_config` to the API server.
    """

    slow_deletion: Mapping[str, float] = field(default_factory=dict)
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    runtime_config: Sequence[str] = ()


class ControlPlane:
    """A control plane on free loopback ports. Use it as a context manager, from the main thread."""

    def __init__(self, options: Options | None = None, binaries: Binaries | None = None) -> None:
        self._options = options or Options()
        self._binaries = binaries
        self._stack = ExitStack()
        self._programs: dict[str, Program] = {}
        self._token = secrets.token_hex(16)
        self.directory = Path()
        self.server = ""
        self.kubeconfig = Path()
        self.ca_file = Path()

    def __enter__(self) -> Self:
        """Start everything and wait until it works."""
        _exit_on_sigterm()
        self._binaries = self._binaries or find_binaries()
        self.directory = self._stack.enter_context(RunDirectory())
        try:
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop everything and remove its files."""
        order = [p for name, p in self._programs.items() if name not in ("kube-apiserver", "etcd")]
        rest = [self._programs[name] for name in ("kube-apiserver", "etcd") if name in self._programs]
        for group in (order, rest[:1], rest[1:]):
            for program in group:
                program.signal(signal.SIGCONT)
                program.terminate()
            for program in group:
                program.wait()
        self._stack.close()

    def program(self, name: str) -> Program:
        """One component, to be stopped, killed, frozen or started again: kube-scheduler, kube-apiserver, etcd, …."""
        return self._programs[name]

    def run(self, name: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Program:
        """Start another program beside the control plane; it is stopped with it."""
        program = Program(name, arguments, self.directory / f"{name}.log", environment)
        self._programs[name] = program
        program.start()
        return program

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """Run kubectl as the administrator and return what it prints (both streams where it fails and need not work).

        :raises subprocess.CalledProcessError: it failed; `stderr` says why.
        """
        answer = self.kubectl_result(*arguments, stdin=stdin)
        if check and answer.returncode != 0:
            raise subprocess.CalledProcessError(answer.returncode, answer.args, answer.stdout, answer.stderr)
        return answer.stdout if check else answer.stdout + answer.stderr

    def kubectl_result(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the administrator; exit status, output and warnings are the caller's to look at."""
        assert self._binaries is not None  # noqa: S101 - set on entering
        command = [self._binaries["kubectl"], "--kubeconfig", str(self.kubeconfig), *arguments]
        environment = {**os.environ, "HOME": str(self.directory), "KUBECTL_EXTERNAL_DIFF": "diff -u -N"}
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, env=environment)

    def apply(self, objects: Iterable[Manifest]) -> None:
        """Apply objects with kubectl's server-side apply."""
        text = yaml.safe_dump_all([dict(each) for each in objects])
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)

    def request(self, method: str, path: str, body: object = None) -> Any:
        """Ask the API server as the administrator; returns the decoded answer, whatever its status."""
        connection = http.client.HTTPSConnection(
            self.server.removeprefix("https://"), context=self._trust(), timeout=30
        )
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        response = connection.getresponse()
        text = response.read()
        connection.close()
        return json.loads(text) if response.getheader("Content-Type") == "application/json" else text.decode()

    def watch(self, path: str, since: str) -> http.client.HTTPSConnection:
        """Begin a watch as the administrator; its events are the lines of the connection's response."""
        host = self.server.removeprefix("https://")
        connection = http.client.HTTPSConnection(host, context=self._trust())
        query = f"?watch=true&resourceVersion={since}"
        connection.request("GET", path + query, headers={"Authorization": f"Bearer {self._token}"})
        return connection

    def kubeconfig_for(self, namespace: str, service_account: str) -> Path:
        """A kubeconfig that speaks as a service account, with its real rights."""
        token = self.kubectl("create", "token", service_account, "-n", namespace, "--duration", "24h").strip()
        return self._kubeconfig(f"{namespace}-{service_account}", token)

    def add_nodes(self, nodes: Iterable[Manifest]) -> None:
        """Create nodes and wait until each is Ready and has lost the taints of a new one."""
        names = []
        for node in nodes:
            self.request("POST", "/api/v1/nodes", node)
            names.append(node["metadata"]["name"])
        self.await_nodes(names)

    def await_nodes(self, names: Iterable[str]) -> None:
        """Wait until the nodes can take pods."""
        wanted = set(names)

        def ready() -> bool:
            items = self.request("GET", "/api/v1/nodes")["items"]
            return wanted <= {each["metadata"]["name"] for each in items if _takes_pods(each)}

        wait_until(ready, NODES_SECONDS, "nodes to become Ready")

    def _start(self) -> None:
        self.kubeconfig, self.ca_file = self.directory / "kubeconfig", self.directory / "certs" / "apiserver.crt"
        client, peer, api, scheduler, manager, kwok = free_ports(6)
        self.server = f"https://127.0.0.1:{api}"
        self._keys()
        self._run_etcd(client, peer)
        self._run_api_server(client, api)
        self.kubeconfig = self._kubeconfig("admin", self._token)
        self._await("kube-apiserver", self._api_ready)
        config = str(self.kubeconfig)
        gates = self._gates()
        assert self._binaries is not None  # noqa: S101 - set on entering
        self.run(
            "kube-scheduler",
            [
                self._binaries["kube-scheduler"],
                f"--kubeconfig={config}",
                "--leader-elect=false",
                f"--secure-port={scheduler}",
                "--bind-address=127.0.0.1",
                *gates,
            ],
        )
        self.run(
            "kube-controller-manager",
            [
                self._binaries["kube-controller-manager"],
                f"--kubeconfig={config}",
                "--leader-elect=false",
                "--controllers=*,-nodeipam",
                f"--service-account-private-key-file={self.directory / 'sa.key'}",
                f"--secure-port={manager}",
                "--bind-address=127.0.0.1",
                *gates,
            ],
        )
        self._run_kwok(kwok)
        self._await("kube-controller-manager", self._accounts_ready)

    def _keys(self) -> None:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
        (self.directory / "sa.key").write_bytes(pem)
        (self.directory / "tokens.csv").write_text(f'{self._token},admin,admin,"system:masters"\n')

    def _run_etcd(self, client: int, peer: int) -> None:
        assert self._binaries is not None  # noqa: S101 - set on entering
        clients, peers = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
        self.run(
            "etcd",
            [
                self._binaries["etcd"],
                f"--data-dir={self.directory / 'etcd'}",
                f"--listen-client-urls={clients}",
                f"--advertise-client-urls={clients}",
                f"--listen-peer-urls={peers}",
                f"--initial-advertise-peer-urls={peers}",
                f"--initial-cluster=default={peers}",
                "--unsafe-no-fsync",
            ],
        )

    def _run_api_server(self, etcd: int, port: int) -> None:
        assert self._binaries is not None  # noqa: S101 - set on entering
        key = self.directory / "sa.key"
        runtime = [f"--runtime-config={','.join(self._options.runtime_config)}"] if self._options.runtime_config else []
        self.run(
            "kube-apiserver",
            [
                self._binaries["kube-apiserver"],
                f"--etcd-servers=http://127.0.0.1:{etcd}",
                "--bind-address=127.0.0.1",
                f"--secure-port={port}",
                "--endpoint-reconciler-type=none",
                f"--cert-dir={self.directory / 'certs'}",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={key}",
                f"--service-account-signing-key-file={key}",
                f"--token-auth-file={self.directory / 'tokens.csv'}",
                "--authorization-mode=RBAC",
                "--service-cluster-ip-range=10.96.0.0/16",
                *runtime,
                *self._gates(),
            ],
        )

    def _run_kwok(self, port: int) -> None:
        assert self._binaries is not None  # noqa: S101 - set on entering
        own = self.directory / "stages.yaml"
        own.write_text(yaml.safe_dump_all(pod_deletion(self._options.slow_deletion)))
        self.run(
            "kwok",
            [
                self._binaries["kwok"],
                f"--kubeconfig={self.kubeconfig}",
                "--manage-all-nodes=true",
                "--node-ip=127.0.0.1",
                "--node-lease-duration-seconds=40",
                f"--server-address=127.0.0.1:{port}",
                *(f"--config={path}" for path in (*self._binaries.stages, own)),
            ],
        )

    def _gates(self) -> list[str]:
        gates = ",".join(f"{name}={str(on).lower()}" for name, on in self._options.feature_gates.items())
        return [f"--feature-gates={gates}"] if gates else []

    def _kubeconfig(self, name: str, token: str) -> Path:
        path = self.directory / f"{name}.kubeconfig"
        cluster = {"server": self.server, "certificate-authority": str(self.ca_file)}
        path.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "phalanx", "cluster": cluster}],
                    "users": [{"name": name, "user": {"token": token}}],
                    "contexts": [{"name": "phalanx", "context": {"cluster": "phalanx", "user": name}}],
                    "current-context": "phalanx",
                }
            )
        )
        return path

    def _trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.ca_file))

    def _api_ready(self) -> bool:
        return self.ca_file.exists() and self.request("GET", "/readyz") == "ok"

    def _accounts_ready(self) -> bool:
        """Pods are admitted once their namespace has its service account."""
        path = "/api/v1/namespaces/default/serviceaccounts/default"
        return bool(self.request("GET", path).get("kind") == "ServiceAccount")

    def _await(self, name: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            fallen = next((p for p in self._programs.values() if not p.running), None)
            if fallen:
                raise StartError(f"{fallen.name} ended at once:\n{fallen.tail()}")
            try:
                if ready():
                    return
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(_POLL_SECONDS)
        raise StartError(f"{name} was not ready after {READY_SECONDS:.0f} s:\n{self._programs[name].tail()}")


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait until `condition` holds.

    :raises TimeoutError: it did not in that time; `what` names it.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        time.sleep(_POLL_SECONDS)


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody listens on; taken together so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _takes_pods(node: Manifest) -> bool:
    conditions = node.get("status", {}).get("conditions", ())
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    new = any(each["key"].startswith("node.kubernetes.io/") for each in node["spec"].get("taints", ()))
    return ready and not new


def _exit_on_sigterm() -> None:
    """Leave by the way of `finally` clauses when asked to end; an own handler of the program's stays."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
