"""Workloads that have Run:ai's annotations on themselves. The whole workload is one gang.

As in KAI Scheduler, the annotations of the topmost workload apply to the pods of all its templates. Admission adds the
label `phalanx.dev/workload` to the templates, by which the pods name their gang. Each template is a pod set.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from gangs import assembling
from gangs.findings import Findings
from gangs.labelled_workloads import child_checks, makers, members
from gangs.labelled_workloads.members import LabelledWorkload
from gangs.manifests import group_of, integer, metadata_of, ref_of
from gangs.membership import Seat, check_priorities, live, seated
from gangs.model import Gang, GangKey, Manifest, ObjectRef
from gangs.runai import NAME, keys, role_levels, segments, wishes
from gangs.runai.role_levels import RoleLevels
from gangs.runai.segments import Segments
from gangs.runai.wishes import Wishes
from gangs.sources import Sources
from gangs.topology.levels import settle
from gangs.workloads import child_workloads, minimum_pods, pod_templates
from gangs.workloads.annotations import advise_late, annotation, check_number, check_single_gang, largest_minimum
from gangs.workloads.jobs import JOB_GROUP, JOB_KIND
from gangs.workloads.kind_table import has_rules, mark_of, row_of
from gangs.workloads.later_pods import held_room
from gangs.workloads.pod_templates import MAIN, Template
from kube.keys import WORKLOAD
from kube.objects import Pod
from kube.topology import Topology

_NOT_HERE = "has no meaning here: it divides the workers of PyTorchJobs and LeaderWorkerSets, on their pod template"
_INSTEAD = "leave it out, or make a Gang object with slices for these pods"
_NOT_ON_A_JOB = "has no meaning on a Job: it divides PyTorchJobs and LeaderWorkerSets"
_INSTEAD_ON_A_JOB = "remove it, or write a Gang with slices for the Job's pods"


def asks(manifest: Manifest) -> bool:
    """Whether a workload asks by Run:ai's annotations to be one gang. Raises `MalformedError`.

    The result is False for a user-defined kind, and for a Job that belongs to a larger workload, such as a JobSet, if
    this workload is the gang.
    """
    row = row_of(manifest)
    if row is None or row.user_defined_by:  # only Phalanx's own annotations count there (docs/decisions/0026)
        return False
    if has_rules(manifest) and _is_part(manifest):
        return False
    return pod_templates.gang_by_annotation(manifest) and wishes.opted_in(wishes.asked_by(manifest))


def _is_part(manifest: Manifest) -> bool:
    """Whether a workload belongs to another one that is the gang, such as a Job to a JobSet.

    The label `phalanx.dev/workload` of its pod template then has the other workload's kind.
    """
    marks = [each.labels.get(WORKLOAD) for each in pod_templates.templates(manifest)]
    return any(mark is not None and mark.rpartition(".")[2] != manifest.get("kind") for mark in marks)


def template_labels(manifest: Manifest, sources: Sources) -> Mapping[str, str]:
    """Return the label `phalanx.dev/workload` for the pod templates of a workload that is a gang (`asks`); else empty.

    Raises `MalformedError`.
    """
    del sources
    if not asks(manifest):
        return {}
    pod_templates.check_templates(manifest)
    return {WORKLOAD: makers.mark(mark_of(manifest), NAME)}


def gang_of(pod: Pod) -> str | None:
    """Return the gang's name for a pod with the label `phalanx.dev/workload` of Run:ai's dialect; None without it."""
    maker = makers.owner_of(pod, NAME)
    return makers.gang_name(maker.name, makers.part_of(pod, NAME)) if maker is not None else None


def read_parts(
    pods: Sequence[Pod], manifest: Manifest, sources: Sources, topologies: Sequence[Topology], findings: Findings
) -> list[Gang]:
    """Return the gangs of a workload: one gang, or, if each part is a gang, one for each part that has a pod.

    Faults go to `findings`. Raises `MalformedError`.

    :param pods: pods that belong to a workload of this kind and name, by their label `phalanx.dev/workload` and their
        controller.
    """
    ref, row = ref_of(manifest), row_of(manifest)
    gated = members.gated_by(manifest, makers.mark(mark_of(manifest), NAME))
    if not gated:
        _advise_late(manifest, ref, findings)
        return []
    own = makers.pods_of(manifest, pods, sources)
    read = partial(_read, topologies=topologies, findings=findings)
    if row is None or not row.part_by:
        found = [read(LabelledWorkload(manifest, "", gated, own))]
    else:
        read(LabelledWorkload(manifest, "", gated))  # faults are reported even without pods
        parts = members.by_part(own, partial(makers.part_of, system=NAME))
        found = [read(LabelledWorkload(manifest, part, gated, of_it)) for part, of_it in parts.items()]
    return [each for each in found if each is not None]


def _advise_late(manifest: Manifest, ref: ObjectRef, findings: Findings) -> None:
    """Report, as advice, a workload that got Run:ai's annotations only after its creation, so that it is no gang.

    If its pod templates have the same annotations, its pods ask for themselves, and nothing is reported.
    """
    if not asks(manifest) or not wishes.check_rivals(ref, metadata_of(manifest).annotations, findings):
        return
    if has_rules(manifest) or not wishes.propagated_to_templates(manifest):
        advise_late(ref, findings)


def _read(marked: LabelledWorkload, *, topologies: Sequence[Topology], findings: Findings) -> Gang | None:
    """Return the gang that a workload, or a part of it, is; None if it has ended or has faults."""
    if marked.over:
        return None
    own, ref, asked = Findings(), ref_of(marked.manifest), wishes.asked_by(marked.manifest)
    marked = role_levels.with_minimums(marked, ref, own)
    _check(marked, ref, asked, own)
    minimum, pool, divided = _minimum(marked, ref, asked, own), _pool(marked, ref, own), _segments(marked, ref, own)
    of_roles = role_levels.role_levels(marked, asked, ref, own)
    asked_of: Mapping[str, Segments | RoleLevels] = {**divided, **of_roles}
    said = [asked, *(each.beside(asked) for each in of_roles.values())]
    request = wishes.request_of(ref, asked, wishes.in_pool(marked.examples()[0], pool))
    levels = (*request.levels, *(level for each in asked_of.values() for level in each.levels))
    spans = tuple(map(wishes.span_of, said))
    settled = settle(replace(request, levels=levels, spans=spans, pods=_in_pool(marked, pool)), topologies, own)
    if settled.topology is not None:
        for each in said:
            wishes.check_order(ref, each, settled.topology, own)
    check_priorities(marked.live, ref, own)
    marked.check_sets(own)
    in_order = seated(marked.seats(), marked.roles, own)
    findings.take(own.faults, own.advice)
    if own.faults:
        return None
    workload = marked.workload(in_order, minimum)
    sets = tuple(asked_of[each.name].of(each) if each.name in asked_of else each for each in workload.pod_sets)
    workload = replace(workload, pod_sets=sets, exact_nodes=None if pool is None else True)
    return marked.assembled(marked.key(NAME), workload, wishes.placement(asked, settled, pool), settled.waiting_for)


def _segments(marked: LabelledWorkload, ref: ObjectRef, findings: Findings) -> Mapping[str, Segments]:
    """Return, by role (name of the pod set), the segments that the annotations of its pod template ask for."""
    divisible = [each for each in marked.gated if segments.divides(marked.manifest, each)]
    found = ((each.role, segments.segments_of(marked, each, ref, findings)) for each in divisible)
    return {role: each for role, each in found if each is not None}


def awaiting(key: GangKey, pods: Sequence[Pod], findings: Findings) -> Gang | None:
    """Return the gang of pods whose workload does not exist. The gang waits for the workload.

    Return None if no pod is live, and for pods of a Job.
    """
    own_pods = live(pods)
    ref = makers.owner_of(own_pods[0], NAME) if own_pods else None
    if ref is None or (group_of(ref.api_version), ref.kind) == (JOB_GROUP, JOB_KIND):
        return None
    members_there = seated([Seat(pod, MAIN) for pod in own_pods], (MAIN,), findings)
    return assembling.awaiting(key, replace(ref, uid=""), members_there, makers.part_of(own_pods[0], NAME))


def _check(marked: LabelledWorkload, ref: ObjectRef, asked: Wishes, findings: Findings) -> None:
    """Report contradictory annotations and keys without effect on a workload and its pod templates.

    Nothing in this check depends on the topology.

    :param asked: Run:ai's annotations of the workload.
    """
    metadata, by_rules = metadata_of(marked.manifest), has_rules(marked.manifest)
    if not by_rules:
        held_room.check(ref, metadata.annotations, findings)
    role_levels.check(marked, ref, findings)
    for each in marked.gated:
        at = f"{each.path}."
        for_all = role_levels.said_for_all(marked.manifest, each)
        wishes.check_alike(ref, metadata.annotations, for_all, at, findings)
        if not by_rules:
            _check_template(marked.manifest, each, ref, findings)
        check_single_gang(ref, each, findings)
        wishes.advise_labels(ref, at, each.labels, findings)
    wishes.check_rivals(ref, metadata.annotations, findings)
    not_here, instead = (_NOT_ON_A_JOB, _INSTEAD_ON_A_JOB) if by_rules else (_NOT_HERE, _INSTEAD)
    wishes.check_keys(ref, asked, not_here, instead, findings)
    wishes.advise_labels(ref, "", metadata.labels, findings)


def _check_template(manifest: Manifest, template: Template, ref: ObjectRef, findings: Findings) -> None:
    """Report annotations of a pod template that have no effect there, or that name a PodGroup."""
    not_here = "" if segments.divides(manifest, template) else _NOT_HERE
    wishes.check_keys(ref, wishes.of_template(template), not_here, _INSTEAD, findings)
    for key in keys.GROUPED:
        if template.annotations.get(key):
            problem = f"names a PodGroup, but the {ref.kind} asks to be a gang itself"
            findings.fault(ref, annotation(key, f"{template.path}."), problem, "remove one of the two")


def _minimum(marked: LabelledWorkload, ref: ObjectRef, asked: Wishes, findings: Findings) -> int:
    """Return the number of pods that must start together.

    It is the value of the annotation `batch-min-member`, else the minimum in the fields of the workload's kind, else
    the number of all pods.
    """
    written, of_jobs = asked.get(keys.MIN_MEMBER), role_levels.least_of_jobs(marked)
    if written is None:
        return minimum_pods.of_kind(marked.manifest, marked.gated, findings)
    total = sum(each.count for each in marked.gated)
    most = largest_minimum(marked.manifest, total)
    if marked.part or total != _all(marked):
        most = replace(most, which="of each of its groups")
    check_number(ref, written.field, written.value, most, findings)
    if of_jobs and (integer(written.value) or total) < of_jobs:
        problem = f"{written.value} is less than the {of_jobs} pods that its Jobs need, each by itself"
        findings.fault(ref, written.field, problem, f"leave it out, or raise it to {of_jobs}")
    return integer(written.value) or total


def _all(marked: LabelledWorkload) -> int:
    return sum(each.count for each in pod_templates.templates(marked.manifest))


def _pool(marked: LabelledWorkload, ref: ObjectRef, findings: Findings) -> str | None:
    """Return the node pool in the label `kai.scheduler/node-pool` of the workload, else in the labels of its pod
    templates; None if none has it.

    Templates with different node pools are reported.
    """
    labels = metadata_of(marked.manifest).labels
    first = labels.get(keys.NODE_POOL) or _of(marked.gated[0])
    for each in marked.gated if keys.NODE_POOL not in labels else ():
        if _of(each) != first:
            problem = f"is {_of(each) or 'missing'}, but {first or 'missing'} at {marked.gated[0].path}"
            at = f"{each.metadata_at}.labels[{keys.NODE_POOL}]"
            findings.fault(ref, at, problem, f"label the {ref.kind} itself: a gang is in one node pool")
    return first


def _of(template: Template) -> str | None:
    return template.labels.get(keys.NODE_POOL)


def _in_pool(marked: LabelledWorkload, pool: str | None) -> tuple[Pod, ...]:
    return tuple(wishes.in_pool(each, pool) for each in marked.examples())


def check_propagation(manifest: Manifest, sources: Sources, topologies: Sequence[Topology], findings: Findings) -> bool:
    """Report faults of the annotations that are copied from a workload to its child workload, which is the gang.

    Return whether the workload has a child and asks for a gang. Raises `MalformedError`.
    """
    if not child_workloads.has_child(manifest) or not wishes.opted_in(wishes.of(metadata_of(manifest).annotations)):
        return False

    def read(child: Manifest, without_pods: Sources, found: Findings) -> None:
        read_parts((), child, without_pods, topologies, found)

    child_checks.check(manifest, keys.PROPAGATED, sources, child_checks.Reader(template_labels, read), findings)
    return True
