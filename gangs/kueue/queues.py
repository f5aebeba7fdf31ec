"""ResourceFlavors, ClusterQueues, LocalQueues and Cohorts: their specs, their checks, and the account of a gang."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from gangs.findings import Findings
from gangs.kueue import configuration, keys
from gangs.kueue.topologies import lowest_level
from gangs.manifests import MalformedError, advise_unknown, decode, ref_of, section
from gangs.model import Manifest, ObjectRef
from gangs.quota_model import Account, Charged, ClusterQueue, Cohort, Flavor, FlavorQuotas, Quota, ResourceGroup
from gangs.sources import Sources
from kube.objects import LabelSelector, Taint, Toleration
from kube.quantities import amount

Written = dict[str, Any]


class FlavorSpec(msgspec.Struct, frozen=True, rename="camel"):
    """`spec` of a ResourceFlavor."""

    node_labels: dict[str, str] = {}
    node_taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology_name: str | None = None


class QuotaSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The quota for one resource of a flavor in a ClusterQueue or Cohort."""

    name: str
    nominal_quota: str | int | float
    borrowing_limit: str | int | float | None = None
    lending_limit: str | int | float | None = None


class FlavorQuotasSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The quotas for one flavor in a ClusterQueue or Cohort."""

    name: str
    resources: tuple[QuotaSpec, ...]


class GroupSpec(msgspec.Struct, frozen=True, rename="camel"):
    """One resource group of a ClusterQueue or Cohort."""

    covered_resources: tuple[str, ...]
    flavors: tuple[FlavorQuotasSpec, ...]


class ClusterQueueSpec(msgspec.Struct, frozen=True, rename="camel"):
    """`spec` of a ClusterQueue: the fields that have an effect. `cohortName` is v1beta2's name of `cohort`."""

    resource_groups: tuple[GroupSpec, ...] = ()
    cohort: str | None = None
    cohort_name: str | None = None
    namespace_selector: LabelSelector | None = None
    stop_policy: str | None = None
    queueing_strategy: str | None = None


class CohortSpec(msgspec.Struct, frozen=True, rename="camel"):
    """`spec` of a Cohort: the fields that have an effect."""

    parent_name: str | None = None
    resource_groups: tuple[GroupSpec, ...] = ()


class LocalQueueSpec(msgspec.Struct, frozen=True, rename="camel"):
    """`spec` of a LocalQueue."""

    cluster_queue: str
    stop_policy: str | None = None


NOT_HONOURED = {
    "preemption": "a gang never evicts for quota: it waits until quota is free",
    "flavorFungibility": "flavors are tried in their order, each with what may be borrowed, before any pod is evicted",
    "admissionChecks": "no admission check is run",
    "admissionChecksStrategy": "no admission check is run",
    "fairSharing": "gangs go by priority, then age",
    "admissionScope": "gangs go by priority, then age",
}
"""By field of a ClusterQueue that has no effect in Phalanx: what happens instead, for messages."""
_QUEUE_FIELDS = (
    "resourceGroups",
    "cohort",
    "cohortName",
    "namespaceSelector",
    "stopPolicy",
    "queueingStrategy",
    *NOT_HONOURED,
)
_COHORT_FIELDS = ("parentName", "resourceGroups", "fairSharing")
_LOCAL_FIELDS = ("clusterQueue", "stopPolicy", "fairSharing")
_FLAVOR_FIELDS = ("nodeLabels", "nodeTaints", "tolerations", "topologyName")


def account_of(namespace: str, name: str, sources: Sources) -> Charged:
    """Return the account of a LocalQueue: its ClusterQueue with flavors and cohort.

    If one of these objects is missing, invalid or stopped, the result says what a gang in the queue waits for. If the
    cluster has neither this LocalQueue nor any ClusterQueue, the result is empty: the queue's name is only a label.
    """
    written = sources.get(keys.GROUP, keys.LOCAL_QUEUE, namespace, name)
    if written is None and not sources.has(keys.GROUP, keys.CLUSTER_QUEUE):
        return Charged()  # the cluster has no queues, so the name is only a label
    local = valid(written, LocalQueueSpec)
    if local is None:
        return Charged(waiting_for=(f"{keys.LOCAL_QUEUE} {namespace}/{name}",))
    manifest = sources.get(keys.GROUP, keys.CLUSTER_QUEUE, "", local.cluster_queue)
    spec = valid(manifest, ClusterQueueSpec)
    if manifest is None or spec is None:
        return Charged(waiting_for=(f"{keys.CLUSTER_QUEUE} {local.cluster_queue}",))
    held = [
        f"{queue} to be resumed (spec.stopPolicy)"
        for queue, policy in (
            (f"{keys.LOCAL_QUEUE} {namespace}/{name}", local.stop_policy),
            (f"{keys.CLUSTER_QUEUE} {local.cluster_queue}", spec.stop_policy),
        )
        if stopped(policy)
    ]
    # Running pods stay charged while the queue is stopped, so other queues cannot borrow their quota.
    found = _with_flavors(queue_of(manifest, spec), sources)
    return Charged(found.account, (*held, *found.waiting_for))


def missing_of(manifest: Manifest, spec: ClusterQueueSpec, sources: Sources) -> tuple[tuple[str, str], ...]:
    """Return (kind, name) of each missing or invalid ResourceFlavor of a ClusterQueue.

    Missing topologies that its flavors name are included.
    """
    _, missing = _flavors(queue_of(manifest, spec), sources)
    return tuple(dict.fromkeys(missing))


def _flavors(queue: ClusterQueue, sources: Sources) -> tuple[list[Flavor], list[tuple[str, str]]]:
    """Return the flavors of a ClusterQueue, and (kind, name) of each missing or invalid flavor or topology."""
    flavors, missing = list[Flavor](), list[tuple[str, str]]()
    for name in dict.fromkeys(each.flavor for group in queue.groups for each in group.flavors):
        manifest = sources.get(keys.GROUP, keys.FLAVOR, "", name)
        spec = valid(manifest, FlavorSpec)
        if spec is None:
            missing.append((keys.FLAVOR, name))
            continue
        topology = None if spec.topology_name is None else _topology(spec.topology_name, sources)
        if spec.topology_name is not None and topology is None:
            missing.append((keys.TOPOLOGY, spec.topology_name))
        flavors.append(_flavor(name, spec, topology))
    return flavors, missing


def _with_flavors(queue: ClusterQueue, sources: Sources) -> Charged:
    flavors, absent = _flavors(queue, sources)
    missing = [f"{kind} {name}" for kind, name in absent]
    cohorts = _cohorts(sources) if queue.cohort else {}
    if circle := cohort_circle(queue.cohort, cohorts):
        missing.append(f"{keys.COHORT} {circle} to stand under no cohort that stands under it (spec.parentName)")
        cohorts = {}
    tree = _tree(queue.cohort, cohorts)
    account = Account(
        queue,
        tuple(flavors),
        cohort=(queue,) if not queue.cohort else tuple(_queues_in(tree, sources)),
        cohorts=tuple(each for name, each in sorted(cohorts.items()) if name in tree),
        topology_kind=keys.TOPOLOGY_KIND,
        devices=configuration.device_quotas(sources),
    )
    return Charged(account, tuple(dict.fromkeys(missing)))


def _topology(name: str, sources: Sources) -> Manifest | None:
    return sources.get(keys.GROUP, keys.TOPOLOGY, "", name)


def _flavor(name: str, spec: FlavorSpec, topology: Manifest | None) -> Flavor:
    return Flavor(
        name=name,
        node_labels=tuple(sorted(spec.node_labels.items())),
        taints=spec.node_taints,
        tolerations=spec.tolerations,
        topology=spec.topology_name,
        preferred=lowest_level(topology) if topology is not None else None,
    )


def _cohorts(sources: Sources) -> dict[str, Cohort]:
    """Return the valid Cohort objects by name. A cohort without an object has no parent and no quota of its own."""
    found = {}
    for manifest in sources.of_kind(keys.GROUP, keys.COHORT):
        if (spec := valid(manifest, CohortSpec)) is not None:
            name = ref_of(manifest).name
            found[name] = Cohort(name, spec.parent_name or "", _groups(spec.resource_groups))
    return found


def cohort_circle(name: str, cohorts: Mapping[str, Cohort]) -> str:
    """Return a cohort that is its own ancestor, found from the cohort `name` upwards; "" if there is no such cycle."""
    seen: list[str] = []
    while name in cohorts and name not in seen:
        seen.append(name)
        name = cohorts[name].parent
    return name if name in seen else ""


def _tree(name: str, cohorts: Mapping[str, Cohort]) -> frozenset[str]:
    """Return the names of all cohorts in the tree of a cohort, which share quota; empty for the name ""."""
    root = _root(name, cohorts)
    return frozenset({root, *(each for each in cohorts if _root(each, cohorts) == root)}) if name else frozenset()


def _root(name: str, cohorts: Mapping[str, Cohort]) -> str:
    seen: set[str] = set()
    while name in cohorts and cohorts[name].parent and name not in seen:
        seen.add(name)
        name = cohorts[name].parent
    return name


def _queues_in(tree: Iterable[str], sources: Sources) -> Iterator[ClusterQueue]:
    """Yield the valid ClusterQueues in these cohorts, ordered by name."""
    found = (each for cohort in tree for each in sources.sought(keys.GROUP, keys.CLUSTER_QUEUE, _cohort_in, cohort))
    for manifest in sorted(found, key=lambda each: ref_of(each).name):
        if (spec := valid(manifest, ClusterQueueSpec)) is not None:
            yield queue_of(manifest, spec)


def _cohort_in(queue: Manifest) -> tuple[str, ...]:
    """Return the cohort that a ClusterQueue names, in a tuple; empty if it names none.

    It is the object's index value (`kube.catalog.Naming`), by which the queues of a cohort are found.
    """
    spec = queue.get("spec")
    named = (spec.get("cohortName") or spec.get("cohort")) if isinstance(spec, Mapping) else None
    return (named,) if isinstance(named, str) else ()


def queue_of(manifest: Manifest, spec: ClusterQueueSpec) -> ClusterQueue:
    """Return a ClusterQueue object as the type that all dialects share (`gangs.quota_model`)."""
    return ClusterQueue(
        name=ref_of(manifest).name,
        groups=_groups(spec.resource_groups),
        cohort=spec.cohort_name or spec.cohort or "",
        namespaces=spec.namespace_selector,
        strict=spec.queueing_strategy == "StrictFIFO",
    )


def _groups(written: Sequence[GroupSpec]) -> tuple[ResourceGroup, ...]:
    return tuple(
        ResourceGroup(
            group.covered_resources,
            tuple(FlavorQuotas(each.name, tuple(map(_quota, each.resources))) for each in group.flavors),
        )
        for group in written
    )


def _quota(spec: QuotaSpec) -> Quota:
    return Quota(spec.name, str(spec.nominal_quota), _text(spec.borrowing_limit), _text(spec.lending_limit))


def _text(quantity: str | float | None) -> str | None:
    return None if quantity is None else str(quantity)


def stopped(policy: str | None) -> bool:
    """Whether a queue with this `stopPolicy` admits no new gangs; None is no policy."""
    return policy in ("Hold", "HoldAndDrain")


def valid(manifest: Manifest | None, type_: type[msgspec.Struct]) -> Any:
    """Return the `spec` of an object as `type_`; None if it is missing or invalid. Faults are not reported here."""
    if manifest is None:
        return None
    findings = Findings()
    spec = read_spec(manifest, type_, findings)
    return None if findings.faults else spec


def read_spec(manifest: Manifest, type_: type[msgspec.Struct], findings: Findings) -> Any:
    """Return the `spec` of a flavor, queue or cohort as `type_`; None if it is malformed. Faults go to `findings`."""
    ref = ref_of(manifest)
    try:
        spec = decode(section(manifest, "spec"), type_, ref, "spec")
    except MalformedError as error:
        findings.take([error.fault])
        return None
    if isinstance(spec, ClusterQueueSpec | CohortSpec):
        _check_quota_groups(ref, spec.resource_groups, findings)
    if isinstance(spec, FlavorSpec) and spec.topology_name and not spec.node_labels:
        remedy = "list at least one label that the flavor's nodes carry"
        findings.fault(ref, "spec.nodeLabels", "is empty, but spec.topologyName is set", remedy)
    return spec


def review(sources: Sources, findings: Findings) -> None:
    """Check all flavors, queues and cohorts, and Kueue's Configuration. Faults, and advice on settings without effect,
    go to `findings`.
    """
    configuration.review(sources, findings)
    for kind, type_, known in (
        (keys.FLAVOR, FlavorSpec, _FLAVOR_FIELDS),
        (keys.CLUSTER_QUEUE, ClusterQueueSpec, _QUEUE_FIELDS),
        (keys.LOCAL_QUEUE, LocalQueueSpec, _LOCAL_FIELDS),
        (keys.COHORT, CohortSpec, _COHORT_FIELDS),
    ):
        for manifest in sources.of_kind(keys.GROUP, kind):
            spec = read_spec(manifest, type_, findings)
            advise_unknown(manifest.get("spec"), known, ref_of(manifest), "spec", findings)
            _advise_missing(ref_of(manifest), spec, sources, findings)
            if kind == keys.CLUSTER_QUEUE:
                _advise_policies(manifest, findings)
            if kind == keys.COHORT:
                _check_cohort(manifest, sources, findings)


def _advise_missing(ref: ObjectRef, spec: Any, sources: Sources, findings: Findings) -> None:
    """Report, as advice, objects that a flavor, queue or cohort names and that do not exist."""
    named: list[tuple[str, str, str]] = []
    match spec:
        case FlavorSpec(topology_name=str(topology)):
            named.append(("spec.topologyName", keys.TOPOLOGY, topology))
        case LocalQueueSpec(cluster_queue=queue):
            named.append(("spec.clusterQueue", keys.CLUSTER_QUEUE, queue))
        case ClusterQueueSpec(resource_groups=groups) | CohortSpec(resource_groups=groups):
            named += [
                (f"spec.resourceGroups[{i}].flavors[{j}].name", keys.FLAVOR, each.name)
                for i, group in enumerate(groups)
                for j, each in enumerate(group.flavors)
            ]
    for at, kind, name in named:
        if sources.get(keys.GROUP, kind, "", name) is None:
            findings.advise(ref, at, f"{kind} {name} does not exist yet: gangs wait for it")


def _advise_policies(manifest: Manifest, findings: Findings) -> None:
    ref, spec = ref_of(manifest), manifest.get("spec")
    written = spec if isinstance(spec, dict) else {}
    for name, text in NOT_HONOURED.items():
        if written.get(name) and not _says_never(written[name]):
            findings.advise(ref, f"spec.{name}", f"has no effect: {text}")
    if (strategy := written.get("queueingStrategy")) not in (None, "", "BestEffortFIFO", "StrictFIFO"):
        text = f'"{strategy}" is not known: gangs go as with BestEffortFIFO; Kueue knows StrictFIFO besides'
        findings.advise(ref, "spec.queueingStrategy", text)
    if written.get("stopPolicy") == "HoldAndDrain":
        findings.advise(ref, "spec.stopPolicy", "holds new gangs back; those that run are not drained")
    if not written.get("namespaceSelector") and written.get("namespaceSelector") != {}:
        findings.advise(ref, "spec.namespaceSelector", "is not set: no namespace may use the queue; write {} for all")


def _check_cohort(manifest: Manifest, sources: Sources, findings: Findings) -> None:
    ref, cohorts = ref_of(manifest), _cohorts(sources)
    if ref.name in cohorts and cohort_circle(ref.name, cohorts) == ref.name:
        problem = f'"{cohorts[ref.name].parent}" stands under {keys.COHORT} {ref.name} itself'
        findings.fault(ref, "spec.parentName", problem, "name a cohort that does not")
    if section(manifest, "spec").get("fairSharing"):
        findings.advise(ref, "spec.fairSharing", f"has no effect: {NOT_HONOURED['fairSharing']}")


def _says_never(policy: object) -> bool:
    """Whether a ClusterQueue's `preemption` has only the value Never, so that ignoring it changes nothing."""
    return isinstance(policy, dict) and all(each == "Never" for each in policy.values())


def _check_quota_groups(ref: ObjectRef, groups: Sequence[GroupSpec], findings: Findings) -> None:
    resources, flavors = dict[str, str](), dict[str, str]()
    for i, group in enumerate(groups):
        at = f"spec.resourceGroups[{i}]"
        for j, resource in enumerate(group.covered_resources):
            _once(ref, resource, f"{at}.coveredResources[{j}]", resources, findings)
        for j, flavor in enumerate(group.flavors):
            _once(ref, flavor.name, f"{at}.flavors[{j}].name", flavors, findings)
            _check_quotas(ref, flavor, group.covered_resources, f"{at}.flavors[{j}].resources", findings)


def _once(ref: ObjectRef, name: str, at: str, seen: dict[str, str], findings: Findings) -> None:
    first = seen.setdefault(name, at)
    if first != at:
        findings.fault(ref, at, f'"{name}" is in {first} already', "list it once")


def _check_quotas(
    ref: ObjectRef, flavor: FlavorQuotasSpec, covered: tuple[str, ...], at: str, findings: Findings
) -> None:
    listed = tuple(each.name for each in flavor.resources)
    if sorted(listed) != sorted(covered):
        problem = f"are {', '.join(listed) or 'none'}, but coveredResources are {', '.join(covered) or 'none'}"
        findings.fault(ref, at, problem, "list exactly the covered resources")
    for i, each in enumerate(flavor.resources):
        limits = (("borrowingLimit", each.borrowing_limit), ("lendingLimit", each.lending_limit))
        for name, quantity in (("nominalQuota", each.nominal_quota), *limits):
            if quantity is not None and not _is_amount(each.name, quantity):
                problem = f'"{quantity}" is not a quantity from 0 up'
                findings.fault(ref, f"{at}[{i}].{name}", problem, "write a quantity such as 8, 500m or 64Gi")


def _is_amount(resource: str, quantity: str | float) -> bool:
    """Whether a quantity is valid. The planner expects only valid quantities in the quotas of a valid queue."""
    with suppress(ValueError):
        return amount(resource, quantity) >= 0
    return False
