"""Kinds of other projects as definitions that the API server serves, whatever is written in their objects."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from controlplane.control_plane import ControlPlane
from controlplane.definitions import define, undefine
from gangs.workloads.kind_table import WORKLOADS
from gangs.workloads.train_jobs import RUNTIMES

PLURALS = {at: shape.plural for at, shape in WORKLOADS.items()} | {
    (each.group, each.kind): each.plural for each in RUNTIMES
}


@contextmanager
def served(plane: ControlPlane, versions: Mapping[tuple[str, str], str]) -> Iterator[None]:
    """Have these kinds served, by group and kind, and be gone afterwards: whoever empties the cluster asks for all."""
    define(plane, "tests", [definition(*of, each) for of, each in versions.items()])
    yield
    undefine(plane, [f"{PLURALS[kind]}.{kind[0]}" for kind in versions])


def definition(group: str, kind: str, version: str) -> dict[str, Any]:
    """A kind that takes whatever is written."""
    plural = PLURALS[group, kind]
    open_schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": open_schema}}
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "annotations": {"api-approved.kubernetes.io": "unapproved, a test"}},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [served]},
    }
