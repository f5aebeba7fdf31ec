"""Runs Kueue as a process beside the control plane, without Phalanx, with its own definitions and webhooks for Jobs.

Kueue's release limits itself to 300 requests a second. Here it may send more (`_LIMITS`). Only the webhooks for Jobs
and for Kueue's own objects are registered, not the one for every pod. Both changes make Kueue faster.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import click
import yaml

from benchmarks.live import load
from certs.files import write_self_signed
from cli.installation.installed_objects import custom_resource_definitions
from controlplane import operators
from controlplane.control_plane import ControlPlane, free_ports, wait_until

NAME = "kueue"
GROUP = "kueue.x-k8s.io"
_NAMESPACE, _API, _CLUSTER_QUEUE = "kueue-system", f"{GROUP}/v1beta2", "all"
_WORKLOADS = f"/apis/{_API}/namespaces/{load.NAMESPACE}/workloads"
_PATIENCE = 180.0
_LIMITS = {"qps": 500, "burst": 1000}
_METRICS_PAIR = Path("/etc/kueue/metrics/certs")
"""The folder from which Kueue reads the certificate and key of its metrics, although no client reads the metrics here.
The path cannot be configured.
"""
_ASKED_ABOUT = ("batch", GROUP)
"""The API groups of the objects for which Kueue's webhooks are registered."""


def replace_phalanx(plane: ControlPlane) -> None:
    """Remove Phalanx before Kueue is installed, so that neither system works on the other's pods."""
    for name in ("controller", "webhook"):
        plane.program(name).stop()
    kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations"
    policies = "validatingadmissionpolicybindings,mutatingadmissionpolicybindings"
    plane.kubectl("delete", f"{kinds},{policies}", "--all")
    names = [each["metadata"]["name"] for each in custom_resource_definitions()]
    plane.kubectl("delete", "crd", "--ignore-not-found", *(each for each in names if each.endswith(GROUP)))


def start(plane: ControlPlane) -> int:
    """Start Kueue with one queue for all nodes, and return its process id.

    :raises TimeoutError: Kueue did not serve, or its queue was not active in time.
    """
    definitions = list(operators.definitions(NAME))
    plane.apply(definitions)
    plane.kubectl("wait", "--for=condition=Established", *(f"crd/{each['metadata']['name']}" for each in definitions))
    plane.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}}])
    health, port = free_ports(2)
    pair = plane.directory / "kueue-certs"
    authority = write_self_signed(pair, addresses=["127.0.0.1"])
    _write_metrics_pair()
    plane.apply(_asked(operators.webhooks(NAME, plane.kubectl, f"https://127.0.0.1:{port}", authority)))
    file = plane.directory / "kueue.yaml"
    file.write_text(yaml.safe_dump(_configuration(health, port, pair)))
    command = [str(operators.program(NAME)), f"--config={file}", f"--kubeconfig={plane.kubeconfig}"]
    process = plane.run(NAME, [*command, "--zap-log-level=2"], {**os.environ, "HOME": str(plane.directory)})
    try:
        wait_until(lambda: _ready(health) or not process.running, _PATIENCE, "Kueue to serve")
        plane.apply(_objects())
        wait_until(lambda: _active(plane), _PATIENCE, "Kueue's queue to be active")
    except Exception as error:
        error.add_note(process.tail())
        raise
    return process.pid


def workloads(plane: ControlPlane) -> list[dict[str, Any]]:
    """Return Kueue's Workload objects; none if Kueue is not installed."""
    answer = plane.request("GET", _WORKLOADS)
    return answer.get("items") or [] if isinstance(answer, dict) else []


def _asked(hooks: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for each in hooks:
        rules = {hook["name"]: hook["rules"][0]["apiGroups"] for hook in each["webhooks"]}
        each["webhooks"] = [hook for hook in each["webhooks"] if rules[hook["name"]][0] in _ASKED_ABOUT]
        yield each


def _write_metrics_pair() -> None:
    if (_METRICS_PAIR / "tls.key").exists():
        return
    try:
        write_self_signed(_METRICS_PAIR, addresses=["127.0.0.1"])
    except OSError as error:
        raise click.ClickException(
            f"Kueue reads a certificate from {_METRICS_PAIR} and from nowhere else, and that cannot be written "
            f"({error.strerror}): make the folder yours, or leave the mode out (--modes)"
        ) from error


def _configuration(health: int, port: int, pair: Path) -> dict[str, Any]:
    """Return the configuration of Kueue's release, but with the request limits and the addresses of the benchmark."""
    many = {f"Workload.{GROUP}": 10, "Job.batch": 5, "Pod": 5}
    queues = {f"LocalQueue.{GROUP}": 5, f"ClusterQueue.{GROUP}": 5, f"Cohort.{GROUP}": 1, f"ResourceFlavor.{GROUP}": 1}
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": _NAMESPACE,
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(pair)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "controller": {"groupKindConcurrency": {**many, **queues}},
        "clientConnection": _LIMITS,
        "integrations": {"frameworks": ["batch/job"]},
        "featureGates": {"VisibilityOnDemand": False, "TopologyAwareScheduling": True},
    }


def _objects() -> list[load.Manifest]:
    """Return the objects of the queue: a topology, a flavor of all nodes, and a queue with ample quota.

    In the queue, pods of higher priority evict others.
    """
    amounts = {"cpu": "1000000", "memory": "10000Ti", "nvidia.com/gpu": "100000"}
    quota = [{"name": name, "nominalQuota": amount} for name, amount in amounts.items()]
    levels = [{"nodeLabel": label} for label in (load.BLOCK, load.RACK, "kubernetes.io/hostname")]
    flavors = [{"name": "gpu", "resources": quota}]
    queue = {
        "namespaceSelector": {},
        "preemption": {"withinClusterQueue": "LowerPriority"},
        "resourceGroups": [{"coveredResources": list(amounts), "flavors": flavors}],
    }
    local = {"name": load.QUEUE, "namespace": load.NAMESPACE}
    return [
        {"apiVersion": _API, "kind": "Topology", "metadata": {"name": "racks"}, "spec": {"levels": levels}},
        {
            "apiVersion": _API,
            "kind": "ResourceFlavor",
            "metadata": {"name": "gpu"},
            "spec": {"nodeLabels": load.POOL, "topologyName": "racks"},
        },
        {"apiVersion": _API, "kind": "ClusterQueue", "metadata": {"name": _CLUSTER_QUEUE}, "spec": queue},
        {"apiVersion": _API, "kind": "LocalQueue", "metadata": local, "spec": {"clusterQueue": _CLUSTER_QUEUE}},
    ]


def _ready(port: int) -> bool:
    with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
        return bool(answer.status == HTTPStatus.OK)
    return False


def _active(plane: ControlPlane) -> bool:
    found = plane.request("GET", f"/apis/{_API}/clusterqueues/{_CLUSTER_QUEUE}")
    conditions = found.get("status", {}).get("conditions") or ()
    return any((each["type"], each["status"]) == ("Active", "True") for each in conditions)
