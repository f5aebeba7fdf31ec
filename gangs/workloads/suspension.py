"""Workloads that are suspended: the field that says so, who has a say in it, and what their gang waits for.

The fields stand in the table of kinds. What a workload that can be suspended has made of it (the Jobs of a JobSet, the
JobSet of a TrainJob) is suspended and resumed by that one.
"""

from gangs.model import Manifest, ObjectRef
from gangs.workloads.kind_table import WORKLOADS, shape_of
from gangs.workloads.pod_templates import at_path, maker_kind

USUAL = ("spec.runPolicy.suspend", "spec.suspend")
"""Where kinds have it that nobody has said otherwise of."""


def suspended_at(manifest: Manifest) -> str:
    """The field of the table by which workloads of this kind are suspended for a queue, "" where there is none."""
    shape = shape_of(manifest)
    return shape.suspended_at if shape is not None and not shape.taught_by else ""


def suspended(manifest: Manifest) -> str:
    """The field by which a workload is suspended, which has no pods then; "" where it is not."""
    shape = shape_of(manifest)
    own = (shape.suspended_at,) if shape is not None and shape.suspended_at else ()
    return next((path for path in (*own, *USUAL) if at_path(manifest, path) is True), "")


def unmade_by(manifest: Manifest) -> str:
    """The field by which a workload is suspended of which nothing is made meanwhile; "" for any other. What a TrainJob
    has made is there all the same, and suspended itself.
    """
    shape = shape_of(manifest)
    return suspended_at(manifest) if shape is not None and shape.heir_at and suspended(manifest) else ""


def governed(manifest: Manifest) -> bool:
    """Whether a workload is suspended and resumed by the one that made it. A CronJob's Jobs are not."""
    group, kind, _ = maker_kind(manifest)
    shape = WORKLOADS.get((group, kind))
    if shape is None or not shape.suspended_at:
        return False
    return manifest.get("kind") in (*shape.makers, shape.heir[1])


def to_be_resumed(manifest: Manifest, ref: ObjectRef) -> tuple[str, ...]:
    """What the gang of a suspended workload waits for."""
    field = suspended(manifest)
    if not field:
        return ()
    if governed(manifest):
        _, kind, name = maker_kind(manifest)
        return (f"{ref} to be resumed (by {kind} {name}, which made it)",)
    return (f"{ref} to be resumed (it is suspended by {field})",)
