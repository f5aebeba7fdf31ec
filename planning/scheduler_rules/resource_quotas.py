"""ResourceQuotas, and pods that their workload has not made yet: no room is held for pods that would be refused.

A pod that exists has been charged by the API server. For one that is to come a placeholder of ours holds the room
(docs/decisions/0022), which no quota of its namespace counts: without this, whoever may make one pod could keep the
room of thousands from others. Rules: https://kubernetes.io/docs/concepts/policy/resource-quotas/.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from cluster.snapshot import Snapshot
from gangs.model import Gang
from kube.objects import Container, Pod, QuotaScope, ResourceQuota
from kube.placeholders import to_come
from kube.quantities import amount, written
from kube.requests import PODS, pod_requests

_COUNTS_PODS = ("pods", "count/pods")
_REQUESTS, _LIMITS = "requests.", "limits."
_BARE = ("cpu", "memory", "ephemeral-storage")
"""Resources whose requests a quota may limit by their names alone."""


def quotas_in_the_way(gang: Gang, snapshot: Snapshot) -> Iterator[str]:
    """The quotas that leave no room for the pods to come, as ends of a sentence."""
    coming = [member.pod for member in gang.members if to_come(member.pod)]
    for quota in snapshot.quotas.get(gang.key.namespace, ()) if coming else ():
        counted = [pod for pod in coming if all(_in_scope(pod, each) for each in quota.spec.all_scopes)]
        yield from _short(quota, counted)


def _short(quota: ResourceQuota, pods: Sequence[Pod]) -> Iterator[str]:
    needed = _needed(pods)
    for name, hard in sorted(quota.spec.hard.items()):
        resource = _resource_of(name)
        need = needed.get(name, 0)
        if not resource or not need:
            continue
        left = max(0, amount(resource, hard) - amount(resource, quota.status.used.get(name, 0)))
        if need > left:
            more = f"{len(pods)} more pod{'s' * (len(pods) > 1)}"
            amounts = f"{written(resource, need)} needed, {written(resource, left)} of {hard} left"
            yield f"ResourceQuota {quota.metadata.name} to have room for {more} ({name}: {amounts})"


def _needed(pods: Iterable[Pod]) -> Mapping[str, int]:
    """What the pods are charged, by the names that quotas have for it, in base units."""
    total: Counter[str] = Counter()
    for pod in pods:
        for resource, value in pod_requests(pod).items():
            names = _COUNTS_PODS if resource == PODS else (f"{_REQUESTS}{resource}",)
            total.update(dict.fromkeys((*names, *(each for each in _BARE if each == resource)), value))
        total.update({f"{_LIMITS}{resource}": value for resource, value in _limits(pod).items()})
    return total


def _limits(pod: Pod) -> Mapping[str, int]:
    """The limits of a pod: of all containers together, or of one that comes before them, whichever is more."""
    total: Counter[str] = Counter()
    for container in pod.spec.containers:
        total.update(_limits_of(container))
    for container in pod.spec.init_containers:
        total |= Counter(_limits_of(container))
    return total


def _limits_of(container: Container) -> dict[str, int]:
    return {name: amount(name, text) for name, text in container.resources.limits.items()}


def _resource_of(name: str) -> str:
    """The resource that a line of a quota limits, "" for one that concerns no pods."""
    if name in _COUNTS_PODS:
        return PODS
    if name in _BARE:
        return name
    return next((name.removeprefix(each) for each in (_REQUESTS, _LIMITS) if name.startswith(each)), "")


def _in_scope(pod: Pod, scope: QuotaScope) -> bool:
    """Whether a quota of this scope counts the pod. One of a scope that is not known here is taken to count none."""
    if scope.scope_name == "PriorityClass":
        name = pod.spec.priority_class_name
        named = {"In": name in scope.values, "NotIn": name not in scope.values, "DoesNotExist": not name}
        return named.get(scope.operator, bool(name))
    sized = _says_what_it_takes(pod)
    return {"BestEffort": not sized, "NotBestEffort": sized, "NotTerminating": True}.get(scope.scope_name, False)


def _says_what_it_takes(pod: Pod) -> bool:
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    return any({"cpu", "memory"} & (each.resources.requests.keys() | each.resources.limits) for each in containers)
