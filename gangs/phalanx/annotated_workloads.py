"""Workloads that ask to be gangs by annotations of Phalanx, or that are gangs because of their automatic namespace.

Admission adds the label `phalanx.dev/workload` to every pod template of such a workload. A pod with this label is a
member of its workload's gang. Each pod template (Master, Worker) is a pod set of its own.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from gangs.findings import Findings
from gangs.labelled_workloads import makers, members
from gangs.labelled_workloads.members import LabelledWorkload
from gangs.manifests import integer, metadata_of, ref_of
from gangs.membership import Seat, check_priorities, given_rank, seated
from gangs.model import Gang, Manifest, ObjectRef, PlacementRequest
from gangs.phalanx import NAME, gang_annotations, gang_objects
from gangs.phalanx.gang_annotations import KNOWN, WISHES
from gangs.sources import Sources
from gangs.topology.levels import settle
from gangs.workloads import minimum_pods, pod_templates
from gangs.workloads.annotations import (
    advise_late,
    annotation,
    check_number,
    check_single_gang,
    largest_minimum,
    other_workload,
    refuse_kind,
)
from gangs.workloads.child_workloads import has_child
from gangs.workloads.kind_table import Made, has_rules, mark_of, row_of
from gangs.workloads.pod_templates import Template
from kube import keys
from kube.objects import Pod
from kube.text import with_article
from kube.topology import HOSTNAME_LABEL, Topology

MOST_SETS = 64
"""The most pod sets of a gang. The CRD of Gang allows no more, so a gang with more could not be shown by a mirror."""


def template_labels(manifest: Manifest, sources: Sources, *, claimed: bool) -> Mapping[str, str]:
    """Return the label that admission adds to all pod templates of a workload that is a gang; else empty.

    Raises `MalformedError` if a template's metadata are malformed, so that no label can be added.

    :param claimed: whether the pods of the templates name a gang already, in any dialect. An automatic namespace then
        does not make the workload a gang.
    """
    if not pod_templates.gang_by_annotation(manifest):
        return {}
    asks = gang_annotations.opted_in(metadata_of(manifest).annotations)
    if not asks and (claimed or not _is_automatic_gang(manifest, sources)):
        return {}
    pod_templates.check_templates(manifest)
    return {keys.WORKLOAD: mark_of(manifest)}


def _is_automatic_gang(manifest: Manifest, sources: Sources) -> bool:
    """Whether the workload is a gang because of its automatic namespace.

    It is if its kind allows it, it has more than one pod, and it does not opt out by the annotation `phalanx.dev/gang`.
    """
    row, opted_out = row_of(manifest), metadata_of(manifest).annotations.get(keys.GANG) == "false"
    if row is None or not row.automatic or opted_out or not gang_annotations.automatic(manifest, sources):
        return False
    return sum(template.count for template in pod_templates.templates(manifest)) > 1


def read_parts(
    pods: Sequence[Pod], manifest: Manifest, sources: Sources, topologies: Sequence[Topology], findings: Findings
) -> list[Gang]:
    """Return the gangs of a workload: one gang, or, if each part is a gang, one for each part that has a pod.

    Faults are reported in `findings`. Raises `MalformedError`.

    :param pods: pods that belong to a workload of this kind and name, by their label `phalanx.dev/workload` and their
        controller.
    """
    row = row_of(manifest)
    if row is None or not row.part_by:
        found = [_read(manifest, sources, topologies, findings, pods=pods)]
        return [each for each in found if each is not None]
    _read(manifest, sources, topologies, findings)  # faults are reported even without pods
    parts = members.by_part(pods, makers.part_of)
    gangs = (_read(manifest, sources, topologies, findings, pods=own, part=each) for each, own in parts.items())
    return [each for each in gangs if each is not None]


def _read(
    manifest: Manifest,
    sources: Sources,
    topologies: Sequence[Topology],
    findings: Findings,
    *,
    pods: Sequence[Pod] = (),
    part: str = "",
) -> Gang | None:
    """Return the gang that a workload, or a part of it, is; None if it is none, has ended, or has faults."""
    ref, metadata, row = ref_of(manifest), metadata_of(manifest), row_of(manifest)
    annotations, gated = metadata.annotations, members.gated_by(manifest, mark_of(manifest))
    if not gated:
        _advise_ungated(manifest, annotations, pod_templates.of_a_part(manifest), findings)
        return None
    marked = LabelledWorkload(manifest, part, gated, makers.pods_of(manifest, pods, sources))
    if marked.over:
        return None
    own = Findings()
    for each in gated:
        _advise_on_template(
            ref, each, [key for key in WISHES if annotations.get(key) != each.annotations.get(key)], own
        )
    gang_annotations.check(ref, annotations, own)
    gang_annotations.check_rival(ref, sources, own, marked.key(NAME).name)
    _check_templates(ref, gated, own)
    minimum = _minimum(manifest, gated, annotations, own)
    by_namespace = row is not None and row.automatic and not gang_annotations.opted_in(annotations)
    chosen = _recorded(manifest, sources) if by_namespace else None
    settled = settle(gang_annotations.request_of(ref, annotations, marked.examples(), chosen), topologies, own)
    if by_namespace and settled.topology is not None:
        chosen = settled.topology.name or None
    check_priorities(marked.live, ref, own)
    marked.check_sets(own)
    rank = row.rank if row is not None else ""
    seats = marked.seats(lambda pod, role: Seat(pod, role, given_rank(pod, _rank_places(pod, rank), own)))
    in_order = seated(seats, marked.roles, own)
    findings.take(own.faults, own.advice)
    if own.faults:
        return None
    request = PlacementRequest(
        topology=annotations.get(keys.TOPOLOGY, chosen),
        required=annotations.get(keys.REQUIRED),
        preferred=HOSTNAME_LABEL if by_namespace else annotations.get(keys.PREFERRED),
    )
    return marked.assembled(marked.key(NAME), marked.workload(in_order, minimum), request, settled.waiting_for)


def _recorded(manifest: Manifest, sources: Sources) -> str | None:
    """Return the name of the topology in which an automatic gang was first placed, from its Gang object; None for a
    gang that was never placed.

    The gang keeps this topology even if other topologies are created later.
    """
    ref = ref_of(manifest)
    mirrored = f"{NAME}/{ref.namespace}/{ref.name}"
    for name in (ref.name, f"{ref.kind.lower()}-{ref.name}"):
        shown = sources.get(keys.GROUP, gang_objects.KIND, ref.namespace, name) or {}
        annotations = (shown.get("metadata") or {}).get("annotations") or {}
        if annotations.get(keys.MIRRORS) == mirrored:
            return (shown.get("status") or {}).get("topology")
    return None


def _rank_places(pod: Pod, rank: str) -> tuple[tuple[str, Mapping[str, str], str], ...]:
    """Return the keys that may state a pod's rank (as `membership.given_rank` expects them): Phalanx's own keys or, if
    the pod has none of them, the key of the workload's kind.

    :param rank: the key of the kind (`KindRow.rank`); "" for none.
    """
    own, meta = gang_objects.rank_places(pod), pod.metadata
    if not rank or any(name in there for _, there, name in own):
        return own
    return ("metadata.labels", meta.labels, rank), ("metadata.annotations", meta.annotations, rank)


def _minimum(manifest: Manifest, gated: Sequence[Template], annotations: Mapping[str, str], findings: Findings) -> int:
    """Return the number of pods that must start together.

    It is the value of the annotation `phalanx.dev/min-member`, else the minimum in the fields of the workload's kind,
    else the number of all pods.
    """
    ref, total = ref_of(manifest), sum(each.count for each in gated)
    written = annotations.get(keys.MIN_MEMBER)
    if written is None:
        return minimum_pods.of_kind(manifest, gated, findings)
    check_number(ref, annotation(keys.MIN_MEMBER), written, largest_minimum(manifest, total), findings)
    return integer(written) or total


def _check_templates(ref: ObjectRef, templates: Sequence[Template], findings: Findings) -> None:
    """Report pod templates that name a Gang object or that have equal names, and more than `MOST_SETS` templates."""
    if len(templates) > MOST_SETS:
        problem = f"has {len(templates)} pod templates, and a gang has at most {MOST_SETS} pod sets"
        findings.fault(ref, "spec", problem, "make several workloads of it")
    roles = Counter(each.role for each in templates)
    for each in templates:
        if roles.pop(each.role, 1) > 1:
            problem = f"{each.role} is the name of several pod templates, and each is a pod set"
            findings.fault(ref, each.path, problem, "give each a name of its own")
    for each in templates:
        check_single_gang(ref, each, findings)


def _advise_ungated(
    manifest: Manifest, annotations: Mapping[str, str], templates: Sequence[Template], findings: Findings
) -> None:
    """Report why a workload whose pod templates lack the gang's label is no gang although its annotations ask for one.

    Reasons: the annotations came after its creation, it has no pod template, or the annotations are in a wrong place.
    """
    ref, row = ref_of(manifest), row_of(manifest)
    if not pod_templates.gang_by_annotation(manifest):
        return
    if not templates and row is not None and row.user_defined_by and gang_annotations.opted_in(annotations):
        problem = f"has no pod template at {' or '.join(row.templates)}"
        remedy = f"write one, or have the paths of WorkloadKind {row.user_defined_by} corrected"
        findings.fault(ref, "spec", problem, remedy)
        return
    if gang_annotations.opted_in(annotations):
        if templates:
            advise_late(ref, findings)
        else:
            findings.advise(ref, "metadata.annotations", f"asks for nothing: the {ref.kind} has no pod template")
        return
    gang_annotations.advise_unknown(ref, annotations, findings)
    by_rules = has_rules(manifest)
    if (
        by_rules
        and keys.GANG in metadata_of(manifest).labels
        and not any(keys.GANG in each.labels for each in templates)
    ):
        at = f"metadata.labels[{keys.GANG}]"
        findings.misplaced(ref, at, f"does not reach the pods: write it at spec.template.{at}")
    advise_misplaced(ref, annotations, templates, findings, WISHES if by_rules else KNOWN)


def advise_misplaced(
    ref: ObjectRef,
    annotations: Mapping[str, str],
    templates: Sequence[Template],
    findings: Findings,
    known: Sequence[str] = KNOWN,
) -> None:
    """Report, as advice, annotations on pod templates that have an effect only on the workload itself.

    :param known: the keys to look for.
    """
    for each in templates if annotations.get(keys.GANG) != "false" else ():
        if not each.labels.get(keys.GANG):
            _advise_on_template(ref, each, known, findings)


def _advise_on_template(ref: ObjectRef, template: Template, known: Sequence[str], findings: Findings) -> None:
    for key in known:
        if key in template.annotations:
            at = template.annotation(key)
            findings.misplaced(ref, at, f"asks for nothing there: write it on the {ref.kind} itself")


def check_unsupported(manifest: Manifest, sources: Sources, findings: Findings) -> None:
    """Report a workload that asks for a gang by Phalanx's annotations but whose kind cannot be one.

    A workload without annotations in an automatic namespace only gets advice. A workload that another one created is
    not checked, because its parent is. Raises `MalformedError`.
    """
    annotations = other_workload(manifest, findings)
    if annotations is None or has_child(manifest):
        return
    ref, able = ref_of(manifest), pod_templates.gang_by_annotation(manifest)
    if pod_templates.controlled(manifest) or (able and gang_annotations.opted_in(annotations)):
        return
    if not able and _refused(manifest, annotations, findings):
        return
    if gang_annotations.automatic(manifest, sources):
        text = f"{with_article(ref.kind)} is not made a gang yet: its pods start one by one"
        findings.advise(ref, "kind", f"the namespace is automatic, but {text}")


def _refused(manifest: Manifest, annotations: Mapping[str, str], findings: Findings) -> bool:
    """Report annotations that ask for a gang on a workload whose kind cannot be a gang. Return whether such a fault was
    reported.

    Such annotations on the workload's pod templates only get advice.
    """
    ref, opted_out, templates = (
        ref_of(manifest),
        annotations.get(keys.GANG) == "false",
        pod_templates.templates(manifest),
    )
    remedy = _instead(manifest, templates)
    if not opted_out and refuse_kind(ref, WISHES, annotations, findings, remedy, row=row_of(manifest)):
        return True
    for each in templates:
        for key in WISHES if not opted_out and not each.labels.get(keys.GANG) else ():
            if key in each.annotations:
                findings.misplaced(ref, each.annotation(key), f"asks for nothing there: {remedy}")
    return False


def _instead(manifest: Manifest, templates: Sequence[Template]) -> str:
    """Return the remedy for a user whose workload cannot be a gang by annotations: another way to get a gang."""
    if pod_templates.made_by(manifest) is Made.IN_JOBS and templates:
        return f"write it at {pod_templates.job_metadata(templates[0])}.annotations, so that each Job is a gang"
    if templates and all(each.labels.get(keys.GANG) for each in templates):
        return f"leave it out: its pods are in a Gang by their label {keys.GANG}"
    return f"make a Gang object and label the pod template {keys.GANG}: <its name>"
