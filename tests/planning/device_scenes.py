"""Devices and claims for the tests of planning, as the manifests a driver and a user would write."""

from collections.abc import Mapping, Sequence
from typing import Any

import scenes

Manifest = scenes.Manifest
DRIVER = "gpu.example.com"
_API = {"apiVersion": "resource.k8s.io/v1"}


def device_class(name: str = DRIVER, *expressions: str) -> Manifest:
    """A DeviceClass; without expressions, of all devices of `DRIVER`."""
    selectors = [{"cel": {"expression": each}} for each in expressions or [f'device.driver == "{DRIVER}"']]
    return {**_API, "kind": "DeviceClass", "metadata": {"name": name}, "spec": {"selectors": selectors}}


def device(name: str, capacity: Mapping[str, str] = {}, **more: Any) -> Manifest:
    """A device. Attributes are given as `attributes={"model": "a100"}`."""
    fields = {bool: "bool", int: "int", str: "string"}
    attributes = {key: {fields[type(value)]: value} for key, value in more.pop("attributes", {}).items()}
    amounts = {"capacity": {key: {"value": value} for key, value in capacity.items()}} if capacity else {}
    return {"name": name, "attributes": attributes, **amounts, **more}


def resource_slice(node: str, devices: int | Sequence[Manifest], **spec: Any) -> Manifest:
    """The ResourceSlice of a node: so many equal devices `gpu-0` and so on, or these."""
    every = [device(f"gpu-{i}") for i in range(devices)] if isinstance(devices, int) else list(devices)
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1, **spec.pop("pool", {})}
    return {
        **_API,
        "kind": "ResourceSlice",
        "metadata": {"name": spec.pop("name", f"{node}-{DRIVER}")},
        "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": every, **spec},
    }


def request(name: str = "gpu", count: int = 1, of: str = DRIVER, *expressions: str, **more: Any) -> Manifest:
    """A request of a claim, by number."""
    selectors = {"selectors": [{"cel": {"expression": each}} for each in expressions]} if expressions else {}
    return {"name": name, "exactly": {"deviceClassName": of, "count": count, **selectors, **more}}


def template(*requests: Manifest, name: str = "one", constraints: Sequence[Manifest] = ()) -> Manifest:
    """A ResourceClaimTemplate; without requests, of one device."""
    devices = {"requests": list(requests or [request()]), **({"constraints": list(constraints)} if constraints else {})}
    return {
        **_API,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"spec": {"devices": devices}},
    }


def claim(
    name: str, *requests: Manifest, devices: Sequence[tuple[str, str]] = (), pods: Sequence[str] = (), **metadata: Any
) -> Manifest:
    """A ResourceClaim. `devices`: the devices that it has got, as node and device. `pods`: the pods that use it."""
    manifest: Manifest = {
        **_API,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {"devices": {"requests": list(requests or [request()])}},
    }
    if devices:
        results = [{"request": "gpu", "driver": DRIVER, "pool": node, "device": each} for node, each in devices]
        fields = [{"key": "metadata.name", "operator": "In", "values": [devices[0][0]]}]
        manifest["status"] = {
            "allocation": {
                "devices": {"results": results},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
            },
            "reservedFor": [{"resource": "pods", "name": each, "uid": f"uid-{each}"} for each in pods],
        }
    return manifest


def of_template(name: str = "one", entry: str = "gpu") -> dict[str, Any]:
    """The fields of a pod's spec with one claim from a template."""
    return {"resourceClaims": [{"name": entry, "resourceClaimTemplateName": name}]}


def user(name: str, on: str, *devices: str, priority: int = 0, **more: Any) -> list[Manifest]:
    """A running pod with a claim for these devices of its node."""
    entry = {"resourceClaims": [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]}
    return [
        scenes.running(name, on, priority, **{"cpu": 0, **entry, **more}),
        claim(f"{name}-gpu", devices=[(on, each) for each in devices], pods=[name]),
    ]
