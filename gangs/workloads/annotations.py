"""Annotations by which workloads ask to be gangs: checks that several dialects share."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gangs.findings import Findings
from gangs.manifests import MalformedError, integer, metadata_of, ref_of
from gangs.model import Manifest, ObjectRef
from gangs.workloads.kind_table import KindRow, has_rules, row_of
from gangs.workloads.pod_templates import Template
from kube.keys import GANG, MIN_MEMBER, PREFERRED, REQUIRED
from kube.text import with_article


def annotation(key: str, at: str = "") -> str:
    """Return the field path of an annotation; `at`: the path of the object with the metadata, ending with a dot."""
    return f"{at}metadata.annotations[{key}]"


def advise_late(ref: ObjectRef, findings: Findings) -> None:
    """Advise that the annotations that make a workload a gang came too late.

    Admission wrote no gang label on the pod templates, so the workload's pods were never gated.
    """
    text = f"came too late: the {ref.kind} was made without it or without Phalanx; delete it and create it again"
    findings.advise(ref, "metadata.annotations", text)


def check_single_gang(ref: ObjectRef, template: Template, findings: Findings) -> None:
    """Report a workload that is a gang itself but whose template names another gang. A pod has one gang."""
    if named := template.labels.get(GANG):
        problem = f"names Gang {named}, but the {ref.kind} asks to be a gang itself"
        findings.fault(ref, f"{template.metadata_at}.labels[{GANG}]", problem, "remove one of the two")


@dataclass(frozen=True, slots=True)
class Most:
    """The most pods that there can be. `which`: these pods in words; `more`: the remedy that raises the number."""

    number: int
    which: str
    more: str


def most_pods(manifest: Manifest, total: int) -> Most:
    """Return the most pods of a workload that can start together: `total`, the pods of all its marked templates."""
    kind, row = ref_of(manifest).kind, row_of(manifest)
    if row is not None and row.rules is not None:
        return Most(total, f"that the {kind} runs at a time", f"raise {row.rules.size_fields}")
    return Most(total, f"that the {kind} runs", "raise the replicas")


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
    if has_rules(manifest) or row_of(manifest) is None:
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
    row: KindRow | None = None,
) -> bool:
    """Refuse a workload that carries one of the `wishes` but whose kind cannot opt in; return whether it carries one.

    :param row: the row of its kind, None if unknown. With it, the message names the versions that can opt in, or,
        for a user-defined kind, the annotations to write instead.
    """
    asked = next((key for key in wishes if key in annotations), None)
    version, versions = ref.api_version.rpartition("/")[2], row.versions if row and row.by_annotation else ()
    if asked is not None and versions and version not in versions:
        problem = f"is not read in version {version} of {ref.kind}"
        findings.fault(ref, annotation(asked), problem, f"write the version as {' or '.join(versions)}")
    elif asked is not None and row is not None and row.user_defined_by:
        problem = f"is not read on {with_article(ref.kind)}, which WorkloadKind {row.user_defined_by} describes"
        findings.fault(ref, annotation(asked), problem, f"write {REQUIRED}, {PREFERRED} or {MIN_MEMBER} instead")
    elif asked is not None:
        remedy = remedy or f"make a Gang object and label the pod template {GANG}: <its name>"
        findings.fault(
            ref, annotation(asked), f"{with_article(ref.kind)} cannot be made a gang by annotations yet", remedy
        )
    return asked is not None
