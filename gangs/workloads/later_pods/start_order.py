"""The expected pods of workloads that create some pods only after others of their pods run.

The gang of such a workload is released when the pods that the workload creates at once exist. The later pods are
derived from the workload's templates. Capacity is reserved for them until they exist (docs/decisions/0022).
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from gangs.manifests import metadata_of
from gangs.model import Manifest
from gangs.workloads import pod_templates
from gangs.workloads.kind_table import KindRow, row_of
from gangs.workloads.later_pods.pods_to_come import check_number, missing_pods
from gangs.workloads.pod_counts import LAUNCHER, beside
from gangs.workloads.pod_templates import MAIN, WORKER
from gangs.workloads.start_orders import MadeLater, StartOrder
from kube.keys import CONVERTED, GATE
from kube.objects import Pod, PodSpec, SchedulingGate
from kube.placeholders import matched, seat_uid

MOST_TO_COME = 2_048
"""The most expected pods of one gang for which capacity is reserved.

Expected pods cost planning time although no object exists for them, so without a limit one small object could cost
much.
"""

_MOST_ROLES = 1_024
"""The most pairs of workload and role for which the spec of an expected pod is cached."""


def later_roles(manifest: Manifest) -> frozenset[str]:
    """Return the roles (names of pod sets) of pods that the workload creates only after others run or have ended."""
    if (row := row_of(manifest)) is not None and row.fields:
        return frozenset(_later_by_fields(manifest, row))
    return frozenset(role for _, roles in orders_of(manifest) for role in roles)


def _later_by_fields(manifest: Manifest, row: KindRow) -> Iterator[str]:
    fields = {each.template: each for each in row.fields}
    for each in pod_templates.templates(manifest):
        own = fields[each.pattern]
        if own.later or (own.later_if and beside(manifest, own.later_if, each.way)[1]):
            yield each.role


def orders_of(manifest: Manifest) -> Iterator[tuple[StartOrder, Sequence[str]]]:
    """Yield the start orders of the workload's kind that its settings select, each with the roles of the later pods.

    Kinds with `KindRow.fields` have no start orders: `TemplateFields` states which pods are created later.
    """
    row = row_of(manifest)
    for each in row.start_orders if row is not None else ():
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
    """Return the roles of a JobSet of which no pod is created before pods of other roles run.

    Roles whose first pod is created at once are left out, even if their further pods are created later.
    """
    after = (MadeLater.OTHER_JOBS, MadeLater.ITS_JOBS)
    return frozenset(role for order, roles in orders_of(manifest) for role in roles if order.later in after)


def _names(manifest: Manifest) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the replicated jobs of a JobSet as (role, entry of `spec.replicatedJobs`)."""
    written = pod_templates.at_path(manifest, "spec.replicatedJobs")
    entries = [each for each in written if isinstance(each, Mapping)] if isinstance(written, list) else []
    return [(str(each.get("name") or position), each) for position, each in enumerate(entries)]


def _on_jobs(replicated_job: Mapping[str, Any], annotation: str) -> bool:
    """Whether the Job template of a JobSet's replicated job has an annotation with this key."""
    own = pod_templates.at_path(replicated_job, "template.metadata.annotations")
    return isinstance(own, Mapping) and annotation in own


def exclusive_at(manifest: Manifest) -> str | None:
    """Return the path of the annotation by which the operator gives each Job or group a domain of its own.

    Return None if the workload has no such annotation. It is on the workload or on the Job template of a JobSet.
    """
    key = next((order.at for order, _ in orders_of(manifest) if order.annotation), None)
    if key is None or key in metadata_of(manifest).annotations:
        return key and f"metadata.annotations[{key}]"
    position = next(at for at, (_, each) in enumerate(_names(manifest)) if _on_jobs(each, key))
    return f"spec.replicatedJobs[{position}].template.metadata.annotations[{key}]"


def check_order(manifest: Manifest, part: str = "", there: int = 0) -> None:
    """Check that a gang does not have more than `MOST_TO_COME` expected pods. Raises `MalformedError` if it has.

    :param part: the number of the group that is the gang; "" for the whole workload, or for any group of it.
    :param there: the number of the gang's pods that exist.
    """
    later, row = later_roles(manifest), row_of(manifest)
    declared = [each for each in pod_templates.templates(manifest) if each.role in later]
    if declared:
        group = part or ("0" if row is not None and row.part_by else "")
        check_number(manifest, declared, group, MOST_TO_COME + there)


def to_come(
    manifest: Manifest,
    there: Sequence[Pod],
    ended: Sequence[Pod],
    role: Callable[[Pod], str],
    part: str,
) -> tuple[Pod, ...]:
    """Return the expected pods of a gang whose workload creates some pods only after others run. All are gated.

    Before the gang's first pod exists, the result is empty, because admission sets defaults (priority, requests) on
    pods, and expected pods take them from existing ones. Raises `MalformedError`.

    :param there: the gang's live pods.
    :param ended: its succeeded pods, which are not recreated.
    :param role: a function from a pod to the name of its pod set.
    :param part: the number of the group that is the gang; "" for the whole workload.
    """
    later, known, row = later_roles(manifest), (*there, *ended), row_of(manifest)
    by_the_first = row is not None and any(each.later for each in row.fields)  # only a running driver creates executors
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
            template = id(pod.spec), of  # the pods of one template share one spec, computed once
            if template not in specs:
                specs[template] = _as_before(uid, of, spec_to_come(pod.spec, known[0], siblings[of]))
            annotations = with_conversion(pod.metadata.annotations, siblings[of])
            meta = replace(pod.metadata, uid=seat_uid(uid, of, name), annotations=annotations)
            found.append(replace(pod, metadata=meta, spec=specs[template]))
    return tuple(found)


def _declared(manifest: Manifest, role: Callable[[Pod], str], part: str) -> Iterator[tuple[str, str, Pod]]:
    """Yield (pod set, name, pod) for each pod that the workload creates, existing or not."""
    roles = dict[int, str]()
    for pod in missing_pods(manifest, (), part):
        of = id(pod.spec)
        if of not in roles:
            roles[of] = role(pod)
        yield roles[of], pod.metadata.name, pod


def _as_before(uid: str, role: str, spec: PodSpec) -> PodSpec:
    """Return the spec object that was returned last for this role of a workload if it equals `spec`, else `spec`.

    Equal expected pods of two successive readings then share one spec object, which makes their comparison fast.
    """
    before = _last_spec(uid, role)
    if before != [spec]:
        before[:] = [spec]
    return before[0]


@lru_cache(maxsize=_MOST_ROLES)
def _last_spec(_uid: str, _role: str) -> list[PodSpec]:
    """Return a list with the spec that `_as_before` returned last for this role of a workload; empty if none.

    The cache returns the same list object each time, so the caller stores the next spec in it.
    """
    return []


def with_conversion(annotations: Mapping[str, str], siblings: Sequence[Pod]) -> dict[str, str]:
    """Return the annotations of an expected pod: those of its template, and the first sibling's `CONVERTED`.

    The expected pod has the containers of this sibling, from which a claim may have taken requests.
    """
    recorded = siblings[0].metadata.annotations.get(CONVERTED) if siblings else None
    return {**annotations, **({CONVERTED: recorded} if recorded is not None else {})}


def spec_to_come(spec: PodSpec, first: Pod, siblings: Sequence[Pod]) -> PodSpec:
    """Return the spec of an expected pod as it will be after admission, which sets defaults and the gate.

    :param spec: the spec in the pod template.
    :param first: an existing pod of the gang. Its priority and scheduler are used.
    :param siblings: existing pods of the same role. The containers and overhead of the first are used, if there is one.
    """
    changes: dict[str, Any] = {"scheduling_gates": (SchedulingGate(name=GATE),)}
    for name in ("priority", "priority_class_name", "preemption_policy", "scheduler_name"):
        changes[name] = getattr(first.spec, name)
    for name in ("containers", "init_containers", "overhead", "resources") if siblings else ():
        changes[name] = getattr(siblings[0].spec, name)
    if siblings and CONVERTED in siblings[0].metadata.annotations:  # a claim has replaced requests of its containers
        changes["resource_claims"] = siblings[0].spec.resource_claims
    return replace(spec, **changes)
