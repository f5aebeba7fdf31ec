"""Operators as processes beside a control plane, with their own CustomResourceDefinitions and their own webhooks."""

import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import yaml

from certs.authority import Pair, ServerNames, issue, new_authority
from controlplane import operators
from controlplane.control_plane import ControlPlane, free_ports, wait_until
from controlplane.definitions import define

PATIENCE = 120.0
LOOPBACK = "127.0.0.1"
_FLAGS = {
    "kuberay": ("--enable-leader-election=false", "--metrics-addr=0", "--health-probe-bind-address={health}"),
    "mpi-operator": (
        "--lock-namespace=kube-system",
        "--monitoring-port=0",
        "--kube-api-qps=50",
        "--kube-api-burst=100",
    ),
    "training-operator": (
        "--metrics-bind-address=0",
        "--health-probe-bind-address={health}",
        "--webhook-server-port={port}",
    ),
}
"""The flags of the operators that take flags instead of a configuration file."""
_CONFIGURATIONS = {
    "lws": ("config.lws.x-k8s.io", "internalCertManagement", True),
    "jobset": ("config.jobset.x-k8s.io", "internalCertManagement", True),
    "trainer": ("config.trainer.kubeflow.org", "certManagement", False),
}
"""The operators that take a configuration file: the API group of the file, the field that configures the certificates,
and whether the file may name the certificates' folder.
"""
_HEALTH = {"mpi-operator": 8080}
"""The health ports of operators whose port cannot be configured."""
_OWN_PAIR = "training-operator-webhook-cert"
"""The Secret of the training operator's own certificate. It is not served here, but the operator waits for it."""
_LEFT_BEHIND = {"mpi-operator": ("lease/mpi-operator",), "training-operator": (f"secret/{_OWN_PAIR}",)}
"""Objects in kube-system that are deleted when an operator ends. They would block its next start."""
_MOUNTED = Path("/tmp/k8s-webhook-server/serving-certs/tls.crt")  # noqa: S108 - the operator looks nowhere else
"""The certificate file for which the training operator waits. The operator does not read its content."""
_CERTIFICATES = Path("k8s-webhook-server", "serving-certs")
"""The default folder of an operator's certificate and key, relative to its folder for temporary files."""


@dataclass(frozen=True, slots=True)
class Running:
    """A running operator. `hooks`: its webhook configurations, which `register` applies."""

    name: str
    plane: ControlPlane
    hooks: list[dict[str, Any]] = field(default_factory=list)

    def register(self) -> None:
        """Register the operator's webhooks. Call it again after the cluster is emptied, because that deletes them."""
        if self.hooks:
            self.plane.apply(self.hooks)


@contextmanager
def running(plane: ControlPlane, name: str, *, report: Callable[[str], None] = print) -> Iterator[Running]:
    """Run an operator. On exit, delete all objects of its kinds and stop it. Its CustomResourceDefinitions stay.

    :param report: receives the last lines of the operator's log on exit.
    """
    found = list(operators.definitions(name))
    define(plane, name, found)
    port, health = free_ports(2)
    health = _HEALTH.get(name, health)
    wait_until(lambda: not _lives(health), PATIENCE, f"port {health} to be free, which {name} cannot do without")
    folder = plane.directory / name
    folder.mkdir(exist_ok=True)  # the operator may have run on this control plane before, for other tests
    authority = new_authority(name, datetime.now(UTC))
    _write_pair(folder / _CERTIFICATES, issue(authority, ServerNames(addresses=(LOOPBACK,)), datetime.now(UTC)))
    if name == "training-operator":
        _give_own_secret(plane)
    hooks = list(operators.webhooks(name, plane.kubectl, f"https://{LOOPBACK}:{port}", authority.certificate))
    environment = {
        "KUBECONFIG": str(plane.kubeconfig),
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "MY_POD_NAMESPACE": "kube-system",
    }
    process = plane.run(name, [str(operators.program(name)), *_arguments(plane, name, port, health)], environment)
    try:
        wait_until(
            lambda: process.running and (_serves(port) if hooks else _lives(health)), PATIENCE, f"{name} to serve"
        )
        yield Running(name, plane, hooks)
    finally:
        report(f"--- {name}\n{process.tail()}")
        try:
            if process.running:
                wait_until(lambda: not _delete_all(plane, found), PATIENCE, f"{name} to let its objects go")
        finally:
            process.terminate()
            process.wait()
        if left := _LEFT_BEHIND.get(name):
            plane.kubectl("delete", "--namespace=kube-system", "--ignore-not-found", *left)


def _delete_all(plane: ControlPlane, definitions: list[dict[str, Any]]) -> int:
    """Delete the objects of these kinds, and return how many there were, so that the caller can repeat it until 0.

    A kind that cannot be listed counts as one object. Some objects disappear only while their operator runs.
    """
    count = 0
    for spec in (each["spec"] for each in definitions):
        version = next(each["name"] for each in spec["versions"] if each["served"])
        root, plural = f"/apis/{spec['group']}/{version}", spec["names"]["plural"]
        listed = plane.request("GET", f"{root}/{plural}")
        count += "items" not in listed
        for found in listed.get("items", ()):
            metadata = found["metadata"]
            place = f"namespaces/{metadata['namespace']}/" if "namespace" in metadata else ""
            plane.request("DELETE", f"{root}/{place}{plural}/{metadata['name']}")
            count += 1
    return count


def _arguments(plane: ControlPlane, name: str, port: int, health: int) -> list[str]:
    """Return the arguments that start the operator on the given ports, without leader election."""
    if name in _FLAGS:
        return [each.format(health=f"{LOOPBACK}:{health}", port=port) for each in _FLAGS[name]]
    group, certificates, told_where = _CONFIGURATIONS[name]
    where = {"certDir": str(plane.directory / name / _CERTIFICATES)} if told_where else {}
    said = {
        "apiVersion": f"{group}/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        certificates: {"enable": False},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"{LOOPBACK}:{health}"},
        "webhook": {"host": LOOPBACK, "port": port, **where},
    }
    file = plane.directory / name / "config.yaml"
    file.write_text(yaml.safe_dump(said))
    return [f"--config={file}"]


def _give_own_secret(plane: ControlPlane) -> None:
    """Create the Secret and the file for which the training operator waits at its start. It fills the Secret by
    itself.
    """
    metadata = {"name": _OWN_PAIR, "namespace": "kube-system"}
    plane.apply([{"apiVersion": "v1", "kind": "Secret", "metadata": metadata}])
    _MOUNTED.parent.mkdir(parents=True, exist_ok=True)
    _MOUNTED.touch()


def _write_pair(folder: Path, pair: Pair) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.key)


def _lives(port: int) -> bool:
    """Whether a process answers `/healthz` on the port with 200."""
    with suppress(OSError), urlopen(f"http://{LOOPBACK}:{port}/healthz", timeout=5) as answer:
        return bool(answer.status == HTTPStatus.OK)
    return False


def _serves(port: int) -> bool:
    """Whether a process serves TLS on the port."""
    with suppress(OSError):
        ssl.get_server_certificate((LOOPBACK, port), timeout=5)
        return True
    return False
