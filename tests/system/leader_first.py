"""A StatefulSet that creates its pods one after the other, while capacity is reserved for the expected ones."""

import json
from typing import Any

from system import Object, Phalanx, numbered, pod

from controlplane.running.stages import NOT_READY
from kube.keys import SYSTEM_NAMESPACE
from kube.placeholders import HELD_FOR

NAMES = numbered("w", 3)


def stateful_set(name: str, **spec: Any) -> Object:
    """Return a StatefulSet of three pods that start one after the other, one gang in one rack; `spec`: of the pods."""
    container = {"name": "c", "image": "b", "resources": {"requests": {"cpu": "6", "memory": "1Gi"}}}
    said = {"phalanx.dev/gang": "true", "phalanx.dev/required": "rack"}
    template = {
        "metadata": {"labels": {"app": name}, "annotations": {NOT_READY: "true"}},
        "spec": {"containers": [container], **spec},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": "default", "annotations": said},
        "spec": {
            "replicas": 3,
            "serviceName": name,
            "selector": {"matchLabels": {"app": name}},
            "template": template,
        },
    }


def make_ready(phalanx: Phalanx, name: str) -> None:
    """Make the pod ready, so that the controller creates the next one."""
    phalanx.wait(lambda: phalanx.pod(name)["status"]["phase"] == "Running", f"{name} to run")
    conditions = [{"type": each, "status": "True"} for each in ("Ready", "ContainersReady")]
    patch = json.dumps({"status": {"conditions": conditions}})
    phalanx.cluster.kubectl("patch", "pod", name, "--subresource=status", "--type=strategic", "-p", patch)


def placeholders(phalanx: Phalanx) -> dict[str, Object]:
    """Return the placeholders by the names of their expected pods."""
    items = phalanx.cluster.request("GET", f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods")["items"]
    held = ((each["metadata"].get("annotations", {}).get(HELD_FOR, ""), each) for each in items)
    return {name.removeprefix("default/"): each for name, each in held if name}


def held(phalanx: Phalanx) -> dict[str, str]:
    """The node that each placeholder holds."""
    return {name: each["status"].get("nominatedNodeName", "") for name, each in placeholders(phalanx).items()}


def rival(number: int, **spec: Any) -> Object:
    """A pod that wants a node of the first rack."""
    return pod(f"rival-{number}", cpu=6, nodeSelector={"kubernetes.io/hostname": f"n{number}"}, **spec)


def await_held(phalanx: Phalanx) -> dict[str, str]:
    """Wait until the first pod runs and capacity is reserved for the others; return the plan."""
    phalanx.await_bound(NAMES[:1])
    planned = {each["pod"]: each["node"] for each in phalanx.status("w")["assignments"]}
    held_for = {name: planned[name] for name in NAMES[1:]}
    phalanx.wait(lambda: held(phalanx) == held_for, "room to be held for the others")
    phalanx.wait(lambda: phalanx.status("w").get("reason") == "PodsToCome", "the gang to say so")
    return planned


def number_of(node: str) -> int:
    """The number in a node's name."""
    return int(node.removeprefix("n"))
