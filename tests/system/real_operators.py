"""Real operators as processes beside the test's control plane, with their own definitions and webhooks."""

import ssl
from base64 import b64encode
from collections.abc import Iterator
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

PATIENCE = 120.0
LOOPBACK = "127.0.0.1"
_FLAGS = {
    "kuberay": ("--enable-leader-election=false", "--metrics-addr=0", "--health-probe-bind-address={health}"),
}
"""Of those that are started by flags instead of a file."""


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
def running(plane: ControlPlane, name: str) -> Iterator[Running]:
    """Have an operator run, and it and its kinds be gone afterwards."""
    found = list(operators.definitions(name))
    plane.apply(found)
    kinds = [each["metadata"]["name"] for each in found]
    wait_until(lambda: all(_is_served(plane, each) for each in kinds), PATIENCE, f"the kinds of {name} to be served")
    port, health = free_ports(2)
    folder = plane.directory / name
    folder.mkdir(exist_ok=True)  # another file of tests may have had it run on this plane before
    authority = new_authority(name, datetime.now(UTC))
    _write_pair(folder, issue(authority, ServerNames(addresses=(LOOPBACK,)), datetime.now(UTC)))
    hooks = list(_hooks(plane, name, port, authority.certificate))
    environment = {
        "KUBECONFIG": str(plane.kubeconfig),
        "HOME": str(folder),
    }
    process = plane.run(name, [str(operators.program(name)), *_arguments(plane, name, port, health)], environment)
    try:
        wait_until(
            lambda: process.running and (_serves(port) if hooks else _lives(health)), PATIENCE, f"{name} to serve"
        )
        yield Running(name, plane, hooks)
    finally:
        print(f"--- {name}\n{process.tail()}")  # noqa: T201 - for the report of a failed test
        plane.kubectl("delete", "--ignore-not-found", *(f"crd/{each}" for each in kinds))
        process.terminate()
        process.wait()


def _is_served(plane: ControlPlane, definition: str) -> bool:
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition}"
    conditions = plane.request("GET", path).get("status", {}).get("conditions") or ()
    return any((each["type"], each["status"]) == ("Established", "True") for each in conditions)


def _arguments(plane: ControlPlane, name: str, port: int, health: int) -> list[str]:
    """How the operator is started on ports of its own, with nobody to elect a leader among."""
    if name in _FLAGS:
        return [each.format(health=f"{LOOPBACK}:{health}") for each in _FLAGS[name]]
    said = {
        "apiVersion": f"config.{name}.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"{LOOPBACK}:{health}"},
        "webhook": {"host": LOOPBACK, "port": port, "certDir": str(plane.directory / name)},
    }
    file = plane.directory / name / "config.yaml"
    file.write_text(yaml.safe_dump(said))
    return [f"--config={file}"]


def _hooks(plane: ControlPlane, name: str, port: int, authority: bytes) -> Iterator[dict[str, Any]]:
    """The operator's webhooks, asked by address instead of by their Service."""
    folder = operators.OPERATORS[name].webhooks
    text = plane.kubectl("kustomize", str(operators.source(name) / folder)) if folder else ""
    for each in filter(None, yaml.safe_load_all(text)):
        if each["kind"] == "Service":
            continue
        each["metadata"]["name"] = f"{name}-{each['metadata']['name']}"
        for hook in each["webhooks"]:
            path = hook["clientConfig"]["service"]["path"]
            hook["clientConfig"] = {
                "url": f"https://{LOOPBACK}:{port}{path}",
                "caBundle": b64encode(authority).decode(),
            }
        yield each


def _write_pair(folder: Path, pair: Pair) -> None:
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
