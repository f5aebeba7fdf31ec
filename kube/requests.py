"""The resources that a pod takes from a node, as the stock scheduler counts them."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TypeAlias

import msgspec

from kube.objects import Container, ContainerStatus, Pod, PodSpec, ResourceRequirements
from kube.quantities import amount

PODS = "pods"
RESIZE_PENDING = "PodResizePending"
"""Condition of a pod whose in-place resize has not begun."""

_INFEASIBLE = "Infeasible"
_POD_LEVEL = ("cpu", "memory")
_HUGE_PAGES = "hugepages-"

_Quantities: TypeAlias = Mapping[str, str | int | float]
_Amounts: TypeAlias = dict[str, int]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(dict[str, str | int | float]).decode
_Asking: TypeAlias = Callable[[Container], _Amounts]


def pod_requests(pod: Pod) -> dict[str, int]:
    """Return the pod's requests by resource in base units, without zeros. The resource "pods" has the value 1.

    The rule is the API's own. Its sources are KEP 753 ("Resources calculation for scheduling and pod admission"), KEP
    2837 for pod-level resources, KEP 1287 and KEP 5419 for an in-place resize, and `k8s.io/component-helpers/resource`
    of 1.37.

    An init container runs together with the sidecars started before it. Afterwards all containers and sidecars run
    together. The result is the maximum over these points in time. Pod-level requests replace it for cpu, memory and
    huge pages. Overhead is added. During an in-place resize, the status has the resources that the node has allocated,
    and those that the containers have. The result is then the maximum of both and of the spec's requests. If the node
    can never fulfil the spec's requests, they are left out. A missing request defaults to the limit. The API server
    does the same at creation, so a pod in a file has the same requests as in the cluster.

    :raises ValueError: for a text that is not a quantity.
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
    """Return the pod's limits by resource in base units, for the resources that have a limit.

    The limits of containers are combined as in `pod_requests`. Pod-level limits replace them for cpu, memory and huge
    pages. Overhead is added to resources with a limit.

    :raises ValueError: for a text that is not a quantity.
    """
    total = _together(pod, _spec_limits)
    for name, value in _amounts(pod.spec.resources.limits if pod.spec.resources is not None else {}).items():
        if name in _POD_LEVEL or name.startswith(_HUGE_PAGES):
            total[name] = value
    _add(total, {name: value for name, value in _amounts(pod.spec.overhead).items() if total.get(name)})
    return total


def all_requests(pods: Iterable[Pod]) -> Mapping[str, int]:
    """Return the sum of the pods' requests by resource, in base units (`pod_requests`)."""
    total: Counter[str] = Counter()
    for pod in pods:
        total.update(pod_requests(pod))
    return +total


def quantities(pod: Pod) -> Iterator[tuple[str, str, str | int | float]]:
    """Yield every quantity that `pod_requests` and `pod_limits` read, as (field path, resource, quantity).

    With the path, a caller names a faulty field. Example: ("spec.containers[0].resources.requests", "cpu", "2").
    """
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
    """Return whether the pod's status has fields in which a node reports allocated resources (in-place resize)."""
    status = pod.status
    return bool(status.container_statuses or status.init_container_statuses or status.allocated_resources)


def _with_resize(pod: Pod, asked: _Amounts) -> _Amounts:
    """Return, by resource, the maximum of the pod's requested, allocated and actual resources during a resize.

    :param asked: the requests of all containers together, from the spec.
    """
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
    """Return a function from a container to its resources in the status; without a status, to its requests in the spec.

    :param known: the container statuses by container name.
    :param infeasible: whether the node can never fulfil the requests in the spec, so that they count as zero.
    :param had: True for the resources that the running container has, False for those that the node has allocated.
    """

    def given(container: Container) -> _Amounts:
        status = known.get(container.name)
        if had and status is not None and status.resources is not None and status.resources.requests:
            return _amounts(status.resources.requests)
        if status is not None and status.allocated_resources is not None:
            return _amounts(status.allocated_resources)
        return {} if infeasible else _spec_requests(container)

    return given


def _infeasible(pod: Pod) -> bool:
    """Return whether the node has reported, by the condition PodResizePending, that it can never fulfil the resize."""
    return any(each.type == RESIZE_PENDING and each.reason == _INFEASIBLE for each in pod.status.conditions)


def _together(pod: Pod, asking: _Asking) -> _Amounts:
    """Return the resources that the pod's containers take at most at one time.

    :param asking: a function that returns the resources of one container, such as `_spec_requests`.
    """
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
    """Replace the totals of cpu, memory and huge pages by the pod-level requests.

    Where there is a pod-level limit only, it counts as the request if no container requests the resource.
    """
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
    """Parse quantities by resource, given in msgpack. The cache helps because thousands of containers are equal."""
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
    """Return the message for a node that lacks a resource, in kube-scheduler's wording (noderesources/fit.go)."""
    return "Too many pods" if resource == PODS else f"Insufficient {resource}"


def needs_devices(spec: PodSpec) -> bool:
    """Return whether the pod has resource claims, or requests an extended resource such as nvidia.com/gpu."""
    return bool(spec.resource_claims) or next(extended_resources(spec), None) is not None


def extended_resources(spec: PodSpec) -> Iterator[str]:
    """Yield the names of extended resources that containers request, such as nvidia.com/gpu.

    The name of an extended resource has a domain other than kubernetes.io. A name may be yielded several times. A
    request for zero needs nothing, and is left out.
    """
    for container in (*spec.containers, *spec.init_containers):
        for name, quantity in {**container.resources.limits, **container.resources.requests}.items():
            if "/" in name and not name.startswith("kubernetes.io/") and not _is_zero(name, quantity):
                yield name


def _is_zero(name: str, quantity: str | float) -> bool:
    try:
        return amount(name, quantity) == 0
    except ValueError:  # a quantity that the API server refuses
        return False
