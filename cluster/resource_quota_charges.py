"""Computes the charges of pods to ResourceQuotas as the API server does.

Rules: https://kubernetes.io/docs/concepts/policy/resource-quotas/.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from kube.objects import Pod, QuotaScope, ResourceQuota
from kube.placeholders import HELD_LIMITS, held_limits
from kube.requests import PODS, pod_limits, pod_requests

_COUNTS_PODS = ("pods", "count/pods")
_REQUESTS, _LIMITS = "requests.", "limits."
_BARE = ("cpu", "memory", "ephemeral-storage")
"""Resources whose requests a quota may limit by their names alone."""


@dataclass(frozen=True, slots=True)
class Charge:
    """The number of pods that a quota counts, and their charges by the quota's resource names, in base units."""

    pods: int
    amounts: Counter[str]


def charge(quota: ResourceQuota, pods: Iterable[Pod]) -> Charge:
    """Return the charge to a quota for the pods in its scopes. Raises ValueError for an unparsable quantity."""
    counted = [pod for pod in pods if all(_in_scope(pod, each) for each in quota.spec.all_scopes)]
    total: Counter[str] = Counter()
    for alike in (list(each) for _, each in groupby(counted, _charged_by)):
        pod, number = alike[0], len(alike)
        for resource, value in pod_requests(pod).items():
            names = _COUNTS_PODS if resource == PODS else (f"{_REQUESTS}{resource}",)
            total.update(dict.fromkeys((*names, *(each for each in _BARE if each == resource)), number * value))
        total.update({f"{_LIMITS}{resource}": number * value for resource, value in _limits(pod).items()})
    return Charge(len(counted), total)


def resource_of(name: str) -> str:
    """Return the resource that an entry of a quota limits; "" for an entry that does not count pods."""
    if name in _COUNTS_PODS:
        return PODS
    if name in _BARE:
        return name
    return next((name.removeprefix(each) for each in (_REQUESTS, _LIMITS) if name.startswith(each)), "")


@dataclass(frozen=True)
class HeldPods:
    """The expected pods of one namespace for which capacity is reserved, and the namespace's quotas.

    The total charge is computed once for all callers: a namespace may have as many gangs as expected pods.
    """

    pods: Mapping[str, Sequence[Pod]]
    """By `namespace/name`."""
    quotas: Sequence[ResourceQuota]

    @cached_property
    def _charged(self) -> tuple[Counter[str], ...]:
        held = [pod for each in self.pods.values() for pod in each]
        return tuple(charge(quota, held).amounts for quota in self.quotas)

    def charged_beside(self, own: Iterable[str]) -> list[Counter[str]]:
        """Return the charge of all expected pods to each quota, without the pods in `own` (`namespace/name`)."""
        left_out = [pod for key in own for pod in self.pods.get(key, ())]
        beside = [Counter(each) for each in self._charged]
        for quota, charged in zip(self.quotas, beside, strict=True) if left_out else ():
            charged.subtract(charge(quota, left_out).amounts)
        return beside


def _charged_by(pod: Pod) -> tuple[object, ...]:
    """Return all fields that decide a pod's charge. Thousands of pods of one template are then charged in one step."""
    spec, status = pod.spec, pod.status
    asked = spec.containers, spec.init_containers, spec.overhead, spec.resources
    return (
        *asked,
        pod.metadata.annotations.get(HELD_LIMITS),
        status.container_statuses,
        status.init_container_statuses,
        status.allocated_resources,
    )


def _limits(pod: Pod) -> Mapping[str, int]:
    """Return the limits of a pod. A placeholder never runs, so for it the limits of its expected pod are returned."""
    return held_limits(pod) or pod_limits(pod)


def _in_scope(pod: Pod, scope: QuotaScope) -> bool:
    """Whether a quota of this scope counts the pod. A quota with an unknown scope is assumed to count no pods."""
    if scope.scope_name == "PriorityClass":
        name = pod.spec.priority_class_name
        named = {"In": name in scope.values, "NotIn": name not in scope.values, "DoesNotExist": not name}
        return named.get(scope.operator, bool(name))
    sized = _says_what_it_takes(pod)
    return {"BestEffort": not sized, "NotBestEffort": sized, "NotTerminating": True}.get(scope.scope_name, False)


def _says_what_it_takes(pod: Pod) -> bool:
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    return any({"cpu", "memory"} & (each.resources.requests.keys() | each.resources.limits) for each in containers)
