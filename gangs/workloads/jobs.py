"""Jobs: how many pods a Job runs at a time, and its expected pods.

The rules are those of the Job controller (Kubernetes documentation, "Jobs"). A Job runs `parallelism` pods at a time
(default 1), but never more than the completions that are left. An Indexed Job gives each pod the lowest missing
completion index.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from gangs.manifests import MalformedError, decode, group_of, integer, metadata_of, ref_of, section
from gangs.membership import WORKLOAD_INDEX_LABELS, live, workload_index
from gangs.model import CreationDelay, Fault, Manifest
from kube.kept_objects import computed_once
from kube.keys import WORKLOAD
from kube.objects import ObjectMeta, OwnerReference, Pod, Struct

JOB_KIND = "Job"
JOB_GROUP = "batch"
JOB_API_VERSION = "batch/v1"
TRACKING = "batch.kubernetes.io/job-tracking"
"""The finalizer of a Job's pod that its Job has not counted yet (batch/v1, JobTrackingFinalizer)."""
INDEX_KEY = WORKLOAD_INDEX_LABELS[0]
MOST_PODS = 20_000
"""The largest number of pods at a time for which a Job's expected pods are computed.

20,000 pods take one second of the five that an admission may take.
"""


class JobCondition(Struct, frozen=True):
    """batch/v1 JobCondition: the fields that show whether the Job has ended."""

    type: str = ""
    status: str = ""


class JobStatus(Struct, frozen=True):
    """batch/v1 JobStatus: the fields that decide how many pods the Job still needs, and when it creates them."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    start_time: str = ""
    completed_indexes: str = ""
    conditions: tuple[JobCondition, ...] = ()


class TemplateMeta(Struct, frozen=True):
    """Metadata of a pod template. None: the field is absent or null."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class PodTemplate(Struct, frozen=True):
    """core/v1 PodTemplateSpec, whose `spec` stays a plain mapping."""

    metadata: TemplateMeta | None = None
    spec: dict[str, Any] | None = None


class JobSpec(Struct, frozen=True):
    """batch/v1 JobSpec: the fields that decide the number and the content of the pods."""

    parallelism: int = 1
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    suspend: bool = False
    pod_replacement_policy: str = ""
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    template: PodTemplate = PodTemplate()


class Job(Struct, frozen=True):
    """batch/v1 Job."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    @property
    def name(self) -> str:
        """The Job's name, or its `generateName` if the API server has yet to generate the name."""
        return self.metadata.name or self.metadata.generate_name

    @property
    def pod_labels(self) -> Mapping[str, str]:
        """The labels of the pod template."""
        return (self.spec.template.metadata or TemplateMeta()).labels or {}

    @property
    def pod_annotations(self) -> Mapping[str, str]:
        """The annotations of the pod template."""
        return (self.spec.template.metadata or TemplateMeta()).annotations or {}

    @property
    def size(self) -> int:
        """The number of pods that run at the same time when the Job starts: `parallelism`, at most `completions`."""
        spec = self.spec
        return spec.parallelism if spec.completions is None else min(spec.parallelism, spec.completions)

    @property
    def expected(self) -> int:
        """The number of pods that should run now: `size`, or fewer if fewer completions are left; 0 if it has ended."""
        if self.finished:
            return 0
        left = self.size if self.spec.completions is None else self.spec.completions - self.status.succeeded
        return max(0, min(self.size, left))

    @property
    def delay(self) -> CreationDelay | None:
        """Why the Job controller does not create missing pods now, as far as the Job's status shows it; else None.

        The Job controller writes the status when it has created pods. If none is active then, although pods are
        expected, it delays their creation. `failed` does not count evicted pods that a `podFailurePolicy` ignores, but
        the back-off does (job_controller.go and backoff_utils.go of Kubernetes 1.36).
        """
        status = self.status
        if self.spec.suspend or not status.start_time or status.active >= self.expected:
            return None
        if status.terminating and self.spec.pod_replacement_policy == "Failed":
            return CreationDelay.TERMINATING
        return CreationDelay.BACK_OFF if status.failed or not status.active else None

    @property
    def finished(self) -> bool:
        """Whether the Job has succeeded or failed."""
        return any(each.type in ("Complete", "Failed") and each.status == "True" for each in self.status.conditions)


@computed_once
def job_of(manifest: Manifest) -> Job:
    """Decode the manifest of a Job. Raises `MalformedError`, also for a negative number of pods."""
    ref = ref_of(manifest)
    spec = decode(section(manifest, "spec"), JobSpec, ref, "spec")
    for name, count in (("parallelism", spec.parallelism), ("completions", spec.completions)):
        if count is not None and count < 0:
            raise MalformedError(Fault(ref, f"spec.{name}", f"{count} is less than 0", "write a number from 0 up"))
    return Job(
        metadata=metadata_of(manifest),
        spec=spec,
        status=decode(section(manifest, "status"), JobStatus, ref, "status"),
    )


def template_says(manifest: Manifest, part: str) -> Mapping[str, str]:
    """Return the labels or annotations of the pod template at `spec.template`, without malformed values.

    The result is empty if there is no such template. It needs no decoding, so it is fast enough for every Job of a
    cluster.

    :param part: "labels" or "annotations".
    """
    try:
        values = manifest["spec"]["template"]["metadata"][part]
    except (KeyError, TypeError):
        return {}
    written = values.items() if isinstance(values, Mapping) else ()
    return {key: value for key, value in written if isinstance(value, str)}


def size_of(manifest: Manifest) -> int:
    """Return the number of pods that a Job runs at the same time when it starts. Raises `MalformedError`."""
    return job_of(manifest).size


def expected_of(manifest: Manifest) -> int:
    """Return the number of pods of a Job that should run now (`Job.expected`). Raises `MalformedError`."""
    return job_of(manifest).expected


def controller_of(pod: Pod) -> OwnerReference | None:
    """Return the owner that controls the pod; None if there is none."""
    for owner in pod.metadata.owner_references:
        if owner.controller:
            return owner
    return None


def job_owner(pod: Pod) -> OwnerReference | None:
    """Return the reference to the batch/v1 Job that controls the pod; None if there is none.

    A Job of another API group, such as Volcano's, does not count.
    """
    owner = controller_of(pod)
    if owner is None or owner.kind != JOB_KIND or group_of(owner.api_version) not in ("", JOB_GROUP):
        return None
    return owner


def counted_by_job(pod: Pod) -> bool:
    """Whether the succeeded pods of the pod's gang are counted by its Job, so that they must not be counted again.

    This is so if a Job controls the pod and no other workload, such as the JobSet of the Job, is the gang by the label
    `phalanx.dev/workload`.
    """
    of_job = pod.metadata.labels.get(WORKLOAD, JOB_KIND).rpartition(".")[2] == JOB_KIND
    return of_job and job_owner(pod) is not None


def succeeded_uncounted(pod: Pod) -> bool:
    """Whether the pod has succeeded, still exists, and is not yet subtracted from the number of pods that are expected.

    A Job expects fewer pods when it has counted a succeeded pod in its status, some seconds after the pod's end. Until
    then, the pod has the finalizer `TRACKING`. Other workloads never count their succeeded pods.
    """
    if pod.status.phase != "Succeeded" or pod.terminating:
        return False
    return not counted_by_job(pod) or TRACKING in pod.metadata.finalizers


def owned_by(pod: Pod, job: Job) -> bool:
    """Whether the Job controls the pod. The uid decides; if one of the two uids is unknown, the name."""
    owner = job_owner(pod)
    if owner is None or pod.metadata.namespace != job.metadata.namespace:
        return False
    if owner.uid and job.metadata.uid:
        return owner.uid == job.metadata.uid
    return owner.name == job.name


def missing_pods(manifest: Manifest, existing: Sequence[Pod]) -> tuple[Pod, ...]:
    """Return the expected pods of a Job, named `<job>-<index>`. A suspended Job has none.

    Raises `MalformedError`, also for more than `MOST_PODS` pods, because such a Job could fill the caller's memory.

    :param existing: existing pods, possibly of other owners, too.
    """
    job = job_of(manifest)
    if job.size > MOST_PODS:
        problem = f"{job.size} pods at a time are more than can be planned ahead"
        raise MalformedError(Fault(ref_of(manifest), "spec.parallelism", problem, f"ask for at most {MOST_PODS}"))
    own_pods = live(pod for pod in existing if owned_by(pod, job))
    if job.spec.suspend:
        return ()
    template = example_pod(manifest)
    try:
        numbers = _free_numbers(job, own_pods, max(0, job.expected - len(own_pods)))
    except ValueError as error:
        remedy = "leave the Job's status to its controller"
        raise MalformedError(Fault(ref_of(manifest), "status.completedIndexes", str(error), remedy)) from error
    return tuple(_numbered(job, template, number) for number in numbers)


@computed_once
def example_pod(manifest: Manifest) -> Pod:
    """Return a pod as the Job creates it, with the Job's labels and owner reference, but without an index.

    Raises `MalformedError`.
    """
    job = job_of(manifest)
    ref = ref_of(manifest)
    pod = decode({"spec": job.spec.template.spec or {}}, Pod, ref, "spec.template")
    own = {"batch.kubernetes.io/job-name": job.name, "job-name": job.name}
    if job.metadata.uid:
        own |= {"batch.kubernetes.io/controller-uid": job.metadata.uid, "controller-uid": job.metadata.uid}
    owner = OwnerReference(
        api_version=JOB_API_VERSION, kind=JOB_KIND, name=job.name, uid=job.metadata.uid, controller=True
    )
    metadata = ObjectMeta(
        name=job.name,
        namespace=job.metadata.namespace,
        labels={**job.pod_labels, **own},
        annotations=dict(job.pod_annotations),
        owner_references=(owner,),
    )
    return msgspec.structs.replace(pod, metadata=metadata)


def _numbered(job: Job, template: Pod, number: int) -> Pod:
    meta = template.metadata
    index = {INDEX_KEY: str(number)} if job.spec.completion_mode == "Indexed" else {}
    metadata = msgspec.structs.replace(
        meta,
        name=f"{job.name.rstrip('-')}-{number}",
        labels={**meta.labels, **index},
        annotations={**meta.annotations, **index},
    )
    return msgspec.structs.replace(template, metadata=metadata)


def _free_numbers(job: Job, own_pods: Sequence[Pod], count: int) -> list[int]:
    """Return the `count` lowest indexes for new pods of the Job.

    For an Indexed Job they are completion indexes without a live pod that have not been completed. For other Jobs they
    are numbers for which no live pod has the name `<job>-<number>`.
    """
    if job.spec.completion_mode == "Indexed":
        running = [range(index, index + 1) for pod in own_pods if (index := workload_index(pod)) is not None]
        limit = job.spec.completions or job.size
        return list(islice(_between([*running, *indexes(job.status.completed_indexes)], limit), count))
    names = {pod.metadata.name for pod in own_pods}
    free = (number for number in range(count + len(names)) if f"{job.name.rstrip('-')}-{number}" not in names)
    return list(islice(free, count))


def _between(taken: Iterable[range], limit: int) -> Iterator[int]:
    """Yield the numbers below `limit` that are in none of the ranges, in ascending order.

    The ranges are never enumerated, because they may be huge.
    """
    free = 0
    for each in sorted(taken, key=lambda each: each.start):
        yield from range(free, min(each.start, limit))
        free = max(free, each.stop)
    yield from range(free, limit)


def indexes(text: str) -> list[range]:
    """Parse a Job's `completedIndexes`, such as "1,3-5", into ranges. Raises ValueError if the text is malformed.

    The result is ranges, because a short text can name more numbers than fit in memory.
    """
    ranges = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        low, high = integer(first), integer(last or first)
        if low is None or high is None:
            raise ValueError(f'"{part}" is not a number from 0 up, nor two with a dash between them')
        ranges.append(range(low, high + 1))
    return ranges
