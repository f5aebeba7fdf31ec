"""The dialect and the gang of each pod.

A dialect claims a pod if the pod's labels or annotations name a gang in it. At most one dialect claims a pod. A ceded
dialect, whose workloads another system in the cluster handles, claims none.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from gangs.coexistence.ownership import NOTHING, CededToOthers, admitted_by_us, systems_ceded_to
from gangs.dialects.protocol import Dialect, Exempting, Grouping
from gangs.dialects.table import DIALECTS
from gangs.model import GangKey
from gangs.sources import Sources
from gangs.workloads.jobs import succeeded_uncounted
from kube import keys
from kube.objects import Pod

_WRITTEN_FIRST = {first.name: (first, *(each for each in DIALECTS if each is not first)) for first in DIALECTS}
"""By the dialect in a pod's label `phalanx.dev/dialect`: the order in which dialects are tried, this dialect first."""

_EXEMPTING = tuple(each for each in DIALECTS if isinstance(each, Exempting))
_KEYS = [(each, frozenset(each.pod_keys.labels), frozenset(each.pod_keys.annotations)) for each in DIALECTS]
"""Each dialect with the labels and the annotations by which pods name gangs in it."""
_NAMING_LABELS = frozenset[str]().union(*(labels for _, labels, _ in _KEYS))
_NAMING_ANNOTATIONS = frozenset[str]().union(*(annotations for _, _, annotations in _KEYS))

Claim = tuple[Dialect, GangKey]
"""The dialect that claims a pod, and the gang that the pod names."""


def names_nothing(pod: Pod) -> bool:
    """Whether the pod has no label, annotation or field by which a pod names a gang in any dialect (`PodKeys`).

    Most pods of a cluster name no gang, and this check is much cheaper than `Dialect.gang_of` of each dialect.
    """
    meta = pod.metadata
    return (
        pod.spec.scheduling_group is None
        and _NAMING_LABELS.isdisjoint(meta.labels)
        and _NAMING_ANNOTATIONS.isdisjoint(meta.annotations)
    )


def gangs_named(pod: Pod) -> Iterator[Claim]:
    """Yield each dialect in which the pod names a gang, with this gang, in the order of `DIALECTS`.

    Only dialects of which the pod has a key are asked, because `Dialect.gang_of` is much slower than the look-up.
    """
    if names_nothing(pod):
        return
    meta = pod.metadata
    for dialect, labels, annotations in _KEYS:
        by_field = dialect.pod_keys.fields and pod.spec.scheduling_group is not None
        if by_field or not (labels.isdisjoint(meta.labels) and annotations.isdisjoint(meta.annotations)):
            key = dialect.gang_of(pod)
            if key is not None:
                yield dialect, key


def dialect_of(pod: Pod, left: CededToOthers = NOTHING) -> Claim | None:
    """Return the dialect that claims the pod, and the gang that the pod names.

    Return None for a pod of no gang or of a ceded gang. If several dialects could claim the pod, the dialect in the
    label `phalanx.dev/dialect`, which admission writes, comes first; then the order of `DIALECTS`.

    :param left: the dialects and gangs that are ceded to other systems.
    """
    return None if names_nothing(pod) else claimed(pod, {each.name: key for each, key in gangs_named(pod)}, left)


def claimed(pod: Pod, named: Mapping[str, GangKey], left: CededToOthers) -> Claim | None:
    """Return the dialect that claims the pod, and the gang that the pod names in it (`dialect_of`).

    :param named: by dialect name, the gangs that the pod names (`gangs_named`).
    :param left: the dialects and gangs that are ceded to other systems.
    """
    written = pod.metadata.labels.get(keys.DIALECT)
    for dialect in _WRITTEN_FIRST.get(written or "", DIALECTS):
        key = named.get(dialect.name)
        if key is not None and not left.leaves(key):
            return dialect, key
        if key is not None and dialect.name == written:
            return None  # the pod is a member in this ceded dialect, so no other dialect may claim it
    return None


def ceded_to_others(sources: Sources) -> CededToOthers:
    """Return the dialects that are ceded to other systems, and the gangs of these dialects that are not ceded.

    A gang with a live member that Phalanx admitted is not ceded, so that Phalanx handles it until it ends. A caller
    that needs the answer for one gang only may pass sources with the pods of this gang.
    """
    to = systems_ceded_to(sources)
    if not to:
        return NOTHING
    ours = [(pod, each) for pod in sources.pods for each in DIALECTS if each.name == admitted_by_us(pod)]
    keys_of_ours = (each.gang_of(pod) for pod, each in ours if each.name in to)
    return CededToOthers(to, frozenset(key for key in keys_of_ours if key is not None))


def parts_of(gang: GangKey, pod_sets: Sequence[str]) -> set[GangKey]:
    """Return all `GangKey`s by which pods of a gang may name the gang: its own key, and the keys that its dialect
    derives from its pod sets.

    Example: in Koordinator, a pod of a gang that consists of several PodGroups names the key of its PodGroup.

    :param pod_sets: the names of the gang's pod sets.
    """
    grouping = (each for each in DIALECTS if each.name == gang.dialect and isinstance(each, Grouping))
    return next((each.parts(gang, pod_sets) for each in grouping), {gang})


def protected(pod: Pod) -> str:
    """Return why a dialect's rules exempt the pod from eviction; "" if none does. The pod may belong to no gang."""
    return next((reason for dialect in _EXEMPTING if (reason := dialect.protected(pod))), "")


def pods_by_dialect(pods: Sequence[Pod], left: CededToOthers) -> dict[str, list[Pod]]:
    """Return, by dialect name, the pods that the dialect may read: pods that it claims, and pods that no dialect
    claims.

    A ceded dialect may read only the pods that it claims.
    """
    return by_dialect(pods, [dialect_of(pod, left) for pod in pods], left)


def by_dialect(pods: Sequence[Pod], claims: Sequence[Claim | None], left: CededToOthers) -> dict[str, list[Pod]]:
    """Return, by dialect name, the pods that the dialect may read: pods that it claims and, unless it is ceded, pods
    that no dialect claims.

    :param claims: the result of `dialect_of` for each pod, in the order of `pods`.
    """
    seen: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod, claim in zip(pods, claims, strict=True):
        for dialect in DIALECTS:
            if readable_by(dialect, claim, left):
                seen[dialect.name].append(pod)
    return seen


def readable_by(dialect: Dialect, claim: Claim | None, left: CededToOthers) -> bool:
    """Whether a dialect may read a pod: it claims the pod, or no dialect claims the pod and this one is not ceded.

    :param claim: the result of `dialect_of` for the pod.
    """
    return claim[0] is dialect if claim is not None else dialect.name not in left.to


def succeeded(pods: Sequence[Pod], left: CededToOthers) -> Counter[GangKey]:
    """Return the number of succeeded pods of each gang.

    Pods that their Job has counted are left out, because the Job expects fewer pods then (`succeeded_uncounted`).
    """
    ended = [pod for pod in pods if succeeded_uncounted(pod)]
    return Counter(claim[1] for pod in ended if (claim := dialect_of(pod, left)) is not None)
