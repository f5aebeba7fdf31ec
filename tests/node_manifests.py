"""Nodes as tests apply them to a real control plane."""

from collections.abc import Mapping
from typing import Any


def node_manifest(name: str, labels: Mapping[str, str] | None = None, cpu: int = 8, **more: str) -> dict[str, Any]:
    """Return a node with 32 GiB of memory, its hostname label, and these labels.

    :param cpu: the number of cpus.
    :param more: more resources by name. Underscores in a name become dashes.
    """
    room = {"cpu": str(cpu), "memory": "32Gi", "pods": "110"} | {k.replace("_", "-"): n for k, n in more.items()}
    metadata = {"name": name, "labels": {**(labels or {}), "kubernetes.io/hostname": name}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"capacity": room, "allocatable": room}}
