"""Plans the gangs in some documents, on the cluster that they describe or on a live one. Changes nothing."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from cluster.capturing import snapshot_of
from cluster.devices.claims import DeviceObjects
from cluster.schedulers import tried_of
from cluster.snapshot import Snapshot
from cluster.topology.well_known_levels import found_on
from gangs.coexistence.ownership import ADMISSION, CededAdvice
from gangs.dialects.claims import ceded_to_others, dialect_of
from gangs.dialects.expanding import expanded, unforeseen
from gangs.dialects.oversights import not_asking
from gangs.dialects.protection import protection
from gangs.dialects.reviewing import review
from gangs.dialects.table import DIALECTS
from gangs.dialects.topologies import topologies, topology_of
from gangs.dialects.typos import typos
from gangs.incremental.reading_apart import read_apart
from gangs.manifests import MalformedError, group_of, pod_ref
from gangs.model import Advice, Fault, Gang, GangKey, Manifest, Misplaced, ObjectRef, Reading
from gangs.sources import ObjectKey, Sources
from gangs.workload_kinds import user_defined_rows
from gangs.workloads.jobs import controller_of
from gangs.workloads.kind_table import row_of
from gangs.workloads.later_pods.held_room import by_setting
from gangs.workloads.later_pods.pods_to_come import example_pods
from gangs.workloads.pod_templates import role_of, templates
from gangs.workloads.train_jobs import RUNTIMES
from gangs.workloads.user_defined_kinds import RESOURCE
from kube.keys import GROUP
from kube.objects import Pod
from kube.topology import Topology
from planning.competing.promised_evictions import promised_by, with_promised
from planning.decision import Decision, Outcome
from planning.files.documents import Document, Mistake
from planning.files.objects import Objects, read_objects
from planning.files.resources import misspelt_resources
from planning.framing.priorities import admitted
from planning.framing.running_gangs import running_gangs
from planning.message import Message
from planning.planner import is_pending, plan_all
from planning.planning_options import DEFAULT_LIMITS, PlanningOptions
from planning.quota.usage import usage_of
from planning.what_if import AS_IT_IS, WhatIf, missing_gangs
from solver.deadline import NO_DEADLINE, Deadline
from solver.problem import Limits
from timing.clock import SYSTEM_CLOCK

_Pods = Mapping[ObjectKey, Pod]


@dataclass(frozen=True, slots=True)
class Live:
    """A running cluster: its snapshot, and the pods, workloads and group objects in it."""

    snapshot: Snapshot
    sources: Sources


@dataclass(frozen=True, slots=True)
class DryRun:
    """The result of a dry run.

    `mistakes`: errors in the documents, such as an unreadable object or an invalid annotation of a gang. `warnings`:
    parts of the documents that are valid but probably not intended, such as an annotation that no component reads.
    `notes`: kinds of objects that were left out, with their number.
    """

    decisions: tuple[Decision, ...]
    mistakes: tuple[Mistake, ...] = ()
    warnings: tuple[Mistake, ...] = ()
    notes: tuple[str, ...] = ()
    snapshot: Snapshot = field(default_factory=Snapshot)
    """The cluster that was planned on, after the `what_if` changes and before any of the plans."""
    topologies: tuple[Topology, ...] = ()


def dry_run(
    documents: Iterable[Document],
    *,
    live: Live | None = None,
    preemption: bool = True,
    limits: Limits = DEFAULT_LIMITS,
    comparing: bool = False,
    deadline: Deadline = NO_DEADLINE,
    what_if: WhatIf = AS_IT_IS,
) -> DryRun:
    """Plan every pending gang of the documents that can be read.

    `live`: plan on this cluster, as if the documents had just been applied to it. The other gangs of the cluster are
    not planned. None: the documents describe their own cluster. `comparing`: explain for each plan why another domain
    is worse. `deadline`: the end of the whole call. A gang whose turn comes later is not planned.
    `what_if`: changes that are made to the cluster before planning.

    Raises `OutOfTimeError` if the deadline passes before the objects have been read, and `UnknownNodeError` if
    `what_if` names a node that does not exist.
    """
    objects = read_objects(documents, deadline, {} if live is None else user_defined_rows(live.sources))
    given, lost = _changed(_described(objects) if live is None else _applied(objects, live), what_if)
    deadline.check()
    reading = read_apart(given.sources)
    deadline.check()
    known, _ = topologies(given.sources)
    asking = [gang for gang in given.gangs(reading) if given.asks_for(gang) or what_if.asks(gang, lost)]
    pods = {_pod_key(pod): pod for pod in given.sources.pods}
    faults = _faults(reading, asking, given, objects, pods)
    wrong = {each.key: each for each in _invalid(faults, given.sources, pods)}
    decisions = plan_all(
        [_as_if(each, known, what_if) for each in asking if is_pending(each) and each.key not in wrong],
        with_promised(given.snapshot, promised_by(given.sources.of_kind(GROUP, "Gang"))),
        known,
        PlanningOptions(
            running_gangs=running_gangs(reading),
            usage=usage_of(reading.gangs, given.snapshot),
            preemption=preemption,
            limits=limits,
            comparing=comparing,
            deadline=deadline,
        ),
    )
    mistakes = [_mistake(fault, objects) for fault in faults]
    misplaced, others = _remarks(reading, given, objects, pods)
    return DryRun(
        decisions=(*decisions, *wrong.values()),
        mistakes=(*objects.mistakes, *mistakes, *misplaced, *_unknown_gangs(what_if, reading.gangs)),
        warnings=(*objects.doubtful, *others, *_no_nodes(decisions, given)),
        notes=(*_ignored(objects), *given.notes),
        snapshot=given.snapshot,
        topologies=tuple(known),
    )


def _faults(reading: Reading, asking: Sequence[Gang], given: "_Input", objects: Objects, pods: _Pods) -> list[Fault]:
    """Return the faults of the documents' objects that describe gangs, each once.

    A fault of a pod that a workload would create is reported on the workload's template (`_as_written`).
    """
    found = (*given.faults, *reading.faults, *misspelt_resources(asking, given.snapshot))
    concerned = (fault for fault in found if given.concerns(fault.object))
    return list(dict.fromkeys(_as_written(fault, given.sources, objects, pods) for fault in concerned))


def _changed(given: "_Input", what_if: WhatIf) -> "tuple[_Input, set[str]]":
    """Return the input after the `what_if` changes, and the keys (`namespace/name`) of pods that lose their nodes."""
    pods = given.sources.pods
    sources = replace(given.sources, pods=what_if.pods(pods))
    changed = replace(given, snapshot=what_if.snapshot(given.snapshot), sources=sources)
    return changed, {pod.key for pod in pods if what_if.loses(pod)}


def _unknown_gangs(what_if: WhatIf, gangs: Iterable[Gang]) -> Iterator[Mistake]:
    """Yield a mistake for each gang that `what_if` names although the cluster has no such gang."""
    return (Mistake("", f"no gang {name} in the cluster") for name in missing_gangs(what_if, gangs))


def _as_if(gang: Gang, known: Sequence[Topology], what_if: WhatIf) -> Gang:
    topology = topology_of(gang, known)
    return what_if.gang(gang, topology if isinstance(topology, Topology) else None)


@dataclass(frozen=True, slots=True)
class _Input:
    """The input of a dry run: a cluster and all objects in it that ask for gangs.

    `own`: keys of the objects from the documents, if they were applied to a live cluster. None: there is no live
    cluster, so every object is from the documents.
    """

    snapshot: Snapshot
    sources: Sources
    faults: Sequence[Fault] = ()
    own: frozenset[ObjectKey] | None = None
    notes: tuple[str, ...] = ()

    def gangs(self, reading: Reading) -> Iterator[Gang]:
        """Yield the gangs, each with the placeholder setting of the cluster's controller (`Sources.placeholders`)."""
        return (by_setting(each, placeholders=self.sources.placeholders) for each in reading.gangs)

    def asks_for(self, gang: Gang) -> bool:
        """Whether one of the gang's objects or pods is in the documents."""
        refs = (gang.source, *gang.groups)
        return any(map(self.concerns, refs)) or any(self._has(_pod_key(member.pod)) for member in gang.members)

    def concerns(self, ref: ObjectRef) -> bool:
        """Whether the object is from the documents, not from the live cluster."""
        return self._has((group_of(ref.api_version), ref.kind, ref.namespace, ref.name))

    def _has(self, key: ObjectKey) -> bool:
        return self.own is None or key in self.own


def _remarks(reading: Reading, given: _Input, objects: Objects, pods: _Pods) -> tuple[list[Mistake], list[Mistake]]:
    """Return two lists of warnings: those about labels and annotations in the wrong place, which a dry run reports as
    mistakes, and all others.
    """
    parts: tuple[list[Mistake], list[Mistake]] = ([], [])
    for each in _advice(reading, given, objects, pods):
        parts[not isinstance(each, Misplaced)].append(_warning(each, objects))
    return parts


def _advice(reading: Reading, given: _Input, objects: Objects, pods: _Pods) -> Iterable[Advice]:
    """Return the warnings about the documents, each once.

    A warning about a pod that a workload would create is reported on the workload's template (`_as_written`).
    """
    advice = (
        *reading.advice,
        *typos(given.sources, (*reading.faults, *reading.advice)),
        *unforeseen(given.sources, _named_objects(reading)),
        *not_asking(given.sources),
        *_ceded_advice(objects, given),
    )
    return dict.fromkeys(
        _as_written(each, given.sources, objects, pods)
        for each in advice
        if given.concerns(each.object) and not each.awaited
    )


def _described(objects: Objects) -> _Input:
    """Return the cluster that the documents describe by themselves, and the objects in them that ask for gangs."""
    classes = {each.metadata.name: each for each in objects.priority_classes()}
    runtimes = objects.runtime_classes()
    by_name = {each.metadata.name: each for each in runtimes}
    pods = [admitted(pod, classes, by_name) for pod in objects.pods()]
    namespaces = objects.namespaces()
    snapshot = snapshot_of(
        objects.nodes(),
        pods,
        priority_classes=classes.values(),
        budgets=objects.budgets(),
        quotas=objects.quotas(),
        namespaces=namespaces,
        claims=objects.claims(),
        volumes=objects.volumes(),
        storage_classes=objects.storage_classes(),
        runtime_classes=runtimes,
        device_classes=objects.device_classes(),
        devices=objects.devices(),
        protected=protection(objects.manifests),
        trusting=True,
        now=SYSTEM_CLOCK.wall(),
    )
    found, tried = found_on(objects.nodes()), tried_of(pods)
    sources, faults = expanded(Sources(pods, objects.manifests, namespaces, found, tried, objects.sharing()))
    return _Input(snapshot, sources, faults)


def _applied(objects: Objects, live: Live) -> _Input:
    """Return the live cluster as it would be after the documents had been applied to it, with all objects that ask for
    gangs.

    A pod that exists already stays as it is. A group object or workload that exists already is replaced. The new object
    keeps the uid, creation time and status of the old one.
    """
    there = {pod.key for pod in live.sources.pods}
    classes, runtimes = live.snapshot.priority_classes, live.snapshot.runtime_classes
    coming = [admitted(pod, classes, runtimes) for pod in objects.pods() if not pod.bound and pod.key not in there]
    topology_kinds = {kind.kind for dialect in DIALECTS for kind in dialect.topology_kinds}
    changed = {
        key: _over(live.sources.objects.get(key), manifest)
        for key, manifest in objects.manifests.items()
        if key[1] not in topology_kinds
    }
    of_runtimes = {(each.group, each.kind) for each in RUNTIMES}
    neighbours = {
        key: each for key, each in live.sources.objects.items() if key[0] == ADMISSION or key[:2] in of_runtimes
    }
    standing = {**neighbours, **changed}
    asked, faults = expanded(replace(live.sources, pods=[*live.sources.pods, *coming], objects=standing))
    sources = replace(asked, objects={**live.sources.objects, **asked.objects})
    made = {_pod_key(pod) for pod in asked.pods if pod.key not in there}
    named = {_pod_key(pod) for pod in objects.pods() if not pod.bound}
    left_out = Counter(key[1] for key in objects.origins.keys() - changed.keys() - named)
    notes = tuple(f"left out with the live cluster: {count} {kind}" for kind, count in sorted(left_out.items()))
    snapshot = _with_claims(live.snapshot, objects.devices())
    return _Input(snapshot, sources, faults, frozenset({*changed, *made, *named}), notes)


def _with_claims(snapshot: Snapshot, added: DeviceObjects) -> Snapshot:
    """Return the snapshot with the claims, templates and DeviceClasses of the documents.

    A claim that exists keeps its devices. ResourceSlices describe the cluster, so those of the documents are left out.
    """
    devices = snapshot.devices
    if devices is None or not (added.claims or added.templates or added.classes):
        return snapshot
    applied = replace(
        devices,
        classes={**devices.classes, **{each.metadata.name: each for each in added.classes}},
        claims={**{each.key: each for each in added.claims}, **devices.claims},
        templates={**devices.templates, **{each.key: each for each in added.templates}},
    )
    return replace(snapshot, devices=applied)


def _ceded_advice(objects: Objects, given: _Input) -> Iterator[Advice]:
    """Yield a warning for each pod and workload of the documents that Phalanx cedes to another system of the
    cluster.
    """
    left = ceded_to_others(given.sources)
    if not left.to:
        return
    for pod in objects.pods():
        claim = None if pod.bound else dialect_of(pod)
        if claim is not None and dialect_of(pod, left) is None:
            yield left.advice(claim[0].name, pod_ref(pod))
    for manifest in objects.manifests.values():
        yield from (each for each in review(manifest, given.sources)[1] if isinstance(each, CededAdvice))


def _over(existing: Manifest | None, manifest: Manifest) -> Manifest:
    if existing is None:
        return manifest
    metadata = {**manifest["metadata"], "uid": existing["metadata"].get("uid", "")}
    if created := existing["metadata"].get("creationTimestamp"):
        metadata["creationTimestamp"] = created
    return {**manifest, "metadata": metadata, "status": existing.get("status") or {}}


def _named_objects(reading: Reading) -> set[ObjectRef]:
    """Return the objects about which the reading has a fault or an advice."""
    return {fault.object for fault in reading.faults} | {advice.object for advice in reading.advice}


def _no_nodes(decisions: Iterable[Decision], given: _Input) -> Iterator[Mistake]:
    """Yield a mistake if there is no node and a gang is unplaceable, because the solver's explanations are useless
    then.
    """
    if not given.snapshot.nodes and any(each.outcome is Outcome.UNPLACEABLE for each in decisions):
        yield Mistake("", "there is no Node, so nothing can be placed: give the nodes, too, or name a cluster")


def _pod_key(pod: Pod) -> ObjectKey:
    return "", "Pod", pod.metadata.namespace, pod.metadata.name


def _ignored(objects: Objects) -> list[str]:
    return [f"ignored: {count} {kind}" for kind, count in sorted(objects.ignored.items())]


def _invalid(faults: Sequence[Fault], sources: Sources, pods: _Pods) -> list[Decision]:
    """Return an Invalid decision for each gang that has faults. A faulty topology belongs to no gang."""
    by_gang: dict[GangKey, list[Fault]] = {}
    for fault in faults:
        if (key := _gang_of(fault.object, sources, pods)) is not None:
            by_gang.setdefault(key, []).append(fault)
    return [
        Decision(
            gang=None,
            key=key,
            outcome=Outcome.INVALID,
            line=Message.of("; ".join(map(str, wrong))),
            faults=tuple(wrong),
        )
        for key, wrong in sorted(by_gang.items())
    ]


def _gang_of(ref: ObjectRef, sources: Sources, pods: _Pods) -> GangKey | None:
    """Return the gang that an object asks for: the gang that a pod names, or the gang that a group object or workload
    describes itself.

    None for topologies, WorkloadKinds and pods without a gang.
    """
    if ref.kind == "Pod":
        pod = pods.get(("", "Pod", ref.namespace, ref.name))
        claim = None if pod is None else dialect_of(pod)
        return None if claim is None else claim[1]
    group = group_of(ref.api_version)
    if (group, ref.kind) == (RESOURCE.group, RESOURCE.kind):
        return None
    if (named := _named_by_pods_of(sources.get(group, ref.kind, ref.namespace, ref.name))) is not None:
        return named
    for dialect in DIALECTS:
        if any((kind.group, kind.kind) == (group, ref.kind) for kind in dialect.topology_kinds):
            return None
        if any((kind.group, kind.kind) == (group, ref.kind) for kind in dialect.group_kinds):
            return GangKey(dialect.name, ref.namespace, ref.name)
    return GangKey(DIALECTS[0].name, ref.namespace, ref.name)


def _named_by_pods_of(manifest: Manifest | None) -> GangKey | None:
    """Return the gang that the pods of this workload name; None if they name none or the object is no workload."""
    if manifest is None or row_of(manifest) is None:
        return None
    try:
        claims = [dialect_of(pod) for pod in example_pods(manifest)]
    except MalformedError:
        return None
    return next((claim[1] for claim in claims if claim is not None), None)


_Finding = TypeVar("_Finding", Fault, Advice)


def _as_written(finding: _Finding, sources: Sources, objects: Objects, pods: _Pods) -> _Finding:
    """Return the finding, attributed to the workload's template if its object is a pod that the workload would create.

    The documents do not contain such a pod, so a user could not find it there.
    """
    ref = finding.object
    key = (group_of(ref.api_version), ref.kind, ref.namespace, ref.name)
    if key in objects.origins:
        return finding
    pod = pods.get(key)
    owner = None if pod is None else controller_of(pod)
    if pod is None or owner is None:
        return finding
    workload = ObjectRef(owner.api_version, owner.kind, ref.namespace, owner.name)
    return replace(finding, object=workload, field=f"{_template_of(pod, workload, sources)}.{finding.field}")


def _template_of(pod: Pod, workload: ObjectRef, sources: Sources) -> str:
    """Return the field path of the pod template, inside the workload, from which the workload creates the pod."""
    manifest = sources.get(group_of(workload.api_version), workload.kind, workload.namespace, workload.name)
    found = templates(manifest) if manifest is not None else ()
    return next((each.path for each in found if each.role == role_of(pod)), "spec.template")


def _mistake(fault: Fault, objects: Objects) -> Mistake:
    return Mistake(_origin(fault.object, objects), f"{fault.problem}; {fault.remedy}", str(fault.object), fault.field)


def _warning(advice: Advice, objects: Objects) -> Mistake:
    return Mistake(_origin(advice.object, objects), advice.text, str(advice.object), advice.field)


def _origin(ref: ObjectRef, objects: Objects) -> str:
    return objects.origins.get((group_of(ref.api_version), ref.kind, ref.namespace, ref.name), "")
