"""The review of a workload whose child workload will be the gang, such as a TrainJob with its JobSet.

Faults that the child would have are reported on the parent, before the operator creates the child.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from gangs.findings import Findings
from gangs.manifests import MalformedError, ref_of
from gangs.model import Manifest
from gangs.sources import Sources
from gangs.workloads import child_workloads
from gangs.workloads.kind_table import child_kind_of
from gangs.workloads.suspension import child_prevented_by
from gangs.workloads.template_marks import with_labels

_ELSEWHERE = (
    "its pods are not planned before they exist: what they are stands in {where}, which is not known here; the {kind} "
    "that is made of it is the gang, and is planned when it is there"
)
_LATE = "came too late: the {kind} was made or changed without Phalanx, so that nothing of it is a gang; {remedy}"
_AGAIN = {"CronJob": "apply it again"}

_SUSPENDED = "suspends the {kind}: nothing is made of it before that is lifted, and nothing of it is planned"


@dataclass(frozen=True, slots=True)
class Reader:
    """The functions of a dialect that review a child workload. Both raise `MalformedError`."""

    template_labels: Callable[[Manifest, Sources], Mapping[str, str]]
    """Returns the labels that admission adds to the child's pod templates."""
    read: Callable[[Manifest, Sources, Findings], object]
    """Reads the child as it is after admission, and reports its faults. It gets sources without pods."""


def check(
    manifest: Manifest,
    keys: Collection[str],
    sources: Sources,
    reader: Reader,
    findings: Findings,
    *,
    labels: Collection[str] = (),
) -> None:
    """Report the faults that a workload's child would have because of the parent's annotations and labels.

    Advice says if the annotations came too late to be copied to the child, or if the child cannot be derived from the
    workload alone. Raises `MalformedError`.

    :param keys: keys of the annotations that are copied to the child.
    :param labels: keys of the labels that are copied to the child.
    """
    ref = ref_of(manifest)
    if child_workloads.lacks_propagated_fields(manifest, keys, labels) and ref.uid:
        remedy, at = _AGAIN.get(ref.kind, "delete it and create it again"), "annotations" if keys else "labels"
        findings.advise(ref, f"metadata.{at}", _LATE.format(kind=ref.kind, remedy=remedy))
    if not labels and (field := child_prevented_by(manifest)):
        findings.advise(ref, field, _SUSPENDED.format(kind=ref.kind))
    child = child_workloads.child_of(manifest, keys, sources.find, labels)
    if child is None:
        where = child_workloads.description_of(manifest)
        findings.advise(ref, "kind", _ELSEWHERE.format(where=where, kind=kind_of_child(manifest)))
        return
    found = Findings()
    try:
        on_templates = reader.template_labels(child.manifest, sources)
        reader.read(with_labels(child.manifest, on_templates), replace(sources, pods=()), found)
    except MalformedError as error:
        found.take([error.fault])
    findings.take(
        (replace(each, object=ref, field=child.field(each.field)) for each in found.faults),
        (replace(each, object=ref, field=child.field(each.field)) for each in found.advice),
    )


def kind_of_child(manifest: Manifest) -> str:
    """Return the kind of the child workload that is the gang instead of this workload; "" if there is none."""
    child = child_kind_of(manifest)
    return child.kind if child is not None else ""
