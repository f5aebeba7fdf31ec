"""Gangs of Kueue's dialect: a Job that names a queue or a level, a pod group, or a single pod.

The module `owned` has the gangs of other workloads.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gangs.assembling import GangWorkload, assemble, of_one_set
from gangs.findings import Findings, waits_for_corrections
from gangs.held_nodes import stays_charged
from gangs.kueue import NAME, keys, marks, wishes
from gangs.kueue.queues import account_of
from gangs.kueue.topologies import lowest_level
from gangs.kueue.wishes import Annotated, Wish
from gangs.labelled_workloads import makers
from gangs.manifests import integer, pod_ref, ref_of
from gangs.membership import GivenRank, Seat, age, check_priorities, given_rank, live, seated
from gangs.model import (
    CreationDelay,
    Gang,
    GangKey,
    Manifest,
    Member,
    ObjectRef,
    PlacementRequest,
    PodSet,
    TogetherRule,
)
from gangs.pod_consensus import check_alike, decisive_pods
from gangs.quota_model import Charged
from gangs.sources import QueueNamed, Sources
from gangs.topology.levels import NO_TOPOLOGY
from gangs.workloads.jobs import Job, example_pod, job_of
from gangs.workloads.pod_templates import part_of, shared_name
from gangs.workloads.suspension import to_be_resumed
from kube import keys as own
from kube.objects import ObjectMeta, Pod
from kube.topology import Topology

SET = "main"
TO_GROUP = (
    f"group its pods: write the label {keys.POD_GROUP}: <a name>, the annotation {keys.POD_GROUP_TOTAL}: <all its "
    f"pods, in quotes> and the same {keys.GROUP} keys on all its pod templates"
)
"""The remedy by which pods of several pod templates become one gang, whatever the kind of their workload."""

Used = Mapping[str, tuple[str, ...]]
"""By gang, as `dialect/namespace/name`: the flavors that its plan in force uses."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The data from which a gang of Kueue's dialect is read, besides the gang's own objects and pods.

    `topologies`: the topologies of all dialects. `used`: by gang, the flavors that its plan in force uses.
    """

    sources: Sources
    topologies: Sequence[Topology]
    used: Used
    _charged: dict[tuple[str, str], Charged] = field(default_factory=dict)

    def charged(self, namespace: str, queue: str) -> Charged:
        """Return the account of a LocalQueue. It is looked up once for all gangs of the queue."""
        if (namespace, queue) not in self._charged:
            self._charged[namespace, queue] = account_of(namespace, queue, self.sources)
        return self._charged[namespace, queue]


@dataclass(frozen=True, slots=True)
class RequestedSet:
    """One pod set of a workload that has several. All its `count` pods must start together."""

    name: str
    count: int
    wish: Wish


@dataclass(frozen=True, slots=True)
class Asked:
    """The request of a workload or a pod group, before its queue and its levels are looked up.

    `wish`: the levels and slices, if there is one pod set. `sets`: the pod sets with a `wish` each, if there are
    several.
    """

    key: GangKey
    ref: ObjectRef
    members: tuple[Member, ...]
    expected: int
    minimum: int
    queue: str
    wish: Wish
    created: str
    waiting_for: tuple[str, ...] = ()
    sets: tuple[RequestedSet, ...] = ()
    together: tuple[TogetherRule, ...] = ()
    only_set: str = SET
    """The name of the pod set, if there is one."""
    part: str = ""
    """The part of the workload that is this gang, if each part is a gang; "" otherwise."""
    delay: CreationDelay | None = None
    """Why a Job does not create missing pods at once (`Job.delay`); None for other kinds."""

    @property
    def wishes(self) -> tuple[Wish, ...]:
        """The levels and slices that each pod set asks for."""
        return tuple(each.wish for each in self.sets) or (self.wish,)

    @property
    def common(self) -> str | None:
        """The level of which all members must share one domain; None if there is none."""
        if self.wish.required:
            return self.wish.required.level
        return next((rule.level for rule in self.together if len(rule.pod_sets) == len(self.sets)), None)

    @property
    def unconstrained(self) -> bool:
        """Whether the user asks, by `podset-unconstrained-topology`, that all pod sets may run on any nodes."""
        return all(each.unconstrained for each in self.wishes)


def gang_of(pod: Pod) -> GangKey | None:
    """Return the gang of a pod: its pod group, else the workload whose pods are one gang in Kueue, else the pod alone.

    Return None if the pod names no pod group, no queue and no level.
    """
    meta = pod.metadata
    group = meta.labels.get(keys.POD_GROUP)
    if group:
        return GangKey(NAME, meta.namespace, group)
    if not meta.labels.get(keys.QUEUE_NAME) and not wishes.asks(meta.annotations):
        return None
    workload = marks.workload_of(pod)
    name = makers.gang_name(workload.name, makers.part_of(pod, NAME)) if workload is not None else shared_name(pod)
    return GangKey(NAME, meta.namespace, name or meta.name or meta.generate_name)


def queue_of(meta_labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """Return the LocalQueue that an object names by the label, or by the older annotation; "" if it names none."""
    return meta_labels.get(keys.QUEUE_NAME) or annotations.get(keys.QUEUE_NAME) or ""


def queue_named(meta: ObjectMeta) -> QueueNamed | None:
    """Return the LocalQueue that a pod names, and the path of the key; None if it names none."""
    queue = queue_of(meta.labels, meta.annotations)
    place = "labels" if meta.labels.get(keys.QUEUE_NAME) else "annotations"
    return QueueNamed(f"metadata.{place}[{keys.QUEUE_NAME}]", queue) if queue else None


def read_job(manifest: Manifest, around: Surroundings, findings: Findings) -> Gang | None:
    """Return the gang that a Job is in Kueue's dialect. Raises `MalformedError`.

    Return None if the Job names neither queue nor level, has ended, or has faults, which go to `findings`.
    """
    job, ref = job_of(manifest), ref_of(manifest)
    queue = queue_of(job.metadata.labels, job.metadata.annotations)
    if not queue and gang_of(example_pod(manifest)) is None:
        _check_reach(job, ref, findings)
        return None
    if job.pod_labels.get(own.WORKLOAD) or job.pod_labels.get(own.GANG):
        problem = "names a queue or a level of Kueue, but the Job is a gang by keys of phalanx.dev as well"
        findings.fault(ref, "metadata", problem, "keep one of the two ways of asking")
        return None
    if gang_of(example_pod(manifest)) is None:
        text = "came too late: the Job was made before it was set or without Phalanx; delete it and create it again"
        findings.advise(ref, f"metadata.labels[{keys.QUEUE_NAME}]", text)
        return None
    if job.pod_labels.get(keys.POD_GROUP) and not queue:
        return None  # its pods are a pod group, which is read from the pods
    pods = live(around.sources.pods_of(job))
    if not pods and not job.expected:
        return None
    found = Findings()
    _check_job(job, ref, found)
    if (workload := part_of(manifest)) is not None:
        problem = f"{workload} makes several Jobs, which are not read as one group yet"
        found.fault(ref, "metadata.ownerReferences", problem, TO_GROUP)
    of = Annotated(ref, "spec.template.metadata.annotations", job.pod_annotations, job.size)
    asked = Asked(
        key=GangKey(NAME, job.metadata.namespace, job.name),
        ref=ref,
        members=seated_in_order(pods, ref, found),
        expected=job.expected,
        delay=job.delay,
        minimum=max(1, min(_minimum(job), job.expected)),
        queue=queue or job.pod_labels.get(keys.QUEUE_NAME, ""),
        wish=wishes.read_wish(of, found),
        created=job.metadata.creation_timestamp or "",
        waiting_for=to_be_resumed(manifest, ref),
    )
    return gang_of_request(asked, around, found, findings)


def read_pods(key: GangKey, pods: Sequence[Pod], around: Surroundings, findings: Findings) -> Gang | None:
    """Return the gang of the pods of a pod group, or of a single pod without a group.

    Return None if no pod is live, or if there are faults, which go to `findings`.
    """
    own_pods = sorted(live(pods), key=lambda pod: age(pod.metadata))
    if not own_pods:
        return None
    speaking, found = decisive_pods(own_pods), Findings()
    ref, meta = pod_ref(speaking[0]), speaking[0].metadata
    grouped = keys.POD_GROUP in meta.labels
    total = _total(speaking, found) if grouped else 1
    check_alike(own_pods, (*keys.WISHES, keys.SPREADING), "write the same on all pods of the group", found)
    advise_ignored(ref, "metadata", {**meta.labels, **meta.annotations}, found)
    asked = Asked(
        key=key,
        ref=ref,
        members=seated_in_order(own_pods, ref, found),
        expected=max(total, len(own_pods)),
        minimum=total,
        queue=queue_of(meta.labels, meta.annotations),
        wish=wishes.read_wish(Annotated(ref, "metadata.annotations", meta.annotations, total, several=grouped), found),
        created=own_pods[0].metadata.creation_timestamp or "",
    )
    if grouped and len(own_pods) > total:
        problem = f"is {total}, but {len(own_pods)} pods are in the group"
        found.fault(ref, f"metadata.annotations[{keys.POD_GROUP_TOTAL}]", problem, "write how many there are")
    return gang_of_request(asked, around, found, findings)


def gang_of_request(asked: Asked, around: Surroundings, found: Findings, findings: Findings) -> Gang | None:
    """Return the gang of a request, with its queue and its levels looked up; None if there are faults.

    A gang that uses quota is returned in spite of faults (`held_nodes.stays_charged`).

    :param found: the faults and advice that were found on this gang so far. They are added to `findings`.
    """
    charged, wish = around.charged(asked.key.namespace, asked.queue) if asked.queue else None, asked.wish
    account, waiting = (charged.account, charged.waiting_for) if charged else (None, ())
    lowest: str | None = None
    topology, needs_plan = None, any(not member.pod.bound for member in asked.members) or not asked.members
    if account is not None:
        if needs_plan:  # a running gang keeps its quota even if its topology changes
            wishes.place_in_queue(asked.wishes, account, around.topologies, asked.ref, found)
        used = around.used.get(f"{NAME}/{asked.key}", ())
        account = replace(account, used=used, nearby=not asked.unconstrained)
    elif not waiting:
        place = wishes.place_alone(asked.wishes, around.topologies, asked.ref, found)
        topology, waiting = place.topology, place.waiting_for
        lowest = _lowest(topology, around) if topology and not asked.unconstrained else None
    findings.take(found.faults, found.advice)
    if found.faults and not stays_charged(account, [each.pod for each in asked.members]):
        return None
    if wish.required or wishes.levels_of([each.wish for each in asked.sets]):
        lowest = None
    workload = GangWorkload(
        source=asked.ref,
        members=asked.members,
        pod_sets=_pod_sets(asked),
        min_member=asked.minimum,
        created=asked.created,
        groups=() if asked.part else (asked.ref,),
        part=asked.part,
        expected=max(asked.expected, len(asked.members)),
    )
    request = PlacementRequest(
        topology=topology,
        topology_kind=keys.TOPOLOGY_KIND if topology or waiting else NO_TOPOLOGY,
        required=asked.common,
        preferred=wish.preferred.level if wish.preferred else lowest,
        together=tuple(rule for rule in asked.together if len(rule.pod_sets) < len(asked.sets)),
        queue=asked.queue or None,
        queue_dialect=NAME if asked.queue else "",
        account=account,
    )
    waits_for = waiting + asked.waiting_for + waits_for_corrections(found.faults)
    return replace(assemble(asked.key, workload, request, waits_for), delay=asked.delay)


def _pod_sets(asked: Asked) -> tuple[PodSet, ...]:
    if not asked.sets:
        sets = of_one_set(asked.members, asked.only_set, asked.expected, asked.minimum)
        return (replace(sets[0], slices=asked.wish.slices),)
    there = Counter(member.pod_set for member in asked.members)
    return tuple(
        PodSet(
            each.name,
            max(each.count, there[each.name]),
            each.count,
            required=each.wish.required.level if each.wish.required else None,
            preferred=each.wish.preferred.level if each.wish.preferred else None,
            slices=each.wish.slices,
        )
        for each in asked.sets
    )


def _lowest(topology: str, around: Surroundings) -> str | None:
    """Return the level that a gang prefers if it names none: as in Kueue, the narrowest that the topology lists.

    :param topology: the name of the topology.
    """
    manifest = around.sources.get(keys.GROUP, keys.TOPOLOGY, "", topology)
    return None if manifest is None else lowest_level(manifest)


def seated_in_order(pods: Sequence[Pod], ref: ObjectRef, findings: Findings) -> tuple[Member, ...]:
    """Return the members of a gang with one pod set, by rank. Different priorities are reported."""
    check_priorities(pods, ref, findings)
    return seated([Seat(pod, SET, _given_rank(pod, findings)) for pod in pods], (SET,), findings)


def _given_rank(pod: Pod, findings: Findings) -> GivenRank | None:
    """Return the rank that a label gives a pod in its pod group; None if it has none.

    The annotation `pod-group-pod-index-label` may name the label with the rank.
    """
    meta = pod.metadata
    label = meta.annotations.get(keys.POD_INDEX_LABEL, keys.POD_INDEX)
    return given_rank(pod, (("metadata.labels", meta.labels, label),), findings)


def _total(pods: Sequence[Pod], findings: Findings) -> int:
    """Return the number of pods in a pod group, by its pods' annotations. Missing or different numbers are a fault."""
    at = f"metadata.annotations[{keys.POD_GROUP_TOTAL}]"
    totals = [pod.metadata.annotations.get(keys.POD_GROUP_TOTAL) for pod in pods]
    for pod, text in zip(pods, totals, strict=True):
        total = integer(text) if text is not None else None
        if total is None or total < 1:
            problem = "is missing" if text is None else f'"{text}" is not a whole number from 1 up'
            findings.fault(pod_ref(pod), at, problem, "write how many pods the group has")
        elif text != totals[0] and integer(totals[0] or ""):
            problem = f'"{text}" differs from "{totals[0]}" of Pod {pods[0].key}'
            findings.fault(pod_ref(pod), at, problem, "write the same number on all pods of the group")
    return max(1, integer(totals[0] or "") or 1)


def _minimum(job: Job) -> int:
    return integer(job.metadata.annotations.get(keys.MIN_PARALLELISM, "")) or job.size


def _check_job(job: Job, ref: ObjectRef, findings: Findings) -> None:
    annotations = job.metadata.annotations
    at, written = f"metadata.annotations[{keys.MIN_PARALLELISM}]", annotations.get(keys.MIN_PARALLELISM)
    if written is not None:
        minimum = integer(written)
        if minimum is None or minimum < 1:
            findings.fault(ref, at, f'"{written}" is not a whole number from 1 up', "correct it or leave it out")
        elif minimum > job.size:
            problem = f"{minimum} is more than the {job.size} pods that the Job runs at a time"
            findings.fault(ref, at, problem, f"lower it to {job.size} or raise spec.parallelism and spec.completions")
    queue, template = job.metadata.labels.get(keys.QUEUE_NAME), job.pod_labels.get(keys.QUEUE_NAME)
    if queue and template and queue != template:
        at = f"spec.template.metadata.labels[{keys.QUEUE_NAME}]"
        findings.fault(ref, at, f'"{template}" differs from "{queue}" of the Job', "leave it out")
    if job.pod_labels.get(keys.POD_GROUP):
        at = f"spec.template.metadata.labels[{keys.POD_GROUP}]"
        findings.fault(ref, at, "names a group of plain pods, but the Job is in a queue as a whole", "leave it out")
    check_named(ref, {**job.metadata.labels, **annotations}, findings)
    advise_ignored(ref, "spec.template.metadata", {**job.pod_labels, **job.pod_annotations}, findings)
    _check_reach(job, ref, findings)


def check_named(ref: ObjectRef, named: Mapping[str, str], findings: Findings) -> None:
    """Report labels and annotations of a workload in a queue that are refused or have no effect.

    :param named: the labels and annotations.
    """
    for key in keys.REFUSED:
        if key in named:
            findings.fault(ref, f"metadata[{key}]", "is not read: there are no Workload objects here", "leave it out")
    advise_ignored(ref, "metadata", named, findings)


def _check_reach(job: Job, ref: ObjectRef, findings: Findings) -> None:
    """Report annotations about levels and slices on a Job that must be on its pod template to have an effect."""
    for key in keys.WISHES:
        if key in job.metadata.annotations and key not in job.pod_annotations:
            remedy = f"write it at spec.template.metadata.annotations[{key}]"
            findings.fault(ref, f"metadata.annotations[{key}]", "does not reach the pods", remedy)


_IGNORED = {
    keys.PRIORITY_CLASS: "is ignored: the pods' own priority class orders gangs and lets them preempt",
    keys.MAX_EXEC_TIME: "is ignored: set spec.activeDeadlineSeconds on the Job",
    keys.COMPLETIONS_FOLLOW: "is ignored: a Job here never runs with fewer pods than its parallelism for long",
    keys.POD_GROUP_FAST: "is ignored: all pods of a group start together",
    keys.POD_GROUP_SERVING: "is ignored: the group ends with its pods",
    keys.RETRIABLE: "is ignored: a new pod of the group takes the place of one that ended",
}


def advise_ignored(ref: ObjectRef, at: str, named: Mapping[str, str], findings: Findings) -> None:
    """Report, as advice, keys of Kueue that have no effect in Phalanx or are unknown.

    :param at: the path in the object `ref` of the part that has the keys.
    :param named: the labels and annotations.
    """
    for key, text in _IGNORED.items():
        if key in named:
            findings.advise(ref, f"{at}[{key}]", text)
    for key in named:
        if key.startswith(f"{keys.GROUP}/") and key not in keys.LABELS_AND_ANNOTATIONS:
            findings.advise(ref, f"{at}[{key}]", "is ignored: Phalanx knows no such key")
