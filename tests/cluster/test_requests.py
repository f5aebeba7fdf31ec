"""The requests and limits of a pod, case by case."""

from typing import Any

import pytest
from cluster_objects import asking, pod

from kube.requests import pod_limits, pod_requests

MI = 2**20


def container(*, sidecar: bool = False, **requests: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"name": "c", "resources": {"requests": requests}}
    return {**made, "restartPolicy": "Always"} if sidecar else made


def limited(limits: dict[str, Any], requests: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    return [{"name": "c", "resources": {"limits": limits, "requests": requests or {}}}]


@pytest.mark.parametrize(
    ("what", "spec", "expected"),
    [
        ("nothing asked", {"containers": [{"name": "c"}]}, {}),
        ("no containers", {}, {}),
        ("one container", {"containers": asking(cpu="500m", memory="1Mi")}, {"cpu": 500, "memory": MI}),
        ("a request of nothing", {"containers": asking(cpu="0")}, {}),
        ("containers add up", {"containers": [container(cpu="1"), container(cpu="250m")]}, {"cpu": 1250}),
        ("limits stand in", {"containers": limited({"cpu": "2", "gpu": 1}, {"cpu": "1"})}, {"cpu": 1000, "gpu": 1}),
        (
            "a large init container decides",
            {"containers": asking(cpu="1"), "initContainers": [container(cpu="3"), container(cpu="2")]},
            {"cpu": 3000},
        ),
        (
            "a small one does not",
            {"containers": asking(cpu="5"), "initContainers": [container(cpu="3")]},
            {"cpu": 5000},
        ),
        (
            "a sidecar runs beside the containers",
            {"containers": asking(cpu="1"), "initContainers": [container(sidecar=True, cpu="2")]},
            {"cpu": 3000},
        ),
        (
            "an init container runs beside the sidecars before it",
            {
                "containers": asking(cpu="1"),
                "initContainers": [
                    container(sidecar=True, cpu="1"),
                    container(cpu="4"),
                    container(sidecar=True, cpu="2"),
                ],
            },
            {"cpu": 5000},
        ),
        (
            "all sidecars count beside the containers",
            {
                "containers": asking(cpu="3"),
                "initContainers": [
                    container(sidecar=True, cpu="1"),
                    container(cpu="4"),
                    container(sidecar=True, cpu="2"),
                ],
            },
            {"cpu": 6000},
        ),
        (
            "each resource has its own maximum",
            {"containers": asking(cpu="1", memory="4Mi"), "initContainers": [container(cpu="2", memory="1Mi")]},
            {"cpu": 2000, "memory": 4 * MI},
        ),
        (
            "overhead is added to the maximum",
            {
                "containers": asking(cpu="1"),
                "initContainers": [container(cpu="2")],
                "overhead": {"cpu": "100m", "memory": "1Mi"},
            },
            {"cpu": 2100, "memory": MI},
        ),
        (
            "pod-level requests stand in for the containers'",
            {"containers": asking(cpu="1", gpu=2), "resources": {"requests": {"cpu": "3"}}, "overhead": {"cpu": "1"}},
            {"cpu": 4000, "gpu": 2},
        ),
        (
            "also where they are smaller than an init container's",
            {"initContainers": [container(cpu="2")], "resources": {"requests": {"cpu": "1"}}},
            {"cpu": 1000},
        ),
        (
            "pod-level limits are requests where no container asks",
            {"containers": asking(cpu="1"), "resources": {"limits": {"cpu": "4", "memory": "2Mi"}}},
            {"cpu": 1000, "memory": 2 * MI},
        ),
        (
            "pod-level huge pages count, other resources there do not",
            {"containers": asking(), "resources": {"requests": {"hugepages-2Mi": "4Mi", "gpu": 1}}},
            {"hugepages-2Mi": 4 * MI},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_requests_are_counted_as_the_stock_scheduler_counts_them(
    what: str, spec: dict[str, Any], expected: dict[str, int]
) -> None:
    assert pod_requests(pod(**spec)) == {**expected, "pods": 1}, what


def test_a_request_that_is_no_quantity_is_named() -> None:
    with pytest.raises(ValueError, match="'lots' is not a quantity"):
        pod_requests(pod(containers=asking(cpu="lots")))


@pytest.mark.parametrize(
    ("what", "spec", "expected"),
    [
        ("none", {"containers": asking(cpu="1")}, {}),
        ("of one container", {"containers": limited({"cpu": "2"}, {"cpu": "1", "memory": "1Mi"})}, {"cpu": 2000}),
        (
            "they add up",
            {"containers": [*limited({"cpu": "2"}), *limited({"cpu": "1", "gpu": 1})]},
            {"cpu": 3000, "gpu": 1},
        ),
        (
            "a sidecar's beside them",
            {
                "containers": limited({"cpu": "2"}),
                "initContainers": [{**limited({"cpu": "1"})[0], "restartPolicy": "Always"}],
            },
            {"cpu": 3000},
        ),
        (
            "a large init container's instead",
            {"containers": limited({"cpu": "2"}), "initContainers": limited({"cpu": "5"})},
            {"cpu": 5000},
        ),
        (
            "those of the pod stand in",
            {"containers": limited({"cpu": "2", "gpu": 1}), "resources": {"limits": {"cpu": "4", "memory": "1Mi"}}},
            {"cpu": 4000, "memory": MI, "gpu": 1},
        ),
        (
            "overhead comes on top of what is limited",
            {"containers": limited({"cpu": "2"}), "overhead": {"cpu": "1", "memory": "1Mi"}},
            {"cpu": 3000},
        ),
    ],
)
def test_the_limits_of_a_pod(what: str, spec: dict[str, Any], expected: dict[str, int]) -> None:
    assert pod_limits(pod(**spec)) == expected, what
