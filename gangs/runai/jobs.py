"""Jobs that carry Run:ai's annotations: the whole Job is one gang, as its guide promises.

Such a Job's pod template gets a label at the Job's admission, by which its pods are known.
"""

from collections.abc import Mapping, Sequence

from gangs.findings import Findings
from gangs.manifests import ref_of
from gangs.membership import Seat, check_priorities, live, seated
from gangs.model import Gang, GangKey, Manifest, PodSet
from gangs.runai import NAME, keys, wishes
from gangs.sources import Sources
from gangs.topology.levels import settle
from gangs.workloads import annotated_jobs
from gangs.workloads.jobs import JOB_KIND, Job, example_pod, job_of, to_be_resumed
from kube.keys import WORKLOAD
from kube.objects import Pod
from kube.topology import Topology

SET = "main"
LABEL_VALUE = f"{NAME}.{JOB_KIND}"
"""The value of the label `phalanx.dev/workload`. Jobs of Phalanx's own dialect have the kind alone as the value."""


def template_labels(manifest: Manifest) -> Mapping[str, str]:
    """The label for the pod template of a Job that asks to be a gang. Raises `MalformedError`."""
    job = job_of(manifest)
    return {WORKLOAD: LABEL_VALUE} if not _of_a_whole(job) and wishes.opted_in(wishes.wishes_of(job)) else {}


def _of_a_whole(job: Job) -> bool:
    """Whether its pods are in the gang of the workload that made the Job."""
    return job.pod_labels.get(WORKLOAD, JOB_KIND).rpartition(".")[2] != JOB_KIND


def owner_of(pod: Pod) -> str | None:
    """The name of the Job whose gang the pod belongs to by its label."""
    return annotated_jobs.owner_of(pod, LABEL_VALUE)


def read_job(manifest: Manifest, sources: Sources, topologies: Sequence[Topology], findings: Findings) -> Gang | None:
    """Return the gang of a Job; None if it is no gang or has faults. Raises `MalformedError`."""
    job, ref = job_of(manifest), ref_of(manifest)
    asked = wishes.wishes_of(job)
    if _of_a_whole(job):
        return None
    asks = wishes.opted_in(asked) and wishes.check_rivals(ref, job.metadata.annotations, findings)
    if not annotated_jobs.is_marked(job, ref, LABEL_VALUE, findings, asks=asks):
        return None
    pods = live(sources.pods_of(job))
    if not pods and not job.expected:
        return None
    own = Findings()
    wishes.check(job, ref, asked, own)
    annotated_jobs.check_template(job, ref, own)
    pool = wishes.pool_of(job)
    settled = settle(wishes.request_of(ref, asked, wishes.in_pool(example_pod(manifest), pool)), topologies, own)
    if settled.topology is not None:
        wishes.check_order(ref, asked, settled.topology, own)
    check_priorities(pods, ref, own)
    members = seated([Seat(pod, SET) for pod in pods], (SET,), own)
    findings.take(own.faults, own.advice)
    if own.faults:
        return None
    minimum = annotated_jobs.still_needed(job, wishes.minimum_of(job, asked))
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
        node_rules=wishes.rules_of(pool),
        created=job.metadata.creation_timestamp or "",
        waiting_for=settled.waiting_for + to_be_resumed(job, ref),
        groups=(ref,),
        exact_nodes=pool is not None or any(member.index is not None for member in members),
    )
