"""Nodes and pods as people write them, for the tables of these tests."""

from typing import Any

import msgspec

from kube.objects import Node, Pod


def node(name: str, labels: dict[str, str] | None = None, **fields: Any) -> Node:
    """A node with its hostname label; `fields` are `spec`, `status` or `metadata` entries of the manifest."""
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}}
    spec = {key: fields[key] for key in ("unschedulable", "taints") if key in fields}
    status = {key: fields[key] for key in ("allocatable", "conditions") if key in fields}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Node)


def pod(name: str = "pod", labels: dict[str, str] | None = None, **spec: Any) -> Pod:
    """A pod of namespace default; `metadata` and `status` among the keywords go to their places, the rest to spec."""
    metadata = {"name": name, "namespace": "default", "labels": labels or {}, **spec.pop("metadata", {})}
    status = spec.pop("status", {})
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Pod)


def asking(**requests: Any) -> list[dict[str, Any]]:
    """Containers: one, with these requests."""
    return [{"name": "main", "resources": {"requests": requests}}]


def required_nodes(*terms: dict[str, Any]) -> dict[str, Any]:
    """An affinity with these required node selector terms."""
    wanted = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": wanted}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    """One requirement."""
    return {"key": key, "operator": operator, "values": list(values)} if values else {"key": key, "operator": operator}


def near(app: str, key: str, **more: Any) -> dict[str, Any]:
    """A required pod affinity to pods labelled app=`app` in the domain of `key`."""
    return {"podAffinity": _required(app, key, more)}


def apart(app: str, key: str, **more: Any) -> dict[str, Any]:
    """A required pod anti-affinity to pods labelled app=`app` in the domain of `key`."""
    return {"podAntiAffinity": _required(app, key, more)}


def _required(app: str, key: str, more: dict[str, Any]) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key, **more}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def spread(app: str, key: str, skew: int = 1, **more: Any) -> list[dict[str, Any]]:
    """One hard spread constraint over pods labelled app=`app`."""
    return [
        {
            "maxSkew": skew,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": app}},
            **more,
        }
    ]
