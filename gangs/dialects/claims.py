"""Claims: for each pod the dialect that claims it and its gang, given the dialects that are ceded to other systems."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from gangs.coexistence.ownership import NOTHING, CededToOthers, admitted_by_us, systems_ceded_to
from gangs.dialects.protocol import Dialect, Grouping
from gangs.dialects.table import DIALECTS
from gangs.model import GangKey
from gangs.sources import Sources
from gangs.workloads.jobs import counted_by_job
from kube import keys
from kube.objects import Pod

_WRITTEN_FIRST = {first.name: (first, *(each for each in DIALECTS if each is not first)) for first in DIALECTS}
"""By dialect, the order in which dialects are tried for a pod that admission labelled with it: this dialect first."""

Claim = tuple[Dialect, GangKey]
"""The dialect that claims a pod, and the gang that the pod names."""


def names_nothing(pod: Pod) -> bool:
    """Whether the pod has none of the fields by which pods name gangs in any dialect."""
    return not pod.metadata.labels and not pod.metadata.annotations and pod.spec.scheduling_group is None


def dialect_of(pod: Pod, left: CededToOthers = NOTHING) -> Claim | None:
    """Return the dialect that claims the pod, and the gang that the pod names.

    Return None for a pod of no gang or of a ceded gang. The dialect in the label that admission wrote is tried first.
    """
    if names_nothing(pod):
        return None
    written = pod.metadata.labels.get(keys.DIALECT)
    for dialect in _WRITTEN_FIRST.get(written or "", DIALECTS):
        key = dialect.gang_of(pod)
        if key is not None and not left.leaves(key):
            return dialect, key
        if key is not None and dialect.name == written:
            return None  # admission added the Phalanx label with its gang for this dialect, so no other one may read it
    return None


def ceded_to_others(sources: Sources) -> CededToOthers:
    """Return the dialects that are ceded to other systems, and the gangs that stay with Phalanx all the same.

    A gang with a live member that Phalanx admitted stays with Phalanx to its end. `sources.pods` may be the pods of
    one gang, if the caller asks about that gang only.
    """
    to = systems_ceded_to(sources)
    if not to:
        return NOTHING
    ours = [(pod, each) for pod in sources.pods for each in DIALECTS if each.name == admitted_by_us(pod)]
    keys_of_ours = (each.gang_of(pod) for pod, each in ours if each.name in to)
    return CededToOthers(to, frozenset(key for key in keys_of_ours if key is not None))


def parts_of(gang: GangKey, pod_sets: Sequence[str]) -> set[GangKey]:
    """Return the names by which pods join a gang, derived from its own name and the names of its pod sets."""
    grouping = (each for each in DIALECTS if each.name == gang.dialect and isinstance(each, Grouping))
    return next((each.parts(gang, pod_sets) for each in grouping), {gang})


def protected(pod: Pod) -> str:
    """Return why a dialect never lets this pod be a victim; "" if none objects. The pod may belong to no gang."""
    return next((reason for dialect in DIALECTS if (reason := dialect.protected(pod))), "")


def pods_by_dialect(pods: Sequence[Pod], left: CededToOthers) -> dict[str, list[Pod]]:
    """Return the pods that each dialect may read, by its name: the pods that it claims, and the unclaimed pods.

    A ceded dialect may not read unclaimed pods.
    """
    return by_dialect(pods, [dialect_of(pod, left) for pod in pods], left)


def by_dialect(pods: Sequence[Pod], claims: Sequence[Claim | None], left: CededToOthers) -> dict[str, list[Pod]]:
    """Return the pods that each dialect may read (`pods_by_dialect`), given the claim on each pod."""
    seen: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod, claim in zip(pods, claims, strict=True):
        for dialect in DIALECTS:
            if claim[0] is dialect if claim is not None else dialect.name not in left.to:
                seen[dialect.name].append(pod)
    return seen


def succeeded(pods: Sequence[Pod], left: CededToOthers) -> Counter[GangKey]:
    """Count the succeeded pods of each gang.

    Pods of Jobs are not counted here. A Job counts them itself and runs fewer pods as more of them complete.
    """
    ended = [pod for pod in pods if pod.status.phase == "Succeeded" and not pod.terminating]
    claims = [claim[1] for pod in ended if not counted_by_job(pod) and (claim := dialect_of(pod, left)) is not None]
    return Counter(claims)
