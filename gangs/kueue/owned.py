"""Gangs of workloads other than Jobs, such as a StatefulSet or a PyTorchJob.

As in Kueue, the pods of a StatefulSet or of a training job are one gang. Each replica spec of a training job is a pod
set with its own annotations. Pods of a Deployment are placed one by one. For kinds of which the pods cannot be counted,
a queue's name on the pods is a fault.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from gangs import assembling
from gangs.findings import Findings
from gangs.kueue import NAME, keys, marks, units, wishes
from gangs.kueue.members_of_gangs import check_queues, in_a_gang
from gangs.kueue.units import TO_GROUP, Asked, RequestedSet, Surroundings, advise_ignored, gang_of_request, queue_of
from gangs.kueue.wishes import Annotated, Wish
from gangs.labelled_workloads import child_checks, makers, members
from gangs.labelled_workloads.members import LabelledWorkload
from gangs.manifests import group_of, metadata_of, pod_ref, ref_of
from gangs.membership import Seat, check_priorities, live, seated
from gangs.model import Gang, GangKey, Manifest, ObjectRef, TogetherRule
from gangs.sources import Sources
from gangs.workloads import pod_templates
from gangs.workloads.child_workloads import copies_labels_to_child, labels_of_child
from gangs.workloads.jobs import controller_of
from gangs.workloads.kind_table import Made, has_rules, row_of
from gangs.workloads.later_pods import held_room, start_order
from gangs.workloads.pod_templates import MAIN, Template
from gangs.workloads.suspension import suspended_at, suspended_with_parent, to_be_resumed
from kube import keys as own
from kube.objects import Pod
from kube.text import with_article

_PROPAGATED = (keys.QUEUE_NAME,)
"""Keys of the labels that are copied from workloads of some kinds to their child workloads."""
_RIVALS = "names a queue or a level of Kueue, but its pods are a gang by keys of phalanx.dev as well"


def asks(template: Template) -> bool:
    """Whether the pods of a template name a queue or a level, and neither a pod group nor a Gang object."""
    named = template.labels.get(keys.QUEUE_NAME) or wishes.asks(template.annotations)
    return bool(named) and not template.labels.get(keys.POD_GROUP) and not in_a_gang(template)


def queued(manifest: Manifest, queue: str) -> bool:
    """Whether a workload that names a queue on itself is in this queue as a whole, with all its pods.

    The workload's kind must allow this. Unless the workload's queue overrides its templates (`KindRow.queue_wins`), no
    template may name another queue or a pod group. Raises `MalformedError`.
    """
    row = row_of(manifest)
    if row is None or not row.queued or pod_templates.copied(manifest):
        return False
    if row.queue_wins:
        return True
    pod_templates.check_templates(manifest)
    templates = pod_templates.templates(manifest)
    return not any(
        keys.POD_GROUP in each.labels or each.labels.get(keys.QUEUE_NAME, queue) != queue for each in templates
    )


def template_labels(manifest: Manifest, sources: Sources) -> dict[str, str]:
    """Return the labels that admission adds to the pod templates of a workload in a queue; else empty.

    They are the queue's name, and for some kinds the label `phalanx.dev/workload`. Raises `MalformedError`.
    """
    del sources
    metadata = metadata_of(manifest)
    queue = queue_of(metadata.labels, metadata.annotations)
    if not queue or not queued(manifest, queue):
        return {}
    return {keys.QUEUE_NAME: queue, **marks.mark_of(manifest)}


def started(manifest: Manifest) -> bool:
    """Whether a workload or its child is in a queue, so that admission resumes it. Raises `MalformedError`.

    The result is False for a kind that cannot be suspended, and if the workload's parent suspends and resumes it.
    """
    if not suspended_at(manifest) or suspended_with_parent(manifest):
        return False
    metadata = metadata_of(manifest)
    queue = queue_of(metadata.labels, metadata.annotations)
    if queue and queued(manifest, queue):
        return True
    return bool(labels_of_child(manifest, _PROPAGATED).get(keys.QUEUE_NAME))


def read_workload(manifest: Manifest, pods: Sequence[Pod], around: Surroundings, findings: Findings) -> list[Gang]:
    """Return the gangs of a workload: one gang, or, if each part is a gang, one for each part that has a pod.

    The result is empty if no pod template asks for a gang (`asks`), or if there are faults. Raises `MalformedError`.

    :param pods: the workload's pods that name no pod group, finished ones included.
    """
    row, by_mark = row_of(manifest), marks.needs_mark(manifest)
    asking = [each for each in pod_templates.of_a_part(manifest) if asks(each) and each.count]
    asking = [each for each in asking if marks.marked(each) is by_mark]
    if not asking:
        return []
    if row is None or not row.part_by:
        found = [_read(LabelledWorkload(manifest, "", asking, pods), around, findings)]
    else:
        _read(LabelledWorkload(manifest, "", asking), around, findings)  # faults are reported even without pods
        parts = members.by_part(pods, partial(makers.part_of, system=NAME))
        found = [
            _read(LabelledWorkload(manifest, part, asking, own_pods), around, findings)
            for part, own_pods in parts.items()
        ]
    return [each for each in found if each is not None]


def _read(marked: LabelledWorkload, around: Surroundings, findings: Findings) -> Gang | None:
    """Return the gang that a workload, or a part of it, is; None if it has ended or has faults."""
    if marked.over:
        return None
    manifest, asking, found = marked.manifest, marked.gated, Findings()
    ref, metadata = ref_of(manifest), metadata_of(manifest)
    several = len(asking) > 1
    sets = [RequestedSet(each.role, each.count, _wish(ref, each, found, several=several)) for each in asking]
    total = sum(each.count for each in sets)
    _check_rivals(ref, asking, found)
    _check_silent(manifest, ref, found)
    if queue_of(metadata.labels, metadata.annotations):
        units.check_named(ref, {**metadata.labels, **metadata.annotations}, found)
        for key in keys.OF_JOBS:
            if key in metadata.annotations:
                found.advise(ref, f"metadata.annotations[{key}]", "is ignored: Kueue has it on Jobs alone")
    check_priorities(marked.live, ref, found)
    in_turn = bool(start_order.later_roles(manifest))  # capacity is then reserved by role
    only = asking[0].role if in_turn else MAIN
    seats = marked.seats() if several or in_turn else [Seat(pod, MAIN) for pod in marked.live]
    asked = Asked(
        key=marked.key(NAME),
        ref=ref,
        members=seated(seats, marked.roles if several else (only,), found),
        expected=total,
        minimum=total,
        queue=_queue(ref, asking, found),
        wish=Wish() if several else sets[0].wish,
        created=metadata.creation_timestamp or "",
        waiting_for=to_be_resumed(manifest, ref),
        sets=tuple(sets) if several else (),
        only_set=only,
        together=_together(ref, asking, sets, found),
        part=marked.part,
    )
    held_room.check(ref, metadata.annotations, found)
    gang = gang_of_request(asked, around, found, findings)
    return None if gang is None else marked.settled(gang)


def _wish(ref: ObjectRef, template: Template, findings: Findings, *, several: bool) -> Wish:
    at = template.metadata_at
    advise_ignored(ref, at, {**template.labels, **template.annotations}, findings)
    of = Annotated(ref, f"{at}.annotations", template.annotations, template.count, several=several)
    return wishes.read_wish(of, findings)


def _queue(ref: ObjectRef, asking: Sequence[Template], findings: Findings) -> str:
    """Return the queue that all templates name; "" if none names one. Different queues are a fault."""
    first = asking[0].labels.get(keys.QUEUE_NAME, "")
    for each in asking[1:]:
        if (other := each.labels.get(keys.QUEUE_NAME, "")) != first:
            problem = f"is {_quoted_value(other)}, but {_quoted_value(first)} at {asking[0].path}"
            remedy = "write the same queue on all pod templates"
            findings.fault(ref, f"{each.metadata_at}.labels[{keys.QUEUE_NAME}]", problem, remedy)
    return first


def _quoted_value(value: str) -> str:
    return f'"{value}"' if value else "missing"


def _together(
    ref: ObjectRef, asking: Sequence[Template], sets: Sequence[RequestedSet], findings: Findings
) -> tuple[TogetherRule, ...]:
    """Return the constraints from the annotation `podset-group-name`.

    Pod sets with the same group name must share one domain of the level that they require.
    """
    groups: dict[str, list[tuple[Template, RequestedSet]]] = {}
    for template, pod_set in zip(asking, sets, strict=True):
        if name := template.annotations.get(keys.SET_GROUP):
            groups.setdefault(name, []).append((template, pod_set))
    rules = []
    for name, grouped in groups.items():
        at = f"{grouped[-1][0].metadata_at}.annotations[{keys.SET_GROUP}]"
        levels = {pod_set.wish.required.level if pod_set.wish.required else "" for _, pod_set in grouped}
        if len(grouped) == 1 and len(sets) > 1:
            findings.fault(ref, at, f'no other pod template is in group "{name}"', "write it on both, or leave it out")
        elif len(levels) > 1 or "" in levels:
            problem = f"asks for one domain, but the templates of the group require no common level by {keys.REQUIRED}"
            findings.fault(ref, at, problem, "write the same required level on them")
        elif len(grouped) > 1:
            rules.append(TogetherRule(tuple(pod_set.name for _, pod_set in grouped), levels.pop()))
    return tuple(rules)


def _check_rivals(ref: ObjectRef, asking: Sequence[Template], findings: Findings) -> None:
    for each in asking:
        if each.labels.get(own.GANG) or (each.labels.get(own.WORKLOAD) and not marks.marked(each)):
            findings.fault(ref, each.metadata_at, _RIVALS, "keep one of the two ways of asking")


def _check_silent(manifest: Manifest, ref: ObjectRef, findings: Findings) -> None:
    """Report, as advice, pod templates of a gang's workload that name neither queue nor level.

    Their pods are no members of the gang, so they start by themselves.
    """
    for each in pod_templates.templates(manifest):
        elsewhere = each.labels.get(keys.POD_GROUP) or each.labels.get(own.GANG)
        if each.count and not asks(each) and not elsewhere:
            text = f"names neither a queue nor a level: its pods start by themselves, without the gang {ref.name}"
            findings.advise(ref, each.metadata_at, text)


def check(manifest: Manifest, sources: Sources, findings: Findings) -> None:
    """Report keys of Kueue on a workload other than a Job that have no effect or that Phalanx cannot honour.

    A workload that another one created is not checked, because its parent is. Raises `MalformedError`.
    """
    made, ref, metadata = pod_templates.made_by(manifest), ref_of(manifest), metadata_of(manifest)
    if made is None or pod_templates.controlled(manifest):
        return
    ours = metadata.annotations.get(own.GANG) != "false" and any(key in metadata.annotations for key in own.ASKING)
    if ours and labels_of_child(manifest, _PROPAGATED).get(keys.QUEUE_NAME):
        findings.fault(ref, "metadata", _RIVALS, "keep one of the two ways of asking")
        return
    check_queues(manifest, sources, findings)
    templates = pod_templates.templates(manifest)
    if queue_of(metadata.labels, metadata.annotations):
        _check_queue(manifest, made, sources, findings)
    for key in keys.WISHES:
        if key in metadata.annotations and not any(key in each.annotations for each in templates):
            at = " and at ".join(f"{each.metadata_at}.annotations[{key}]" for each in templates)
            by_mark = marks.needs_mark(manifest)
            remedy = f"write it at {at}" if at and (by_mark or made is not Made.UNREAD) else TO_GROUP
            remedy += f", and the queue on the {ref.kind} itself" if by_mark else ""
            findings.fault(ref, f"metadata.annotations[{key}]", "does not reach the pods", remedy)
    first = next(filter(asks, templates), None) if not copies_labels_to_child(manifest) else None
    if first is not None and made is Made.UNREAD and own.WORKLOAD not in first.labels:
        remedy = TO_GROUP
        if marks.needs_mark(manifest):
            # In a pod group, the first pods would wait for later pods, which are created only after the first ones run.
            in_order = bool(start_order.later_roles(manifest))
            remedy = f"write the queue on the {ref.kind} itself{'' if in_order else f', or {TO_GROUP}'}"
        findings.fault(ref, _first(first), f"pods of {ref.kind}s are not read as one group yet", remedy)
    elif first is not None and made is Made.ALONE and marks.marked_otherwise(first):
        findings.fault(ref, first.metadata_at, _RIVALS, "keep one of the two ways of asking")
    elif first is not None and made is Made.ALONE:
        findings.advise(ref, _first(first), alone(ref.kind, first.annotations))


def _check_queue(manifest: Manifest, made: Made, sources: Sources, findings: Findings) -> None:
    """Report a queue's name on a workload itself if the workload's pods do not get the name.

    The pods are then not in the queue, because pods are in a queue only by a label on their pod template. Admission
    copies the workload's label to the pod template for some kinds only.
    """
    ref, labels, annotations = ref_of(manifest), metadata_of(manifest).labels, metadata_of(manifest).annotations
    queue, templates, row = queue_of(labels, annotations), pod_templates.templates(manifest), row_of(manifest)
    if marks.needs_mark(manifest) and (not marks.mark_of(manifest) or any(map(marks.marked_otherwise, templates))):
        findings.fault(ref, "metadata", _RIVALS, "keep one of the two ways of asking")
        return
    if templates and all(each.labels.get(keys.QUEUE_NAME) == queue for each in templates):
        return
    if copies_labels_to_child(manifest):
        return
    place = "labels" if keys.QUEUE_NAME in labels else "annotations"
    at = f"metadata.{place}[{keys.QUEUE_NAME}]"
    if row is not None and row.child is not None and row.child.takes_queue:
        if place == "annotations":
            findings.fault(ref, at, f"does not reach what is made of the {ref.kind}", "write it as a label")
        else:
            reader = child_checks.Reader(template_labels, _check_child)
            child_checks.check(manifest, (), sources, reader, findings, labels=_PROPAGATED)
    elif row is not None and row.queued:
        own_findings = Findings()
        _check_queued(ref, at, queue, templates, own_findings)
        findings.take(own_findings.faults, own_findings.advice)
    elif made is Made.IN_JOBS:
        there = f"{pod_templates.job_metadata(templates[0])}.labels"
        if keys.QUEUE_NAME not in pod_templates.texts_at(manifest, there):
            findings.advise(ref, at, f"does not reach the Jobs: write it at {there}[{keys.QUEUE_NAME}]")
    elif made is Made.UNREAD:
        findings.fault(ref, at, f"{with_article(ref.kind)} cannot be queued as a whole", f"leave it out and {TO_GROUP}")
    else:
        where = "its pod template" if len(templates) == 1 else "all its pod templates"
        then = "its pods are one gang then" if made is Made.TOGETHER else "each pod is then queued alone, as Kueue does"
        problem = f"{with_article(ref.kind)} cannot be queued as a whole"
        findings.fault(ref, at, problem, f"write the label on {where} instead ({then})")


def _check_child(manifest: Manifest, sources: Sources, findings: Findings) -> None:
    """Report faults that a child workload other than a Job would have because of the queue's name.

    A Job is checked when it is read.
    """
    if not has_rules(manifest):
        check(manifest, sources, findings)


def _check_queued(ref: ObjectRef, at: str, queue: str, templates: Sequence[Template], findings: Findings) -> None:
    """Report why admission has not copied the queue's name on a workload to its pod templates.

    A template names another queue or a pod group, or the workload was created without the queue's name or without
    Phalanx.

    :param at: the path of the queue's name on the workload.
    """
    for each in templates:
        there = f"{each.metadata_at}.labels"
        if keys.POD_GROUP in each.labels:
            problem = f"names a group of plain pods, but the {ref.kind} is in a queue as a whole"
            findings.fault(ref, f"{there}[{keys.POD_GROUP}]", problem, "leave it out")
        elif (other := each.labels.get(keys.QUEUE_NAME, queue)) != queue:
            problem = f'"{other}" differs from "{queue}" of the {ref.kind}'
            findings.fault(ref, f"{there}[{keys.QUEUE_NAME}]", problem, "leave it out")
    if not findings.faults:
        text = "was made before it was set or without Phalanx; delete it and create it again"
        findings.advise(ref, at, f"came too late: the {ref.kind} {text}")


def _first(template: Template) -> str:
    """Return the path of the key by which a pod template asks for a gang, for messages.

    An annotation about levels comes before the queue's name.
    """
    key = next((key for key in keys.WISHES if key in template.annotations), None)
    if key is None:
        return f"{template.metadata_at}.labels[{keys.QUEUE_NAME}]"
    return f"{template.metadata_at}.annotations[{key}]"


def alone(kind: str, annotations: Mapping[str, str]) -> str:
    """Return the advice for pods of a kind that Kueue admits one by one, and how to get one gang of them.

    :param annotations: the annotations of the pods.
    """
    level = annotations.get(keys.REQUIRED, "")
    wish = f"required: {level} and " if level else ""
    held = "holds for each pod alone, not for all together" if wishes.asks(annotations) else "queues each pod alone"
    return (
        f"{held}: as in Kueue the pods of {with_article(kind)} are admitted one by one; for one gang make a Gang "
        f"with {wish}minMember, and label the pod template {own.GANG}: <its name> instead"
    )


def read_pods(key: GangKey, pods: Sequence[Pod], around: Surroundings, findings: Findings) -> Gang | None:
    """Return the gang of pods with the key `key` that name no pod group, if no workload was read as this gang.

    It is a gang of a single pod, or of pods whose workload does not exist; the latter waits for the workload. Return
    None if the workload exists, because its faults are reported already, and for kinds that cannot be gangs.
    """
    live_pods = live(pods)
    maker = pod_templates.maker_of(live_pods[0]) if live_pods else None
    if live_pods and (workload := marks.workload_of(live_pods[0])) is not None:
        there = around.sources.get(group_of(workload.api_version), workload.kind, key.namespace, workload.name)
        return None if there is not None else _awaiting(key, workload, live_pods, findings)
    if maker is None:
        return units.read_pods(key, live_pods, around, findings)
    if maker.made is Made.ALONE:
        gang = units.read_pods(key, live_pods, around, findings)
        _tell_alone(live_pods[0], findings)
        return gang
    if maker.made is Made.UNREAD:
        for pod in live_pods:
            problem = f"pods of {maker.kind}s ({maker.name}) are not read as one group yet"
            findings.fault(pod_ref(pod), "metadata.ownerReferences", problem, TO_GROUP)
        return None
    if around.sources.get(group_of(maker.api_version), maker.kind, key.namespace, maker.name) is not None:
        return None  # the workload has faults, which are reported already, or it needs no more pods
    return _awaiting(key, ObjectRef(maker.api_version, maker.kind, key.namespace, maker.name), live_pods, findings)


def _awaiting(key: GangKey, ref: ObjectRef, pods: Sequence[Pod], findings: Findings) -> Gang:
    """Return the gang of pods whose workload `ref` does not exist. The gang waits for the workload."""
    return assembling.awaiting(key, ref, units.seated_in_order(pods, ref, findings))


def _tell_alone(pod: Pod, findings: Findings) -> None:
    """Report on a pod, as advice, that the pods of its workload are admitted one by one.

    It cannot be reported on the workload, because the controller does not watch workloads of this kind.
    """
    owner, annotations = controller_of(pod), pod.metadata.annotations
    key = next((key for key in keys.WISHES if key in annotations), None)
    if owner is not None and key is not None and not pod.bound:
        findings.advise(pod_ref(pod), f"metadata.annotations[{key}]", alone(owner.kind, annotations))
