"""Expected pods in place of lost pods: pods that ran and are deleted, and that their workload recreates.

From a lost member and its workload, `seat_again` constructs the member with the expected pod, so that capacity can be
reserved for it (docs/decisions/0034). The expected pod is gated, and has an identifier in place of a uid.
"""

from msgspec.structs import replace

from gangs.manifests import MalformedError, metadata_of
from gangs.model import Manifest, Member
from gangs.workloads.jobs import INDEX_KEY, controller_of
from gangs.workloads.kind_table import row_of
from gangs.workloads.later_pods.held_room import wanted
from gangs.workloads.later_pods.pods_to_come import example_pods
from gangs.workloads.later_pods.start_order import spec_to_come, with_conversion
from gangs.workloads.pod_templates import at_path, ended, templates
from gangs.workloads.suspension import suspended
from kube.objects import Pod
from kube.placeholders import seat_uid


def goes_on(manifest: Manifest, part: str = "") -> bool:
    """Whether a workload recreates lost pods, and Phalanx may reserve capacity for them.

    It does unless it is deleted, ended, ending or suspended. A malformed workload gives False.

    :param part: the number of the group that is the gang, if each group of the workload is one; "" for the whole
        workload. A group that the workload has no more gives False.
    """
    try:
        metadata = metadata_of(manifest)
        over = metadata.deletion_timestamp or ended(manifest) or suspended(manifest) or _is_ending(manifest)
        return not over and wanted(manifest) and (not part or _has_part(manifest, part))
    except MalformedError:
        return False


def _is_ending(manifest: Manifest) -> bool:
    """Whether a condition of the workload says that it recreates no pod any more (`KindRow.ending_conditions`)."""
    row, conditions = row_of(manifest), at_path(manifest, "status.conditions")
    types = row.ending_conditions if row is not None else ()
    true = [each for each in conditions if isinstance(each, dict)] if isinstance(conditions, list) else []
    return any(condition.get("type") in types and condition.get("status") == "True" for condition in true)


def _has_part(manifest: Manifest, part: str) -> bool:
    """Whether a workload still has the group with this number; true for a part that is no number."""
    return not part.isdecimal() or any(int(part) * each.in_each < each.count for each in templates(manifest))


def seat_again(manifest: Manifest, lost: Member) -> Member | None:
    """Return a lost member with the expected pod that replaces its pod. Pod set and rank stay the same.

    Return None if the workload has no template for the member's pod set, or several, or is malformed.
    """
    try:
        examples, uid = zip(templates(manifest), example_pods(manifest), strict=True), metadata_of(manifest).uid
        found = [(each, pod) for each, pod in examples if each.role == lost.pod_set]
    except MalformedError:
        return None
    if len(found) != 1:
        return None
    ((template, example),) = found
    meta, name = lost.pod.metadata, _name(lost.pod)
    made = replace(
        meta,
        name=name,
        uid=seat_uid(uid, lost.pod_set, name),
        annotations=with_conversion(template.annotations, [lost.pod]),
        creation_timestamp=None,
        deletion_timestamp=None,
    )
    spec = spec_to_come(example.spec, lost.pod, [lost.pod])
    return Member(replace(example, metadata=made, spec=spec), lost.pod_set, lost.index)


def _name(pod: Pod) -> str:
    """Return the part of a pod's name that the name of its replacement will have, too.

    For a pod of an Indexed Job this is `<job>-<index>`, because the recreated pod has another random suffix.
    """
    stem, _, _ = pod.metadata.name.rpartition("-")
    index, owner = pod.metadata.labels.get(INDEX_KEY, ""), controller_of(pod)
    foreseen = f"{owner.name}-{index}" if owner is not None and index else ""
    return stem if stem and stem == foreseen else pod.metadata.name
