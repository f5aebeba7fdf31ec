"""Rules between pods of several gangs: affinity, anti-affinity and hard topology spread."""

from collections.abc import Iterable, Sequence

import msgspec

from cluster.eligibility.pod_affinity import Namespaces, affinity_terms, anti_affinity_terms
from cluster.selectors import selects
from gangs.model import Gang
from kube.objects import Pod
from planning.framing.member_traits import looked_at, minds_others

_encode = msgspec.json.Encoder(order="deterministic").encode


def minding(gangs: Iterable[Gang], namespaces: Namespaces) -> bool:
    """Whether a member of one gang has affinity, anti-affinity or hard spread that selects a member of another gang."""
    return _between(gangs, namespaces, anti=True)


def leaning(gangs: Iterable[Gang], namespaces: Namespaces) -> bool:
    """Whether a member of one gang has affinity or hard spread that selects a member of another gang. Its eligible
    nodes may then depend on the other gang's nodes.
    """
    return _between(gangs, namespaces, anti=False)


def leans_on(pods: Sequence[Pod], others: Sequence[Pod], namespaces: Namespaces) -> bool:
    """Whether one of the pods has affinity or hard spread that selects one of the other pods. Its eligible nodes may
    then depend on the nodes of the other pods.
    """
    if not any(map(minds_others, pods)):
        return False
    keys = _looked_at(pods)
    one_each = _unlike(others, keys)
    return any(_means(pod, other, namespaces, anti=False) for pod in _unlike(pods, keys) for other in one_each)


def _between(gangs: Iterable[Gang], namespaces: Namespaces, *, anti: bool) -> bool:
    pods = [[member.pod for member in gang.members] for gang in gangs]
    if not any(minds_others(pod) for each in pods for pod in each):
        return False
    keys = _looked_at(pod for each in pods for pod in each)
    unlike = [_unlike(each, keys) for each in pods]
    return any(
        _means(pod, other, namespaces, anti=anti)
        for place, own_terms in enumerate(unlike)
        for pod in own_terms
        if minds_others(pod)
        for others in (*unlike[:place], *unlike[place + 1 :])
        for other in others
    )


def _looked_at(pods: Iterable[Pod]) -> frozenset[str]:
    return frozenset(key for pod in pods for key in looked_at(pod))


def _unlike(pods: Iterable[Pod], keys: frozenset[str]) -> list[Pod]:
    """Return one pod of each class of pods with equal rules and equal namespace and labels under `keys`."""
    return list(
        {
            _encode(
                (
                    pod.metadata.namespace,
                    {key: value for key, value in pod.metadata.labels.items() if key in keys},
                    (pod.spec.affinity.pod_affinity, pod.spec.affinity.pod_anti_affinity) if pod.spec.affinity else 0,
                    pod.spec.topology_spread_constraints,
                )
            ): pod
            for pod in pods
        }.values()
    )


def _means(pod: Pod, other: Pod, namespaces: Namespaces, *, anti: bool) -> bool:
    terms = (*affinity_terms(pod), *(anti_affinity_terms(pod) if anti else ()))
    if any(term.matches(other, namespaces) for term in terms):
        return True
    return other.metadata.namespace == pod.metadata.namespace and any(
        rule.when_unsatisfiable == "DoNotSchedule" and selects(rule.label_selector, other.metadata.labels)
        for rule in pod.spec.topology_spread_constraints
    )
