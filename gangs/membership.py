"""Rules that all dialects share: which pods count as members, their ranks and order, and their equal priority."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gangs.findings import Findings
from gangs.manifests import integer, pod_ref
from gangs.model import Member, ObjectRef
from kube.names import NaturalKey, natural_key
from kube.objects import ObjectMeta, Pod

WORKLOAD_INDEX_LABELS = (
    "batch.kubernetes.io/job-completion-index",  # Job, completionMode Indexed
    "leaderworkerset.sigs.k8s.io/worker-index",  # LeaderWorkerSet; before the label of its StatefulSets
    "apps.kubernetes.io/pod-index",  # StatefulSet
    "training.kubeflow.org/replica-index",  # PyTorchJob and other training jobs; each replica type counts from 0
)


@dataclass(frozen=True, slots=True)
class GivenRank:
    """A rank that a user gave a pod by a label or an annotation. `field`: the path of the key, for messages."""

    index: int
    field: str


@dataclass(frozen=True, slots=True)
class Seat:
    """A live or expected pod, its pod set, and the rank that its user gave it. `seated` turns seats into members."""

    pod: Pod
    pod_set: str
    given: GivenRank | None = None


def live(pods: Iterable[Pod]) -> list[Pod]:
    """Return the live pods: neither terminating nor finished."""
    return [pod for pod in pods if not pod.terminating and not pod.finished]


def age(meta: ObjectMeta) -> tuple[str, NaturalKey]:
    """Return a sort key that puts the oldest object first, and objects that are not created yet last.

    At equal times the natural order of the names decides.
    """
    return meta.creation_timestamp or "~", natural_key(meta.name or meta.generate_name)


def given_rank(pod: Pod, places: Sequence[tuple[str, Mapping[str, str], str]], findings: Findings) -> GivenRank | None:
    """Return the rank that a label or an annotation gives the pod; None if none does.

    Anything but a whole number from 0 up is a fault. Two keys with different ranks are a fault, too.

    :param places: the keys to look for, the first one preferred, as (path of the mapping, mapping, key). Example:
        ("metadata.labels", the pod's labels, "phalanx.dev/index").
    """
    found: list[GivenRank] = []
    for where, mapping, key in places:
        if key not in mapping:
            continue
        at, index = f"{where}[{key}]", integer(mapping[key])
        if index is None or index < 0:
            problem = f'"{mapping[key]}" is not a whole number from 0 up'
            findings.fault(pod_ref(pod), at, problem, "write the member's rank, or leave it out")
        else:
            found.append(GivenRank(index, at))
    if len({each.index for each in found}) > 1:
        findings.fault(pod_ref(pod), found[1].field, f"differs from {found[0].field}", "write the rank once")
    return found[0] if found else None


def seated(seats: Sequence[Seat], sets: Sequence[str], findings: Findings) -> tuple[Member, ...]:
    """Return the members of a gang, ordered by pod set and rank. Members without a rank come last, by name.

    In a pod set in which users gave ranks, only the users' ranks count. A rank that two pods have is a fault. Otherwise
    the workload's index label gives the rank, if its values in the pod set are all different. If several workloads
    share the pod set, some values are equal, so the members have no rank. The natural order of the names then keeps the
    pods of each workload together.

    :param sets: the names of the pod sets, in order.
    """
    ranked: list[Member] = []
    for name in sets:
        of_set = [seat for seat in seats if seat.pod_set == name]
        _check_duplicates(of_set, findings)
        ranked += (Member(seat.pod, name, index) for seat, index in zip(of_set, _indices(of_set), strict=True))
    return in_rank_order(ranked, sets)


def in_rank_order(members: Iterable[Member], sets: Sequence[str]) -> tuple[Member, ...]:
    """Return the members ordered by pod set, rank and natural name. In each set, members without a rank come last.

    :param sets: the names of the pod sets, in order.
    """
    positions = {name: position for position, name in enumerate(sets)}

    def place(member: Member) -> tuple[int, int, int, NaturalKey]:
        rank, meta = (1, 0) if member.index is None else (0, member.index), member.pod.metadata
        return positions[member.pod_set], *rank, natural_key(meta.name or meta.generate_name)

    return tuple(sorted(members, key=place))


def _indices(seats: Sequence[Seat]) -> list[int | None]:
    if any(seat.given for seat in seats):
        return [seat.given.index if seat.given else None for seat in seats]
    indices = [workload_index(seat.pod) for seat in seats]
    known = [each for each in indices if each is not None]
    return indices if len(set(known)) == len(known) else [None] * len(seats)


def workload_index(pod: Pod) -> int | None:
    """Return the index in the label that the pod's workload controller writes; None if there is none."""
    for key in WORKLOAD_INDEX_LABELS:
        if (value := pod.metadata.labels.get(key)) is not None:
            return integer(value)
    return None


def _check_duplicates(seats: Sequence[Seat], findings: Findings) -> None:
    first: dict[int, Seat] = {}
    with_rank = [(seat, seat.given) for seat in seats if seat.given is not None]
    for seat, given in sorted(with_rank, key=lambda pair: age(pair[0].pod.metadata)):
        holder = first.setdefault(given.index, seat)
        if holder is not seat:
            problem = f"rank {given.index} is already held by Pod {holder.pod.key}"
            findings.fault(pod_ref(seat.pod), given.field, problem, "give each live member a rank of its own")


def check_priorities(pods: Iterable[Pod], gang: ObjectRef, findings: Findings) -> None:
    """Report members whose priority differs from the oldest member's, because a gang is planned at one priority."""
    in_order = sorted(pods, key=lambda pod: age(pod.metadata))
    for pod in in_order[1:]:
        if _priority(pod) != _priority(in_order[0]):
            problem = f"{_priority(pod)} differs from {_priority(in_order[0])} of Pod {in_order[0].key} in {gang}"
            findings.fault(pod_ref(pod), "spec.priority", problem, "give all members of a gang one priority")


def _priority(pod: Pod) -> int | str:
    spec = pod.spec
    if spec.priority is None and spec.priority_class_name:
        return f"class {spec.priority_class_name}"
    return spec.priority or 0
