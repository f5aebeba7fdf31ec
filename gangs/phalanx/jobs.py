"""Jobs that ask to be gangs by annotations on themselves, or that a namespace makes gangs.

Such a Job's pod template gets a label at the Job's admission; a pod with that label belongs to the gang of the Job
that controls it. A Job without the label is no gang, whatever it says: its pods were never gated.
"""

from collections.abc import Mapping, Sequence

from gangs.findings import Findings
from gangs.levels import LevelWish, Request, Span, settle
from gangs.manifests import MalformedError, integer, metadata_of, ref_of
from gangs.membership import Seat, check_priorities, live, promised, seated
from gangs.model import Gang, GangKey, Manifest, ObjectRef, PodSet
from gangs.phalanx import NAME, gang_objects
from gangs.sources import Sources
from gangs.workloads import (
    JOB_API_VERSION,
    JOB_KIND,
    WORKLOAD_KINDS,
    Job,
    controller_of,
    example_pod,
    is_job,
    job_of,
    owned_by,
)
from kube import keys
from kube.objects import Pod
from kube.topology import HOSTNAME_LABEL, Topology

WISHES = (keys.GANG, keys.REQUIRED, keys.PREFERRED, keys.MIN_MEMBER, keys.TOPOLOGY)
"""Annotations by which a workload opts in; any of them does."""
_PREFIX = f"{keys.GROUP}/"
_SET = gang_objects.MAIN


def field_of(key: str) -> str:
    """The field path of an annotation."""
    return f"metadata.annotations[{key}]"


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
    return sources.namespaces.get(ref_of(manifest).namespace, {}).get(keys.AUTOMATIC) == "true"


def owner_of(pod: Pod) -> str | None:
    """The name of the Job whose gang the pod belongs to by its label."""
    if pod.metadata.labels.get(keys.WORKLOAD) != JOB_KIND:
        return None
    owner = controller_of(pod)
    return owner.name if owner is not None and owner.kind == JOB_KIND else None


def admitted(job: Job) -> bool:
    """Whether the Job was admitted as a gang: its template carries the label."""
    return job.pod_labels.get(keys.WORKLOAD) == JOB_KIND


def read_job(manifest: Manifest, sources: Sources, topologies: Sequence[Topology], findings: Findings) -> Gang | None:
    """The gang of a Job; None where it is no gang or where it is wrong."""
    job, ref = job_of(manifest), ref_of(manifest)
    if not admitted(job):
        if opted_in(job.metadata.annotations):
            text = "came too late: the Job was made without it or without Phalanx; delete it and create it again"
            findings.advise(ref, "metadata.annotations", text)
        return None
    pods = live(pod for pod in sources.pods if owned_by(pod, job))
    if not pods and not job.expected:
        return None
    own = Findings()
    _check_annotations(job, ref, own)
    _check_rivals(job, ref, sources, own)
    automatic = not opted_in(job.metadata.annotations)
    chosen = _recorded(job, sources) if automatic else None
    settled = settle(_request(job, ref, example_pod(manifest), chosen), topologies, own)
    if automatic and settled.topology is not None:
        chosen = settled.topology.name or None
    check_priorities(pods, ref, own)
    seats = [Seat(pod, _SET, promised(pod, gang_objects.rank_places(pod), own)) for pod in pods]
    members = seated(seats, (_SET,), own)
    minimum = max(1, min(_minimum(job), job.expected))
    findings.take(own.faults, own.advice)
    if own.faults:
        return None
    annotations = job.metadata.annotations
    count = max(job.expected, len(members))
    resumed = (f"{ref} to be resumed",) if job.spec.suspend else ()
    return Gang(
        key=GangKey(NAME, job.metadata.namespace, job.name),
        source=ref,
        members=members,
        pod_sets=(PodSet(_SET, count, minimum),),
        expected=count,
        min_member=minimum,
        topology=annotations.get(keys.TOPOLOGY, chosen),
        required=annotations.get(keys.REQUIRED),
        preferred=HOSTNAME_LABEL if automatic else annotations.get(keys.PREFERRED),
        created=job.metadata.creation_timestamp or "",
        waiting_for=settled.waiting_for + resumed,
        groups=(ref,),
        exact_nodes=any(member.index is not None for member in members),
    )


def _minimum(job: Job) -> int:
    written = job.metadata.annotations.get(keys.MIN_MEMBER)
    return job.size if written is None else (integer(written) or job.size)


def _check_annotations(job: Job, ref: ObjectRef, findings: Findings) -> None:
    annotations = job.metadata.annotations
    if annotations.get(keys.GANG, "true") not in ("true", "false"):
        problem = f'"{annotations[keys.GANG]}" is neither "true" nor "false"'
        findings.fault(ref, field_of(keys.GANG), problem, 'write "true"; a Gang object is named on the pod template')
    if (written := annotations.get(keys.MIN_MEMBER)) is not None:
        minimum = integer(written)
        if minimum is None or minimum < 1:
            findings.fault(ref, field_of(keys.MIN_MEMBER), f'"{written}" is not a number from 1 up', "correct it")
        elif minimum > job.size:
            problem = f"{minimum} is more than the {job.size} pods that the Job runs at a time"
            remedy = f"lower it to {job.size} or raise spec.parallelism and spec.completions"
            findings.fault(ref, field_of(keys.MIN_MEMBER), problem, remedy)
    for key in annotations:
        if key.startswith(_PREFIX) and key not in WISHES:
            findings.advise(ref, field_of(key), f"is ignored: the known annotations are {', '.join(WISHES)}")


def _check_rivals(job: Job, ref: ObjectRef, sources: Sources, findings: Findings) -> None:
    """One gang to a pod and one gang to a name: a Gang object of the Job's name, or one that its template names."""
    if named := job.pod_labels.get(keys.GANG):
        at = f"spec.template.metadata.labels[{keys.GANG}]"
        findings.fault(ref, at, f"names Gang {named}, but the Job asks to be a gang itself", "remove one of the two")
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
        return LevelWish(field_of(key), annotations[key]) if key in annotations else None

    required, preferred = wish(keys.REQUIRED), wish(keys.PREFERRED)
    return Request(
        ref=ref,
        topology_field=field_of(keys.TOPOLOGY),
        topology=annotations.get(keys.TOPOLOGY, chosen),
        levels=tuple(each for each in (required, preferred) if each is not None),
        spans=(Span(required, preferred),),
        pods=(pod,),
    )


def ref_of_owner(key: GangKey) -> ObjectRef:
    """Names the Job of a gang by the gang alone."""
    return ObjectRef(JOB_API_VERSION, JOB_KIND, key.namespace, key.name)


def check_unsupported(manifest: Manifest, sources: Sources, findings: Findings) -> None:
    """Refuse a workload of a kind that cannot opt in yet; in an automatic namespace only say so."""
    ref = ref_of(manifest)
    group = ref.api_version.rpartition("/")[0]
    if is_job(manifest) or ref.kind not in WORKLOAD_KINDS.get(group, ()):
        return
    try:
        annotations = metadata_of(manifest).annotations
    except MalformedError as error:
        findings.take([error.fault])
        return
    asked = next((key for key in WISHES if key in annotations), None)
    if asked is not None and annotations.get(keys.GANG) != "false":
        remedy = f"make a Gang object and label the pod template {keys.GANG}: <its name>"
        findings.fault(ref, field_of(asked), f"a {ref.kind} cannot be made a gang by annotations yet", remedy)
    elif _automatic(manifest, sources) and not controlled(manifest):
        text = f"the namespace is automatic, but a {ref.kind} is not made a gang yet: its pods start one by one"
        findings.advise(ref, "kind", text)


def controlled(manifest: Manifest) -> bool:
    """Whether another object made this one (a ReplicaSet of a Deployment, say)."""
    owners = (manifest.get("metadata") or {}).get("ownerReferences") or ()
    return any(owner.get("controller") for owner in owners)
