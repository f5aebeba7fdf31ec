"""Whether pods of one gang have affinity, anti-affinity or hard topology spread rules that select pods of another gang.

Hard means `whenUnsatisfiable: DoNotSchedule`.
"""

from collections.abc import Iterable, Sequence

import msgspec

from cluster.eligibility.pod_affinity import Namespaces, affinity_terms, anti_affinity_terms
from cluster.selectors import selects
from gangs.model import Gang
from kube.objects import Pod
from planning.framing.member_traits import has_pod_rules, label_keys_read

_encode = msgspec.json.Encoder(order="deterministic").encode


def any_pod_rules_between(gangs: Iterable[Gang], namespaces: Namespaces) -> bool:
    """Whether a member of one of these gangs has affinity, anti-affinity or hard spread that selects a member of
    another of them.
    """
    pods = [[member.pod for member in gang.members] for gang in gangs]
    if not any(has_pod_rules(pod) for each in pods for pod in each):
        return False
    keys = _label_keys_read(pod for each in pods for pod in each)
    unlike = [_one_of_each_class(each, keys) for each in pods]
    return any(
        _selects(pod, other, namespaces, anti=True)
        for place, own_terms in enumerate(unlike)
        for pod in own_terms
        if has_pod_rules(pod)
        for others in (*unlike[:place], *unlike[place + 1 :])
        for other in others
    )


def depends_on_any(pods: Sequence[Pod], others: Sequence[Pod], namespaces: Namespaces) -> bool:
    """Whether one of the pods has affinity or hard topology spread that selects one of the other pods.

    Its eligible nodes may then depend on the nodes of the other pods.
    """
    if not any(map(has_pod_rules, pods)):
        return False
    keys = _label_keys_read(pods)
    one_each = _one_of_each_class(others, keys)
    return any(
        _selects(pod, other, namespaces, anti=False) for pod in _one_of_each_class(pods, keys) for other in one_each
    )


def _label_keys_read(pods: Iterable[Pod]) -> frozenset[str]:
    return frozenset(key for pod in pods for key in label_keys_read(pod))


def _one_of_each_class(pods: Iterable[Pod], keys: frozenset[str]) -> list[Pod]:
    """Return one pod of each class of pods. The pods of a class are equal in namespace, pod rules, and the labels with
    the keys `keys`.
    """
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


def _selects(pod: Pod, other: Pod, namespaces: Namespaces, *, anti: bool) -> bool:
    terms = (*affinity_terms(pod), *(anti_affinity_terms(pod) if anti else ()))
    if any(term.matches(other, namespaces) for term in terms):
        return True
    return other.metadata.namespace == pod.metadata.namespace and any(
        rule.when_unsatisfiable == "DoNotSchedule" and selects(rule.label_selector, other.metadata.labels)
        for rule in pod.spec.topology_spread_constraints
    )
