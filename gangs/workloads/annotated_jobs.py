"""Jobs that are gangs by their own annotations: known by a mark that admission puts on their pod template.

A Job without the mark is no gang, whatever it says: its pods were never gated. What dialects with such Jobs share.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gangs.findings import Findings
from gangs.manifests import MalformedError, integer, metadata_of
from gangs.model import Manifest, ObjectRef
from gangs.workloads.jobs import Job, is_job, job_owner
from gangs.workloads.kind_table import WorkloadKind, shape_of
from kube.keys import GANG, MIN_MEMBER, PREFERRED, REQUIRED, WORKLOAD
from kube.objects import Pod
from kube.text import with_article


def annotation(key: str, at: str = "") -> str:
    """The field path of an annotation; `at`: where the metadata stands."""
    return f"{at}metadata.annotations[{key}]"


def owner_of(pod: Pod, mark: str) -> str | None:
    """The name of the Job whose gang the pod belongs to by its mark."""
    if pod.metadata.labels.get(WORKLOAD) != mark:
        return None
    owner = job_owner(pod)
    return owner.name if owner is not None else None


def is_marked(job: Job, ref: ObjectRef, mark: str, findings: Findings, *, asks: bool) -> bool:
    """Whether the Job was admitted as a gang. One that `asks` and was not is told why it is none."""
    if job.pod_labels.get(WORKLOAD) == mark:
        return True
    if asks:
        text = "came too late: the Job was made without it or without Phalanx; delete it and create it again"
        findings.advise(ref, "metadata.annotations", text)
    return False


def check_template(job: Job, ref: ObjectRef, findings: Findings) -> None:
    """One gang to a pod: the template may not name another one."""
    if named := job.pod_labels.get(GANG):
        at = f"spec.template.metadata.labels[{GANG}]"
        findings.fault(ref, at, f"names Gang {named}, but the Job asks to be a gang itself", "remove one of the two")


def minimum_of(job: Job, written: str | None) -> int:
    """Pods that must start together: as written, else all that the Job runs at a time."""
    return job.size if written is None else (integer(written) or job.size)


def still_needed(job: Job, minimum: int) -> int:
    """The minimum near the end of a Job, when fewer pods are left to run than at its start."""
    return max(1, min(minimum, job.expected))


def check_minimum(job: Job, ref: ObjectRef, field: str, written: str | None, findings: Findings) -> None:
    """Note a minimum that is no number, or more than the Job ever runs."""
    if written is not None:
        most = Most(job.size, "that the Job runs at a time", "raise spec.parallelism and spec.completions")
        check_number(ref, field, written, most, findings)


@dataclass(frozen=True, slots=True)
class Most:
    """How many pods there are at most, in words too; `more`: what makes them more."""

    number: int
    which: str
    more: str


def check_number(ref: ObjectRef, field: str, written: str, most: Most, findings: Findings) -> None:
    """Note a minimum that is no number, or more than there are."""
    minimum = integer(written)
    if minimum is None or minimum < 1:
        findings.fault(ref, field, f'"{written}" is not a number from 1 up', "correct it")
    elif minimum > most.number:
        problem = f"{minimum} is more than the {most.number} pods {most.which}"
        findings.fault(ref, field, problem, f"lower it to {most.number} or {most.more}")


def other_workload(manifest: Manifest, findings: Findings) -> Mapping[str, str] | None:
    """The annotations of a workload that is no Job; None for anything else, and for one that cannot be read."""
    if is_job(manifest) or shape_of(manifest) is None:
        return None
    try:
        return metadata_of(manifest).annotations
    except MalformedError as error:
        findings.take([error.fault])
        return None


def refuse_kind(
    ref: ObjectRef,
    wishes: Iterable[str],
    annotations: Mapping[str, str],
    findings: Findings,
    remedy: str = "",
    *,
    shape: WorkloadKind | None = None,
) -> bool:
    """Refuse a workload of a kind that cannot opt in yet, if it carries one of the wishes; whether it does.

    :param shape: its kind, where that can be told from what it says of itself: another version of it may opt in, and
        one that is described by our own annotations.
    """
    asked = next((key for key in wishes if key in annotations), None)
    version, versions = ref.api_version.rpartition("/")[2], shape.versions if shape and shape.by_annotation else ()
    if asked is not None and versions and version not in versions:
        problem = f"is not read in version {version} of {ref.kind}"
        findings.fault(ref, annotation(asked), problem, f"write the version as {' or '.join(versions)}")
    elif asked is not None and shape is not None and shape.taught_by:
        problem = f"is not read on {with_article(ref.kind)}, which WorkloadKind {shape.taught_by} describes"
        findings.fault(ref, annotation(asked), problem, f"write {REQUIRED}, {PREFERRED} or {MIN_MEMBER} instead")
    elif asked is not None:
        remedy = remedy or f"make a Gang object and label the pod template {GANG}: <its name>"
        findings.fault(
            ref, annotation(asked), f"{with_article(ref.kind)} cannot be made a gang by annotations yet", remedy
        )
    return asked is not None
