"""What a pod takes from a node, as the stock scheduler counts it."""

from collections.abc import Iterable, Mapping

from cluster.quantities import amount
from kube.objects import Container, Pod, ResourceRequirements

PODS = "pods"

_POD_LEVEL = ("cpu", "memory")
_HUGE_PAGES = "hugepages-"


def pod_requests(pod: Pod) -> dict[str, int]:
    """Requests by resource in base units, without zeros, and one of "pods".

    The rule is the API's own (KEP 753, "Resources calculation for scheduling and pod admission"; KEP 2837 for pod-level
    resources; `k8s.io/component-helpers/resource`): the larger of what runs together at the end (containers and
    sidecars) and of each init container with the sidecars started before it; pod-level requests stand in for cpu,
    memory and huge pages; overhead is added. Missing requests default to limits, as the API server does at creation,
    so that files count the same as served pods. What a resize in place has not applied yet is not seen.

    Raises ValueError for a text that is not a quantity.
    """
    total = _containers(pod)
    if pod.spec.resources is not None:
        _apply_pod_level(total, pod.spec.resources)
    _add(total, _amounts(pod.spec.overhead))
    taken = {name: value for name, value in total.items() if value}
    taken[PODS] = 1
    return taken


def _containers(pod: Pod) -> dict[str, int]:
    """The aggregate over containers, init containers and sidecars."""
    if len(pod.spec.containers) == 1 and not pod.spec.init_containers:
        return _requests(pod.spec.containers[0].resources)
    running = _sum(pod.spec.containers)
    sidecars: dict[str, int] = {}
    starting: dict[str, int] = {}
    for container in pod.spec.init_containers:
        requests = _requests(container.resources)
        if container.restart_policy == "Always":
            _add(running, requests)
            _add(sidecars, requests)
            _raise_to(starting, sidecars)
        else:
            _add(requests, sidecars)
            _raise_to(starting, requests)
    _raise_to(running, starting)
    return running


def _apply_pod_level(total: dict[str, int], resources: ResourceRequirements) -> None:
    """Let pod-level requests stand in; pod-level limits are requests where no container asks for that resource."""
    requests, limits = _amounts(resources.requests), _amounts(resources.limits)
    for name in requests | limits:
        if name not in _POD_LEVEL and not name.startswith(_HUGE_PAGES):
            continue
        if name in requests:
            total[name] = requests[name]
        elif name not in total:
            total[name] = limits[name]


def _requests(resources: ResourceRequirements) -> dict[str, int]:
    return _amounts({**resources.limits, **resources.requests})


def _amounts(quantities: Mapping[str, str | int | float]) -> dict[str, int]:
    return {name: amount(name, quantity) for name, quantity in quantities.items()}


def _sum(containers: Iterable[Container]) -> dict[str, int]:
    total: dict[str, int] = {}
    for container in containers:
        _add(total, _requests(container.resources))
    return total


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _raise_to(total: dict[str, int], least: Mapping[str, int]) -> None:
    for name, value in least.items():
        total[name] = max(total.get(name, 0), value)
