"""The checks of annotations by which a workload asks to be a gang. Several dialects share them."""

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
    """Return the path of an annotation, for messages: `metadata.annotations[<key>]`.

    :param at: the path of the part that has the metadata, ending with a dot; "" for the object itself.
    """
    return f"{at}metadata.annotations[{key}]"


def advise_late(ref: ObjectRef, findings: Findings) -> None:
    """Report, as advice, that a workload got the annotations that ask for a gang only after its creation.

    Admission then wrote no label on its pod templates, so its pods are not gated and no gang.
    """
    text = f"came too late: the {ref.kind} was made without it or without Phalanx; delete it and create it again"
    findings.advise(ref, "metadata.annotations", text)


def check_single_gang(ref: ObjectRef, template: Template, findings: Findings) -> None:
    """Report a pod template that names a Gang object although the whole workload is a gang. A pod has only one gang."""
    if named := template.labels.get(GANG):
        problem = f"names Gang {named}, but the {ref.kind} asks to be a gang itself"
        findings.fault(ref, f"{template.metadata_at}.labels[{GANG}]", problem, "remove one of the two")


@dataclass(frozen=True, slots=True)
class LargestMinimum:
    """The largest valid minimum of a workload's gang: the number of its pods.

    `which`: these pods in words, for messages. `more`: the remedy that raises the number.
    """

    number: int
    which: str
    more: str


def largest_minimum(manifest: Manifest, total: int) -> LargestMinimum:
    """Return the largest valid minimum of a workload's gang: `total`, the number of pods of its templates."""
    kind, row = ref_of(manifest).kind, row_of(manifest)
    if row is not None and row.rules is not None:
        return LargestMinimum(total, f"that the {kind} runs at a time", f"raise {row.rules.size_fields}")
    return LargestMinimum(total, f"that the {kind} runs", "raise the replicas")


def check_number(ref: ObjectRef, field: str, written: str, most: LargestMinimum, findings: Findings) -> None:
    """Report a minimum that is no number from 1 up, or that is more than the workload's pods.

    :param written: the minimum as the user wrote it in `field`.
    """
    minimum = integer(written)
    if minimum is None or minimum < 1:
        findings.fault(ref, field, f'"{written}" is not a number from 1 up', "correct it")
    elif minimum > most.number:
        problem = f"{minimum} is more than the {most.number} pods {most.which}"
        findings.fault(ref, field, problem, f"lower it to {most.number} or {most.more}")


def other_workload(manifest: Manifest, findings: Findings) -> Mapping[str, str] | None:
    """Return the annotations of a workload that is no Job; None for any other object.

    Malformed metadata are reported, and the result is None.
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
    """Report an annotation that asks for a gang on a workload whose kind cannot be a gang in this dialect.

    Return whether the workload has such an annotation.

    :param wishes: the keys of the annotations that ask for a gang.
    :param remedy: the remedy in the message; "": make a Gang object.
    :param row: the description of the workload's kind; None if unknown. With it, the message names the API versions
        that can be gangs, or, for a user-defined kind, the annotations to write instead.
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
