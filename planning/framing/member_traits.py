"""Traits of members that matter to other members of the gang: host ports, affinity terms, and labels that terms select.

Members of equal traits accept the same members on their node or domain. A trait that affects no pair of members is left
out, so that members that differ in nothing else keep the same shape.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from cluster.eligibility.host_ports import HostPort, host_ports
from cluster.eligibility.pod_affinity import AffinityTerm, Namespaces, affinity_terms, anti_affinity_terms
from kube.objects import LabelSelector, Pod, PodAffinityTerm

_encode = msgspec.json.Encoder(order="deterministic").encode


@dataclass(frozen=True, slots=True)
class Traits:
    """The traits of one member, as far as they affect other members of the gang.

    `ports`: its host ports that another member requests, too. `apart`: its own anti-affinity terms. `matching`: the
    anti-affinity terms of members that select it. Both are positions in `GangTraits.terms`. `wants`: the number of its
    pod affinity, if that selects members; else -1. `wanted`: the numbers of the members' affinities that select it.
    `labels`: its labels that the gang's topology spread reads.
    """

    ports: frozenset[HostPort] = frozenset()
    apart: frozenset[int] = frozenset()
    matching: frozenset[int] = frozenset()
    wants: int = -1
    wanted: frozenset[int] = frozenset()
    labels: tuple[tuple[str, str], ...] = ()


NONE = Traits()


class GangTraits:
    """The traits of all members of a gang.

    `terms`: the anti-affinity terms of members that select another member.
    """

    def __init__(self, pods: Iterable[Pod], namespaces: Namespaces) -> None:
        self.terms: tuple[AffinityTerm, ...] = ()
        self._keys: frozenset[str] = frozenset()
        self._spread_keys: frozenset[str] = frozenset()
        self._of: dict[int, Traits] = {}
        every = tuple(pods)
        if not any(map(has_pod_rules, every)):
            return
        self._keys = frozenset(key for pod in every for key in label_keys_read(pod))
        self._spread_keys = frozenset(key for pod in every for key in _spread_keys(pod))
        marks = [self._mark(pod) for pod in every]
        like = dict(zip(marks, every, strict=True))
        traits = self._distinct_traits(like, Counter(marks), namespaces)
        self._of = {id(pod): traits[mark] for pod, mark in zip(every, marks, strict=True)}

    @property
    def label_keys(self) -> frozenset[str]:
        """The label keys that the members' affinity terms and spread constraints read on other members."""
        return self._keys

    def of(self, pod: Pod) -> Traits:
        """Return the traits of a member. Expects the same pod object that was given to the constructor."""
        return self._of.get(id(pod), NONE)

    def _mark(self, pod: Pod) -> bytes:
        """Return a key that is equal for pods that have the same traits."""
        affinity = pod.spec.affinity
        return _encode(
            (
                pod.metadata.namespace,
                {key: value for key, value in pod.metadata.labels.items() if key in self._keys},
                (affinity.pod_anti_affinity, affinity.pod_affinity) if affinity is not None else None,
                sorted((each.address, each.protocol, each.port) for each in host_ports(pod)),
            )
        )

    def _distinct_traits(
        self, like: Mapping[bytes, Pod], counts: Mapping[bytes, int], namespaces: Namespaces
    ) -> dict[bytes, Traits]:
        terms: dict[bytes, AffinityTerm] = {}
        having: dict[bytes, set[bytes]] = {}
        for mark, pod in like.items():
            for term in anti_affinity_terms(pod):
                name = _name_of(term)
                terms.setdefault(name, term)
                having.setdefault(name, set()).add(mark)
        meaning = {
            name: {mark for mark, pod in like.items() if term.matches(pod, namespaces)} for name, term in terms.items()
        }
        noticed = [name for name in terms if _selects_another(having[name], meaning[name], counts)]
        self.terms = tuple(terms[name] for name in noticed)
        clashing = _clashing(like, counts)
        wishes = [(having, wanted) for having, wanted in _affinities(like, namespaces) if wanted]
        return {
            mark: Traits(
                ports=frozenset(host_ports(pod) & clashing),
                apart=frozenset(place for place, name in enumerate(noticed) if mark in having[name]),
                matching=frozenset(place for place, name in enumerate(noticed) if mark in meaning[name]),
                wants=next((number for number, (having, _) in enumerate(wishes) if mark in having), -1),
                wanted=frozenset(number for number, (_, wanted) in enumerate(wishes) if mark in wanted),
                labels=self._labels(pod),
            )
            for mark, pod in like.items()
        }

    def _labels(self, pod: Pod) -> tuple[tuple[str, str], ...]:
        if not self._spread_keys:
            return ()
        labels = [(key, value) for key, value in pod.metadata.labels.items() if key in self._spread_keys]
        return (("", pod.metadata.namespace), *sorted(labels))


def _name_of(term: AffinityTerm) -> bytes:
    return _encode((term.topology_key, sorted(term.namespaces), term.namespace_selector, term.selector, term.narrowed))


def _affinities(like: Mapping[bytes, Pod], namespaces: Namespaces) -> Iterable[tuple[set[bytes], set[bytes]]]:
    """Yield, for each distinct pod affinity, the pods that have it, and the pods that it selects.

    Pods are given by their keys from `GangTraits._mark`.
    """
    having: dict[tuple[bytes, ...], set[bytes]] = {}
    terms: dict[tuple[bytes, ...], tuple[AffinityTerm, ...]] = {}
    for mark, pod in like.items():
        if wanted := affinity_terms(pod):
            name = tuple(map(_name_of, wanted))
            terms.setdefault(name, wanted)
            having.setdefault(name, set()).add(mark)
    for name, marks in having.items():
        yield marks, {mark for mark, pod in like.items() if all(each.matches(pod, namespaces) for each in terms[name])}


def _selects_another(having: set[bytes], meaning: set[bytes], counts: Mapping[bytes, int]) -> bool:
    """Whether an affinity term of one member selects another member.

    `having`: the pods with the term; `meaning`: the pods that it selects; `counts`: the members of each key.
    """
    alone = having == meaning and sum(counts[mark] for mark in having) == 1
    return bool(meaning) and not alone


def _clashing(like: Mapping[bytes, Pod], counts: Mapping[bytes, int]) -> frozenset[HostPort]:
    """Return the host ports that two members cannot both use on one node."""
    wanted: dict[tuple[str, int], Counter[HostPort]] = {}
    for mark, pod in like.items():
        for port in host_ports(pod):
            wanted.setdefault((port.protocol, port.port), Counter())[port] += counts[mark]
    return frozenset(
        port
        for alike in wanted.values()
        for port in alike
        if sum(count for other, count in alike.items() if port.clashes(other)) > 1
    )


def has_pod_rules(pod: Pod) -> bool:
    """Whether the pod has pod affinity, anti-affinity, topology spread or host ports."""
    affinity, spec = pod.spec.affinity, pod.spec
    return bool(
        (affinity is not None and (affinity.pod_anti_affinity is not None or affinity.pod_affinity is not None))
        or spec.topology_spread_constraints
        or (any(each.ports for each in (*spec.containers, *spec.init_containers)) and host_ports(pod))
    )


def label_keys_read(pod: Pod) -> Iterable[str]:
    """Yield the pod-label keys that the pod's required affinity terms and spread constraints read."""
    affinity = pod.spec.affinity
    if affinity is not None:
        for each in (affinity.pod_affinity, affinity.pod_anti_affinity):
            if each is not None:
                yield from keys_of_terms(each.required)
    yield from _spread_keys(pod)


def keys_of_terms(terms: Sequence[PodAffinityTerm]) -> Iterable[str]:
    """Yield the pod-label keys that the affinity terms read."""
    for term in terms:
        yield from _keys_of_selector(term.label_selector)
        yield from term.match_label_keys
        yield from term.mismatch_label_keys


def _spread_keys(pod: Pod) -> Iterable[str]:
    for spread in pod.spec.topology_spread_constraints:
        yield from _keys_of_selector(spread.label_selector)
        yield from spread.match_label_keys


def _keys_of_selector(selector: LabelSelector | None) -> Iterable[str]:
    if selector is not None:
        yield from selector.match_labels
        yield from (each.key for each in selector.match_expressions)
