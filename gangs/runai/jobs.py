"""Jobs that carry Run:ai's annotations: the whole Job is one gang, as its guide promises.

Such a Job's pod template gets a label at the Job's admission, by which its pods are known.
"""

from collections.abc import Mapping, Sequence

from gangs.findings import Findings
from gangs.levels import settle
from gangs.manifests import MalformedError, metadata_of, ref_of
from gangs.membership import Seat, check_priorities, live, seated
from gangs.model import Gang, GangKey, Manifest, PodSet
from gangs.runai import NAME, keys, wishes
from gangs.sources import Sources
from gangs.workloads import JOB_KIND, WORKLOAD_KINDS, Job, controller_of, example_pod, is_job, job_of, owned_by
from kube.keys import GANG, WORKLOAD
from kube.objects import Pod
from kube.topology import Topology

SET = "main"
LABEL_VALUE = f"{NAME}.{JOB_KIND}"
"""Of the label `phalanx.dev/workload`: Jobs of our own dialect have the bare kind."""


def template_labels(manifest: Manifest) -> Mapping[str, str]:
    """The label for the pod template of a Job that asks to be a gang. Raises `MalformedError`."""
    return {WORKLOAD: LABEL_VALUE} if wishes.opted_in(wishes.wishes_of(job_of(manifest))) else {}


def owner_of(pod: Pod) -> str | None:
    """The name of the Job whose gang the pod belongs to by its label."""
    if pod.metadata.labels.get(WORKLOAD) != LABEL_VALUE:
        return None
    owner = controller_of(pod)
    return owner.name if owner is not None and owner.kind == JOB_KIND else None


def read_job(manifest: Manifest, sources: Sources, topologies: Sequence[Topology], findings: Findings) -> Gang | None:
    """The gang of a Job; None where it is no gang or where it is wrong. Raises `MalformedError`."""
    job, ref = job_of(manifest), ref_of(manifest)
    asked = wishes.wishes_of(job)
    if job.pod_labels.get(WORKLOAD) != LABEL_VALUE:
        if wishes.opted_in(asked):
            text = "came too late: the Job was made without it or without Phalanx; delete it and create it again"
            findings.advise(ref, "metadata.annotations", text)
        return None
    pods = live(pod for pod in sources.pods if owned_by(pod, job))
    if not pods and not job.expected:
        return None
    own = Findings()
    wishes.check(job, ref, asked, own)
    _check_rivals(job, manifest, own)
    pool = wishes.pool_of(job)
    settled = settle(wishes.request_of(ref, asked, wishes.in_pool(example_pod(manifest), pool)), topologies, own)
    if settled.topology is not None:
        wishes.check_order(ref, asked, settled.topology, own)
    check_priorities(pods, ref, own)
    members = seated([Seat(pod, SET) for pod in pods], (SET,), own)
    findings.take(own.faults, own.advice)
    if own.faults:
        return None
    minimum = max(1, min(wishes.minimum_of(job, asked), job.expected))
    count = max(job.expected, len(members))
    named = asked[keys.TOPOLOGY].value if keys.TOPOLOGY in asked else None
    return Gang(
        key=GangKey(NAME, job.metadata.namespace, job.name),
        source=ref,
        members=members,
        pod_sets=(PodSet(SET, count, minimum),),
        expected=count,
        min_member=minimum,
        topology=named or (settled.topology.name if settled.topology else None),
        topology_kind=keys.TOPOLOGY_KIND,
        required=asked[keys.REQUIRED].value if keys.REQUIRED in asked else None,
        preferred=asked[keys.PREFERRED].value if keys.PREFERRED in asked else None,
        node_affinity=wishes.affinity_to(pool),
        created=job.metadata.creation_timestamp or "",
        waiting_for=settled.waiting_for + ((f"{ref} to be resumed",) if job.spec.suspend else ()),
        groups=(ref,),
        exact_nodes=pool is not None or any(member.index is not None for member in members),
    )


def _check_rivals(job: Job, manifest: Manifest, findings: Findings) -> None:
    """One gang to a pod: the template may not name another one."""
    if named := job.pod_labels.get(GANG):
        at = f"spec.template.metadata.labels[{GANG}]"
        problem = f"names Gang {named}, but the Job asks to be a gang itself"
        findings.fault(ref_of(manifest), at, problem, "remove one of the two")


def check_unsupported(manifest: Manifest, findings: Findings) -> None:
    """Refuse a workload of a kind that cannot be a gang by these annotations yet."""
    ref = ref_of(manifest)
    group = ref.api_version.rpartition("/")[0]
    if is_job(manifest) or ref.kind not in WORKLOAD_KINDS.get(group, ()):
        return
    try:
        annotations = metadata_of(manifest).annotations
    except MalformedError as error:
        findings.take([error.fault])
        return
    asked = next((key for key in keys.WISHES if key in annotations), None)
    if asked is not None and annotations.get(keys.SKIP) != "true":
        remedy = f"make a Gang object and label the pod template {GANG}: <its name>"
        findings.fault(ref, wishes.annotation(asked), f"a {ref.kind} cannot be made a gang by annotations yet", remedy)
