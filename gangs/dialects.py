"""The table of dialects, and the questions that every other room asks of all of them together."""

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from gangs import levels, pools
from gangs.ack import NAME as ACK
from gangs.ack.dialect import AckDialect
from gangs.ack.messages import told as told_by_ack
from gangs.findings import Findings
from gangs.fractions import fractions, without_fractions
from gangs.kai.dialect import KaiDialect
from gangs.kinds import READ, carries, example_pods, shape_of, templates
from gangs.koordinator import NAME as KOORDINATOR
from gangs.koordinator.dialect import KoordinatorDialect
from gangs.koordinator.messages import told as told_by_koordinator
from gangs.kueue.dialect import KueueDialect
from gangs.leaving import EVIDENCE_KINDS, NOTHING, Left, admitted_by_us, left_to
from gangs.manifests import MalformedError, key_of, pod_of, pod_ref, ref_of
from gangs.model import Advice, Fault, Gang, GangKey, Manifest, Member, ObjectRef, Reading
from gangs.phalanx.dialect import PhalanxDialect
from gangs.runai.dialect import RunaiDialect
from gangs.schedulers import FIELD, KNOWN, told, waited_for
from gangs.sources import NAME_FIELD, Dialect, Kind, Resuming, Reviewing, Sources
from gangs.telling import Words
from gangs.workloads import (
    counted_by_job,
    example_pod,
    is_job,
)
from kube import keys
from kube.objects import Pod
from kube.text import one_line
from kube.topology import Topology

DIALECTS: tuple[Dialect, ...] = (
    PhalanxDialect(),
    RunaiDialect(),
    AckDialect(),
    KoordinatorDialect(),
    KaiDialect(),
    KueueDialect(),
)
"""In order of precedence: the first that knows a pod has it."""

OWN = PhalanxDialect.name
"""The dialect of gangs that users ask for by a Gang object."""

_POD_KEYS = frozenset(key for each in DIALECTS for key in (*each.pod_keys.labels, *each.pod_keys.annotations))
_WRITTEN_FIRST = {first.name: (first, *(each for each in DIALECTS if each is not first)) for first in DIALECTS}
"""The same, for pods on which one of them was written at their admission."""

WORDS: Mapping[str, Words] = {ACK: told_by_ack, KOORDINATOR: told_by_koordinator}
"""By the shape that gangs name (`Gang.messages`): what waiting members say in the words of their own system."""


Claim = tuple[Dialect, GangKey]
"""Who knows a pod, and the gang that it names."""


def dialect_of(pod: Pod, left: Left = NOTHING) -> Claim | None:
    """The dialect that claims the pod, and the gang it names; None for a pod of no gang, or of one that is left alone.

    The dialect that was written on the pod at its admission goes first, as long as it still claims it.
    """
    if not pod.metadata.labels and not pod.metadata.annotations:
        return None
    written = pod.metadata.labels.get(keys.DIALECT)
    for dialect in _WRITTEN_FIRST.get(written or "", DIALECTS):
        key = dialect.gang_of(pod)
        if key is not None and not left.leaves(key):
            return dialect, key
        if key is not None and dialect.name == written:
            return None  # the label that names its gang in our own words was put on it for this dialect
    return None


def left_alone(sources: Sources) -> Left:
    """What is left to other systems. A gang with a live member that came in through us stays ours to its end.

    `sources.pods` may be those of one gang only, if only that one is asked about.
    """
    to = left_to(sources)
    if not to:
        return NOTHING
    ours = [(pod, each) for pod in sources.pods for each in DIALECTS if each.name == admitted_by_us(pod)]
    keys_of_ours = (each.gang_of(pod) for pod, each in ours if each.name in to)
    return Left(to, frozenset(key for key in keys_of_ours if key is not None))


def protected(pod: Pod) -> str:
    """Why a dialect never lets this pod be a victim, "" where none minds. Holds for pods of no gang, too."""
    return next((reason for dialect in DIALECTS if (reason := dialect.protected(pod))), "")


def all_kinds() -> tuple[Kind, ...]:
    """Every kind to watch, besides pods, nodes and namespaces: groups, workloads, topologies, signs of others."""
    of_dialects = (kind for each in DIALECTS for kind in (*each.group_kinds, *each.topology_kinds))
    kept = (replace(kind, keeps=_asks) if kind in READ else kind for kind in of_dialects)
    return tuple(dict.fromkeys((*kept, *EVIDENCE_KINDS, KNOWN)))


def _asks(workload: Manifest) -> bool:
    """Whether a workload, or a template of it, carries a key by which pods ask for gangs."""
    return carries(workload, _POD_KEYS)


def topologies(sources: Sources) -> tuple[list[Topology], list[Fault]]:
    """All valid topologies, and what is wrong with the others."""
    found, faults = described_topologies(sources)
    return [each for each in found if not each.refused], faults


def described_topologies(sources: Sources) -> tuple[list[Topology], list[Fault]]:
    """All topologies, stand-ins for the refused ones too, and what is wrong with these: what gangs are read with."""
    findings = Findings()
    return _topologies(sources, findings, left_to(sources)), list(findings.faults)


def known_topologies(sources: Sources) -> list[Topology]:
    """All valid topologies, without a look at objects that are none."""
    return [each for each in pools.known(DIALECTS, sources, Findings(), left_to(sources)) if not each.refused]


def _topologies(sources: Sources, findings: Findings, left: Container[str] = ()) -> list[Topology]:
    """All, stand-ins for the refused ones too; what is wrong with them, and beside them, goes to `findings`."""
    for dialect in DIALECTS:
        if isinstance(dialect, Reviewing) and dialect.name not in left:
            dialect.review(sources, findings)
    return pools.known(DIALECTS, sources, findings, left)


def topology_of(gang: Gang, known: Sequence[Topology]) -> Topology | Fault | None:
    """The topology that a gang is placed in: the one it names, else the only one of its kind.

    None where there is none at all, and where the named one does not exist yet (then the gang waits for it). A fault
    where several exist and none is named, or where the gang names a level that the topology lacks.
    """
    pods = [member.pod for member in gang.members]
    match levels.choose(gang.topology, gang.topology_kind, pools.reachable(gang.topology, pods, known)):
        case levels.Ambiguous(names):
            several = f'"{gang.topology}" is the name of several topologies'
            problem = several if gang.topology else "names no topology, and there are several"
            return Fault(gang.source, "spec.topology", problem, f"name one of {', '.join(names)}")
        case Topology() as topology:
            if problem := pools.out_of_reach(topology, pods, known):
                return Fault(gang.source, "spec.topology", problem, pools.OUT_OF_REACH)
            for name in levels.levels_named(gang):
                if topology.find(name) is None:
                    return levels.unknown_level(gang.source, levels.LevelWish("spec", name), topology)
            return topology
        case _:
            return None


def read_all(sources: Sources) -> Reading:
    """Every gang of every dialect, in order of dialect and key, with all that is wrong."""
    findings, left = Findings(), left_alone(sources)
    known = _topologies(sources, findings, left.to)
    claims = [dialect_of(pod, left) for pod in sources.pods]
    pods = _by_dialect(sources.pods, claims, left)
    gangs: list[Gang] = []
    for dialect in DIALECTS:
        reading = read_by(dialect, replace(sources, pods=pods[dialect.name]), known)
        if dialect.name in left.to:
            reading = left.carries(reading)
        gangs += sorted(reading.gangs, key=lambda gang: gang.key)
        findings.take(reading.faults, reading.advice)
    ended = _succeeded(sources.pods, left)
    gangs = [replace(gang, succeeded=sum(ended[key] for key in gang.names)) if ended else gang for gang in gangs]
    theirs = _read_neighbours(sources, claims, left, known) if left.to else ()
    astray = _astray(sources.pods, claims, gangs)
    return Reading(tuple(gangs), findings.faults, findings.advice, theirs, astray)


def _read_neighbours(
    sources: Sources, claims: Sequence[Claim | None], left: Left, known: Sequence[Topology]
) -> tuple[Gang, ...]:
    """The gangs that are left to other systems. What is wrong with them is not our business."""
    unclaimed = [pod for pod, claim in zip(sources.pods, claims, strict=True) if claim is None]
    pods = _by_dialect(unclaimed, [dialect_of(pod) for pod in unclaimed], NOTHING)
    read = [each.read(replace(sources, pods=pods[each.name]), known) for each in DIALECTS if each.name in left.to]
    return tuple(gang for reading in read for gang in reading.gangs if left.leaves(gang.key))


def _astray(
    pods: Sequence[Pod], claims: Sequence[Claim | None], gangs: Sequence[Gang]
) -> tuple[tuple[Pod, GangKey], ...]:
    """Live pods that name a gang and are members of none that was read."""
    members = {id(member.pod) for gang in gangs for member in gang.members}
    return tuple(
        (pod, claim[1])
        for pod, claim in zip(pods, claims, strict=True)
        if claim is not None and id(pod) not in members and not (pod.finished or pod.terminating)
    )


def read_by(
    dialect: Dialect, sources: Sources, topologies: Sequence[Topology], about: GangKey | None = None
) -> Reading:
    """What a dialect reads, and what holds for the gangs of all of them."""
    return _in_lines(waited_for(without_fractions(dialect.read(sources, topologies, about)), sources))


def _in_lines(reading: Reading) -> Reading:
    """What gangs wait for is told to many: what users have written there is on one line, whatever it is."""
    if all(what.isprintable() for gang in reading.gangs for what in gang.waiting_for):
        return reading
    gangs = (replace(gang, waiting_for=tuple(map(one_line, gang.waiting_for))) for gang in reading.gangs)
    return replace(reading, gangs=tuple(gangs))


def described(manifest: Manifest, sources: Sources) -> Gang | None:
    """The gang that an object among the sources describes, alone or with others; None where it describes none."""
    ref, left = ref_of(manifest), left_alone(sources)
    known, pods = known_topologies(sources), _pods_by_dialect(sources.pods, left)
    for dialect in DIALECTS:
        about = GangKey(dialect.name, ref.namespace, ref.name)
        reading = read_by(dialect, replace(sources, pods=pods[dialect.name]), known, about)
        gangs = left.carries(reading).gangs if dialect.name in left.to else reading.gangs
        for gang in sorted(gangs, key=lambda each: each.key):
            if ref == gang.source or ref in gang.groups:
                ended = _succeeded(sources.pods, left)
                return replace(gang, succeeded=sum(ended[key] for key in gang.names))
    return None


def _succeeded(pods: Sequence[Pod], left: Left) -> Counter[GangKey]:
    """Pods that have ended well, by gang. A Job counts its own: it runs fewer pods the more have completed."""
    ended = [pod for pod in pods if pod.status.phase == "Succeeded" and not pod.terminating]
    claims = [claim[1] for pod in ended if not counted_by_job(pod) and (claim := dialect_of(pod, left)) is not None]
    return Counter(claims)


def _pods_by_dialect(pods: Sequence[Pod], left: Left) -> dict[str, list[Pod]]:
    """What each dialect may look at: the pods it claims and, where it is not left to others, those that nobody does."""
    return _by_dialect(pods, [dialect_of(pod, left) for pod in pods], left)


def _by_dialect(pods: Sequence[Pod], claims: Sequence[Claim | None], left: Left) -> dict[str, list[Pod]]:
    seen: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod, claim in zip(pods, claims, strict=True):
        for dialect in DIALECTS:
            if claim[0] is dialect if claim is not None else dialect.name not in left.to:
                seen[dialect.name].append(pod)
    return seen


def review(manifest: Manifest, sources: Sources, *, exists: bool = False) -> tuple[list[Fault], list[Advice]]:
    """Check one object as it would stand among the others: a group object, a topology, a workload or a pod.

    Faults are about this object alone. What its arrival makes wrong elsewhere, and what its gang waits for, is
    advice. An object of no dialect has neither.

    :param exists: whether it is there already. A workload that is has no mark put on its template any more.
    """
    if (manifest.get("apiVersion"), manifest.get("kind")) == ("v1", "Pod"):
        arriving = arrival(manifest, sources)
        return list(arriving.faults), list(arriving.advice)
    try:
        standing = sources.having(manifest if exists else as_admitted(manifest, sources))
        findings = _review_object(manifest, standing, left_alone(sources))
    except MalformedError as error:
        return [error.fault], []
    return list(findings.faults), list(findings.advice)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A pod as it would stand among the others.

    `gang` has the pod among its members, as `member`; both are None where it names no gang, or one that cannot be read.
    """

    faults: Sequence[Fault] = ()
    advice: Sequence[Advice] = ()
    gang: Gang | None = None
    member: Member | None = None


def arrival(manifest: Manifest, sources: Sources) -> Arrival:
    """Check a pod (`review`), and see what it makes of its gang. `sources` may hold the pods of its gang only."""
    try:
        pod = pod_of(manifest)
    except MalformedError as error:
        return Arrival([error.fault])
    left = left_alone(sources)
    claim = dialect_of(pod, left)
    if claim is None:
        other = dialect_of(pod)
        return Arrival(advice=[] if other is None else [left.advice(other[0].name, pod_ref(pod))])
    dialect, key = claim
    others = [each for each in sources.pods if not each.metadata.name or each.key != pod.key]
    standing = replace(sources, pods=[*others, pod])
    pods = _pods_by_dialect(standing.pods, left)[dialect.name]
    reading = read_by(dialect, replace(standing, pods=pods), known_topologies(standing), key)
    findings = _about(pod_ref(pod), reading)
    _add_bystanders(pod_ref(pod), key, reading, findings, partial(dialect.pod_keys.naming, pod))
    gang, member = next(((g, m) for g in reading.gangs for m in g.members if m.pod is pod), (None, None))
    if gang is not None:
        ended = _succeeded(others, left)
        gang = replace(gang, succeeded=sum(ended[name] for name in gang.names))
    return Arrival(findings.faults, findings.advice, gang, member)


def _review_object(manifest: Manifest, standing: Sources, left: Left) -> Findings:
    ref, findings = ref_of(manifest), Findings()
    group, kind, _, _ = key_of(manifest)
    describing = [each for each in DIALECTS if _has(each.topology_kinds, group, kind)]
    if describing and all(each.name in left.to for each in describing):
        findings.take((), [left.advice(describing[0].name, ref)])
        return findings
    if describing:
        _topologies(standing, findings, left.to)
        return _about(ref, Reading((), findings.faults, findings.advice))
    pods, topologies_known = _pods_by_dialect(standing.pods, left), known_topologies(standing)
    for dialect in DIALECTS:
        known = _has(dialect.group_kinds, group, kind)
        if not known and shape_of(manifest) is None:
            continue
        key = GangKey(dialect.name, ref.namespace, ref.name)
        reading = read_by(dialect, replace(standing, pods=pods[dialect.name]), topologies_known, key)
        about = _about(ref, reading)
        workload = shape_of(manifest) is not None
        if left.leaves(key):
            asks = _asks_in(dialect, manifest, standing) or bool(about.faults) if workload else known
            findings.take((), [left.advice(dialect.name, ref)] if asks else ())
            continue
        findings.take(about.faults, about.advice)
        if known and (not workload or _asks_here(dialect, manifest, standing, left)):
            _add_bystanders(ref, key, reading, findings)
    _review_templates(ref, standing.objects[key_of(manifest)], standing, left, findings)
    return findings


def _review_templates(ref: ObjectRef, workload: Manifest, sources: Sources, left: Left, findings: Findings) -> None:
    """Note what no pod of a gang can have, where the pods of this workload are to be a gang's."""
    for pod, template in zip(examples(workload), templates(workload), strict=False):
        if (claim := dialect_of(pod, left)) is not None:
            findings.take(fractions(ref, f"{template.path}.metadata.annotations", template.annotations))
            if text := told(pod.spec.scheduler_name, claim[0].pod_keys, sources):
                findings.advise(ref, f"{template.path}.{FIELD}", text)


def _has(kinds: Sequence[Kind], group: str, kind: str) -> bool:
    return any((each.group, each.kind) == (group, kind) for each in kinds)


def _asks_here(dialect: Dialect, workload: Manifest, sources: Sources, left: Left) -> bool:
    """Whether a workload asks to be a gang, by what it says itself or by what its pods will say in this dialect."""
    if template_labels(workload, sources):
        return True
    claims = [dialect_of(pod, left) for pod in examples(workload)]
    mine = any(claim is not None and claim[0] is dialect for claim in claims)
    return mine and not isinstance(dialect, PhalanxDialect)


def _asks_in(dialect: Dialect, workload: Manifest, sources: Sources) -> bool:
    """Whether a workload would ask to be a gang in this dialect, whoever runs in the cluster."""
    asked = dialect.template_labels(workload, sources, claimed=True)
    return bool(asked) or any(dialect.gang_of(pod) is not None for pod in examples(workload))


def examples(workload: Manifest) -> tuple[Pod, ...]:
    """A pod of each template, as the workload makes them. Raises `MalformedError`."""
    return (example_pod(workload),) if is_job(workload) else example_pods(workload)


def _about(ref: ObjectRef, reading: Reading) -> Findings:
    """What a reading has found about one object."""
    findings = Findings()
    faults = (each for each in reading.faults if each.object == ref)
    findings.take(faults, (each for each in reading.advice if each.object == ref))
    return findings


def _add_bystanders(
    ref: ObjectRef, key: GangKey, reading: Reading, findings: Findings, at: Callable[[str], str] = lambda _: NAME_FIELD
) -> None:
    """Add, as advice on one object of a gang, what is wrong with the others and, `at` a field, what it waits for.

    Nothing of what another namespace has written is told (docs/decisions/0013).
    """
    for fault in reading.faults:
        if fault.object != ref and fault.object.namespace in ("", ref.namespace):
            findings.advise(ref, NAME_FIELD, f"the gang {key} cannot be planned: {fault}")
    said = {each.awaited for each in findings.advice}
    for gang in reading.gangs:
        own = any(each.namespace == ref.namespace for each in (gang.source, *gang.groups))
        for what in gang.waiting_for if own else ():
            if what not in said:
                findings.advise(ref, at(what), f"the gang {gang.key} waits for {what}", what)


def template_labels(manifest: Manifest, sources: Sources) -> dict[str, str]:
    """Labels that a workload's pod template gets at its admission, so that its pods are known as a gang's.

    Empty for everything that is no workload or asks for nothing. Raises `MalformedError`.
    """
    if not is_job(manifest):
        return {}
    ours = _ours(sources)
    others = [each for each in DIALECTS if each not in ours and _asks_in(each, manifest, sources)]
    claimed = bool(others) or dialect_of(example_pod(manifest)) is not None
    # What is asked for in so many words goes before what is automatic.
    asked = _labels(ours, manifest, sources, claimed=True)
    return asked if asked or claimed else _labels(ours, manifest, sources, claimed=False)


def _ours(sources: Sources) -> list[Dialect]:
    """The dialects that are not left to another system."""
    left = left_to(sources)
    return [each for each in DIALECTS if each.name not in left]


def _labels(dialects: Sequence[Dialect], manifest: Manifest, sources: Sources, *, claimed: bool) -> dict[str, str]:
    labels: dict[str, str] = {}
    for dialect in dialects:
        labels.update(dialect.template_labels(manifest, sources, claimed=claimed))
    return labels


def queued(manifest: Manifest, sources: Sources) -> bool:
    """Whether a workload is in a queue of ours: one that is suspended from the start is so for its queue to resume it.

    Raises `MalformedError`.
    """
    return any(isinstance(each, Resuming) and each.resumes(manifest) for each in _ours(sources))


def _started(manifest: Manifest, sources: Sources) -> bool:
    """Whether a workload that is suspended starts all the same. One that was admitted before is so by its user."""
    metadata, suspended = manifest["metadata"], (manifest.get("spec") or {}).get("suspend")
    admitted = metadata.get("uid") and keys.CREATED_SUSPENDED in (metadata.get("annotations") or {})
    return bool(suspended) and not admitted and queued(manifest, sources)


def as_admitted(manifest: Manifest, sources: Sources) -> Manifest:
    """The object as it is after admission: a workload that asks for a gang has its template labelled."""
    labels = template_labels(manifest, sources)
    if labels and _started(manifest, sources):
        manifest = {**manifest, "spec": {**manifest["spec"], "suspend": False}}
    if not labels:
        return manifest
    spec = manifest.get("spec") or {}
    template = spec.get("template") or {}
    metadata = template.get("metadata") or {}
    labelled = {**metadata, "labels": {**(metadata.get("labels") or {}), **labels}}
    return {**manifest, "spec": {**spec, "template": {**template, "metadata": labelled}}}
