"""Definitions of other projects' kinds for the API server. Their schemas accept any fields."""

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
    """Define these kinds on the API server, and remove their definitions afterwards.

    They are removed because `emptying.empty` sends requests for every custom kind that has objects.

    :param versions: by group and kind, the version to serve.
    """
    define(plane, "tests", [definition(*of, each) for of, each in versions.items()])
    yield
    undefine(plane, [f"{PLURALS[kind]}.{kind[0]}" for kind in versions])


def definition(group: str, kind: str, version: str) -> dict[str, Any]:
    """Return a CustomResourceDefinition whose schema accepts any fields."""
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
