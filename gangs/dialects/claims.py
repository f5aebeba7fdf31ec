"""Whose a pod is: pods and what is left to other systems come in, out come the dialects that claim them, and gangs."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from gangs.coexistence.ownership import NOTHING, Left, admitted_by_us, left_to
from gangs.dialects.protocol import Dialect, Grouping
from gangs.dialects.table import DIALECTS
from gangs.model import GangKey
from gangs.sources import Sources
from gangs.workloads.jobs import counted_by_job
from kube import keys
from kube.objects import Pod

_WRITTEN_FIRST = {first.name: (first, *(each for each in DIALECTS if each is not first)) for first in DIALECTS}
"""All dialects in order, for pods on which one of them was written at their admission: that one first."""

Claim = tuple[Dialect, GangKey]
"""Who knows a pod, and the gang that it names."""


def dialect_of(pod: Pod, left: Left = NOTHING) -> Claim | None:
    """The dialect that claims the pod, and the gang it names; None for a pod of no gang, or of one that is left alone.

    The dialect that was written on the pod at its admission goes first, as long as it still claims it.
    """
    if not pod.metadata.labels and not pod.metadata.annotations:
        return None
    written = pod.metadata.labels.get(keys.DIALECT)
    for dialect in _WRITTEN_FIRST.get(written or "", DIALECTS):
        key = dialect.gang_of(pod)
        if key is not None and not left.leaves(key):
            return dialect, key
        if key is not None and dialect.name == written:
            return None  # the label that names its gang in our own words was put on it for this dialect
    return None


def left_alone(sources: Sources) -> Left:
    """What is left to other systems. A gang with a live member that came in through us stays ours to its end.

    `sources.pods` may be those of one gang only, if only that one is asked about.
    """
    to = left_to(sources)
    if not to:
        return NOTHING
    ours = [(pod, each) for pod in sources.pods for each in DIALECTS if each.name == admitted_by_us(pod)]
    keys_of_ours = (each.gang_of(pod) for pod, each in ours if each.name in to)
    return Left(to, frozenset(key for key in keys_of_ours if key is not None))


def parts_of(gang: GangKey, pod_sets: Sequence[str]) -> set[GangKey]:
    """The names by which pods join a gang, by its own name and those of its pod sets."""
    grouping = (each for each in DIALECTS if each.name == gang.dialect and isinstance(each, Grouping))
    return next((each.parts(gang, pod_sets) for each in grouping), {gang})


def protected(pod: Pod) -> str:
    """Why a dialect never lets this pod be a victim, "" where none minds. Holds for pods of no gang, too."""
    return next((reason for dialect in DIALECTS if (reason := dialect.protected(pod))), "")


def pods_by_dialect(pods: Sequence[Pod], left: Left) -> dict[str, list[Pod]]:
    """What each dialect may look at: the pods it claims and, where it is not left to others, those that nobody does."""
    return by_dialect(pods, [dialect_of(pod, left) for pod in pods], left)


def by_dialect(pods: Sequence[Pod], claims: Sequence[Claim | None], left: Left) -> dict[str, list[Pod]]:
    """The same, where it is known who claims each of the pods."""
    seen: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod, claim in zip(pods, claims, strict=True):
        for dialect in DIALECTS:
            if claim[0] is dialect if claim is not None else dialect.name not in left.to:
                seen[dialect.name].append(pod)
    return seen


def succeeded(pods: Sequence[Pod], left: Left) -> Counter[GangKey]:
    """Pods that have ended well, by gang. A Job counts its own: it runs fewer pods the more have completed."""
    ended = [pod for pod in pods if pod.status.phase == "Succeeded" and not pod.terminating]
    claims = [claim[1] for pod in ended if not counted_by_job(pod) and (claim := dialect_of(pod, left)) is not None]
    return Counter(claims)
