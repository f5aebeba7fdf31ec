"""Operators as processes beside a control plane, with their own definitions of kinds and their own webhooks."""

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
"""Of those that are started by flags instead of a file."""
_CONFIGURATIONS = {
    "lws": ("config.lws.x-k8s.io", "internalCertManagement", True),
    "jobset": ("config.jobset.x-k8s.io", "internalCertManagement", True),
    "trainer": ("config.trainer.kubeflow.org", "certManagement", False),
}
"""Of those that are started by a file: its group, what says there who makes their certificates, and whether it may
say where those are.
"""
_HEALTH = {"mpi-operator": 8080}
"""Where those say that they live that cannot be told where."""
_OWN_PAIR = "training-operator-webhook-cert"
"""Where the training operator keeps a pair of its own, which nobody is shown here: it waits until it has one."""
_LEFT_BEHIND = {"mpi-operator": ("lease/mpi-operator",), "training-operator": (f"secret/{_OWN_PAIR}",)}
"""What is in the way of the next one if it stays, in kube-system."""
_MOUNTED = Path("/tmp/k8s-webhook-server/serving-certs/tls.crt")  # noqa: S108 - the operator looks nowhere else
"""The file of its own pair for which the training operator waits; what is in it is not read."""
_CERTIFICATES = Path("k8s-webhook-server", "serving-certs")
"""Where an operator looks for its pair below its folder for temporary files, if nobody tells it where."""


@dataclass(frozen=True, slots=True)
class Running:
    """An operator that runs. `hooks`: its webhooks as they are to be registered."""

    name: str
    plane: ControlPlane
    hooks: list[dict[str, Any]] = field(default_factory=list)

    def register(self) -> None:
        """Register its webhooks: whoever empties the cluster takes them away."""
        if self.hooks:
            self.plane.apply(self.hooks)


@contextmanager
def running(plane: ControlPlane, name: str, *, report: Callable[[str], None] = print) -> Iterator[Running]:
    """Have an operator run, and it and all objects of its kinds be gone afterwards; the kinds stay (`define`).

    `report`: is told the end of its log then.
    """
    found = list(operators.definitions(name))
    define(plane, name, found)
    port, health = free_ports(2)
    health = _HEALTH.get(name, health)
    wait_until(lambda: not _lives(health), PATIENCE, f"port {health} to be free, which {name} cannot do without")
    folder = plane.directory / name
    folder.mkdir(exist_ok=True)  # another file of tests may have had it run on this plane before
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
    """Delete the objects of these kinds; how many there were, a kind that cannot be listed yet counted as one. Some go
    only while their operator lives.
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
    """How the operator is started on ports of its own, with nobody to elect a leader among."""
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
    """What the training operator waits for before it does anything: a Secret to fill, and a file that is there."""
    metadata = {"name": _OWN_PAIR, "namespace": "kube-system"}
    plane.apply([{"apiVersion": "v1", "kind": "Secret", "metadata": metadata}])
    _MOUNTED.parent.mkdir(parents=True, exist_ok=True)
    _MOUNTED.touch()


def _write_pair(folder: Path, pair: Pair) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.key)


def _lives(port: int) -> bool:
    """Whether somebody says there that he is well."""
    with suppress(OSError), urlopen(f"http://{LOOPBACK}:{port}/healthz", timeout=5) as answer:
        return bool(answer.status == HTTPStatus.OK)
    return False


def _serves(port: int) -> bool:
    """Whether somebody listens there with TLS."""
    with suppress(OSError):
        ssl.get_server_certificate((LOOPBACK, port), timeout=5)
        return True
    return False
