"""Marks on the templates of workloads that are in a queue as a whole and whose pods other objects create.

The Jobs of a JobSet create its pods, and each Job could be a gang of its own. If the JobSet itself names a queue,
admission puts the queue's name and a mark on its templates. A pod with the mark belongs to the JobSet's gang.
"""

from gangs.kueue import NAME
from gangs.labelled_workloads import makers
from gangs.manifests import metadata_of, ref_of
from gangs.model import Manifest, ObjectRef
from gangs.sources import Sources
from gangs.workloads import kind_table
from gangs.workloads.kind_table import WATCHED, WORKLOADS, Made, row_of
from gangs.workloads.pod_templates import Template
from kube import keys as own
from kube.objects import Pod

QUEUED = tuple(
    each
    for each in WATCHED
    if (row := WORKLOADS[each.group, each.kind]).made is Made.TOGETHER or (row.queued and row.made is Made.UNREAD)
)
"""Kinds without rules in code that are gangs if a queue's name reaches their pods or stands on their templates."""
_OWN = (own.GANG, own.REQUIRED, own.PREFERRED, own.MIN_MEMBER, own.TOPOLOGY)


def needs_mark(manifest: Manifest) -> bool:
    """Whether the pods of a queued workload are identified by a mark."""
    row = row_of(manifest)
    return row is not None and row.queued and row.made is Made.UNREAD


def mark_of(manifest: Manifest) -> dict[str, str]:
    """Return the mark for a queued workload's templates; empty if Phalanx's own annotations make it a gang.

    Raises `MalformedError`.
    """
    asked_otherwise = any(key in metadata_of(manifest).annotations for key in _OWN)
    return (
        {own.WORKLOAD: makers.mark(kind_table.mark_of(manifest), NAME)}
        if needs_mark(manifest) and not asked_otherwise
        else {}
    )


def marked(template: Template) -> bool:
    """Whether a template has the mark of any workload."""
    return template.labels.get(own.WORKLOAD, "").startswith(makers.mark("", NAME))


def marked_otherwise(template: Template) -> bool:
    """Whether a template has the mark of a gang in another dialect, Phalanx's own included."""
    return own.WORKLOAD in template.labels and not marked(template)


def workload_of(pod: Pod) -> ObjectRef | None:
    """The workload whose gang the pod is in by its mark."""
    return makers.owner_of(pod, NAME)


def made_by(pod: Pod, manifest: Manifest, sources: Sources) -> bool:
    """Whether the workload, or a Job of it, created the pod, and not an earlier workload of the same name."""
    ref, workload = ref_of(manifest), workload_of(pod)
    if workload is None or (workload.kind, workload.name) != (ref.kind, ref.name):
        return False
    return makers.made_by(pod, ref, sources)
