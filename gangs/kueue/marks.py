"""The label `phalanx.dev/workload` (the mark) on pods of a workload that is in a queue of Kueue as a whole.

The Jobs of a JobSet create its pods, and each Job could be a gang of its own. If the JobSet itself names a queue,
admission adds the queue's name and the label to its pod templates. A pod with the label is a member of the JobSet's
gang.
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
"""The kinds, besides the Job, of which Kueue's dialect can make a workload one gang."""
_OWN = (own.GANG, own.REQUIRED, own.PREFERRED, own.MIN_MEMBER, own.TOPOLOGY)


def needs_mark(manifest: Manifest) -> bool:
    """Whether the pods of a workload in a queue need the label `phalanx.dev/workload`, by the workload's kind."""
    row = row_of(manifest)
    return row is not None and row.queued and row.made is Made.UNREAD


def mark_of(manifest: Manifest) -> dict[str, str]:
    """Return the label `phalanx.dev/workload` for the pod templates of a workload in a queue.

    Return an empty mapping if the kind needs none, or if Phalanx's own annotations make the workload a gang. Raises
    `MalformedError`.
    """
    asked_otherwise = any(key in metadata_of(manifest).annotations for key in _OWN)
    return (
        {own.WORKLOAD: makers.mark(kind_table.mark_of(manifest), NAME)}
        if needs_mark(manifest) and not asked_otherwise
        else {}
    )


def marked(template: Template) -> bool:
    """Whether a pod template has the label `phalanx.dev/workload` of a gang in Kueue's dialect."""
    return template.labels.get(own.WORKLOAD, "").startswith(makers.mark("", NAME))


def marked_otherwise(template: Template) -> bool:
    """Whether a pod template has the label `phalanx.dev/workload` of a gang in another dialect or in Phalanx's own."""
    return own.WORKLOAD in template.labels and not marked(template)


def workload_of(pod: Pod) -> ObjectRef | None:
    """Return the workload that is the pod's gang, by the pod's label `phalanx.dev/workload`; None if it has none."""
    return makers.owner_of(pod, NAME)


def made_by(pod: Pod, manifest: Manifest, sources: Sources) -> bool:
    """Whether a pod with the label `phalanx.dev/workload` belongs to this workload.

    An earlier workload of the same name does not count.
    """
    ref, workload = ref_of(manifest), workload_of(pod)
    if workload is None or (workload.kind, workload.name) != (ref.kind, ref.name):
        return False
    return makers.made_by(pod, ref, sources)
