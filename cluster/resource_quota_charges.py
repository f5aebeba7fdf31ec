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
"""Resources that a ResourceQuota may also name without the prefix "requests.", such as "cpu" in place of
"requests.cpu".
"""


@dataclass(frozen=True, slots=True)
class Charge:
    """The amounts that a ResourceQuota counts for some pods. `pods`: how many of the pods the quota counts.

    `amounts`: by the quota's own name of a resource, such as "requests.cpu", the charged amount in base units.
    """

    pods: int
    amounts: Counter[str]


def charge(quota: ResourceQuota, pods: Iterable[Pod]) -> Charge:
    """Return what the API server charges to a quota for these pods. Pods outside the quota's scopes are not charged.

    :raises ValueError: a quantity of a pod cannot be parsed.
    """
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
    """Return the resource that an entry of a quota limits, such as "cpu" for "requests.cpu".

    "" for an entry that is not about pods, such as "services".
    """
    if name in _COUNTS_PODS:
        return PODS
    if name in _BARE:
        return name
    return next((name.removeprefix(each) for each in (_REQUESTS, _LIMITS) if name.startswith(each)), "")


@dataclass(frozen=True)
class HeldPods:
    """The expected pods of one namespace for which capacity is reserved, and the namespace's ResourceQuotas.

    The total charge of these pods is computed once, because a namespace may have many gangs that ask for it.
    """

    pods: Mapping[str, Sequence[Pod]]
    """The expected pods by name (`namespace/name`)."""
    quotas: Sequence[ResourceQuota]

    @cached_property
    def _charged(self) -> tuple[Counter[str], ...]:
        held = [pod for each in self.pods.values() for pod in each]
        return tuple(charge(quota, held).amounts for quota in self.quotas)

    def charged_beside(self, own: Iterable[str]) -> list[Counter[str]]:
        """Return the charge to each quota, in the order of `quotas`, of all expected pods except the caller's own.

        :param own: the names (`namespace/name`) of the pods that are left out.
        """
        left_out = [pod for key in own for pod in self.pods.get(key, ())]
        beside = [Counter(each) for each in self._charged]
        for quota, charged in zip(self.quotas, beside, strict=True) if left_out else ():
            charged.subtract(charge(quota, left_out).amounts)
        return beside


def _charged_by(pod: Pod) -> tuple[object, ...]:
    """Return the fields that decide a pod's charge. Consecutive pods with equal fields are charged in one step."""
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
    """Return the limits of a pod by resource; for a placeholder, the limits of its expected pod."""
    return held_limits(pod) or pod_limits(pod)


def _in_scope(pod: Pod, scope: QuotaScope) -> bool:
    """Whether a quota with this scope counts the pod. For an unknown scope it is assumed to count no pod."""
    if scope.scope_name == "PriorityClass":
        name = pod.spec.priority_class_name
        named = {"In": name in scope.values, "NotIn": name not in scope.values, "DoesNotExist": not name}
        return named.get(scope.operator, bool(name))
    sized = _has_requests_or_limits(pod)
    return {"BestEffort": not sized, "NotBestEffort": sized, "NotTerminating": True}.get(scope.scope_name, False)


def _has_requests_or_limits(pod: Pod) -> bool:
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    return any({"cpu", "memory"} & (each.resources.requests.keys() | each.resources.limits) for each in containers)
