"""Suspended workloads, which have no pods: the field that suspends them, and what their gang waits for.

The field is in the table of kinds. A parent suspends and resumes its children with itself (the Jobs of a JobSet, the
JobSet of a TrainJob).
"""

from gangs.model import Manifest, ObjectRef
from gangs.workloads.kind_table import WORKLOADS, child_kind_of, has_rules, row_of
from gangs.workloads.pod_templates import at_path, maker_kind

USUAL = ("spec.runPolicy.suspend", "spec.suspend")
"""The usual paths of the field that suspends a workload. They are read for every kind."""


def suspended_at(manifest: Manifest) -> str:
    """Return the field by which users suspend workloads of this kind until a queue resumes them.

    Return "" if the table of kinds has no such field, and for user-defined kinds.
    """
    row = row_of(manifest)
    return row.suspended_at if row is not None and not row.user_defined_by else ""


def suspended(manifest: Manifest) -> str:
    """Return the path of the field that now suspends the workload, which has no pods then; "" if none does."""
    row = row_of(manifest)
    own = (row.suspended_at,) if row is not None and row.suspended_at else ()
    return next((path for path in (*own, *USUAL) if at_path(manifest, path) is True), "")


def child_prevented_by(manifest: Manifest) -> str:
    """Return the field that suspends a workload so that its operator creates no child workload; "" if there is none.

    A TrainJob gives "", because the operator creates the JobSet of a suspended TrainJob, too.
    """
    child = child_kind_of(manifest)
    return suspended_at(manifest) if child is not None and child.at and suspended(manifest) else ""


def suspended_with_parent(manifest: Manifest) -> bool:
    """Whether the workload has a parent that suspends and resumes it, by the parent's kind.

    It is so for the Jobs of a JobSet, but not for those of a CronJob.
    """
    group, kind, _ = maker_kind(manifest)
    row = WORKLOADS.get((group, kind))
    if row is None or not row.suspended_at:
        return False
    return manifest.get("kind") in (*row.makers, row.child.kind if row.child is not None else "")


def to_be_resumed(manifest: Manifest, ref: ObjectRef) -> tuple[str, ...]:
    """Return the entries of `Gang.waiting_for` for the gang of a suspended workload; empty if it is not suspended.

    :param ref: the workload, for messages.
    """
    field = suspended(manifest)
    if not field:
        return ()
    if suspended_with_parent(manifest) and not has_rules(manifest):
        _, kind, name = maker_kind(manifest)
        return (f"{ref} to be resumed (by {kind} {name}, which made it)",)
    return (f"{ref} to be resumed (it is suspended by {field})",)
