"""Which pods have to do with one object, so that its review need not look at all there are.

A pod comes in, out go the places under which it is kept (`places_of`); an object comes in, out go the pods that are
found at the places where it has to be looked (`pods_about`). What is left to other systems has no say in it, because
that changes with objects and not with pods: a few pods more are found than the dialects will look at.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator

import msgspec

from gangs.dialects.protocol import Grouping
from gangs.dialects.table import DIALECTS
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
"""The pods that are kept in a place."""

_NUMBERS = frozenset((*WORKLOAD_INDEX_LABELS, "statefulset.kubernetes.io/pod-name"))
"""Labels and annotations of which workloads give each of their pods another one."""
_OF_PLANS = frozenset((keys.PLANNED_NODE, keys.PLAN, keys.RELEASED, keys.RELEASE_BEGUN, keys.WHOLE_MARK))
"""Annotations that plans leave."""
_encoder = msgspec.msgpack.Encoder()

_MADE, _LISTED, _COMPANY, _SPEAKING = "made", "listed", "company", "speaking"


def places_of(pod: Pod) -> tuple[Collection[Hashable], Hashable]:
    """Where a pod is kept: under the gang that it names in each dialect, and under what else others look for it by;
    and its kind among those that are kept there.

    Pods of a kind say and ask for the same, and are as far on their way: who judges another one that joins them has
    seen all when he has seen one of them. What their workload has numbered them by is no difference.
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
    if not meta.labels and not meta.annotations:
        return
    for dialect in DIALECTS:
        key = dialect.gang_of(pod)
        if key is None:
            continue
        yield key
        yield _SPEAKING, dialect.name
        if isinstance(dialect, Grouping):
            yield from ((_LISTED, each) for each in dialect.joined(pod))
            if (company := dialect.company(pod)) is not None:
                yield _COMPANY, dialect.name, company


def pods_about(manifest: Manifest, sources: Sources, find: Find) -> list[Pod]:
    """The pods that the review of this object may look at, by namespace and name.

    They are those of the gangs that it describes or takes part in and of what these are grouped with, and those that
    it makes. `sources`: all objects, this one as it is or was before; nobody looks at its pods.
    """
    _, _, namespace, name = key_of(manifest)
    sources = sources.having(manifest)
    found = {pod.key: pod for pod in find((_MADE, namespace, name))}
    for dialect in DIALECTS:
        about = GangKey(dialect.name, namespace, name)
        names = {about}
        if isinstance(dialect, Grouping):
            names = dialect.grouped(about, _linked(dialect, find), sources)
        own_pods = {pod.key: pod for each in names for pod in find(each)}
        if isinstance(dialect, Grouping):
            for company in {dialect.company(pod) for pod in own_pods.values()} - {None}:
                own_pods |= {pod.key: pod for pod in find((_COMPANY, dialect.name, company))}
        found |= own_pods
    return [found[key] for key in sorted(found)]


def examples_of(first: Callable[[Hashable], Pod | None]) -> list[Pod]:
    """One pod of each dialect in whose words some pod names a gang: what topologies there are depends on that.

    :param first: any one of the pods that are kept in a place.
    """
    found = (first((_SPEAKING, dialect.name)) for dialect in DIALECTS)
    return [pod for pod in found if pod is not None]


def _linked(dialect: Grouping, find: Find) -> Callable[[GangKey], Iterable[GangKey]]:
    """The gangs next to one by the lists of pods: as `gangs.incremental.pods.KeptPods.linked`."""

    def linked(key: GangKey) -> set[GangKey]:
        near = {each for pod in find(key) for each in dialect.joined(pod)}
        listing = (other for pod in find((_LISTED, key)) for each in DIALECTS if (other := each.gang_of(pod)))
        return near | {each for each in listing if (each.dialect, each.namespace) == (key.dialect, key.namespace)}

    return linked
