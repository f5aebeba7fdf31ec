"""The control plane as one object that can be started, used and stopped."""

import http.client
import os
import secrets
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from certs.files import write_self_signed
from controlplane.api import REQUEST_SECONDS, ApiServer, Manifest
from controlplane.applying import Applier
from controlplane.programs.binaries import Binaries, find_binaries
from controlplane.running.components import COMPONENTS, Place, arguments
from controlplane.running.directories import RunDirectory
from controlplane.running.janitor import MARK
from controlplane.running.ports import free_ports
from controlplane.running.processes import Program
from controlplane.running.readiness import is_ready
from controlplane.running.stages import stages
from controlplane.store import Stored, stored_objects

__all__ = ["ControlPlane", "Manifest", "Options", "StartError", "free_ports", "wait_until"]

READY_SECONDS = 300.0
NODES_SECONDS = 240.0
NODES_PER_SECOND = 25
MOST_RESTARTS = 2
"""How often a component that ends while it starts is started again, as a kubelet does with a static pod.

On a machine that is too busy, the API server ends after 30 s (`start-service-ip-repair-controllers failed: timeout`).
"""
_POLL_SECONDS, _LONGEST_POLL_SECONDS = 0.1, 1.0
_TAINTS_OF_NEW_NODES = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
"""Taints that the controller-manager removes from new nodes. A pod that is pinned to a node before that fails.

The taint of a cordon is not here, because a test may want it.
"""


class StartError(Exception):
    """A component did not become ready. The text contains the end of its log."""


LONG_LEASES: Mapping[str, Sequence[str]] = {
    "kwok": ("--node-lease-duration-seconds=3600",),
    "kube-controller-manager": ("--node-monitor-grace-period=4000s",),
}
"""`Options.more` for thousands of nodes. If each node renews its lease every ten seconds, this takes a whole core."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a control plane.

    `slow_deletion`: by priority class, how many seconds a pod of the class stays Terminating (for a single pod:
    `stages.TERMINATES_AFTER`). `feature_gates`: for the API server, the scheduler and the controller-manager.
    `runtime_config`: for the API server. `components`: the components to start; etcd and the API server always start.
    `stages`: stages for kwok besides the usual ones. `api_server`: flags of the API server besides the usual ones, such
    as `--audit-log-path=…`; the files that they name must exist.
    """

    slow_deletion: Mapping[str, float] = field(default_factory=dict)
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    runtime_config: Sequence[str] = ()
    components: Collection[str] = COMPONENTS
    stages: Sequence[Manifest] = ()
    api_server: Sequence[str] = ()
    more: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By component, flags that take precedence over its usual flags."""

    def __post_init__(self) -> None:
        """Check `components`. Raises ValueError for an unknown component."""
        unknown = set(self.components) - set(COMPONENTS)
        if unknown:
            raise ValueError(f"no such components: {', '.join(sorted(unknown))}; there are {', '.join(COMPONENTS)}")


class ControlPlane:
    """A control plane on free loopback ports. Use it as a context manager.

    It leaves no process and no file behind, even if the process that started it is killed (`directories`).
    """

    def __init__(self, options: Options | None = None, binaries: Binaries | None = None) -> None:
        self._options = options or Options()
        self._binaries = binaries
        self._stack = ExitStack()
        self._programs: dict[str, Program] = {}
        self._place = Place(Path(), {})
        self.token = secrets.token_hex(16)
        self.directory = Path()
        self.server = ""
        self.kubeconfig = Path()
        self.ca_file = Path()

    def __enter__(self) -> Self:
        """Start all components and wait until they work.

        :raises StartError: a component did not become ready.
        """
        self._binaries = self._binaries or find_binaries()
        self.directory = self._stack.enter_context(RunDirectory())
        try:
            self._start(self._binaries)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop all programs and remove their files: first the clients of the API server, then the API server, then
        etcd.
        """
        with self._stack:
            servers = [self._programs[name] for name in ("kube-apiserver", "etcd") if name in self._programs]
            clients = [each for each in self._programs.values() if each not in servers]
            for group in (clients, *([each] for each in servers)):
                for program in group:
                    program.thaw()
                    program.terminate()
                for program in group:
                    program.wait()

    def program(self, name: str) -> Program:
        """Return a running component, such as kube-scheduler or etcd, to be stopped, killed, frozen or started
        again.
        """
        return self._programs[name]

    def run(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> Program:
        """Start another program beside the control plane. `ControlPlane` stops the program when it stops the control
        plane.

        :raises RuntimeError: a program of that name runs already.
        """
        if name in self._programs and self._programs[name].running:
            raise RuntimeError(f"{name} runs already")
        marked = {**(os.environ if environment is None else environment), MARK: str(self.directory)}
        program = Program(name, command, self.directory / f"{name}.log", marked)
        self._programs[name] = program
        program.start()
        return program

    def freeze(self) -> None:
        """Stop all programs until `thaw` (SIGSTOP). Their connections stay open."""
        for each in reversed([*self._programs.values()]):
            each.freeze()

    def thaw(self) -> None:
        """Let all programs continue, the servers before their clients."""
        for each in self._programs.values():
            each.thaw()

    def await_ready(self, component: str) -> None:
        """Wait until a component works, after it was started again.

        :raises StartError: the component does not work; the text contains the end of its log.
        """
        deadline = time.monotonic() + READY_SECONDS
        program, restarts = self._programs[component], 0
        while time.monotonic() < deadline:
            if not program.running and restarts == MOST_RESTARTS:
                raise StartError(f"{component} ended at once:\n{program.tail()}")
            if not program.running:
                program.start()
                restarts += 1
            if is_ready(component, self._place, self._api):
                return
            time.sleep(_POLL_SECONDS)
        raise StartError(f"{component} was not ready after {READY_SECONDS:.0f} s:\n{program.tail()}")

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """Run kubectl as the administrator and return its standard output.

        :param check: whether a failure raises. False: after a failure, standard output and standard error are returned.
        :raises subprocess.CalledProcessError: kubectl failed. `stderr` has the reason.
        """
        answer = self.kubectl_result(*arguments, stdin=stdin)
        if check and answer.returncode != 0:
            failure = subprocess.CalledProcessError(answer.returncode, answer.args, answer.stdout, answer.stderr)
            failure.add_note(answer.stderr)
            raise failure
        return answer.stdout if check else answer.stdout + answer.stderr

    def kubectl_result(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the administrator and return its result, whatever its exit status."""
        command = [self.path_of("kubectl"), "--kubeconfig", str(self.kubeconfig), *arguments]
        environment = {**os.environ, "HOME": str(self.directory), "KUBECTL_EXTERNAL_DIFF": "diff -u -N"}
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, env=environment)

    def apply(self, objects: Iterable[Manifest]) -> None:
        """Server-side apply objects of any kind, one after the other. Conflicts are forced.

        :raises controlplane.applying.UnknownKindError: the API server does not serve the kind of an object.
        :raises controlplane.api.RefusedError: the API server rejected an object.
        """
        for each in objects:
            self.applier.apply(each)

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        content_type: str = "application/json",
        *,
        seconds: float = REQUEST_SECONDS,
    ) -> Any:
        """Send a request to the API server as the administrator. Return the decoded answer, whatever its status."""
        return self._api.request(method, path, body, content_type, seconds=seconds)

    def read(self, path: str, *, seconds: float = REQUEST_SECONDS) -> bytes:
        """Return the body of the answer to a GET of the administrator as it is, such as a CPU profile.

        :raises controlplane.api.RefusedError: the API server rejected the request.
        """
        return self._api.read(path, seconds)

    def create(self, path: str, objects: Iterable[Manifest]) -> None:
        """Create many objects of one kind at once, such as pods at `/api/v1/namespaces/default/pods`.

        :raises controlplane.api.RefusedError: the API server rejected an object.
        """
        self._api.create(path, objects)

    @cached_property
    def applier(self) -> Applier:
        """An `Applier`, which creates and applies objects of any kind with the requests that kubectl sends."""
        return Applier(self._api)

    def stored(self) -> Mapping[str, list[Stored]]:
        """Return all objects that etcd stores, by kind (`controlplane.store`). No cache is involved."""
        return stored_objects(self._place.etcd_url)

    def watch(self, path: str, since: str, fields: str = "") -> http.client.HTTPSConnection:
        """Begin a watch as the administrator; its events are the lines of the connection's response.

        :param fields: a field selector; empty: all objects.
        """
        return self._api.watch(path, since, fields)

    def kubeconfig_for(self, namespace: str, service_account: str) -> Path:
        """Write a kubeconfig with the token and thus the permissions of a service account. Return its path."""
        token = self.kubectl("create", "token", service_account, "-n", namespace, "--duration", "24h").strip()
        return self._kubeconfig(f"{namespace}-{service_account}", token)

    def add_nodes(self, nodes: Iterable[Manifest]) -> None:
        """Create nodes and wait until each is Ready and has lost the taints of a new node.

        :raises controlplane.api.RefusedError: the API server rejected a node.
        """
        wanted_nodes = list(nodes)
        self.create("/api/v1/nodes", wanted_nodes)
        self.await_nodes(each["metadata"]["name"] for each in wanted_nodes)

    def await_nodes(self, names: Iterable[str]) -> None:
        """Wait until the named nodes are Ready and have lost the taints of new nodes, so that they can take pods."""
        wanted = set(names)

        def ready() -> bool:
            items = self.request("GET", "/api/v1/nodes")["items"]
            return wanted <= {each["metadata"]["name"] for each in items if _takes_pods(each)}

        wait_until(ready, NODES_SECONDS + len(wanted) / NODES_PER_SECOND, "nodes to become Ready")

    def _start(self, binaries: Binaries) -> None:
        names = (*COMPONENTS, "peer")
        place = Place(self.directory, dict(zip(names, free_ports(len(names)), strict=True)))
        self._place, self.server, self.ca_file = place, place.server, place.ca_file
        self.kubeconfig = self._kubeconfig("admin", self.token)
        self._write_keys(place)
        self._stack.callback(self._api.close)
        self._launch("etcd", binaries)
        self._launch("kube-apiserver", binaries)  # it retries until etcd serves
        self.await_ready("etcd")
        self.await_ready("kube-apiserver")
        others = [each for each in COMPONENTS[2:] if each in self._options.components]
        for component in others:
            self._launch(component, binaries)
        for component in others:
            self.await_ready(component)

    def _launch(self, component: str, binaries: Binaries) -> None:
        options = self._options
        flags = arguments(component, self._place, options.feature_gates, options.runtime_config)
        more = options.api_server if component == "kube-apiserver" else ()
        self.run(component, [binaries[component], *flags, *more, *options.more.get(component, ())])

    def _write_keys(self, place: Place) -> None:
        write_self_signed(place.certificates, ("localhost", "kubernetes.default.svc"), ("127.0.0.1",))
        key = ec.generate_private_key(ec.SECP256R1())
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
        place.service_account_key.write_bytes(pem)
        place.tokens.write_text(f'{self.token},admin,admin,"system:masters"\n')
        place.stages.write_text(yaml.safe_dump_all([*stages(self._options.slow_deletion), *self._options.stages]))

    def _kubeconfig(self, name: str, token: str) -> Path:
        path = self.directory / f"{name}.kubeconfig"
        cluster = {"server": self.server, "certificate-authority": str(self.ca_file)}
        new = path.with_suffix(".new")
        new.write_text(
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
        new.replace(path)  # a program that was given the path before may be reading it
        return path

    def path_of(self, program: str) -> str:
        """Return the path of an executable of the control plane, such as kubectl."""
        if self._binaries is None:
            raise RuntimeError("the control plane has not been started")
        return self._binaries[program]

    @cached_property
    def _api(self) -> ApiServer:
        return ApiServer(self.server.removeprefix("https://"), self.token, self.ca_file)


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait until `condition` returns True. The pause between two calls is as long as a call takes, within bounds.

    :raises TimeoutError: the condition was not True within `seconds`. `what` names the condition in the message.
    """
    deadline, looked = time.monotonic() + seconds, time.monotonic()
    while not condition():
        now = time.monotonic()
        if now > deadline:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        time.sleep(max(_POLL_SECONDS, min(now - looked, _LONGEST_POLL_SECONDS)))
        looked = time.monotonic()


def _takes_pods(node: Manifest) -> bool:
    conditions = node.get("status", {}).get("conditions", ())
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and all(each["key"] not in _TAINTS_OF_NEW_NODES for each in node["spec"].get("taints", ()))
