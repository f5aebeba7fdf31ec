"""Nodes as tests apply them to a real control plane."""

from collections.abc import Mapping
from typing import Any


def node_manifest(name: str, labels: Mapping[str, str] | None = None, cpu: int = 8, **more: str) -> dict[str, Any]:
    """A node of so many cpus and 32 GiB, and more of what is named here with underscores, with its hostname label and
    these.
    """
    room = {"cpu": str(cpu), "memory": "32Gi", "pods": "110"} | {k.replace("_", "-"): n for k, n in more.items()}
    metadata = {"name": name, "labels": {**(labels or {}), "kubernetes.io/hostname": name}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"capacity": room, "allocatable": room}}
