"""Jobs that are gangs by their own annotations. Several dialects share this code.

Admission puts a mark on the pod template of such a Job. A Job without the mark is no gang, whatever its annotations:
its pods were never gated.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gangs.findings import Findings
from gangs.manifests import MalformedError, integer, metadata_of
from gangs.model import Manifest, ObjectRef
from gangs.workloads.jobs import Job, job_owner
from gangs.workloads.kind_table import WorkloadKind, has_rules, shape_of
from kube.keys import GANG, MIN_MEMBER, PREFERRED, REQUIRED, WORKLOAD
from kube.objects import Pod
from kube.text import with_article


def annotation(key: str, at: str = "") -> str:
    """Return the field path of an annotation; `at`: the path of the object with the metadata, ending with a dot."""
    return f"{at}metadata.annotations[{key}]"


def owner_of(pod: Pod, mark: str) -> str | None:
    """Return the name of the Job whose gang the pod belongs to by this mark; None if there is none."""
    if pod.metadata.labels.get(WORKLOAD) != mark:
        return None
    owner = job_owner(pod)
    return owner.name if owner is not None else None


def is_marked(job: Job, ref: ObjectRef, mark: str, findings: Findings, *, asks: bool) -> bool:
    """Whether the Job was admitted as a gang. If it `asks` to be one but was not, advice says why it is none."""
    if job.pod_labels.get(WORKLOAD) == mark:
        return True
    if asks:
        text = "came too late: the Job was made without it or without Phalanx; delete it and create it again"
        findings.advise(ref, "metadata.annotations", text)
    return False


def check_template(job: Job, ref: ObjectRef, findings: Findings) -> None:
    """Report a Job that is a gang itself but whose template names another gang. A pod has one gang."""
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
    """Report a minimum that is no number, or more than the pods that the Job runs at a time."""
    if written is not None:
        most = Most(job.size, "that the Job runs at a time", "raise spec.parallelism and spec.completions")
        check_number(ref, field, written, most, findings)


@dataclass(frozen=True, slots=True)
class Most:
    """The most pods that there can be. `which`: these pods in words; `more`: the remedy that raises the number."""

    number: int
    which: str
    more: str


def check_number(ref: ObjectRef, field: str, written: str, most: Most, findings: Findings) -> None:
    """Report a minimum that is no number from 1 up, or more than `most`."""
    minimum = integer(written)
    if minimum is None or minimum < 1:
        findings.fault(ref, field, f'"{written}" is not a number from 1 up', "correct it")
    elif minimum > most.number:
        problem = f"{minimum} is more than the {most.number} pods {most.which}"
        findings.fault(ref, field, problem, f"lower it to {most.number} or {most.more}")


def other_workload(manifest: Manifest, findings: Findings) -> Mapping[str, str] | None:
    """Return the annotations of a workload; None for other objects, and if the annotations are malformed.

    Also None for a kind with rules in code: its gangs are read elsewhere.
    """
    if has_rules(manifest) or shape_of(manifest) is None:
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
    """Refuse a workload that carries one of the `wishes` but whose kind cannot opt in; return whether it carries one.

    :param shape: the row of its kind, None if unknown. With it, the message names the versions that can opt in, or,
        for a user-defined kind, the annotations to write instead.
    """
    asked = next((key for key in wishes if key in annotations), None)
    version, versions = ref.api_version.rpartition("/")[2], shape.versions if shape and shape.by_annotation else ()
    if asked is not None and versions and version not in versions:
        problem = f"is not read in version {version} of {ref.kind}"
        findings.fault(ref, annotation(asked), problem, f"write the version as {' or '.join(versions)}")
    elif asked is not None and shape is not None and shape.user_defined_by:
        problem = f"is not read on {with_article(ref.kind)}, which WorkloadKind {shape.user_defined_by} describes"
        findings.fault(ref, annotation(asked), problem, f"write {REQUIRED}, {PREFERRED} or {MIN_MEMBER} instead")
    elif asked is not None:
        remedy = remedy or f"make a Gang object and label the pod template {GANG}: <its name>"
        findings.fault(
            ref, annotation(asked), f"{with_article(ref.kind)} cannot be made a gang by annotations yet", remedy
        )
    return asked is not None
