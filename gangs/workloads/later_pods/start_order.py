"""Workloads that make their later pods only when earlier ones run: which pods they will still make.

A gang of theirs is complete as soon as the pods are there that it makes at once; the others are read from the workload,
and room is held for them until it makes them (docs/decisions/0022).
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from gangs.manifests import metadata_of, ref_of
from gangs.model import Manifest
from gangs.workloads import pod_templates
from gangs.workloads.kind_table import WorkloadKind, shape_of
from gangs.workloads.later_pods.pods_to_come import check_number, missing_pods
from gangs.workloads.pod_counts import LAUNCHER, beside
from gangs.workloads.pod_templates import MAIN, WORKER
from gangs.workloads.start_orders import MadeLater, StartOrder
from kube.keys import GATE
from kube.objects import Pod, PodSpec, SchedulingGate
from kube.placeholders import matched, seat_uid

MOST_TO_COME = 2_048
"""Pods of one gang that room is held for before they exist: nobody else has to make them for a gang to cost so much."""

_MOST_ROLES = 1_024
"""Roles of workloads whose specs are remembered."""


def later_roles(manifest: Manifest) -> frozenset[str]:
    """The roles of which the workload makes pods only when others run, are ready or have ended."""
    if (shape := shape_of(manifest)) is not None and shape.fields:
        return frozenset(_later_by_fields(manifest, shape))
    return frozenset(role for _, roles in orders_of(manifest) for role in roles)


def _later_by_fields(manifest: Manifest, shape: WorkloadKind) -> Iterator[str]:
    fields = {each.template: each for each in shape.fields}
    for each in pod_templates.templates(manifest):
        own = fields[each.pattern]
        if own.later or (own.later_if and beside(manifest, own.later_if, each.way)[1]):
            yield each.role


def orders_of(manifest: Manifest) -> Iterator[tuple[StartOrder, Sequence[str]]]:
    """The ways in which a workload of a kind with rules of its own makes pods later, and the roles of these."""
    shape = shape_of(manifest)
    for each in shape.start_orders if shape is not None else ():
        if roles := _roles(manifest, each):
            yield each, roles


def _roles(manifest: Manifest, order: StartOrder) -> Sequence[str]:
    match order.later:
        case MadeLater.ITS_JOBS:
            field = order.at.rpartition(".")[2]
            return [name for name, each in _names(manifest) if each.get(field)]
        case MadeLater.REST_OF_JOBS:
            own = order.at in metadata_of(manifest).annotations
            return [name for name, each in _names(manifest) if own or _on_jobs(each, order.at)]
    if not _said(manifest, order):
        return ()
    others = [name for name, _ in _names(manifest)[1:]]
    roles: Mapping[MadeLater, Sequence[str]] = {
        MadeLater.REST: (MAIN,),
        MadeLater.LAUNCHER: (LAUNCHER,),
        MadeLater.WORKERS: (WORKER,),
        MadeLater.OTHER_JOBS: others,
    }
    return roles[order.later]


def _said(manifest: Manifest, order: StartOrder) -> bool:
    if order.annotation:
        return order.at in metadata_of(manifest).annotations
    there = pod_templates.at_path(manifest, order.at)
    return bool(there != order.unless if order.unless else there == order.says)


def after_others(manifest: Manifest) -> frozenset[str]:
    """The roles of a JobSet that wait for other roles of it, not for the first of their own pods alone."""
    after = (MadeLater.OTHER_JOBS, MadeLater.ITS_JOBS)
    return frozenset(role for order, roles in orders_of(manifest) for role in roles if order.later in after)


def _names(manifest: Manifest) -> list[tuple[str, Mapping[str, Any]]]:
    """The replicated jobs of a JobSet, by the names of their roles."""
    written = pod_templates.at_path(manifest, "spec.replicatedJobs")
    entries = [each for each in written if isinstance(each, Mapping)] if isinstance(written, list) else []
    return [(str(each.get("name") or position), each) for position, each in enumerate(entries)]


def _on_jobs(replicated_job: Mapping[str, Any], annotation: str) -> bool:
    """Whether an annotation stands at the template of the Jobs of a replicated job."""
    own = pod_templates.at_path(replicated_job, "template.metadata.annotations")
    return isinstance(own, Mapping) and annotation in own


def exclusive_at(manifest: Manifest) -> str | None:
    """The annotation by which the operator has each of its Jobs or groups alone in a domain; None where none does."""
    key = next((order.at for order, _ in orders_of(manifest) if order.annotation), None)
    if key is None or key in metadata_of(manifest).annotations:
        return key and f"metadata.annotations[{key}]"
    position = next(at for at, (_, each) in enumerate(_names(manifest)) if _on_jobs(each, key))
    return f"spec.replicatedJobs[{position}].template.metadata.annotations[{key}]"


def check_order(manifest: Manifest, part: str = "", there: int = 0) -> None:
    """Raises `MalformedError` for a gang with more pods to come than room is held for.

    :param part: the group of the workload that the gang is, "" for the whole or for what each of its groups would be.
    :param there: how many of its pods there are.
    """
    later, shape = later_roles(manifest), shape_of(manifest)
    declared = [each for each in pod_templates.templates(manifest) if each.role in later]
    if declared:
        group = part or ("0" if shape is not None and shape.part_by else "")
        check_number(ref_of(manifest), declared, group, MOST_TO_COME + there)


def to_come(
    manifest: Manifest,
    there: Sequence[Pod],
    ended: Sequence[Pod],
    role: Callable[[Pod], str],
    part: str,
) -> tuple[Pod, ...]:
    """The pods of a gang that such a workload will still make, each with the gate and its seat as uid.

    None before its first pod is there, or was: what has been defaulted on that (priority, requests) holds for all of a
    role.
    `there`: the gang's pods that live; `ended`: those that have ended well and are not made again; `role`: their pod
    sets; `part`: the group of the workload that the gang is, "" for the whole. Raises `MalformedError`.
    """
    later, known, shape = later_roles(manifest), (*there, *ended), shape_of(manifest)
    by_the_first = shape is not None and any(each.later for each in shape.fields)  # a driver that has ended makes none
    if not later or not (there if by_the_first else known):
        return ()
    declared = [each for each in _declared(manifest, role, part) if each[0] in later]
    arrived = [(role(pod), pod.metadata.name) for pod in known]
    came = set(matched([each[:2] for each in declared], arrived).values())
    siblings: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in there:
        siblings[role(pod)].append(pod)
    uid, specs, found = metadata_of(manifest).uid, dict[tuple[int, str], PodSpec](), list[Pod]()
    for of, name, pod in declared:
        if name not in came:
            template = id(pod.spec), of  # those of one template have one spec, and it is worked out once
            if template not in specs:
                specs[template] = _as_before(uid, of, spec_to_come(pod.spec, known[0], siblings[of]))
            meta = replace(pod.metadata, uid=seat_uid(uid, of, name))
            found.append(replace(pod, metadata=meta, spec=specs[template]))
    return tuple(found)


def _declared(manifest: Manifest, role: Callable[[Pod], str], part: str) -> Iterator[tuple[str, str, Pod]]:
    """Pod set, name and pod of all that the workload makes. Those of one template have one spec, and one role."""
    roles = dict[int, str]()
    for pod in missing_pods(manifest, (), part):
        of = id(pod.spec)
        if of not in roles:
            roles[of] = role(pod)
        yield roles[of], pod.metadata.name, pod


def _as_before(uid: str, role: str, spec: PodSpec) -> PodSpec:
    """The very spec of the reading before, where it says the same: who compares the members of two readings of one gang
    does not look into it thousands of times.
    """
    before = _last_spec(uid, role)
    if before != [spec]:
        before[:] = [spec]
    return before[0]


@lru_cache(maxsize=_MOST_ROLES)
def _last_spec(_uid: str, _role: str) -> list[PodSpec]:
    """What `_as_before` handed out last, of a role of a workload."""
    return []


def spec_to_come(spec: PodSpec, first: Pod, siblings: Sequence[Pod]) -> PodSpec:
    """The spec of a pod that is to come as admission will make it, as far as the first pod and its siblings show."""
    changes: dict[str, Any] = {"scheduling_gates": (SchedulingGate(name=GATE),)}
    for name in ("priority", "priority_class_name", "preemption_policy", "scheduler_name"):
        changes[name] = getattr(first.spec, name)
    for name in ("containers", "init_containers", "overhead", "resources") if siblings else ():
        changes[name] = getattr(siblings[0].spec, name)
    return replace(spec, **changes)
