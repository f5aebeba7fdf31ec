"""The review of one object at its admission: the faults because of which it is refused, and advice as warnings.

The review of a pod also returns the pod's gang, with the pod as a member (`Arrival`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from msgspec import structs

from gangs.coexistence.ownership import CededToOthers
from gangs.coexistence.running_schedulers import FIELD, advice_on
from gangs.dialects.claims import ceded_to_others, dialect_of, pods_by_dialect, readable_by, succeeded
from gangs.dialects.protocol import Dialect
from gangs.dialects.reading import described, read_by
from gangs.dialects.table import DIALECTS, OWN
from gangs.dialects.templates import as_admitted, asks_in, template_labels
from gangs.dialects.topologies import checked_topologies, known_topologies
from gangs.dialects.unknown_kinds import asking_in_vain
from gangs.findings import Findings
from gangs.gpu_fractions import fractions
from gangs.held_nodes import held_node
from gangs.manifests import MalformedError, key_of, pod_of, pod_ref, ref_of, section
from gangs.model import Advice, Fault, Gang, GangKey, Manifest, Member, ObjectRef, Reading
from gangs.resource_kinds import ResourceKind
from gangs.sources import NAME_FIELD, Sources
from gangs.workloads.kind_table import ROW, row_of
from gangs.workloads.later_pods.pods_to_come import example_pods
from gangs.workloads.pod_templates import controlled, templates
from kube.kept_objects import kept_object
from kube.keys import GROUP, WORKLOAD
from kube.objects import Pod

_GANG = GROUP, "Gang"


def review(manifest: Manifest, sources: Sources, *, exists: bool = False) -> tuple[list[Fault], list[Advice]]:
    """Return the faults of an object, and the advice on it. The object is a group object, topology, workload or pod.

    Advice includes faults of other objects of the same gang, and what the gang waits for. For an object that no dialect
    reads, both lists are empty.

    :param sources: the other objects.
    :param exists: whether the object exists already. Admission then adds no labels to its pod templates any more.
    """
    if (manifest.get("apiVersion"), manifest.get("kind")) == ("v1", "Pod"):
        arriving = arrival(manifest, sources)
        return list(arriving.faults), list(arriving.advice)
    try:
        # each dialect reads the reviewed object, so what is computed from it is kept
        standing = sources.having(kept_object(manifest if exists else as_admitted(manifest, sources)))
        findings = _review_object(manifest, standing, ceded_to_others(sources))
    except MalformedError as error:
        return [error.fault], []
    return list(findings.faults), list(findings.advice)


@dataclass(frozen=True, slots=True)
class Arrival:
    """The result of the review of a new pod.

    `gang`: the pod's gang, with the pod as a member. `member`: this member. Both are None if the pod names no gang, or
    if the gang has faults.
    """

    faults: Sequence[Fault] = ()
    advice: Sequence[Advice] = ()
    gang: Gang | None = None
    member: Member | None = None


def arrival(manifest: Manifest, sources: Sources) -> Arrival:
    """Review a new pod: return its faults and advice (`review`), and its gang with the pod as a member.

    :param sources: the other objects, and at least the other pods of the pod's gang.
    """
    try:
        pod = pod_of(manifest)
    except MalformedError as error:
        return Arrival([error.fault])
    left = ceded_to_others(sources)
    claim = dialect_of(pod, left)
    if claim is None:
        other = dialect_of(pod)
        return Arrival(advice=[] if other is None else [left.advice(other[0].name, pod_ref(pod))])
    dialect, key = claim
    others = [each for each in sources.pods if not each.metadata.name or each.key != pod.key]
    standing = replace(sources, pods=[*others, pod])
    siblings = [each for each in others if readable_by(dialect, dialect_of(each, left), left)]
    read = standing if len(siblings) == len(others) else replace(standing, pods=[*siblings, pod])
    reading = read_by(dialect, read, known_topologies(standing), key)
    findings = _about(pod_ref(pod), reading)
    _add_bystanders(pod_ref(pod), key, reading, findings, partial(dialect.pod_keys.naming, pod))
    gang, member = next(((g, m) for g in reading.gangs for m in g.members if m.pod is pod), (None, None))
    if gang is not None:
        ended = succeeded(others, left)
        gang = replace(gang, succeeded=sum(ended[name] for name in gang.names)) if ended else gang
    return Arrival(findings.faults, findings.advice, gang, member)


def requeued(manifest: Manifest, old: Manifest, sources: Sources) -> list[Fault]:
    """Return the fault of an update that changes the queue of a Gang object although members have nodes already.

    The change is refused because these members use quota of the old queue. The list is empty for any other update, and
    if the old or new version is invalid.

    :param old: the object before the update.
    """
    if key_of(manifest)[:2] != _GANG or section(manifest, "spec").get("queue") == section(old, "spec").get("queue"):
        return []
    was, now = described(old, sources.having(old)), described(manifest, sources.having(manifest))
    if was is None or now is None or not (was.queue_dialect or now.queue_dialect):
        return []
    if not any(held_node(member.pod) for member in now.members):
        return []
    places = [f"queue {each.queue}" if each.queue else "no queue" for each in (was, now)]
    problem = f"the gang has started in {places[0]} and cannot go on in {places[1]}"
    return [Fault(ref_of(manifest), "spec.queue", problem, "leave it as it is until its pods have gone")]


def _review_object(manifest: Manifest, standing: Sources, left: CededToOthers) -> Findings:
    ref, findings = ref_of(manifest), Findings()
    group, kind, _, _ = key_of(manifest)
    describing = [each for each in DIALECTS if _has(each.topology_kinds, group, kind)]
    if describing and all(each.name in left.to for each in describing):
        findings.take((), [left.advice(describing[0].name, ref)])
        return findings
    known = bool(describing) or any(_has(each.group_kinds, group, kind) for each in DIALECTS)
    if not known and row_of(manifest) is None and not controlled(manifest):
        vain = asking_in_vain(manifest)
        findings.take((), [] if vain is None else [vain])
        return findings
    if describing:
        checked_topologies(standing, findings, left.to)
        return _about(ref, Reading((), findings.faults, findings.advice))
    pods, topologies_known = pods_by_dialect(standing.pods, left), known_topologies(standing)
    labelled = cache(lambda: bool(template_labels(manifest, standing)))
    for dialect in DIALECTS:
        known = _has(dialect.group_kinds, group, kind) or (dialect.name == OWN and ROW in manifest)
        if not known and row_of(manifest) is None:
            continue
        key = GangKey(dialect.name, ref.namespace, ref.name)
        reading = read_by(dialect, replace(standing, pods=pods[dialect.name]), topologies_known, key)
        about = _about(ref, reading)
        workload = row_of(manifest) is not None
        if left.leaves(key):
            asks = asks_in(dialect, manifest, standing) or bool(about.faults) if workload else known
            findings.take((), [left.advice(dialect.name, ref)] if asks else ())
            continue
        findings.take(about.faults, about.advice)
        if known and (not workload or labelled() or _named_in(dialect, manifest, left)):
            _add_bystanders(ref, key, reading, findings)
    _review_templates(ref, standing.objects[key_of(manifest)], standing, left, findings)
    return findings


def _review_templates(
    ref: ObjectRef, workload: Manifest, sources: Sources, left: CededToOthers, findings: Findings
) -> None:
    """Report what is refused or has a surprising effect in the pod templates of a workload.

    Requests for a fraction of a GPU are faults. A `schedulerName` of another scheduler, and the name of a second gang,
    get advice. A template whose pods name no gang is not checked.
    """
    for pod, template in zip(example_pods(workload), templates(workload), strict=False):
        if (claim := dialect_of(pod, left)) is not None:
            findings.take(fractions(ref, f"{template.metadata_at}.annotations", template.annotations))
            if text := advice_on(pod.spec.scheduler_name, claim[0].pod_keys, sources):
                findings.advise(ref, f"{template.path}.{FIELD}", text)
            if WORKLOAD in template.labels and not findings.faults:
                others = (each for each in DIALECTS if each is not claim[0])
                findings.take((), _unread(ref, template.metadata_at, pod, others, left))


def _unread(ref: ObjectRef, at: str, pod: Pod, others: Iterable[Dialect], left: CededToOthers) -> Iterator[Advice]:
    """Yield advice on gangs that a pod template names in other dialects although the whole workload is a gang.

    A pod has only one gang, so these names have no effect.
    """
    labels = {key: value for key, value in pod.metadata.labels.items() if key != WORKLOAD}
    unmarked = structs.replace(pod, metadata=structs.replace(pod.metadata, labels=labels))
    for dialect in others:
        key = dialect.gang_of(unmarked)
        if key is not None and not left.leaves(key):
            text = f"names gang {key} in the words of {dialect.name}, too, which count for nothing: the {ref.kind} is "
            yield Advice(ref, at, f"{text}a gang itself; keep one of the two ways of asking")


def _has(kinds: Sequence[ResourceKind], group: str, kind: str) -> bool:
    return any((each.group, each.kind) == (group, kind) for each in kinds)


def _named_in(dialect: Dialect, workload: Manifest, left: CededToOthers) -> bool:
    """Whether a workload's pods name a gang in this dialect. In Phalanx's own dialect, such a gang does not count."""
    claims = (dialect_of(pod, left) for pod in example_pods(workload) if dialect.name != OWN)
    return any(claim is not None and claim[0] is dialect for claim in claims)


def _about(ref: ObjectRef, reading: Reading) -> Findings:
    """Return the faults and advice in `reading` that are about one object."""
    findings = Findings()
    faults = (each for each in reading.faults if each.object == ref)
    findings.take(faults, (each for each in reading.advice if each.object == ref))
    return findings


def _add_bystanders(
    ref: ObjectRef, key: GangKey, reading: Reading, findings: Findings, at: Callable[[str], str] = lambda _: NAME_FIELD
) -> None:
    """Add advice on one object of a gang: the faults of the gang's other objects, and what the gang waits for.

    Faults of objects in another namespace are left out, because the user may not see them (docs/decisions/0013).

    :param at: a function from an entry of `Gang.waiting_for` to the field of the object that names it.
    """
    for fault in reading.faults:
        if fault.object != ref and fault.object.namespace in ("", ref.namespace):
            findings.advise(ref, NAME_FIELD, f"the gang {key} cannot be planned: {fault}")
    awaited = {each.awaited for each in findings.advice}
    for gang in reading.gangs:
        own = any(each.namespace == ref.namespace for each in (gang.source, *gang.groups))
        for what in gang.waiting_for if own else ():
            if what not in awaited:
                findings.advise(ref, at(what), f"the gang {gang.key} waits for {what}", what)
