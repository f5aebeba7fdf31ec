"""Kinds of other projects as definitions that the API server serves, whatever is written in their objects."""

from typing import Any

from gangs.shapes import WORKLOADS


def definition(group: str, kind: str, version: str) -> dict[str, Any]:
    """A kind that takes whatever is written."""
    plural, open_schema = (
        WORKLOADS[group, kind].plural,
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    )
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": open_schema}}
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [served]},
    }
