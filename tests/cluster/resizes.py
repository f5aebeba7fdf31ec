"""Pods during a resize in place, each with the requests that the stock scheduler counts (KEP 1287, KEP 5419).

Cpu only; without a word else, containers ask for 1 each.
"""

from collections.abc import Mapping
from typing import Any

from cluster_objects import asking

INFEASIBLE = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
DEFERRED = [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]


def container(name: str, cpu: str = "1", *, sidecar: bool = False) -> dict[str, Any]:
    made = {**asking(cpu=cpu)[0], "name": name}
    return {**made, "restartPolicy": "Always"} if sidecar else made


def has(name: str = "main", allocated: str = "", actual: str = "") -> dict[str, Any]:
    """Return a container's status: the cpu allocated to it, and the cpu that it has now."""
    return {
        "name": name,
        **({"allocatedResources": {"cpu": allocated}} if allocated else {}),
        **({"resources": {"requests": {"cpu": actual}}} if actual else {}),
    }


def of_pod(allocated: str, actual: str) -> dict[str, Any]:
    """Return the part of a pod's status that counts all containers together (pod-level resources)."""
    return {"allocatedResources": {"cpu": allocated}, "resources": {"requests": {"cpu": actual}}}


def running(*statuses: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"containerStatuses": list(statuses), **more}


ONE = {"containers": [container("main")]}
TWO = {"containers": [container("a"), container("b")]}
WITH_SIDECAR = {"containers": [container("main")], "initContainers": [container("proxy", sidecar=True)]}
WITH_INIT = {"containers": [container("main")], "initContainers": [container("setup", "2")]}
POD_LEVEL = {"containers": [container("main")], "resources": {"requests": {"cpu": "2"}}}

RESIZES: Mapping[str, tuple[dict[str, Any], dict[str, Any], int]] = {
    "as it was asked": (ONE, running(has(allocated="1", actual="1")), 1000),
    "shrinking": (ONE, running(has(allocated="3", actual="3")), 3000),
    "shrunk but for the container": (ONE, running(has(allocated="1", actual="3")), 3000),
    "growing": ({"containers": [container("main", "3")]}, running(has(allocated="1", actual="1")), 3000),
    "growing later": (
        {"containers": [container("main", "3")]},
        running(has(allocated="1", actual="1"), conditions=DEFERRED),
        3000,
    ),
    "growing never": (
        {"containers": [container("main", "3")]},
        running(has(allocated="1", actual="1"), conditions=INFEASIBLE),
        1000,
    ),
    "growing never, shrinking still": (
        {"containers": [container("main", "3")]},
        running(has(allocated="1", actual="2"), conditions=INFEASIBLE),
        2000,
    ),
    "only allocated": (ONE, running(has(allocated="2")), 2000),
    "one of two": (TWO, running(has("a", "2", "1"), has("b", "1", "1")), 3000),
    "one of two without a status": (TWO, running(has("a", "2", "2")), 3000),
    "the largest sum, not the sum of the largest": (TWO, running(has("a", "2", "1"), has("b", "1", "2")), 3000),
    "a sidecar": (
        WITH_SIDECAR,
        running(has(allocated="1", actual="1"), initContainerStatuses=[has("proxy", "2", "2")]),
        3000,
    ),
    "an init container that is over": (
        WITH_INIT,
        running(has(allocated="1", actual="1"), initContainerStatuses=[has("setup", "3", "3")]),
        3000,
    ),
    "all containers together": (TWO, running(**of_pod("3", "2")), 3000),
    "all containers together, going before each": (TWO, running(has("a", "4", "4"), **of_pod("2", "2")), 2000),
    "a pod's own resources": (POD_LEVEL, running(**of_pod("3", "2")), 3000),
    "a pod's own resources, growing never": (POD_LEVEL, running(**of_pod("1", "1"), conditions=INFEASIBLE), 1000),
}
"""By the state of the resize: the spec, the status, and the cpu that counts (thousandths)."""
