"""Pods of gangs at admission: gated at CREATE, beside the siblings that run; at UPDATE kept appliable, and members.

Rules of the API server that this follows (v1.37): a gate may not be added to a pod that has a node, and never after
CREATE; `schedulerName` may not change after CREATE, so that a manifest which names another scheduler than the one
its pod got can only be applied again if the old value is put back.
"""

import re
from collections.abc import Callable
from dataclasses import replace

from gangs.coexistence import running_schedulers
from gangs.coexistence.ownership import EVIDENCE_KINDS, Left
from gangs.coexistence.systems import MAY_BE_LEFT
from gangs.dialects.claims import dialect_of, left_alone
from gangs.dialects.protocol import Dialect
from gangs.dialects.reviewing import Arrival, arrival
from gangs.dialects.topologies import known_topologies, topology_of
from gangs.held_nodes import held_node
from gangs.manifests import MalformedError, pod_of, pod_ref, section
from gangs.model import Advice, Fault, Gang, GangKey, Manifest, Member
from gangs.sources import Sources
from gangs.workloads.jobs import controller_of
from kube import keys
from kube.objects import Pod
from kube.topology import Topology
from planning.framing.ties import Labels, holds_affinity, noted
from planning.pins import siblings_domain
from webhook.admission.patch_builder import PatchBuilder
from webhook.admission.reviews import Admitted, Decision, Refused
from webhook.admission.warnings import lines
from webhook.errors import Unavailable
from webhook.picture import Picture

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


Foretell = Callable[[Gang, Callable[[], Gang]], tuple[str, ...]]
"""Sentences about what becomes of a gang, at once or not at all. It is given as it counts, one member standing for all
that are like it, and, where that is asked for, with each of its members.
"""


def created(manifest: Manifest, picture: Picture, foretell: Foretell) -> Decision:
    """Gate a pod that names a gang. Any other pod, and one that has its node already, comes in as it is.

    While the picture is not complete the pod is gated all the same, but nothing is said about other objects. Raises
    Unavailable while it is not known whether the pod's gang is another system's: what is gated now is ours for good.
    """
    try:
        pod = pod_of(manifest)
    except MalformedError as error:
        return Refused(str(error.fault))
    named = dialect_of(pod)
    if named is None or pod.bound:
        return Admitted()
    sources, left = _among(*named, picture)
    claim = dialect_of(pod, left)
    if claim is None:
        return Admitted(warnings=lines([left.advice(named[0].name, pod_ref(pod))]))
    patch = _gated(manifest, *claim)
    advice = _send(pod, claim[0], picture, sources, patch)
    arriving = _arrival(manifest, claim[1], sources if claim == named else picture.sources_of(claim[1]), picture)
    awaited = {each.awaited for each in arriving.advice} - {""}
    if awaited and controller_of(pod) is None and picture.comes(sorted(awaited)):
        arriving = _arrival(manifest, claim[1], picture.sources_of(claim[1]), picture)
    advice += arriving.advice
    if arriving.faults:
        return Refused("; ".join(map(str, arriving.faults)), lines(advice))
    messages = _beside_siblings(manifest, arriving, picture, patch, foretell)
    return Admitted(patch.build(), lines([*advice, *messages]))


def _among(dialect: Dialect, key: GangKey, picture: Picture) -> tuple[Sources, Left]:
    """The pods of the gang among all objects, and what is left to other systems.

    Raises Unavailable while it is not known whether this gang is. Where its dialect is left, it may still be one of
    ours: its pods tell.
    """
    pods_known = picture.listed("pods")
    if dialect.name in MAY_BE_LEFT and not all(picture.listed(kind.plural) for kind in EVIDENCE_KINDS):
        raise Unavailable("still reading which systems run in this cluster; try again in a few seconds")
    sources = picture.sources_of(key)  # after the question what is known: it becomes more by the moment
    left = left_alone(sources)
    if dialect.name in left.to and not pods_known:
        raise Unavailable("still reading which pods there are; try again in a few seconds")
    return sources, left


def _send(pod: Pod, dialect: Dialect, picture: Picture, sources: Sources, patch: PatchBuilder) -> list[Advice]:
    """Have the stock scheduler bind the pod, unless the one that it names runs here; returns what its user is told.

    Raises Unavailable while it is not known who runs here.
    """
    name = pod.spec.scheduler_name
    if waited := running_schedulers.unread(name, dialect.pod_keys, picture.listed):
        raise Unavailable(
            f"still reading {waited}, to see whether {name} runs in this cluster; try again in a few seconds"
        )
    if (scheduler := running_schedulers.scheduler_to_use(name, dialect.pod_keys, sources)) != name:
        patch.set(("spec", "schedulerName"), scheduler)
    advice = running_schedulers.advice_on(name, dialect.pod_keys, sources)
    return [Advice(pod_ref(pod), "spec.schedulerName", advice)] if advice else []


def _arrival(manifest: Manifest, key: GangKey, sources: Sources, picture: Picture) -> Arrival:
    """The pod among one of each kind of pods of its gang (`sources`), by all the names that the gang turns out to have.

    While the picture is not complete, what it shows of others would be wrong: then only the pod itself is looked at.
    """
    if not picture.synced():
        return Arrival(faults=arrival(manifest, Sources()).faults)
    arriving = arrival(manifest, sources)
    if arriving.gang is None or arriving.gang.names == {key}:
        return arriving
    return arrival(manifest, picture.sources_of(key, *sorted(arriving.gang.names - {key})))


def _beside_siblings(
    manifest: Manifest, arriving: Arrival, picture: Picture, patch: PatchBuilder, foretell: Foretell
) -> tuple[str, ...]:
    """Pin the pod where siblings that run tie it; returns what is to be told about its gang.

    Nobody reads the warnings of a pod that a controller makes: the plan was told when its workload came.
    """
    gang, member = arriving.gang, arriving.member
    if gang is None or member is None:
        return ()
    if any(held_node(each.pod) for each in gang.members if each is not member):
        topology = topology_of(gang, known_topologies(picture.sources_of()))
        among = _with_all(manifest, arriving, picture)
        if isinstance(topology, Topology) and among.gang is not None and among.member is not None:
            pin(patch, member.pod, siblings_domain(among.gang, among.member, topology, picture.node))
    if controller_of(member.pod) is not None:
        return ()

    def all_members() -> Gang:
        return _with_all(manifest, arriving, picture).gang or gang

    return foretell(all_members() if gang.succeeded else _counted(gang, member, picture), all_members)


def _with_all(manifest: Manifest, arriving: Arrival, picture: Picture) -> Arrival:
    """The pod among all pods of its gang."""
    names = sorted(arriving.gang.names) if arriving.gang is not None else ()
    return arrival(manifest, picture.all_of(*names))


def _counted(gang: Gang, arriving: Member, picture: Picture) -> Gang:
    """The gang with each of its members as often as there are pods like it."""

    def times(member: Member) -> int:
        return 1 if member is arriving else max(1, *(picture.alike(name, member.pod) for name in gang.names))

    return replace(gang, members=tuple(each for each in gang.members for _ in range(times(each))))


def updated(manifest: Manifest, old: Manifest, picture: Picture) -> Decision:
    """Put the scheduler's name of a gang's pod back to what it was, unless the gang is another system's."""
    patch = PatchBuilder(manifest)
    before = section(old, "spec").get("schedulerName")
    if before and _names_a_gang(old, picture):
        patch.set(("spec", "schedulerName"), before)
    return Admitted(patch.build())


def kept(manifest: Manifest, old: Manifest, picture: Picture) -> Decision:
    """Refuse a change that takes a gated member out of its gang: nobody would ever take its gate away."""
    before, after = _claim(old, picture), _claim(manifest, picture)
    if before is None:
        return Admitted()
    pod, was = pod_of(manifest), pod_of(old)
    owned = keys.WORKLOAD in was.metadata.labels  # by its workload, whose gang may have the name of a Gang object
    stays = after is not None and after[1] == before[1] and (keys.WORKLOAD in pod.metadata.labels or not owned)
    if stays or not pod.gated_by(keys.GATE):
        return Admitted()
    problem = f"the pod is held by the gate {keys.GATE} until its gang {before[1]} starts, and would leave the gang"
    remedy = "put it back, delete the pod, or take the gate away in the same change to let it start alone"
    return Refused(str(Fault(pod_ref(pod), _changed_key(before[0], was, pod), problem, remedy)))


def _changed_key(dialect: Dialect, old: Pod, new: Pod) -> str:
    """The field by which the pod named its gang and that is different now."""
    for part, names in (("labels", dialect.pod_keys.labels), ("annotations", dialect.pod_keys.annotations)):
        before, after = getattr(old.metadata, part), getattr(new.metadata, part)
        for name in names:
            if before.get(name) != after.get(name):
                return f"metadata.{part}[{name}]"
    return "metadata.labels"


def _names_a_gang(manifest: Manifest, picture: Picture) -> bool:
    return _claim(manifest, picture) is not None


def _claim(manifest: Manifest, picture: Picture) -> tuple[Dialect, GangKey] | None:
    """The dialect and the gang that the pod names, None where that is none of ours."""
    try:
        pod = pod_of(manifest)
    except MalformedError:
        return None
    named = dialect_of(pod)
    return None if named is None else dialect_of(pod, left_alone(picture.sources_of(named[1])))


def _gated(manifest: Manifest, dialect: Dialect, key: GangKey) -> PatchBuilder:
    patch = PatchBuilder(manifest)
    patch.append(("spec", "schedulingGates"), {"name": keys.GATE})
    labels = (manifest.get("metadata") or {}).get("labels") or {}
    if keys.GANG not in labels and _LABEL_VALUE.fullmatch(key.name):
        patch.set(("metadata", "labels", keys.GANG), key.name)
    patch.set(("metadata", "labels", keys.DIALECT), dialect.name)
    return patch


def pin(patch: PatchBuilder, pod: Pod, labels: Labels) -> None:
    """Require the domain of these labels, so that the next `kubectl apply` of the pod's manifest still passes.

    A required node affinity of the user's stays as it is: beside it the labels go into the node selector. One that
    carries a domain already (the webhook may be called twice) keeps it. Nothing is added to a pod that excludes the
    domain or names it itself: the plan says of the first what is wrong.
    """
    selector = pod.spec.node_selector
    contradicted = any(selector.get(key, value) != value for key, value in labels)
    if contradicted or keys.PINNED_DOMAIN in pod.metadata.annotations or set(labels) <= selector.items():
        return
    if holds_affinity(pod):
        for key, value in labels:
            patch.set(("spec", "nodeSelector", key), value)
    else:
        term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]} for key, value in labels]}
        patch.set(("spec", "affinity", "nodeAffinity", _REQUIRED), {"nodeSelectorTerms": [term]})
    patch.set(("metadata", "annotations", keys.PINNED_DOMAIN), noted(labels))
