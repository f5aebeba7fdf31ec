"""Suspended workloads: the field that suspends them, the parent that governs it, and what their gang waits for.

The fields are in the table of kinds. A workload that can be suspended also suspends and resumes its children (the Jobs
of a JobSet, the JobSet of a TrainJob).
"""

from gangs.model import Manifest, ObjectRef
from gangs.workloads.kind_table import WORKLOADS, child_kind_of, has_rules, row_of
from gangs.workloads.pod_templates import at_path, maker_kind

USUAL = ("spec.runPolicy.suspend", "spec.suspend")
"""The paths of the suspend field in kinds whose row names none."""


def suspended_at(manifest: Manifest) -> str:
    """Return the field by which workloads of this kind are suspended for a queue; "" if the table of kinds has none."""
    row = row_of(manifest)
    return row.suspended_at if row is not None and not row.user_defined_by else ""


def suspended(manifest: Manifest) -> str:
    """Return the field that suspends the workload, so that it has no pods; "" if it is not suspended."""
    row = row_of(manifest)
    own = (row.suspended_at,) if row is not None and row.suspended_at else ()
    return next((path for path in (*own, *USUAL) if at_path(manifest, path) is True), "")


def unmade_by(manifest: Manifest) -> str:
    """Return the field that suspends a workload that creates no child while it is suspended; "" for any other workload.

    A suspended TrainJob still has its JobSet, which is suspended, too.
    """
    child = child_kind_of(manifest)
    return suspended_at(manifest) if child is not None and child.at and suspended(manifest) else ""


def governed(manifest: Manifest) -> bool:
    """Whether the workload's parent suspends and resumes it. A CronJob does not do so with its Jobs."""
    group, kind, _ = maker_kind(manifest)
    row = WORKLOADS.get((group, kind))
    if row is None or not row.suspended_at:
        return False
    return manifest.get("kind") in (*row.makers, row.child.kind if row.child is not None else "")


def to_be_resumed(manifest: Manifest, ref: ObjectRef) -> tuple[str, ...]:
    """Return what the gang of a suspended workload waits for; empty if the workload is not suspended."""
    field = suspended(manifest)
    if not field:
        return ()
    if governed(manifest) and not has_rules(manifest):
        _, kind, name = maker_kind(manifest)
        return (f"{ref} to be resumed (by {kind} {name}, which made it)",)
    return (f"{ref} to be resumed (it is suspended by {field})",)
