"""What a pod takes from a node, as the stock scheduler counts it."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TypeAlias

import msgspec

from kube.objects import Container, ContainerStatus, Pod, ResourceRequirements
from kube.quantities import amount

PODS = "pods"
RESIZE_PENDING = "PodResizePending"
"""Condition of a pod whose resize in place has not been begun."""

_INFEASIBLE = "Infeasible"
_POD_LEVEL = ("cpu", "memory")
_HUGE_PAGES = "hugepages-"

_Quantities: TypeAlias = Mapping[str, str | int | float]
_Amounts: TypeAlias = dict[str, int]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(dict[str, str | int | float]).decode
_Asking: TypeAlias = Callable[[Container], _Amounts]


def pod_requests(pod: Pod) -> dict[str, int]:
    """Requests by resource in base units, without zeros, and one of "pods".

    The rule is the API's own (KEP 753, "Resources calculation for scheduling and pod admission"; KEP 2837 for pod-level
    resources; KEP 1287 and KEP 5419 for a resize in place; `k8s.io/component-helpers/resource` of 1.37): the larger of
    what runs together at the end (containers and sidecars) and of each init container with the sidecars started before
    it; pod-level requests stand in for cpu, memory and huge pages; overhead is added. Where the status says what the
    node has allocated, or what containers have by now, the largest of these and of what is asked for counts; without
    what is asked for, where the node could never give that. Missing requests default to limits, as the API server does
    at creation, so that files count the same as served pods.

    Raises ValueError for a text that is not a quantity.
    """
    asked = _together(pod, _spec_requests)
    total = asked if not _resized(pod) else _with_resize(pod, asked)
    if pod.spec.resources is not None:
        _apply_pod_level(total, pod)
    _add(total, _amounts(pod.spec.overhead))
    taken = {name: value for name, value in total.items() if value}
    taken[PODS] = 1
    return taken


def pod_limits(pod: Pod) -> dict[str, int]:
    """Limits by resource in base units, of those resources that have one: of all containers together as above; those of
    the whole pod stand in for cpu, memory and huge pages; overhead is added. Raises ValueError like `pod_requests`.
    """
    total = _together(pod, _spec_limits)
    for name, value in _amounts(pod.spec.resources.limits if pod.spec.resources is not None else {}).items():
        if name in _POD_LEVEL or name.startswith(_HUGE_PAGES):
            total[name] = value
    _add(total, {name: value for name, value in _amounts(pod.spec.overhead).items() if total.get(name)})
    return total


def all_requests(pods: Iterable[Pod]) -> Mapping[str, int]:
    """What pods request together, in base units (`pod_requests`)."""
    total: Counter[str] = Counter()
    for pod in pods:
        total.update(pod_requests(pod))
    return +total


def quantities(pod: Pod) -> Iterator[tuple[str, str, str | int | float]]:
    """Every quantity of the pod that `pod_requests` and `pod_limits` read: field below the pod, resource, its text."""
    spec, status = pod.spec, pod.status
    for resource, quantity in spec.overhead.items():
        yield "spec.overhead", resource, quantity
    held = [("spec.resources", spec.resources)] if spec.resources is not None else []
    for name, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        held += [(f"spec.{name}[{at}].resources", each.resources) for at, each in enumerate(containers)]
    allocated = [("status.allocatedResources", status.allocated_resources or {})]
    held += [("status.resources", status.resources)] if status.resources is not None else []
    for name, statuses in (
        ("containerStatuses", status.container_statuses),
        ("initContainerStatuses", status.init_container_statuses),
    ):
        for at, each in enumerate(statuses):
            allocated.append((f"status.{name}[{at}].allocatedResources", each.allocated_resources or {}))
            held += [(f"status.{name}[{at}].resources", each.resources)] if each.resources is not None else []
    for path, resources in held:
        for part, asked in (("requests", resources.requests), ("limits", resources.limits)):
            for resource, quantity in asked.items():
                yield f"{path}.{part}", resource, quantity
    for path, asked in allocated:
        for resource, quantity in asked.items():
            yield path, resource, quantity


def _resized(pod: Pod) -> bool:
    """Whether the status tells of what the node has given."""
    status = pod.status
    return bool(status.container_statuses or status.init_container_statuses or status.allocated_resources)


def _with_resize(pod: Pod, asked: _Amounts) -> _Amounts:
    """All containers together: the largest of what is asked for, allocated and had."""
    status, infeasible = pod.status, _infeasible(pod)
    allocated, had = status.allocated_resources, status.resources.requests if status.resources is not None else None
    if allocated and had:
        given = [_amounts(allocated), _amounts(had)]
    else:
        known = {each.name: each for each in (*status.init_container_statuses, *status.container_statuses)}
        given = [_together(pod, _given(known, infeasible=infeasible, had=each)) for each in (False, True)]
    total = {} if infeasible else asked
    for each in given:
        _raise_to(total, each)
    return total


def _given(known: Mapping[str, ContainerStatus], *, infeasible: bool, had: bool) -> _Asking:
    """What a container has by its status, else what it asks for. `had`: by now; False: what is allocated to it."""

    def given(container: Container) -> _Amounts:
        status = known.get(container.name)
        if had and status is not None and status.resources is not None and status.resources.requests:
            return _amounts(status.resources.requests)
        if status is not None and status.allocated_resources is not None:
            return _amounts(status.allocated_resources)
        return {} if infeasible else _spec_requests(container)

    return given


def _infeasible(pod: Pod) -> bool:
    """Whether the node can never give what is asked for now."""
    return any(each.type == RESIZE_PENDING and each.reason == _INFEASIBLE for each in pod.status.conditions)


def _together(pod: Pod, asking: _Asking) -> _Amounts:
    """The aggregate over containers, init containers and sidecars."""
    if len(pod.spec.containers) == 1 and not pod.spec.init_containers:
        return asking(pod.spec.containers[0])
    running: _Amounts = {}
    for container in pod.spec.containers:
        _add(running, asking(container))
    sidecars: _Amounts = {}
    starting: _Amounts = {}
    for container in pod.spec.init_containers:
        requests = asking(container)
        if container.restart_policy == "Always":
            _add(running, requests)
            _add(sidecars, requests)
            _raise_to(starting, sidecars)
        else:
            _add(requests, sidecars)
            _raise_to(starting, requests)
    _raise_to(running, starting)
    return running


def _apply_pod_level(total: _Amounts, pod: Pod) -> None:
    """Let pod-level requests stand in; pod-level limits are requests where no container asks for that resource."""
    asked = pod.spec.resources or ResourceRequirements()
    requests, limits = _amounts(asked.requests), _amounts(asked.limits)
    if requests and pod.status.resources is not None:
        requests = {} if _infeasible(pod) else requests
        _raise_to(requests, _amounts(pod.status.resources.requests))
        _raise_to(requests, _amounts(pod.status.allocated_resources or {}))
    for name in requests | limits:
        if name not in _POD_LEVEL and not name.startswith(_HUGE_PAGES):
            continue
        if name in requests:
            total[name] = requests[name]
        elif name not in total:
            total[name] = limits[name]


def _spec_limits(container: Container) -> _Amounts:
    return _amounts(container.resources.limits)


def _spec_requests(container: Container) -> _Amounts:
    return dict(_parsed(_encode({**container.resources.limits, **container.resources.requests})))


@lru_cache(maxsize=1024)
def _parsed(quantities: bytes) -> _Amounts:
    """Amounts that are written alike are read once: thousands of containers ask for the same."""
    return _amounts(_decode(quantities))


def _amounts(quantities: _Quantities) -> _Amounts:
    return {name: amount(name, quantity) for name, quantity in quantities.items()}


def _add(total: _Amounts, more: Mapping[str, int]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _raise_to(total: _Amounts, least: Mapping[str, int]) -> None:
    for name, value in least.items():
        total[name] = max(total.get(name, 0), value)


def shortage(resource: str) -> str:
    """What is said of a node that has too little of a resource, as kube-scheduler words it (noderesources/fit.go)."""
    return "Too many pods" if resource == PODS else f"Insufficient {resource}"
