"""Reports on workloads whose child workload is the gang, for all dialects.

Faults that the child would have are reported on the parent, before the operator creates the child.
"""

from collections.abc import Callable, Collection
from dataclasses import replace

from gangs.findings import Findings
from gangs.manifests import MalformedError, ref_of
from gangs.model import Manifest
from gangs.workloads import handed_down
from gangs.workloads.kind_table import shape_of
from gangs.workloads.suspension import unmade_by

_ELSEWHERE = (
    "its pods are not planned before they exist: what they are stands in {where}, which is not known here; the {kind} "
    "that is made of it is the gang, and is planned when it is there"
)
_LATE = "came too late: the {kind} was made or changed without Phalanx, so that nothing of it is a gang; {remedy}"
_AGAIN = {"CronJob": "apply it again"}

_SUSPENDED = "suspends the {kind}: nothing is made of it before that is lifted, and nothing of it is planned"

Read = Callable[[Manifest, Findings], object]
"""A function that reads the child workload as it is after admission, and reports its faults."""


def check(
    manifest: Manifest,
    keys: Collection[str],
    find: handed_down.Find,
    read: Read,
    findings: Findings,
    *,
    labels: Collection[str] = (),
) -> None:
    """Report faults of the annotations that a workload propagates, and annotations that it does not propagate.

    Raises `MalformedError`.

    :param keys: annotation keys that are propagated.
    :param find: finds the object that describes the workload's pods, if the workload does not describe them itself.
    """
    ref = ref_of(manifest)
    if handed_down.not_written_down(manifest, keys, labels) and ref.uid:
        remedy, at = _AGAIN.get(ref.kind, "delete it and create it again"), "annotations" if keys else "labels"
        findings.advise(ref, f"metadata.{at}", _LATE.format(kind=ref.kind, remedy=remedy))
    if not labels and (field := unmade_by(manifest)):
        findings.advise(ref, field, _SUSPENDED.format(kind=ref.kind))
    heir = handed_down.heir_of(manifest, keys, find, labels)
    if heir is None:
        where = handed_down.described_in(manifest)
        findings.advise(ref, "kind", _ELSEWHERE.format(where=where, kind=made_of(manifest)))
        return
    found = Findings()
    try:
        read(heir.manifest, found)
    except MalformedError as error:
        found.take([error.fault])
    findings.take(
        (replace(each, object=ref, field=heir.field(each.field)) for each in found.faults),
        (replace(each, object=ref, field=heir.field(each.field)) for each in found.advice),
    )


def made_of(manifest: Manifest) -> str:
    """The kind of the object that is the gang in the workload's place."""
    shape = shape_of(manifest)
    return shape.heir[1] if shape is not None else ""
