"""An index of pods by which the admission review of one object finds the pods that it needs, without reading all.

`places_of` returns the index keys of a pod. `pods_about` returns the pods at the index keys of an object. The index
includes pods of ceded dialects, so `pods_about` may return a few more pods than the dialects read.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator

import msgspec

from gangs.dialects.claims import gangs_named
from gangs.dialects.protocol import Grouping
from gangs.dialects.table import DIALECTS, GROUPING
from gangs.held_nodes import held_node
from gangs.manifests import key_of
from gangs.membership import WORKLOAD_INDEX_LABELS
from gangs.model import GangKey, Manifest
from gangs.sources import Sources
from gangs.workloads.jobs import controller_of
from gangs.workloads.pod_templates import TEMPLATE_HASH
from kube import keys
from kube.objects import Pod

Find = Callable[[Hashable], Iterable[Pod]]
"""A lookup of the pods at an index key."""

_NUMBERS = frozenset((*WORKLOAD_INDEX_LABELS, "statefulset.kubernetes.io/pod-name"))
"""Labels and annotations whose value differs for each pod of a workload."""
_OF_PLANS = frozenset((keys.PLANNED_NODE, keys.PLAN, keys.RELEASED, keys.RELEASE_BEGUN, keys.WHOLE_MARK))
"""Annotations that the controller writes for a plan."""
_encoder = msgspec.msgpack.Encoder()

_MADE, _LISTED, _COMPANY, _SPEAKING = "made", "listed", "company", "speaking"


def places_of(pod: Pod) -> tuple[Collection[Hashable], Hashable]:
    """Return the index keys of a pod, and the number of its equivalence class; None as class for a pod of no gang.

    The keys are the gang that the pod names in each dialect, and the other keys by which reviews find the pod. Pods of
    one class have equal labels, annotations, owners and specs, and are in the same phase of their life. Only the pod
    indexes that a workload assigns may differ. A review of a new pod therefore needs only one pod of each class.
    """
    places = tuple(dict.fromkeys(_places(pod)))
    return places, _kind(pod) if any(isinstance(each, GangKey) for each in places) else None


def _kind(pod: Pod) -> int:
    meta, spec = pod.metadata, pod.spec
    labels, annotations = meta.labels, meta.annotations
    if controller_of(pod) is not None:
        labels = {key: value for key, value in labels.items() if key not in _NUMBERS}
        annotations = {key: value for key, value in annotations.items() if key not in _NUMBERS}
    if keys.PLANNED_NODE in annotations:
        annotations = {key: value for key, value in annotations.items() if key not in _OF_PLANS}
    if spec.node_name:
        spec = msgspec.structs.replace(spec, node_name="")
    phase = pod.status.phase if pod.finished else ""
    way = pod.bound, bool(held_node(pod)), pod.terminating, phase
    return hash(_encoder.encode((labels, annotations, meta.owner_references, spec, way)))


def _places(pod: Pod) -> Iterator[Hashable]:
    meta = pod.metadata
    owner = controller_of(pod)
    if owner is not None:
        yield _MADE, meta.namespace, owner.name
        stem, dash, end = owner.name.rpartition("-")
        if owner.kind == "ReplicaSet" and dash and end == meta.labels.get(TEMPLATE_HASH):
            yield _MADE, meta.namespace, stem
    for dialect, key in gangs_named(pod):
        yield key
        yield _SPEAKING, dialect.name
        if (grouping := GROUPING.get(dialect.name)) is not None:
            yield from ((_LISTED, each) for each in grouping.joined(pod))
            if (company := grouping.company(pod)) is not None:
                yield _COMPANY, dialect.name, company


def pods_about(manifest: Manifest, sources: Sources, find: Find) -> list[Pod]:
    """Return the pods that the admission review of an object needs, ordered by namespace and name.

    These are the pods that the object owns, the pods of its gang, and the pods of gangs that are grouped with it.

    :param sources: all other objects. The pods in it are not used.
    :param find: a function that returns the pods at an index key (`places_of`).
    """
    _, _, namespace, name = key_of(manifest)
    sources = sources.having(manifest)
    found = {pod.key: pod for pod in find((_MADE, namespace, name))}
    for dialect in DIALECTS:
        about = GangKey(dialect.name, namespace, name)
        names, grouping = {about}, GROUPING.get(dialect.name)
        if grouping is not None:
            names = grouping.grouped(about, _linked(grouping, find), sources)
        own_pods = {pod.key: pod for each in names for pod in find(each)}
        if grouping is not None:
            for company in {grouping.company(pod) for pod in own_pods.values()} - {None}:
                own_pods |= {pod.key: pod for pod in find((_COMPANY, dialect.name, company))}
        found |= own_pods
    return [found[key] for key in sorted(found)]


def examples_of(first: Callable[[Hashable], Pod | None]) -> list[Pod]:
    """Return, for each dialect in which any pod names a gang, one such pod.

    Some dialects describe a topology only if their pods exist, so the topologies can be read with these pods alone.

    :param first: a function that returns any pod at an index key; None if there is none.
    """
    found = (first((_SPEAKING, dialect.name)) for dialect in DIALECTS)
    return [pod for pod in found if pod is not None]


def _linked(dialect: Grouping, find: Find) -> Callable[[GangKey], Iterable[GangKey]]:
    """Return a function that, for a gang, returns the gangs that pods group with it by lists in their annotations.

    It computes the same as `gangs.incremental.pods.KeptPods.linked`, from the index of this module.
    """

    def linked(key: GangKey) -> set[GangKey]:
        near = {each for pod in find(key) for each in dialect.joined(pod)}
        listing = (other for pod in find((_LISTED, key)) for each in DIALECTS if (other := each.gang_of(pod)))
        return near | {each for each in listing if (each.dialect, each.namespace) == (key.dialect, key.namespace)}

    return linked
