"""Workloads as they are after admission, and their expected pods: the input of a dry run and of a forecast."""

import logging
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from gangs.coexistence.ownership import CededToOthers
from gangs.dialects.claims import ceded_to_others, dialect_of
from gangs.dialects.protocol import ByWorkload, Foreseeing
from gangs.dialects.reviewing import review
from gangs.dialects.table import DIALECTS
from gangs.dialects.templates import as_admitted, as_made
from gangs.manifests import MalformedError, key_of, metadata_of, ref_of
from gangs.model import Advice, Fault, Manifest, ObjectRef
from gangs.sources import ObjectKey, Sources
from gangs.workload_kinds import user_defined_rows
from gangs.workloads import pod_templates
from gangs.workloads.jobs import job_of
from gangs.workloads.kind_table import WORKLOADS, Made, has_rules
from gangs.workloads.later_pods import held_room, pods_to_come, start_order
from gangs.workloads.suspension import child_prevented_by
from kube.keys import WORKLOAD
from kube.objects import Pod

LOG = logging.getLogger(__name__)

_BY_KINDS = {each.name for each in DIALECTS if isinstance(each, ByWorkload)}
"""Names of the dialects in which the pods of one workload can be a gang although they do not name one."""
_NOT_HERE = {"CronJob", "DaemonSet", "Service"}
"""Kinds without expected pods: their templates state no number of pods, or the pods are created much later."""
_IN_ORDER = (
    "; it makes others only when the first run: have all made at once, or write annotations of ours on the {} itself"
)


def expanded(sources: Sources) -> tuple[Sources, list[Fault]]:
    """Return the sources with each workload as it is after admission, and with the expected pods of gangs.

    Only workloads whose pods name a gang get expected pods. A malformed workload is left out. Its fault is in the
    second part of the result.
    """
    sources = _with_groups(_with_children(sources))
    objects, faults, pods = dict(sources.objects), list[Fault](), list(sources.pods)
    left = ceded_to_others(sources)
    for manifest in (each for at in (*WORKLOADS, *user_defined_rows(sources)) for each in sources.of_kind(*at)):
        try:
            workload = as_admitted(manifest, sources)
            made = missing_pods(workload, _existing(workload, sources), left, placeholders=sources.placeholders)
        except MalformedError as error:
            objects.pop(key_of(manifest), None)
            faults.append(error.fault)
        except Exception:
            LOG.exception("%s cannot be expanded", ref_of(manifest))
            objects.pop(key_of(manifest), None)
            problem = "cannot be read: an error of Phalanx itself, told in its log"
            faults.append(Fault(ref_of(manifest), "spec", problem, "report it"))
        else:
            objects[key_of(workload)] = workload
            pods += made
    return replace(sources, objects=objects, pods=pods), faults


def _with_children(sources: Sources) -> Sources:
    """Return the sources with the child workloads that the workloads' operators would create (a TrainJob's JobSet).

    The parents remain. A workload with faults gets no child, because its faults are reported on the workload itself.
    """
    made: dict[ObjectKey, Manifest | None] = {}
    for group, kind in (at for at, row in WORKLOADS.items() if row.child is not None):
        for manifest in sources.of_kind(group, kind):
            with suppress(MalformedError):
                child = manifest if child_prevented_by(as_admitted(manifest, sources)) else as_made(manifest, sources)
                if child is not manifest and not review(manifest, sources)[0]:
                    child = _named_anew(child, {key[2:] for key in (*sources.objects, *made)})
                    made[key_of(child)] = child
    return sources.changed(made) if made else sources


def _with_groups(sources: Sources) -> Sources:
    """Return the sources with the group objects that controllers create for workloads, such as a Job's PodGroup.

    A workload whose group object exists, and a malformed workload, stay as they are.
    """
    changes: dict[ObjectKey, Manifest | None] = {}
    foreseeing = [each for each in DIALECTS if isinstance(each, Foreseeing)]
    for manifest in (each for at in WORKLOADS for each in sources.of_kind(*at)):
        for dialect in foreseeing:
            with suppress(MalformedError):
                found = dialect.with_group(manifest)
                if found is not None and sources.find(key_of(found[1])) is None:
                    changes |= {key_of(each): each for each in found}
    return sources.changed(changes) if changes else sources


def _named_anew(manifest: Manifest, taken: Container[tuple[str, str]]) -> Manifest:
    """Return the object with a number in its `generateName` if another object has the same namespace and name.

    :param taken: the namespaces and names in use.
    """
    number, found = 2, manifest
    while key_of(found)[2:] in taken and "generateName" in manifest["metadata"]:
        stem = manifest["metadata"]["generateName"]
        found = {**manifest, "metadata": {**manifest["metadata"], "generateName": f"{stem}{number}-"}}
        number += 1
    return found


def unforeseen(sources: Sources, mentioned: Container[ObjectRef]) -> Iterator[Advice]:
    """Yield advice on workloads whose pods name gangs but cannot be planned before they exist.

    A dry run therefore has no plan for them. Examples: a CronJob, and a JobSet that creates its Jobs in order.

    :param mentioned: objects that have a fault or advice already; they get no further advice.
    """
    left = ceded_to_others(sources)
    for manifest in (each for at in (*WORKLOADS, *user_defined_rows(sources)) for each in sources.of_kind(*at)):
        ref = ref_of(manifest)
        if ref in mentioned or pod_templates.controlled(manifest):
            continue
        with suppress(MalformedError):
            in_order = bool(start_order.later_roles(manifest))
            if not (in_order or ref.kind in _NOT_HERE) or _marked(manifest):
                continue
            if as_made(manifest, sources) is not manifest:
                continue
            pods = zip(pod_templates.templates(manifest), pods_to_come.example_pods(manifest), strict=True)
            claims = ((template, dialect_of(pod, left)) for template, pod in pods)
            template, claim = next((each for each in claims if each[1] is not None), (None, None))
            if template is not None and claim is not None:
                text = f"names gang {claim[1]}, and pods of {ref.kind}s are not planned before they exist: each "
                text += "is held back when it is made, until as many exist as must start together"
                text += _IN_ORDER.format(ref.kind) if in_order else ""
                yield Advice(ref, template.metadata_at, text)


def missing_pods(
    manifest: Manifest, existing: Sequence[Pod], left: CededToOthers, *, placeholders: bool
) -> tuple[Pod, ...]:
    """Return the expected pods of a workload that name a gang that is not ceded. Raises `MalformedError`.

    A workload may create some pods only after others run. These later pods are included only if capacity is reserved
    for them, which is so for workloads that ask for a gang by Phalanx's own annotations. Otherwise the first pods wait
    for the later ones and never run. For a kind of which a dialect cannot count the pods, the result is empty, because
    admission refuses such a workload.

    :param existing: existing pods, possibly of other owners too.
    :param placeholders: whether the controller reserves capacity for expected pods.
    """
    marked, planned_alone = _marked(manifest), has_rules(manifest)
    if not marked and not planned_alone and (ref_of(manifest).kind in _NOT_HERE or pod_templates.controlled(manifest)):
        return ()
    claims = [dialect_of(pod, left) for pod in pods_to_come.example_pods(manifest)]
    if not any(claims):
        return ()
    workload = metadata_of(manifest).name
    unread = pod_templates.made_by(manifest) is Made.UNREAD and not marked
    if unread and any(claim and claim[0].name in _BY_KINDS and claim[1].name == workload for claim in claims):
        return ()
    made = pods_to_come.missing_by_role(manifest, existing)
    held = marked and placeholders and held_room.wanted(manifest)
    pods = (pod for _, pod in made) if held else held_room.first_made(manifest, made)
    if all(claims):  # fast path: a Job may have 20,000 pods, which all name the same gang
        return tuple(pods)
    return tuple(pod for pod in pods if dialect_of(pod, left) is not None)


def _existing(manifest: Manifest, sources: Sources) -> Sequence[Pod]:
    """Return existing pods, among which are all pods of the workload.

    For a Job, these are only the Job's own pods, which are indexed. For other kinds, they are all pods.
    """
    return sources.pods_of(job_of(manifest)) if has_rules(manifest) else sources.pods


def _marked(manifest: Manifest) -> bool:
    """Whether a pod template of the workload has the label `phalanx.dev/workload`.

    Admission writes it if the workload itself asks to be a gang.
    """
    return any(WORKLOAD in each.labels for each in pod_templates.templates(manifest))
