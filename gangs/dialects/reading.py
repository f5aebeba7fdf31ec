"""The derivation of all gangs, faults and advice (a `Reading`) from pods and objects, by all dialects."""

from collections.abc import Sequence
from dataclasses import replace

from gangs.coexistence.ownership import NOTHING, CededToOthers
from gangs.coexistence.running_schedulers import waited_for
from gangs.dialects.charging import AllQueues
from gangs.dialects.claims import Claim, by_dialect, ceded_to_others, dialect_of, pods_by_dialect, succeeded
from gangs.dialects.ignored_queues import with_ignored_queues
from gangs.dialects.protocol import Dialect
from gangs.dialects.table import DIALECTS
from gangs.dialects.topologies import checked_topologies, known_topologies
from gangs.findings import Findings
from gangs.gpu_fractions import without_fractions
from gangs.labelled_workloads.ignored_claims import with_ignored_claims
from gangs.manifests import ref_of
from gangs.model import Gang, GangKey, Manifest, Reading
from gangs.sources import Sources
from gangs.workloads.pod_templates import first_gang
from kube.objects import Pod
from kube.text import one_line
from kube.topology import Topology


def read_all(sources: Sources) -> Reading:
    """Return the gangs of all dialects, ordered by dialect and key, with all faults and advice."""
    findings, left = Findings(), ceded_to_others(sources)
    known = checked_topologies(sources, findings, left.to)
    claims = [dialect_of(pod, left) for pod in sources.pods]
    pods = by_dialect(sources.pods, claims, left)
    gangs: list[Gang] = []
    for dialect in DIALECTS:
        reading = read_by(dialect, replace(sources, pods=pods[dialect.name]), known)
        if dialect.name in left.to:
            reading = left.carries(reading)
        gangs += sorted(reading.gangs, key=lambda gang: gang.key)
        findings.take(reading.faults, reading.advice)
    ended = succeeded(sources.pods, left)
    gangs = [replace(gang, succeeded=sum(ended[key] for key in gang.names)) if ended else gang for gang in gangs]
    theirs = _read_neighbours(sources, claims, left, known) if left.to else ()
    astray = _astray(sources.pods, claims, gangs)
    return Reading(tuple(gangs), findings.faults, findings.advice, theirs, astray)


def described(manifest: Manifest, sources: Sources) -> Gang | None:
    """Return the gang that an object describes, alone or with other objects; None if it describes none.

    If it describes several gangs, the result is the first one.

    :param sources: all objects, the object itself included.
    """
    ref, left = ref_of(manifest), ceded_to_others(sources)
    known, pods = known_topologies(sources), pods_by_dialect(sources.pods, left)
    for dialect in DIALECTS:
        about = GangKey(dialect.name, ref.namespace, first_gang(manifest))
        reading = read_by(dialect, replace(sources, pods=pods[dialect.name]), known, about)
        gangs = left.carries(reading).gangs if dialect.name in left.to else reading.gangs
        for gang in sorted(gangs, key=lambda each: each.key):
            if ref == gang.source or ref in gang.groups:
                ended = succeeded(sources.pods, left)
                return replace(gang, succeeded=sum(ended[key] for key in gang.names))
    return None


def read_by(
    dialect: Dialect, sources: Sources, topologies: Sequence[Topology], about: GangKey | None = None
) -> Reading:
    """Return the gangs of one dialect (`Dialect.read`), with the checks that apply to gangs of all dialects."""
    queues = AllQueues(sources)
    sources = replace(sources, queues=queues)
    reading = waited_for(without_fractions(dialect.read(sources, topologies, about)), sources)
    return _in_lines(with_ignored_claims(with_ignored_queues(reading, dialect, queues), sources))


def _read_neighbours(
    sources: Sources, claims: Sequence[Claim | None], left: CededToOthers, known: Sequence[Topology]
) -> tuple[Gang, ...]:
    """Return the gangs that are ceded to other systems. Their faults are dropped, because these systems report them."""
    unclaimed = [pod for pod, claim in zip(sources.pods, claims, strict=True) if claim is None]
    pods = by_dialect(unclaimed, [dialect_of(pod) for pod in unclaimed], NOTHING)
    read = [each.read(replace(sources, pods=pods[each.name]), known) for each in DIALECTS if each.name in left.to]
    return tuple(gang for reading in read for gang in reading.gangs if left.leaves(gang.key))


def _astray(
    pods: Sequence[Pod], claims: Sequence[Claim | None], gangs: Sequence[Gang]
) -> tuple[tuple[Pod, GangKey], ...]:
    """Return the live pods that name a gang but are members of none of `gangs`, each with the gang that it names."""
    members = {id(member.pod) for gang in gangs for member in gang.members}
    return tuple(
        (pod, claim[1])
        for pod, claim in zip(pods, claims, strict=True)
        if claim is not None and id(pod) not in members and not (pod.finished or pod.terminating)
    )


def _in_lines(reading: Reading) -> Reading:
    """Return the reading with each text of `Gang.waiting_for` on one line and without control codes.

    The texts contain names that users wrote, and appear in conditions, events and logs.
    """
    if all(what.isprintable() for gang in reading.gangs for what in gang.waiting_for):
        return reading
    gangs = (replace(gang, waiting_for=tuple(map(one_line, gang.waiting_for))) for gang in reading.gangs)
    return replace(reading, gangs=tuple(gangs))
