"""Jobs that ask to be gangs by annotations on themselves, or that are gangs because their namespace is automatic.

Admission puts a label on the pod template of such a Job. A pod with that label belongs to the gang of the Job that
controls it. A Job without the label is no gang, whatever its annotations: its pods were never gated.
"""

from collections.abc import Sequence

from gangs.findings import Findings
from gangs.manifests import ref_of
from gangs.membership import Seat, check_priorities, live, promised, seated
from gangs.model import Gang, GangKey, Manifest, ObjectRef, PodSet
from gangs.phalanx import NAME, gang_annotations, gang_objects
from gangs.phalanx.gang_annotations import WISHES, opted_in
from gangs.sources import Sources
from gangs.topology.levels import settle
from gangs.workloads import annotated_jobs
from gangs.workloads.annotated_jobs import annotation
from gangs.workloads.jobs import (
    JOB_KIND,
    Job,
    example_pod,
    job_of,
    to_be_resumed,
)
from kube import keys
from kube.objects import Pod
from kube.topology import HOSTNAME_LABEL, Topology

_SET = gang_objects.MAIN


def owner_of(pod: Pod) -> str | None:
    """The name of the Job whose gang the pod belongs to by its label."""
    return annotated_jobs.owner_of(pod, JOB_KIND)


def read_job(manifest: Manifest, sources: Sources, topologies: Sequence[Topology], findings: Findings) -> Gang | None:
    """Return the gang of a Job; None if it is no gang or has faults."""
    job, ref = job_of(manifest), ref_of(manifest)
    asks = opted_in(job.metadata.annotations)
    if not annotated_jobs.is_marked(job, ref, JOB_KIND, findings, asks=asks):
        if not asks:
            _advise_misplaced(job, ref, findings)
        return None
    pods = live(sources.pods_of(job))
    if not pods and not job.expected:
        return None
    own = Findings()
    _check_annotations(job, ref, own)
    annotated_jobs.check_template(job, ref, own)
    gang_annotations.check_rival(ref, sources, own, ref.name)
    chosen = None if asks else _recorded(job, sources)
    settled = settle(
        gang_annotations.request_of(ref, job.metadata.annotations, (example_pod(manifest),), chosen), topologies, own
    )
    if not asks and settled.topology is not None:
        chosen = settled.topology.name or None
    check_priorities(pods, ref, own)
    seats = [Seat(pod, _SET, promised(pod, gang_objects.rank_places(pod), own)) for pod in pods]
    members = seated(seats, (_SET,), own)
    minimum = annotated_jobs.still_needed(
        job, annotated_jobs.minimum_of(job, job.metadata.annotations.get(keys.MIN_MEMBER))
    )
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
    """Warn of keys that ask for a gang elsewhere, or are typos: placement annotations on a template, the label of
    pods.
    """
    gang_annotations.advise_unknown(ref, job.metadata.annotations, findings)
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
    gang_annotations.check(ref, annotations, findings)
    annotated_jobs.check_minimum(job, ref, annotation(keys.MIN_MEMBER), annotations.get(keys.MIN_MEMBER), findings)


def _recorded(job: Job, sources: Sources) -> str | None:
    """Return the topology in which an automatic gang was placed first. The gang keeps it, even if topologies come or
    go.
    """
    mirrored = f"{NAME}/{job.metadata.namespace}/{job.name}"
    for name in (job.name, f"{JOB_KIND.lower()}-{job.name}"):
        shown = sources.get(keys.GROUP, gang_objects.KIND, job.metadata.namespace, name) or {}
        annotations = (shown.get("metadata") or {}).get("annotations") or {}
        if annotations.get(keys.MIRRORS) == mirrored:
            return (shown.get("status") or {}).get("topology")
    return None
