"""Jobs that ask to be gangs by annotations on themselves, or that a namespace makes gangs.

Such a Job's pod template gets a label at the Job's admission; a pod with that label belongs to the gang of the Job
that controls it. A Job without the label is no gang, whatever it says: its pods were never gated.
"""

from collections.abc import Mapping, Sequence

from gangs import kinds, marked_jobs
from gangs.findings import Findings
from gangs.kinds import Made, Template
from gangs.levels import LevelWish, Request, Span, settle
from gangs.manifests import metadata_of, ref_of
from gangs.marked_jobs import annotation
from gangs.membership import Seat, check_priorities, live, promised, seated
from gangs.model import Gang, GangKey, Manifest, ObjectRef, PodSet
from gangs.phalanx import NAME, gang_objects
from gangs.sources import Sources
from gangs.workloads import (
    JOB_API_VERSION,
    JOB_KIND,
    Job,
    example_pod,
    is_job,
    job_of,
    to_be_resumed,
)
from kube import keys
from kube.objects import Pod
from kube.topology import HOSTNAME_LABEL, Topology

WISHES = (keys.GANG, keys.REQUIRED, keys.PREFERRED, keys.MIN_MEMBER, keys.TOPOLOGY)
"""Annotations by which a workload opts in; any of them does."""
_PREFIX = f"{keys.GROUP}/"
_SET = gang_objects.MAIN


def opted_in(annotations: Mapping[str, str]) -> bool:
    """Whether a workload's annotations ask for a gang."""
    return annotations.get(keys.GANG) != "false" and any(key in annotations for key in WISHES)


def template_labels(manifest: Manifest, sources: Sources, *, claimed: bool) -> Mapping[str, str]:
    """The label for the pod template of a Job that is to be a gang, nothing for any other object."""
    if not is_job(manifest):
        return {}
    annotations = metadata_of(manifest).annotations
    if opted_in(annotations):
        return {keys.WORKLOAD: JOB_KIND}
    if claimed or annotations.get(keys.GANG) == "false" or not _automatic(manifest, sources):
        return {}
    return {keys.WORKLOAD: JOB_KIND} if job_of(manifest).size > 1 else {}


def _automatic(manifest: Manifest, sources: Sources) -> bool:
    return sources.labels_of(ref_of(manifest).namespace).get(keys.AUTOMATIC) == "true"


def owner_of(pod: Pod) -> str | None:
    """The name of the Job whose gang the pod belongs to by its label."""
    return marked_jobs.owner_of(pod, JOB_KIND)


def read_job(manifest: Manifest, sources: Sources, topologies: Sequence[Topology], findings: Findings) -> Gang | None:
    """The gang of a Job; None where it is no gang or where it is wrong."""
    job, ref = job_of(manifest), ref_of(manifest)
    asks = opted_in(job.metadata.annotations)
    if not marked_jobs.is_marked(job, ref, JOB_KIND, findings, asks=asks):
        if not asks:
            _advise_misplaced(job, ref, findings)
        return None
    pods = live(sources.pods_of(job))
    if not pods and not job.expected:
        return None
    own = Findings()
    _check_annotations(job, ref, own)
    _check_rivals(job, ref, sources, own)
    chosen = None if asks else _recorded(job, sources)
    settled = settle(_request(job, ref, example_pod(manifest), chosen), topologies, own)
    if not asks and settled.topology is not None:
        chosen = settled.topology.name or None
    check_priorities(pods, ref, own)
    seats = [Seat(pod, _SET, promised(pod, gang_objects.rank_places(pod), own)) for pod in pods]
    members = seated(seats, (_SET,), own)
    minimum = marked_jobs.still_needed(job, marked_jobs.minimum_of(job, job.metadata.annotations.get(keys.MIN_MEMBER)))
    findings.take(own.faults, own.advice)
    if own.faults:
        return None
    annotations = job.metadata.annotations
    count = max(job.expected, len(members))
    return Gang(
        key=GangKey(NAME, job.metadata.namespace, job.name),
        source=ref,
        members=members,
        pod_sets=(PodSet(_SET, count, minimum),),
        expected=count,
        min_member=minimum,
        topology=annotations.get(keys.TOPOLOGY, chosen),
        required=annotations.get(keys.REQUIRED),
        preferred=annotations.get(keys.PREFERRED) if asks else HOSTNAME_LABEL,
        created=job.metadata.creation_timestamp or "",
        waiting_for=settled.waiting_for + to_be_resumed(job, ref),
        groups=(ref,),
        exact_nodes=any(member.index is not None for member in members),
    )


def _advise_misplaced(job: Job, ref: ObjectRef, findings: Findings) -> None:
    """Warn of what would ask for a gang elsewhere, or is a slip of the pen: wishes on a template, the pods' label."""
    _advise_unknown(job, ref, findings)
    if keys.GANG in job.metadata.labels and keys.GANG not in job.pod_labels:
        at = f"metadata.labels[{keys.GANG}]"
        findings.advise(ref, at, f"does not reach the pods: write it at spec.template.{at}")
    if job.metadata.annotations.get(keys.GANG) == "false" or keys.GANG in job.pod_labels:
        return
    for key in WISHES:
        if key in job.pod_annotations:
            at = annotation(key, "spec.template.")
            findings.advise(ref, at, "asks for nothing there: write it on the Job itself")


def _check_annotations(job: Job, ref: ObjectRef, findings: Findings) -> None:
    annotations = job.metadata.annotations
    if annotations.get(keys.GANG, "true") not in ("true", "false"):
        problem = f'"{annotations[keys.GANG]}" is neither "true" nor "false"'
        findings.fault(ref, annotation(keys.GANG), problem, 'write "true"; a Gang object is named on the pod template')
    marked_jobs.check_minimum(job, ref, annotation(keys.MIN_MEMBER), annotations.get(keys.MIN_MEMBER), findings)
    _advise_unknown(job, ref, findings)


def _advise_unknown(job: Job, ref: ObjectRef, findings: Findings) -> None:
    for key in job.metadata.annotations:
        if key.startswith(_PREFIX) and key not in WISHES:
            findings.advise(ref, annotation(key), f"is ignored: the known annotations are {', '.join(WISHES)}")


def _check_rivals(job: Job, ref: ObjectRef, sources: Sources, findings: Findings) -> None:
    """One gang to a pod and one gang to a name: a Gang object of the Job's name, or one that its template names."""
    marked_jobs.check_template(job, ref, findings)
    rival = sources.get(keys.GROUP, gang_objects.KIND, job.metadata.namespace, job.name)
    if rival is not None and not gang_objects.is_mirror(rival):
        remedy = f"label the pod template {keys.GANG}: {job.name} instead of annotating the Job, or rename one"
        findings.fault(ref, "metadata.name", f"{gang_objects.KIND} {job.name} has the same name", remedy)


def _recorded(job: Job, sources: Sources) -> str | None:
    """The topology that an automatic gang was given first: it keeps that one, even where others come or it goes."""
    mirrored = f"{NAME}/{job.metadata.namespace}/{job.name}"
    for name in (job.name, f"{JOB_KIND.lower()}-{job.name}"):
        shown = sources.get(keys.GROUP, gang_objects.KIND, job.metadata.namespace, name) or {}
        annotations = (shown.get("metadata") or {}).get("annotations") or {}
        if annotations.get(keys.MIRRORS) == mirrored:
            return (shown.get("status") or {}).get("topology")
    return None


def _request(job: Job, ref: ObjectRef, pod: Pod, chosen: str | None) -> Request:
    annotations = job.metadata.annotations

    def wish(key: str) -> LevelWish | None:
        return LevelWish(annotation(key), annotations[key]) if key in annotations else None

    required, preferred = wish(keys.REQUIRED), wish(keys.PREFERRED)
    return Request(
        ref=ref,
        topology_field=annotation(keys.TOPOLOGY),
        topology=annotations.get(keys.TOPOLOGY, chosen),
        levels=tuple(each for each in (required, preferred) if each is not None),
        spans=(Span(required, preferred),),
        pods=(pod,),
    )


def ref_of_owner(key: GangKey) -> ObjectRef:
    """Names the Job of a gang by the gang alone."""
    return ObjectRef(JOB_API_VERSION, JOB_KIND, key.namespace, key.name)


def check_unsupported(manifest: Manifest, sources: Sources, findings: Findings) -> None:
    """Refuse a workload of a kind that cannot opt in yet; in an automatic namespace only say so.

    One that another object has made says what that one says, and is told nothing. Raises `MalformedError`.
    """
    annotations = marked_jobs.other_workload(manifest, findings)
    if annotations is None or kinds.controlled(manifest):
        return
    ref, refused, said = ref_of(manifest), annotations.get(keys.GANG) == "false", kinds.templates(manifest)
    remedy = _instead(manifest, said)
    if not refused and marked_jobs.refuse_kind(ref, WISHES, annotations, findings, remedy):
        return
    for each in said:
        for key in WISHES if not refused and not each.labels.get(keys.GANG) else ():
            if key in each.annotations:
                findings.advise(ref, annotation(key, f"{each.path}."), f"asks for nothing there: {remedy}")
    if _automatic(manifest, sources):
        text = f"the namespace is automatic, but a {ref.kind} is not made a gang yet: its pods start one by one"
        findings.advise(ref, "kind", text)


def _instead(manifest: Manifest, said: Sequence[Template]) -> str:
    """How a workload that is no Job is made a gang."""
    if kinds.made_by(manifest) is Made.IN_JOBS and said:
        return f"write it at {kinds.job_metadata(said[0])}.annotations, so that each Job is a gang"
    if said and all(each.labels.get(keys.GANG) for each in said):
        return f"leave it out: its pods are in a Gang by their label {keys.GANG}"
    return f"make a Gang object and label the pod template {keys.GANG}: <its name>"
