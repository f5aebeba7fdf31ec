"""The pods and Jobs of one gang, its minimum of members, and the JobNetworkTopology that they name."""

from collections import defaultdict
from dataclasses import dataclass

from gangs.ack import NAME, keys
from gangs.ack.networks import advise_labels
from gangs.findings import Findings
from gangs.manifests import MalformedError, integer, key_of, pod_ref, ref_of
from gangs.membership import age, live
from gangs.model import GangKey, Manifest, ObjectRef
from gangs.pod_consensus import advise_older, decisive_pods
from gangs.sources import Sources
from gangs.workloads.jobs import (
    JOB_API_VERSION,
    JOB_GROUP,
    JOB_KIND,
    Job,
    controller_of,
    example_pod,
    job_of,
    owned_by,
    template_says,
)
from gangs.workloads.suspension import to_be_resumed
from kube.objects import Pod

Name = tuple[str, str]
"""(namespace, name)."""


@dataclass(frozen=True, slots=True)
class TemplatedJob:
    """A Job whose pod template names a gang. `example`: a pod as the Job creates it."""

    ref: ObjectRef
    job: Job
    example: Pod
    waiting_for: tuple[str, ...]
    """The entries of `Gang.waiting_for` if the Job is suspended; else empty."""


@dataclass(frozen=True, slots=True)
class Group:
    """The live pods and the Jobs that name one gang, the oldest first. Ended Jobs are left out.

    There is at least one pod or Job.
    """

    key: GangKey
    pods: tuple[Pod, ...]
    jobs: tuple[TemplatedJob, ...]

    @property
    def deciding_objects(self) -> list[tuple[ObjectRef, str, Pod]]:
        """The objects whose labels apply to the gang, as (object, path of its labels, pod with these labels).

        They are the Jobs, and the decisive pods (`pod_consensus.decisive_pods`) among the pods that no Job controls.
        """
        texts = [(each.ref, "spec.template.metadata.labels", each.example) for each in self.jobs]
        return texts + [(pod_ref(pod), "metadata.labels", pod) for pod in decisive_pods(self.bare)]

    @property
    def bare(self) -> list[Pod]:
        """The pods that none of the group's Jobs controls."""
        return [pod for pod in self.pods if not any(owned_by(pod, each.job) for each in self.jobs)]

    @property
    def source(self) -> ObjectRef:
        """The object that asks for the gang: the oldest Job.

        If no Job is known, it is the Job that the first pod names as its controller, or else the first pod.
        """
        return self.jobs[0].ref if self.jobs else _maker_of(self.pods[0])

    @property
    def expected(self) -> int | None:
        """The number of pods that the gang's Jobs should run now; None if the gang has no Jobs.

        A Job without completions creates no more pods once one of its pods has succeeded (Kubernetes documentation,
        "Jobs").
        """
        if not self.jobs:
            return None
        return sum(self._expected_of(each.job) for each in self.jobs) + len(self.bare)

    def _expected_of(self, job: Job) -> int:
        if job.spec.completions is None and job.status.succeeded:
            return sum(owned_by(pod, job) for pod in self.pods)
        return job.expected


def _maker_of(pod: Pod) -> ObjectRef:
    """Return a reference to the Job that controls the pod; if there is none, to the pod itself."""
    owner = controller_of(pod)
    if owner is None or (owner.api_version, owner.kind) != (JOB_API_VERSION, JOB_KIND):
        return pod_ref(pod)
    return ObjectRef(owner.api_version, owner.kind, pod.metadata.namespace, owner.name, owner.uid)


def gang_of(pod: Pod) -> GangKey | None:
    """Return the gang of a pod that names a JobNetworkTopology; None for other pods.

    If the pod names no gang, the gang has the name of the JobNetworkTopology.
    """
    labels = pod.metadata.labels
    network = labels.get(keys.JOB_NAME)
    if not network:
        return None
    return GangKey(NAME, pod.metadata.namespace, labels.get(keys.GANG_NAME) or network)


def network_named(pod: Pod) -> Name:
    """Return namespace and name of the JobNetworkTopology that a member's labels name."""
    labels = pod.metadata.labels
    return labels.get(keys.JOB_NAMESPACE) or pod.metadata.namespace, labels.get(keys.JOB_NAME, "")


def groups_of(sources: Sources, about: GangKey | None = None) -> list[Group]:
    """Return, for each gang that live pods or unfinished Jobs name, these pods and Jobs, ordered by the gang's key.

    :param about: if given, a Job is read only if it is of this gang, or of a gang with a Job or JobNetworkTopology of
        this name.
    """
    pods: defaultdict[GangKey, list[Pod]] = defaultdict(list)
    jobs: defaultdict[GangKey, list[TemplatedJob]] = defaultdict(list)
    for pod in live(sources.pods):
        if key := gang_of(pod):
            pods[key].append(pod)
    for manifest in _worth_reading(sources, about):
        try:
            job, example = job_of(manifest), example_pod(manifest)
        except MalformedError:
            continue  # the review of the Job reports the fault
        if (key := gang_of(example)) and not job.finished:
            ref = ref_of(manifest)
            jobs[key].append(TemplatedJob(ref, job, example, to_be_resumed(manifest, ref)))
    return [
        Group(
            key,
            tuple(sorted(pods[key], key=lambda pod: age(pod.metadata))),
            tuple(sorted(jobs[key], key=lambda each: age(each.job.metadata))),
        )
        for key in sorted(pods.keys() | jobs.keys())
    ]


def _worth_reading(sources: Sources, about: GangKey | None) -> list[Manifest]:
    """Return the Jobs to read: all whose pods name a gang.

    If `about` is given, these are only the Jobs of the gang with this key, and of gangs with a Job or
    JobNetworkTopology of its name.
    """
    if about is None:
        return [each for each in sources.of_kind(JOB_GROUP, JOB_KIND) if _gang_in(each)]
    name = about.namespace, about.name
    named = {gang_of(pod) for pod in sources.pods if network_named(pod) == name} - {None}
    gangs = {(key.namespace, key.name) for key in (named | gangs_around(about, sources)) if key is not None}
    return [job for gang in sorted(gangs) for job in sources.sought(JOB_GROUP, JOB_KIND, _gang_in, gang)]


def gangs_around(about: GangKey, sources: Sources) -> set[GangKey]:
    """Return the keys of the gangs that are read for `about`, because `about` may be the name of a Job or
    JobNetworkTopology.

    They are `about` itself, and the gangs of Jobs that have this namespace and name, or that name such a
    JobNetworkTopology.
    """
    jobs = sources.sought(JOB_GROUP, JOB_KIND, _parts_of, (about.namespace, about.name))
    return {about, *(GangKey(NAME, *gang) for job in jobs for gang in _gang_in(job))}


def _gang_in(job: Manifest) -> tuple[Name, ...]:
    """Return namespace and name of the gang that a Job's pods name, in a tuple; empty if they name none.

    They are the Job's index values (`kube.catalog.Naming`), by which the Jobs of a gang are found.
    """
    labels = template_says(job, "labels")
    network = labels.get(keys.JOB_NAME)
    return ((key_of(job)[2], labels.get(keys.GANG_NAME) or network),) if network else ()


def _parts_of(job: Manifest) -> tuple[Name, ...]:
    """Return (namespace, name) of a Job, and of the JobNetworkTopology that its pods name; empty if they name none.

    They are the Job's index values (`kube.catalog.Naming`), by which a Job is found from its name or from its
    JobNetworkTopology.
    """
    labels, (_, _, namespace, name) = template_says(job, "labels"), key_of(job)
    network = labels.get(keys.JOB_NAME)
    return ((namespace, name), (labels.get(keys.JOB_NAMESPACE) or namespace, network)) if network else ()


def check_labels(group: Group, findings: Findings) -> None:
    """Report labels of a gang's pods and Jobs that are missing, of another dialect, unknown, or not equal on all of
    them.
    """
    first: tuple[ObjectRef, Name] | None = None
    advise_older(group.bare, (keys.JOB_NAME, keys.JOB_NAMESPACE, keys.MIN_AVAILABLE), "labels", findings)
    for ref, at, pod in group.deciding_objects:
        labels = pod.metadata.labels
        if keys.POD_GROUP in labels:
            problem = f"cannot be combined with {keys.JOB_NAME}"
            findings.fault(ref, f"{at}[{keys.POD_GROUP}]", problem, f"write {keys.GANG_NAME} and {keys.MIN_AVAILABLE}")
        advise_labels(labels, ref, at, findings)
        if not labels.get(keys.GANG_NAME):
            findings.fault(ref, f"{at}[{keys.GANG_NAME}]", "is missing", "name the gang, the same on all its pods")
        named = network_named(pod)
        if first is None:
            first = ref, named
        elif named != first[1]:
            problem = f"{'/'.join(named)} differs from {'/'.join(first[1])} of {first[0]}"
            findings.fault(ref, f"{at}[{keys.JOB_NAME}]", problem, "name the same JobNetworkTopology on all members")


def minimum_of(group: Group, findings: Findings) -> int:
    """Return the gang's minimum from the label `min-available` on its pods and Jobs; 0 if no valid label states it.

    Missing and different labels are faults.
    """
    found: tuple[ObjectRef, int] | None = None
    for ref, at, pod in group.deciding_objects:
        number = _number(ref, f"{at}[{keys.MIN_AVAILABLE}]", pod, findings)
        if number is None:
            continue
        if found is None:
            found = ref, number
        elif number != found[1]:
            problem = f"{number} differs from {found[1]} of {found[0]}"
            findings.fault(ref, f"{at}[{keys.MIN_AVAILABLE}]", problem, "write the same number on every member")
    return found[1] if found else 0


def _number(ref: ObjectRef, at: str, pod: Pod, findings: Findings) -> int | None:
    text = pod.metadata.labels.get(keys.MIN_AVAILABLE)
    if text is None:
        findings.fault(ref, at, "is missing", "write the number of pods that must start together")
        return None
    number = integer(text)
    if number is None or number < 1:
        findings.fault(ref, at, f'"{text}" is not a whole number from 1 up', "correct it")
        return None
    return number


def check_numbers(group: Group, minimum: int, network: str, workers: int | None, findings: Findings) -> None:
    """Report different numbers in `workerNum`, the Jobs' `parallelism` and `min-available`, which must be equal.

    :param minimum: the gang's minimum, from the label `min-available`; 0 if unknown, and then nothing is reported.
    :param network: namespace and name of the JobNetworkTopology.
    :param workers: its `workerNum`; None if the object does not exist.
    """
    if not minimum:
        return
    worker_num = f"workerNum of {keys.KIND} {network} " + ("is not known yet" if workers is None else f"is {workers}")
    size = sum(each.job.size for each in group.jobs)
    if group.jobs and not group.bare and {size, minimum, workers or minimum} != {minimum}:
        jobs = "this Job runs" if len(group.jobs) == 1 else f"the {len(group.jobs)} Jobs of the gang run"
        problem = f"{jobs} {_pods(size)} at a time, {keys.MIN_AVAILABLE} is {minimum}, and {worker_num}"
        findings.fault(group.jobs[-1].ref, "spec.parallelism", problem, "write the same number in all three")
    if workers is None or workers == minimum:
        return
    for pod in group.bare:
        at = f"metadata.labels[{keys.MIN_AVAILABLE}]"
        remedy = "write the same number in both, and in the parallelism of the job if there is one"
        findings.fault(pod_ref(pod), at, f"is {minimum}, but {worker_num}", remedy)


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"


def touches(group: Group, about: GangKey) -> bool:
    """Whether a group has the key `about`, or one of its Jobs or its JobNetworkTopology has the namespace and name of
    `about`.
    """
    name = about.namespace, about.name
    jobs = {(each.ref.namespace, each.ref.name) for each in group.jobs}
    networks = {network_named(pod) for _, _, pod in group.deciding_objects}
    return group.key == about or name in jobs | networks


def example_of(group: Group) -> Pod:
    """Return a pod with the labels that apply to the gang: the example of the first Job.

    If the group has no Job, return the first decisive pod (`pod_consensus.decisive_pods`).
    """
    return group.deciding_objects[0][2]
