"""Gangs of PodGroups, and gangs of pods that name only a topology policy."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from gangs.assembling import GangWorkload, assemble
from gangs.findings import Findings
from gangs.kai import NAME, keys, members, subgroups, wishes
from gangs.kai.gpus import check_gpu_scope, gpus_together
from gangs.kai.settings import PACK, TITLE, Settings
from gangs.kai.spec import NOTHING, PodGroupSpec, TopologyConstraint, spec_of
from gangs.kai.subgroups import Parts
from gangs.manifests import MalformedError, key_of, metadata_of, pod_ref, ref_of
from gangs.membership import age, check_priorities, live, seated
from gangs.model import Gang, GangKey, Manifest, ObjectRef, PlacementRequest, PodSet
from gangs.sources import Sources
from gangs.topology.levels import LevelWish, Request, Settled, Span, settle
from gangs.workloads.jobs import JOB_GROUP, JOB_KIND, Job, job_of, template_says
from kube.objects import Pod
from kube.requests import extended_resources
from kube.topology import Topology

SCOPE = "spec.topologyPolicy.scope"
CONSTRAINT = "spec.topologyConstraint"


@dataclass(frozen=True, slots=True)
class Unit:
    """The data about one gang before its levels are looked up.

    `ref`: the PodGroup, the workload, or the first pod. `minimum`: the number of pods that must start together. `spec`:
    the `spec` of the PodGroup; without a PodGroup, an empty `PodGroupSpec`.
    """

    key: GangKey
    ref: ObjectRef
    pods: tuple[Pod, ...]
    minimum: int
    expected: int
    created: str = ""
    spec: PodGroupSpec = NOTHING
    jobs: tuple[ObjectRef, ...] = ()
    """The Jobs whose pods name the PodGroup."""
    made: Mapping[str, int] = field(default_factory=dict)
    """By subgroup ("" for none): the number of pods that the Jobs in `jobs` should run now."""
    ended: Mapping[str, int] = field(default_factory=dict)
    """By subgroup ("" for none): the number of pods of the Jobs in `jobs` that have completed, so that they are not
    needed any more.
    """
    waiting_for: tuple[str, ...] = ()

    @property
    def parts(self) -> Parts | None:
        """The subgroups of the PodGroup; None if it has none."""
        return Parts(self.spec.sub_groups) if self.spec.sub_groups else None


def unit_of_group(manifest: Manifest, pods: Sequence[Pod], sources: Sources, findings: Findings) -> Unit | None:
    """Return the data about a PodGroup's gang before its levels are looked up; None if all its Jobs have completed.
    Raises `MalformedError`.

    The minimum is lower by the number of pods that have completed in Jobs.

    :param pods: the pods that name the PodGroup.
    """
    ref = ref_of(manifest)
    spec = spec_of(manifest, ref, findings)
    subgroups.check(spec, ref, findings)
    for key in metadata_of(manifest).annotations.keys() & {*keys.ON_PODS}:
        findings.advise(ref, members.annotation(key), "is ignored on a PodGroup: write it on the pods")
    live_pods = tuple(live(pods))
    made = _jobs_naming(ref, sources)
    ended = sum(job.size - job.expected for _, job in made)
    minimum = max(0, max(spec.min_member or 0, Parts(spec.sub_groups).minimum) - ended)
    if ended and not live_pods and not minimum:
        return None
    return Unit(
        key=GangKey(NAME, ref.namespace, ref.name),
        ref=ref,
        pods=live_pods,
        minimum=max(1, minimum),
        expected=max(1, minimum, len(live_pods), sum(job.expected for _, job in made)),
        created=metadata_of(manifest).creation_timestamp or "",
        spec=spec,
        jobs=tuple(at for at, _ in made),
        made=_by_part([(job, job.expected) for _, job in made]),
        ended=_by_part([(job, job.size - job.expected) for _, job in made]),
    )


def _by_part(jobs: Iterable[tuple[Job, int]]) -> Mapping[str, int]:
    """Return, by the subgroup that a Job's pod template names ("" for none), the sum of the numbers of these Jobs.

    :param jobs: Jobs, each with a number of pods.
    """
    found: Counter[str] = Counter()
    for job, count in jobs:
        found[job.pod_labels.get(keys.SUB_GROUP, "")] += count
    return found


def unit_of_pods(key: GangKey, pods: Sequence[Pod], sources: Sources) -> Unit | None:
    """Return the data about the gang of pods without a PodGroup object, before its levels are looked up; None if no pod
    is live.

    If the pods name a PodGroup, the gang waits for it. If a Job controls them, it states the number of pods. Otherwise
    the minimum is the number of existing pods.
    """
    live_pods = tuple(sorted(live(pods), key=lambda pod: age(pod.metadata)))
    if not live_pods:
        return None
    first = live_pods[0]
    unit = Unit(key, pod_ref(first), live_pods, len(live_pods), len(live_pods), first.metadata.creation_timestamp or "")
    if any(members.group_of(pod) for pod in live_pods):
        return replace(unit, waiting_for=(f"{keys.POD_GROUP_KIND} {key}",))
    if not members.job_of(first):
        return unit
    manifest = sources.get(JOB_GROUP, JOB_KIND, key.namespace, key.name)
    if manifest is None:
        return replace(unit, waiting_for=(f"{JOB_KIND} {key}",))
    job = job_of(manifest)
    count = max(job.expected, len(live_pods))
    return replace(
        unit,
        ref=ref_of(manifest),
        minimum=max(1, job.expected),
        expected=count,
        created=job.metadata.creation_timestamp or "",
    )


def read_unit(
    unit: Unit, settings: Settings, own: Topology, topologies: Sequence[Topology], findings: Findings
) -> Gang | None:
    """Return the gang, with its levels looked up; None if it has faults, which go to `findings`.

    :param settings: the content of the ConfigMap of KAI Scheduler.
    :param own: the topology with the ConfigMap's levels.
    :param topologies: the topologies of all dialects.
    """
    wrong = Findings()
    members.check_annotations(unit.pods, wrong)
    check_priorities(unit.pods, unit.ref, wrong)
    policy, waits = members.policy_of(unit.pods, settings, wrong)
    _check_scope(unit, policy, settings, own, wrong)
    settled = _settled(unit, topologies, wrong)
    parts = unit.parts
    if parts is not None:
        subgroups.check_members(unit.pods, parts, unit.ref, wrong)
    roles = parts.names if parts is not None else members.roles_of(unit.pods) or (members.MAIN,)
    set_of = members.role_of if parts is None else subgroups.set_of
    seated_members = seated(members.seats_of(unit.pods, set_of, wrong), roles, wrong)
    findings.take(wrong.faults, wrong.advice)
    if wrong.faults:
        return None
    gpus = gpus_together(unit.pods, unit.minimum)
    asked = wishes.wishes_of(wishes.Asked(unit.spec.scope, unit.spec.required_labels, policy, gpus), settings, own)
    sets = _pod_sets(unit, roles, settled.topology)
    workload = GangWorkload(
        source=unit.ref,
        members=seated_members,
        pod_sets=sets,
        min_member=unit.minimum,
        created=unit.created,
        groups=(unit.ref, *unit.jobs) if unit.ref.kind != "Pod" else (),
        expected=max(unit.expected, sum(each.count for each in sets)) if parts is not None else unit.expected,
        exact_nodes=True if asked.affinity is not None else None,
    )
    request = PlacementRequest(
        together=subgroups.together(parts) if parts is not None else (),
        topology=own.name,
        topology_kind=own.kind,
        required=asked.required,
        preferred=asked.preferred,
        device_level=asked.device_level,
        queue=unit.spec.queue,
        node_affinity=asked.affinity,
        node_rules=asked.rules,
        node_wishes=asked.of_size,
    )
    waiting_for = (*unit.waiting_for, *waits, *settled.waiting_for)
    return assemble(unit.key, workload, _constrained(request, unit.spec, settled), waiting_for)


def check_placement(manifest: Manifest, findings: Findings) -> None:
    """Report annotations on a Job that must be on its pod template to have an effect. Raises `MalformedError`."""
    annotations = metadata_of(manifest).annotations
    misplaced = [key for key in keys.ON_PODS if key in annotations]
    for key in misplaced:
        if key not in job_of(manifest).pod_annotations:
            remedy = f"write it at spec.template.{members.annotation(key)}"
            findings.fault(ref_of(manifest), members.annotation(key), "does not reach the pods", remedy)


def check_template(manifest: Manifest, settings: Settings, findings: Findings) -> None:
    """Report a Job whose pod template names an unknown topology policy. Raises `MalformedError`."""
    job, ref = job_of(manifest), ref_of(manifest)
    name = job.pod_annotations.get(keys.POLICY)
    if name is None or not settings.there or settings.policy(name) is not None:
        return
    at = f"spec.template.{members.annotation(keys.POLICY)}"
    findings.fault(ref, at, f'"{name}" is not a policy of {TITLE}', members.known_policies(settings))


def _constrained(request: PlacementRequest, spec: PodGroupSpec, settled: Settled) -> PlacementRequest:
    """Return the request with the topology and levels in `topologyConstraint` of a PodGroup or its subgroups.

    Without such fields, the request is returned unchanged.
    """
    if not _names_a_place(spec):
        return request
    constraint = spec.topology_constraint or TopologyConstraint()
    return replace(
        request,
        topology=subgroups.topology_of(spec) or (settled.topology.name if settled.topology else None),
        topology_kind=settled.topology.kind if settled.topology else None,
        required=constraint.required_topology_level,
        preferred=constraint.preferred_topology_level,
    )


def _names_a_place(spec: PodGroupSpec) -> bool:
    """Whether the PodGroup or one of its subgroups has a `topologyConstraint`."""
    return spec.topology_constraint is not None or any(subgroups.constraints(spec.sub_groups))


def _settled(unit: Unit, topologies: Sequence[Topology], findings: Findings) -> Settled:
    if not _names_a_place(unit.spec):
        return Settled()
    constraint = unit.spec.topology_constraint or TopologyConstraint()
    levels, spans = subgroups.wishes(unit.spec.sub_groups)
    required = _wish("requiredTopologyLevel", constraint.required_topology_level)
    preferred = _wish("preferredTopologyLevel", constraint.preferred_topology_level)
    request = Request(
        ref=unit.ref,
        topology_field=f"{CONSTRAINT}.topology",
        topology=subgroups.topology_of(unit.spec),
        levels=(*(each for each in (required, preferred) if each is not None), *levels),
        spans=(Span(required, preferred), *spans),
        pods=unit.pods,
    )
    return settle(request, topologies, findings)


def _wish(field: str, level: str | None) -> LevelWish | None:
    return None if level is None else LevelWish(f"{CONSTRAINT}.{field}", level)


def _check_scope(unit: Unit, policy: str | None, settings: Settings, own: Topology, findings: Findings) -> None:
    """Report an unknown scope of a PodGroup as a fault, and scopes and policies with a surprising effect as advice.

    A scope smaller than a node places all pods on one node. It restricts devices only for pods with ResourceClaims. If
    topology awareness is disabled in the ConfigMap, a scope has no effect.
    """
    scope = unit.spec.scope
    known = wishes.scopes(settings, own)
    if scope is not None and scope not in known:
        findings.fault(unit.ref, SCOPE, f'"{scope}" is not a scope', f"the scopes are {', '.join(known)}")
    elif scope is not None and not settings.enabled:
        text = f"has no effect: {keys.CONFIG_SECTION}.enabled is false in {TITLE}"
        findings.advise(unit.ref, SCOPE, text)
    elif scope in settings.below_the_node and not any(pod.spec.resource_claims for pod in unit.pods):
        text = f'"{scope}" lies below the node: all pods are placed on one node, and the node chooses the devices'
        if any(next(extended_resources(pod.spec), None) for pod in unit.pods):
            text += " unless a DeviceClass provides the extended resources"  # then they become claims
        findings.advise(unit.ref, SCOPE, text)
    if scope == keys.GPU_SCOPE and settings.enabled:
        check_gpu_scope(unit.pods, unit.ref, findings)
    named = settings.policy(policy) if policy else None
    if named and named.strategy == PACK and named.topology in {"numa"} | settings.below_the_node:
        for pod in unit.pods:
            packed = "the pods are packed onto few nodes, and each node chooses the devices"
            text = f'"{named.topology}" lies below the node: {packed}'
            findings.advise(pod_ref(pod), members.annotation(keys.POLICY), text)


def _pod_sets(unit: Unit, roles: Sequence[str], topology: Topology | None) -> tuple[PodSet, ...]:
    """Return one pod set for each subgroup; without subgroups, one for each role that pods name.

    Each role needs at least one pod, if the gang's minimum is large enough. Expected pods may have any role.
    """
    if (parts := unit.parts) is not None:
        return subgroups.pod_sets(parts, unit.pods, unit.made, unit.ended, topology)
    existing = Counter(map(members.role_of, unit.pods))
    if len(roles) == 1:
        return (PodSet(roles[0], unit.expected, unit.minimum),)
    least = 1 if len(roles) <= unit.minimum else 0
    return tuple(PodSet(role, existing[role], least) for role in roles)


def _jobs_naming(group: ObjectRef, sources: Sources) -> list[tuple[ObjectRef, Job]]:
    """Return the Jobs whose pods name the PodGroup. Malformed Jobs are left out, and reported elsewhere."""
    found = []
    for manifest in sources.sought(JOB_GROUP, JOB_KIND, _group_in, (group.namespace, group.name)):
        with suppress(MalformedError):
            found.append((ref_of(manifest), job_of(manifest)))
    return found


def _group_in(job: Manifest) -> tuple[tuple[str, str], ...]:
    """Return namespace and name of the PodGroup that a Job's pods name, in a tuple; empty if they name none.

    They are the Job's index values (`kube.catalog.Naming`), by which the Jobs of a PodGroup are found.
    """
    name = members.named_by(template_says(job, "annotations"))
    return ((key_of(job)[2], name),) if name else ()
