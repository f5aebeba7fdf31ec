"""Workloads of other kinds than Job that ask to be gangs by annotations on themselves.

As with Jobs, every pod template of such a workload gets a label at the workload's admission, and a pod with that label
belongs to the gang of the workload that made it. Each role (a Master, the Workers) is a pod set of its own.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from gangs.findings import Findings
from gangs.manifests import group_of, integer, metadata_of, ref_of
from gangs.membership import Seat, check_priorities, live, promised, seated
from gangs.model import Gang, GangKey, Manifest, Member, ObjectRef, PodSet
from gangs.phalanx import NAME, gang_objects, wishes
from gangs.phalanx.wishes import WISHES
from gangs.resource_kinds import ResourceKind
from gangs.sources import Sources
from gangs.topology.levels import settle
from gangs.workloads import minimum_pods, pod_templates, start_order
from gangs.workloads.annotated_jobs import Most, annotation, check_number, other_workload, refuse_kind
from gangs.workloads.jobs import controller_of
from gangs.workloads.kind_table import BY_ANNOTATION, Made, WorkloadKind
from gangs.workloads.pod_templates import TEMPLATE_HASH, Template
from gangs.workloads.pods_to_come import example_pods
from kube import keys
from kube.objects import Pod
from kube.topology import Topology


def template_labels(manifest: Manifest) -> Mapping[str, str]:
    """The label for all pod templates of a workload that is to be a gang, nothing for any other object.

    Raises `MalformedError` where a template's metadata are such that no label can be put on it.
    """
    if not pod_templates.gang_by_annotation(manifest) or not wishes.opted_in(metadata_of(manifest).annotations):
        return {}
    pod_templates.check_templates(manifest)
    return {keys.WORKLOAD: str(manifest.get("kind"))}


def owner_of(pod: Pod) -> ObjectRef | None:
    """The workload, no Job, whose gang the pod belongs to by its label."""
    kind, owner = pod.metadata.labels.get(keys.WORKLOAD, ""), controller_of(pod)
    group, shape = BY_ANNOTATION.get(kind, ("", None))
    if shape is None or owner is None:
        return None
    namespace = pod.metadata.namespace
    if (group_of(owner.api_version), owner.kind) == (group, kind):
        return ObjectRef(owner.api_version, kind, namespace, owner.name, owner.uid)
    name = _named(pod, owner.name, shape) if owner.kind in shape.makers else ""
    return ObjectRef(f"{group}/{shape.versions[0]}", kind, namespace, name) if name else None


def _named(pod: Pod, owner: str, shape: WorkloadKind) -> str:
    """The workload that had another object make the pod."""
    labels = pod.metadata.labels
    if shape.named_by:
        return labels.get(shape.named_by, "")
    end = f"-{labels.get(TEMPLATE_HASH, '')}"
    return owner.removesuffix(end) if owner.endswith(end) else ""


def part_of(pod: Pod) -> str:
    """Which part of its workload the pod belongs to, where each is a gang; "" where the whole is one.

    A leader that nobody has labelled yet is known by its number.
    """
    _, shape = BY_ANNOTATION.get(pod.metadata.labels.get(keys.WORKLOAD, ""), ("", None))
    if shape is None or not shape.part_by:
        return ""
    labels = pod.metadata.labels
    return labels.get(shape.part_by) or labels.get(pod_templates.POD_INDEX, "")


def workloads(kind: ResourceKind, sources: Sources, about: GangKey | None) -> Iterator[Manifest]:
    """The workloads of a kind; with `about`, those that it is or may be the name of a part of."""
    yield from sources.of_kind(kind.group, kind.kind, about)
    if about is not None and BY_ANNOTATION[kind.kind][1].part_by:
        whole, _, part = about.name.rpartition("-")
        if whole and part.isdecimal():
            yield from sources.of_kind(kind.group, kind.kind, about._replace(name=whole))


def read_parts(
    pods: Sequence[Pod], manifest: Manifest, sources: Sources, topologies: Sequence[Topology], findings: Findings
) -> list[Gang]:
    """The gangs of a workload: one, or one of each part of which a pod is there. Raises `MalformedError`.

    :param pods: those that are marked as pods of a workload of its kind and name.
    """
    shape = pod_templates.shape_of(manifest)
    if shape is None or not shape.part_by:
        found = [_read(manifest, sources, topologies, findings, pods=pods)]
        return [each for each in found if each is not None]
    _read(manifest, sources, topologies, findings)  # what is wrong is told without any pod, too
    parts: dict[str, list[Pod]] = {}
    for pod in pods:
        parts.setdefault(part_of(pod), []).append(pod)
    known = sorted(each for each in parts if each)
    gangs = (_read(manifest, sources, topologies, findings, pods=parts[each], part=each) for each in known)
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
    """The gang of a workload or of a part of it; None where it is no gang or where it is wrong."""
    ref, metadata = ref_of(manifest), metadata_of(manifest)
    annotations, said = metadata.annotations, pod_templates.of_a_part(manifest)
    gated = [each for each in said if each.labels.get(keys.WORKLOAD) == ref.kind]
    if not gated:
        if pod_templates.gang_by_annotation(manifest):
            _advise_ungated(ref, annotations, said, findings)
        return None
    made = [pod for pod in pods if _made_by(pod, ref, sources)]
    mine = live(made)
    if not mine and (not any(each.count for each in gated) or pod_templates.ended(manifest)):
        return None
    own = Findings()
    wishes.check(ref, annotations, own)
    wishes.check_rival(ref, sources, own, named(ref.name, part))
    _check_templates(ref, gated, own)
    minimum = _minimum(manifest, gated, annotations, own)
    settled = settle(wishes.request_of(ref, annotations, _examples(manifest, said, gated), None), topologies, own)
    check_priorities(mine, ref, own)
    seats = _seats(manifest, gated, part, made, own)
    members = seated(seats, tuple(each.role for each in gated), own)
    findings.take(own.faults, own.advice)
    if own.faults:
        return None
    sets = _pod_sets(gated, members, minimum)
    return Gang(
        key=GangKey(NAME, ref.namespace, named(ref.name, part)),
        source=ref,
        members=members,
        pod_sets=sets,
        expected=sum(each.count for each in sets),
        min_member=minimum,
        topology=annotations.get(keys.TOPOLOGY),
        required=annotations.get(keys.REQUIRED),
        preferred=annotations.get(keys.PREFERRED),
        created=metadata.creation_timestamp or "",
        waiting_for=settled.waiting_for + ((f"{ref} to be resumed",) if pod_templates.suspended(manifest) else ()),
        groups=() if part else (ref,),
        part=part,
        exact_nodes=any(member.index is not None for member in members),
    )


def _seats(
    manifest: Manifest, gated: Sequence[Template], part: str, made: Sequence[Pod], findings: Findings
) -> list[Seat]:
    """The seats of the pods that are there, and of those that the workload makes only when these run. `made`: all that
    it has made, those that have ended too.
    """
    role = partial(_role, said=gated)
    running = live(made)
    ended = [pod for pod in made if pod.status.phase == "Succeeded" and not pod.terminating]
    coming = start_order.to_come(manifest, running, ended, role, lambda pod: not part or part_of(pod) == part)
    return [Seat(pod, role(pod), promised(pod, gang_objects.rank_places(pod), findings)) for pod in (*running, *coming)]


def named(workload: str, part: str) -> str:
    """The name of the gang of a workload, or of a part of it."""
    return f"{workload}-{part}" if part else workload


def _role(pod: Pod, said: Sequence[Template]) -> str:
    """The pod set of a pod: leaders that are made of the workers' template are workers."""
    role = pod_templates.role_of(pod)
    return pod_templates.WORKER if role == pod_templates.LEADER and all(each.role != role for each in said) else role


def _made_by(pod: Pod, ref: ObjectRef, sources: Sources) -> bool:
    """Whether a workload, or a Job of it, made the pod, and not one that had its name before."""
    owner = controller_of(pod)
    if owner is None:
        return True
    uid = owner.uid
    if owner.kind != ref.kind:
        maker = sources.get(group_of(owner.api_version), owner.kind, ref.namespace, owner.name)
        uid = pod_templates.maker_uid(maker, ref.kind) if maker is not None else ""
    return not uid or not ref.uid or uid == ref.uid


def _minimum(manifest: Manifest, gated: Sequence[Template], annotations: Mapping[str, str], findings: Findings) -> int:
    """Pods that must start together: as annotated, else as the kind's own fields say, else all."""
    ref, total = ref_of(manifest), sum(each.count for each in gated)
    written = annotations.get(keys.MIN_MEMBER)
    if written is None:
        return minimum_pods.of_kind(manifest, gated, findings)
    most = Most(total, f"that the {ref.kind} runs", "raise the replicas")
    check_number(ref, annotation(keys.MIN_MEMBER), written, most, findings)
    return integer(written) or total


def _check_templates(ref: ObjectRef, said: Sequence[Template], findings: Findings) -> None:
    """One gang to a pod: a template may not name another one."""
    for each in said:
        if named := each.labels.get(keys.GANG):
            problem = f"names Gang {named}, but the {ref.kind} asks to be a gang itself"
            findings.fault(ref, f"{each.path}.metadata.labels[{keys.GANG}]", problem, "remove one of the two")


def _pod_sets(gated: Sequence[Template], members: Sequence[Member], minimum: int) -> tuple[PodSet, ...]:
    """One of each role, as large as its template says, or as the pods that are there are many."""
    existing = Counter(member.pod_set for member in members)
    least = minimum_pods.by_role(gated, minimum)
    return tuple(PodSet(each.role, max(each.count, existing[each.role]), least[each.role]) for each in gated)


def _examples(manifest: Manifest, said: Sequence[Template], gated: Sequence[Template]) -> list[Pod]:
    """One pod of each gated template."""
    return [pod for pod, each in zip(example_pods(manifest), said, strict=True) if each in gated]


def _advise_ungated(
    ref: ObjectRef, annotations: Mapping[str, str], said: Sequence[Template], findings: Findings
) -> None:
    """What is told of a workload whose pods are not gated: it asks for a gang too late, or in a wrong way."""
    if wishes.opted_in(annotations):
        text = f"came too late: the {ref.kind} was made without it or without Phalanx; delete it and create it again"
        findings.advise(ref, "metadata.annotations", text)
        return
    wishes.advise_unknown(ref, annotations, findings)
    _advise_misplaced(ref, annotations, said, findings)


def _advise_misplaced(
    ref: ObjectRef, annotations: Mapping[str, str], said: Sequence[Template], findings: Findings
) -> None:
    for each in said if annotations.get(keys.GANG) != "false" else ():
        for key in WISHES if not each.labels.get(keys.GANG) else ():
            if key in each.annotations:
                at = annotation(key, f"{each.path}.")
                findings.advise(ref, at, f"asks for nothing there: write it on the {ref.kind} itself")


def check_unsupported(manifest: Manifest, sources: Sources, findings: Findings) -> None:
    """Refuse a workload of a kind that cannot opt in yet; in an automatic namespace only say so.

    One that another object has made says what that one says, and is told nothing. Raises `MalformedError`.
    """
    annotations = other_workload(manifest, findings)
    if annotations is None:
        return
    ref, able = ref_of(manifest), pod_templates.gang_by_annotation(manifest)
    if pod_templates.controlled(manifest) or (able and wishes.opted_in(annotations)):
        return
    if not able and _refused(manifest, annotations, findings):
        return
    if wishes.automatic(manifest, sources):
        text = f"the namespace is automatic, but a {ref.kind} is not made a gang yet: its pods start one by one"
        findings.advise(ref, "kind", text)


def _refused(manifest: Manifest, annotations: Mapping[str, str], findings: Findings) -> bool:
    """Refuse annotations on a workload that cannot be made a gang by them; on its templates they are told."""
    ref, opted_out, said = ref_of(manifest), annotations.get(keys.GANG) == "false", pod_templates.templates(manifest)
    remedy = _instead(manifest, said)
    if not opted_out and refuse_kind(ref, WISHES, annotations, findings, remedy):
        return True
    for each in said:
        for key in WISHES if not opted_out and not each.labels.get(keys.GANG) else ():
            if key in each.annotations:
                findings.advise(ref, annotation(key, f"{each.path}."), f"asks for nothing there: {remedy}")
    return False


def _instead(manifest: Manifest, said: Sequence[Template]) -> str:
    """How a workload of a kind that cannot opt in is made a gang."""
    if pod_templates.made_by(manifest) is Made.IN_JOBS and said:
        return f"write it at {pod_templates.job_metadata(said[0])}.annotations, so that each Job is a gang"
    if said and all(each.labels.get(keys.GANG) for each in said):
        return f"leave it out: its pods are in a Gang by their label {keys.GANG}"
    return f"make a Gang object and label the pod template {keys.GANG}: <its name>"
