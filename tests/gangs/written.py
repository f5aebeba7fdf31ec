"""Builds what dialects read from YAML as users write it."""

import textwrap
from pathlib import Path
from typing import Any

import yaml

from gangs.manifests import key_of, pod_of
from gangs.sources import Sources
from kube.objects import Pod

EXAMPLES = Path(__file__).parents[2] / "examples" / "koordinator"

NETWORK = """
    apiVersion: scheduling.koordinator.sh/v1alpha1
    kind: ClusterNetworkTopology
    metadata: {name: default}
    spec:
      networkTopologySpec:
      - {topologyLayer: SpineLayer, labelKey: [example.com/spine]}
      - {topologyLayer: BlockLayer, labelKey: [example.com/block], parentTopologyLayer: SpineLayer}
      - {topologyLayer: NodeTopologyLayer, parentTopologyLayer: BlockLayer}
"""
"""A ClusterNetworkTopology: spine > block > node."""

DATACENTER = """
    apiVersion: phalanx.dev/v1alpha1
    kind: Topology
    metadata: {name: datacenter}
    spec: {levels: [{name: block, nodeLabel: example.com/block}, {name: rack, nodeLabel: example.com/rack}]}
"""
"""A Topology of our own: block > rack > node."""


def documents(*texts: str) -> list[dict[str, Any]]:
    """The documents of several indented YAML texts."""
    return [each for text in texts for each in yaml.safe_load_all(textwrap.dedent(text)) if each]


def sources(*texts: str, namespaces: dict[str, dict[str, str]] | None = None) -> Sources:
    """Sources that hold these documents, each in the namespace default where it says none."""
    written = documents(*texts)
    for each in written:
        each["metadata"].setdefault("namespace", "" if "Topology" in each["kind"] else "default")
    return Sources(
        pods=[pod_of(each) for each in written if each["kind"] == "Pod"],
        objects={key_of(each): each for each in written if each["kind"] not in ("Pod", "Node")},
        namespaces=namespaces or {},
    )


def example(*names: str) -> Sources:
    """Sources that hold files of examples/koordinator."""
    return sources(*((EXAMPLES / name).read_text() for name in names))


def pod(
    name: str,
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    created: str | None = None,
    owner: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    **spec: Any,
) -> Pod:
    """A pod in the namespace default; `name` may be namespace/name."""
    namespace, _, own = name.rpartition("/")
    metadata: dict[str, Any] = {"name": own, "namespace": namespace or "default"}
    metadata |= {"labels": labels or {}, "annotations": annotations or {}, "creationTimestamp": created}
    metadata["ownerReferences"] = [owner] if owner else []
    return pod_of({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status or {}})
