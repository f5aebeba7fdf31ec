"""Gangs that users ask for by a Gang object, whose pods name it by the label `phalanx.dev/gang`."""

from collections import Counter
from collections.abc import Mapping, Sequence

from gangs.assembling import GangWorkload, assemble, awaiting
from gangs.findings import Findings, waits_for_corrections
from gangs.held_nodes import stays_charged
from gangs.manifests import MalformedError, decode, key_of, metadata_of, pod_ref, ref_of
from gangs.membership import Seat, check_priorities, given_rank, live, seated
from gangs.model import (
    WAIT,
    CapRule,
    Gang,
    GangKey,
    Manifest,
    Member,
    MultipleRule,
    ObjectRef,
    PlacementRequest,
    PodSet,
    SliceRule,
    TogetherRule,
)
from gangs.phalanx import NAME, queued
from gangs.phalanx.checks import check_spec, max_restarts, request_of
from gangs.phalanx.spec import GangSpec, MultipleSpec, PodSetSpec
from gangs.sources import Sources
from gangs.workloads.jobs import JOB_GROUP, JOB_KIND, job_of, template_says
from kube import keys
from kube.objects import Pod
from kube.topology import Topology

KIND = "Gang"
_WISHES = {
    keys.REQUIRED: "required",
    keys.PREFERRED: "preferred",
    keys.MIN_MEMBER: "minMember",
    keys.TOPOLOGY: "topology",
}
"""By key of an annotation on workloads: the field of a Gang's spec with the same meaning."""
_ON_PODS = (keys.GANG, keys.POD_SET, keys.INDEX, keys.IGNORE_CLAIMS)
_MARKS = (
    *(keys.WORKLOAD, keys.NAMED_BY, keys.PART_BY, keys.DIALECT, keys.PINNED_DOMAIN, keys.CONVERTED),
    *(keys.PLAN, keys.PLANNED_NODE, keys.COUNTED_AGAIN, keys.RELEASED, keys.RELEASE_BEGUN, keys.PINNED_IN),
    *(keys.TAKEN_BACK, keys.WHOLE_MARK, keys.SPARED),
)
"""Labels and annotations that Phalanx itself writes on pods."""
_PREFIX = f"{keys.GROUP}/"
MAIN = "main"
"""The pod set of every member if the gang defines no pod sets."""


def is_mirror(manifest: Manifest) -> bool:
    """Whether a Gang object has the annotation `phalanx.dev/mirrors`, as the mirrors that the controller creates
    have.
    """
    return keys.MIRRORS in ((manifest.get("metadata") or {}).get("annotations") or {})


def rank_places(pod: Pod) -> tuple[tuple[str, Mapping[str, str], str], ...]:
    """Return the two keys of a pod that may state its rank: the annotation `phalanx.dev/index`, which is preferred, and
    the label of the same name.

    Each entry is (path of the mapping, mapping, key), as `membership.given_rank` expects it.
    """
    meta = pod.metadata
    return (
        ("metadata.annotations", meta.annotations, keys.INDEX),
        ("metadata.labels", meta.labels, keys.INDEX),
    )


def read_gang(
    manifest: Manifest, pods: Sequence[Pod], sources: Sources, topologies: Sequence[Topology], findings: Findings
) -> Gang | None:
    """Return the gang that a Gang object asks for; None if it has faults, which go to `findings`.

    A gang that uses quota is returned in spite of faults, unless its spec is invalid (`held_nodes.stays_charged`).

    :param pods: the pods that name the Gang object.
    """
    ref, own = ref_of(manifest), Findings()
    try:
        meta = metadata_of(manifest)
        spec = decode(manifest.get("spec") or {}, GangSpec, ref, "spec")
    except MalformedError as error:
        findings.take([error.fault])
        return None
    check_spec(ref, spec, own)
    spec_faults = own.faults
    live_pods = live(pods)
    _advise(ref, meta.annotations, live_pods, own)
    charged = queued.charged(manifest, spec, live_pods, sources, own)
    settled = queued.settle_in(charged, request_of(ref, spec, live_pods), spec, topologies, own)
    sets = _sets(ref, spec, sources)
    check_priorities(live_pods, ref, own)
    members = seated(_seats(live_pods, ref, sets, own), [each.name for each in sets], own)
    findings.take(own.faults, own.advice)
    if own.faults and (spec_faults or not stays_charged(charged.account, live_pods)):
        return None
    minimum, created = spec.min_member or sum(each.count for each in sets), meta.creation_timestamp or ""
    request = PlacementRequest(
        topology=spec.topology,
        topology_kind=queued.topology_kind(charged),
        required=spec.required,
        preferred=spec.preferred,
        together=tuple(TogetherRule(each.pod_sets, each.level) for each in spec.together or ()),
        multiples=_multiples(spec.multiples),
        preempts=spec.preempts is not False,
        schedule_timeout_seconds=spec.schedule_timeout_seconds,
        on_failure=spec.on_failure or WAIT,
        max_restarts=max_restarts(spec),
        queue=spec.queue,
        queue_dialect=charged.dialect,
        account=charged.account,
        node_affinity=spec.node_affinity.value() if spec.node_affinity else None,
    )
    return assemble(
        GangKey(NAME, ref.namespace, ref.name),
        GangWorkload(ref, members, _pod_sets(sets, members), minimum, created, (ref,)),
        request,
        (*charged.waiting_for, *settled.waiting_for, *waits_for_corrections(own.faults)),
    )


def _pod_sets(sets: Sequence[PodSetSpec], members: Sequence[Member]) -> tuple[PodSet, ...]:
    existing = Counter(member.pod_set for member in members)
    return tuple(_pod_set(each, existing[each.name]) for each in sets)


def _advise(ref: ObjectRef, annotations: Mapping[str, str], pods: Sequence[Pod], findings: Findings) -> None:
    """Report, as advice, annotations that have no effect on a Gang object or on its pods."""
    for key in _WISHES.keys() & annotations.keys():
        text = f"is ignored on a Gang: write spec.{_WISHES[key]}"
        findings.misplaced(ref, f"metadata.annotations[{key}]", text)
    if keys.PLACEHOLDERS in annotations:
        text = (
            "is ignored on a Gang: no capacity is reserved for members of it that do not exist; write it on a workload"
        )
        findings.advise(ref, f"metadata.annotations[{keys.PLACEHOLDERS}]", text)
    _advise_keys(pods, findings)


def _advise_keys(pods: Sequence[Pod], findings: Findings) -> None:
    """Report, as advice, keys that begin with `phalanx.dev/` and have no effect on pods: keys whose place is a field of
    the Gang's spec, and typos.
    """
    for pod in pods:
        meta = pod.metadata
        for at, written in (("metadata.labels", meta.labels), ("metadata.annotations", meta.annotations)):
            for key in written:
                if not key.startswith(_PREFIX) or key in _ON_PODS or key in _MARKS:
                    continue
                if key in _WISHES:
                    text = f"is ignored on a pod: write spec.{_WISHES[key]} of its Gang"
                    findings.misplaced(pod_ref(pod), f"{at}[{key}]", text)
                else:
                    findings.advise(
                        pod_ref(pod), f"{at}[{key}]", f"is ignored: the known ones are {', '.join(_ON_PODS)}"
                    )


def _sets(ref: ObjectRef, spec: GangSpec, sources: Sources) -> tuple[PodSetSpec, ...]:
    """Return the pod sets in a Gang's spec; if it has none, one pod set with all members.

    The count of this pod set is the Gang's minimum, or the number of pods that Jobs create for the Gang, if that is
    higher.
    """
    if spec.pod_sets:
        return spec.pod_sets
    minimum = spec.min_member or 0
    return (PodSetSpec(name=MAIN, count=max(minimum, _made_by_jobs(ref, sources)), min_count=minimum),)


def _made_by_jobs(ref: ObjectRef, sources: Sources) -> int:
    return sum(_made_by(each, ref) for each in sources.sought(JOB_GROUP, JOB_KIND, _gang_in, (ref.namespace, ref.name)))


def _gang_in(job: Manifest) -> tuple[tuple[str, str], ...]:
    """Return namespace and name of the Gang object that a Job's pods name, in a tuple; empty if they name none.

    They are the Job's index values (`kube.catalog.Naming`), by which the Jobs of a Gang object are found.
    """
    name = template_says(job, "labels").get(keys.GANG)
    return ((key_of(job)[2], name),) if name else ()


def _made_by(manifest: Manifest, ref: ObjectRef) -> int:
    """Return how many members of a Gang a Job creates; 0 for a malformed Job, whose fault is reported elsewhere."""
    try:
        job = job_of(manifest)
    except MalformedError:
        return 0
    return job.expected if job.pod_labels.get(keys.GANG) == ref.name else 0


def _seats(pods: Sequence[Pod], ref: ObjectRef, sets: Sequence[PodSetSpec], findings: Findings) -> list[Seat]:
    names = [each.name for each in sets]
    seats = []
    for pod in pods:
        name = pod.metadata.labels.get(keys.POD_SET, names[0] if len(names) == 1 else "")
        if name not in names:
            problem = f'"{name}" is not a pod set of {ref}' if name else f"is absent, and {ref} has several pod sets"
            remedy = f"write one of {', '.join(names)}"
            findings.fault(pod_ref(pod), f"metadata.labels[{keys.POD_SET}]", problem, remedy)
            continue
        seats.append(Seat(pod, name, given_rank(pod, rank_places(pod), findings)))
    return seats


def _multiples(specs: Sequence[MultipleSpec] | None) -> tuple[MultipleRule, ...]:
    return tuple(MultipleRule(each.level, each.of) for each in specs or ())


def _pod_set(spec: PodSetSpec, existing: int) -> PodSet:
    """Return a pod set of a gang from its entry in the spec.

    If more members exist than the entry states, `count` is their number, so that all are planned.
    """
    return PodSet(
        name=spec.name,
        count=max(spec.count, existing),
        min_count=spec.count if spec.min_count is None else spec.min_count,
        required=spec.required,
        preferred=spec.preferred,
        slices=tuple(SliceRule(each.level, each.size) for each in spec.slices or ()),
        multiples=_multiples(spec.multiples),
        max_per_domain=tuple(CapRule(each.level, each.count) for each in spec.max_per_domain or ()),
    )


def ref_of_key(key: GangKey) -> ObjectRef:
    """Return a reference to the Gang object with the namespace and name of a gang. It need not exist."""
    return ObjectRef(keys.API_VERSION, KIND, key.namespace, key.name)


def orphans(key: GangKey, ref: ObjectRef, pods: Sequence[Pod], findings: Findings, part: str = "") -> Gang | None:
    """Return the gang of pods that name an object `ref` that does not exist. The gang waits for the object.

    Return None if no pod is live, or if there are faults.

    :param part: the part of the object that is this gang, if the object asks for several gangs.
    """
    live_pods, own = live(pods), Findings()
    members = seated([Seat(pod, MAIN, given_rank(pod, rank_places(pod), own)) for pod in live_pods], (MAIN,), own)
    _advise_keys(live_pods, own)
    findings.take(own.faults, own.advice)
    if own.faults or not members:
        return None
    return awaiting(key, ref, members, part)
