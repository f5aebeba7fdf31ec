"""Workloads whose pods others make for them, in a queue as a whole: known by a mark on their templates.

A JobSet's pods are made by its Jobs, which could be gangs each for itself. Where the JobSet itself names a queue, its
templates get a mark beside the queue's name at its admission, and a pod with it is one of the JobSet's gang.
"""

from gangs.kueue import NAME
from gangs.manifests import metadata_of, ref_of
from gangs.marked import makers
from gangs.model import Manifest, ObjectRef
from gangs.sources import Sources
from gangs.workloads import kind_table
from gangs.workloads.kind_table import WATCHED, WORKLOADS, Made, shape_of
from gangs.workloads.pod_templates import Template
from kube import keys as own
from kube.objects import Pod

QUEUED = tuple(
    each
    for each in WATCHED
    if (shape := WORKLOADS[each.group, each.kind]).made is Made.TOGETHER or (shape.queued and shape.made is Made.UNREAD)
)
"""Kinds besides the Job that are read as gangs, where a queue's name reaches their pods or their templates have it."""
_OWN = (own.GANG, own.REQUIRED, own.PREFERRED, own.MIN_MEMBER, own.TOPOLOGY)


def needs_mark(manifest: Manifest) -> bool:
    """Whether the pods of a queued workload are known by a mark."""
    shape = shape_of(manifest)
    return shape is not None and shape.queued and shape.made is Made.UNREAD


def mark_of(manifest: Manifest) -> dict[str, str]:
    """The mark for the templates of a workload that names a queue; nothing where it is a gang by our own annotations.

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
    """Whether a template has the mark of a gang in another system's words, or in ours."""
    return own.WORKLOAD in template.labels and not marked(template)


def workload_of(pod: Pod) -> ObjectRef | None:
    """The workload whose gang the pod is in by its mark."""
    return makers.owner_of(pod, NAME)


def made_by(pod: Pod, manifest: Manifest, sources: Sources) -> bool:
    """Whether the workload, or a Job of it, made the pod, and not one that had its name before."""
    ref, workload = ref_of(manifest), workload_of(pod)
    if workload is None or (workload.kind, workload.name) != (ref.kind, ref.name):
        return False
    return makers.made_by(pod, ref, sources)
