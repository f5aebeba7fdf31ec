"""Reviews pods of gangs at admission.

At CREATE the webhook gates the pod, and pins it to the domain of the gang's running members. At UPDATE it keeps the
pod's manifest applicable, and refuses to take a gated pod out of its gang.

The module follows these rules of the API server (v1.37). A gate can be added only at CREATE, and only to a pod without
a node. `schedulerName` may not change after CREATE. So if a manifest names another scheduler than the stored pod, it
can be applied again only because the webhook puts the old value back.
"""

import re
from collections.abc import Callable
from dataclasses import replace

from gangs.coexistence import running_schedulers
from gangs.coexistence.ownership import EVIDENCE_KINDS, CededToOthers
from gangs.coexistence.systems import MAY_BE_LEFT
from gangs.dialects.claims import ceded_to_others, dialect_of
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
from webhook.admission.extended_resources import claim_devices, keep_claims
from webhook.admission.joining_groups import FIELD, group_to_join, releases_atomically, stripped
from webhook.admission.patch_builder import PatchBuilder
from webhook.admission.reviews import Admitted, Decision, Refused
from webhook.admission.warnings import lines
from webhook.errors import Unavailable
from webhook.picture import Picture

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


Foretell = Callable[[Gang, Callable[[], Gang]], tuple[str, ...]]
"""Returns the forecast of a gang as sentences; empty if the forecast is not known at once.

The first argument is the gang in which one of several equal members is repeated in place of the others, because the
caches return that faster. The second argument returns the gang with its real members.
"""


def created(manifest: Manifest, picture: Picture, foretell: Foretell) -> Decision:
    """Return the decision on a new pod: a pod that names a gang is gated. Other pods are admitted unchanged.

    If the annotation `phalanx.dev/strip` of the webhook configuration says so, the pod also loses the PodGroup of
    another program.

    :param foretell: returns the forecast of the pod's gang, if it is known at once.
    :raises Unavailable: the caches do not show yet what the annotation says, or whether the gang is ceded to another
        system. The pod must not be gated before that is known, because a gated pod belongs to Phalanx for good.
    """
    without = stripped(manifest, picture)
    decision = _created(without, picture, foretell)
    if without is manifest or not isinstance(decision, Admitted):
        return decision
    return replace(decision, patch=({"op": "remove", "path": f"/spec/{FIELD}"}, *decision.patch))


def _created(manifest: Manifest, picture: Picture, foretell: Foretell) -> Decision:
    """Return the decision on a new pod: a pod that names a gang is gated. Other pods are admitted unchanged.

    A pod that has its node already, or whose gang is ceded, is admitted unchanged, too. While the caches are
    incomplete, the pod is gated without a review of other objects.

    :param foretell: returns the forecast of the pod's gang, if it is known at once.
    :raises Unavailable: the caches do not show yet whether the gang is ceded to another system. The pod must not be
        gated before that is known, because a gated pod belongs to Phalanx for good.
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
    # A controller shows no warnings to a user, so only a user's own pod waits for these objects to reach the caches.
    # With atomic releases every pod waits: a gang joins a PodGroup only if its size is known.
    waits = controller_of(pod) is None or releases_atomically(sources)
    if awaited and waits and picture.comes(sorted(awaited)):
        arriving = _arrival(manifest, claim[1], picture.sources_of(claim[1]), picture)
    advice += arriving.advice
    if arriving.faults:
        return Refused("; ".join(map(str, arriving.faults)), lines(advice))
    scheduler = running_schedulers.scheduler_to_use(pod.spec.scheduler_name, claim[0].pod_keys, sources)

    def existing(gang: Gang) -> int:
        return len(_with_repeated_members(gang, arriving.member, picture).members)

    if group := group_to_join(arriving, scheduler, sources, existing):
        patch.set(("spec", FIELD), {"podGroupName": group})
    messages = _beside_siblings(manifest, arriving, picture, patch, foretell)
    if arriving.gang is None or not arriving.gang.ignores_claims:
        advice += claim_devices(pod, picture, patch)
    return Admitted(patch.build(), lines([*advice, *messages]))


def _among(dialect: Dialect, key: GangKey, picture: Picture) -> tuple[Sources, CededToOthers]:
    """Return all objects, but only the pods of the gang `key` (one of each equivalence class), and the dialects that
    are ceded to other systems.

    A gang of a ceded dialect still belongs to Phalanx if Phalanx admitted one of its pods. So the pods must be listed.

    :raises Unavailable: the caches do not show yet whether the gang is ceded.
    """
    pods_known = picture.listed("pods")
    if dialect.name in MAY_BE_LEFT and not all(picture.listed(kind.plural) for kind in EVIDENCE_KINDS):
        raise Unavailable("still reading which systems run in this cluster; try again in a few seconds")
    sources = picture.sources_of(key)  # read after `listed`: the caches fill up in the meantime
    left = ceded_to_others(sources)
    if dialect.name in left.to and not pods_known:
        raise Unavailable("still reading which pods there are; try again in a few seconds")
    return sources, left


def _send(pod: Pod, dialect: Dialect, picture: Picture, sources: Sources, patch: PatchBuilder) -> list[Advice]:
    """Set the stock scheduler as the pod's scheduler, unless the one that the pod names runs in the cluster.

    Return advice for the user about the scheduler; empty if there is nothing to say.

    :raises Unavailable: the caches do not show yet which schedulers run in the cluster.
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
    """Return the review of the pod together with its gang. While the caches are incomplete, review the pod alone.

    The gang may have further keys (`Gang.names`), by which other pods name it. Then `sources` lacks those pods. So a
    second review from sources with these pods replaces the first one.

    :param key: the key by which the arriving pod names its gang.
    :param sources: all objects, but of the gang's pods only one of each equivalence class.
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
    """Pin the pod to the domain of the gang's running members, and return the forecast of its gang as sentences.

    A pod that a controller creates gets no forecast, because no user sees its warnings. The user has seen the forecast
    when the workload was created.

    :param patch: receives the pin.
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

    repeated = all_members() if gang.succeeded else _with_repeated_members(gang, member, picture)
    return foretell(repeated, all_members)


def _with_all(manifest: Manifest, arriving: Arrival, picture: Picture) -> Arrival:
    """Review the pod together with all pods of its gang, instead of one pod of each equivalence class, and return the
    review.
    """
    names = sorted(arriving.gang.names) if arriving.gang is not None else ()
    return arrival(manifest, picture.all_of(*names))


def _with_repeated_members(gang: Gang, arriving: Member | None, picture: Picture) -> Gang:
    """Return the gang with each member repeated as often as the caches have equivalent pods.

    So the gang has the right number of members, although `gang` has only one of each equivalence class.

    :param arriving: the member that the caches do not have yet, which is not repeated; None if there is none.
    """

    def times(member: Member) -> int:
        return 1 if member is arriving else max(1, *(picture.alike(name, member.pod) for name in gang.names))

    return replace(gang, members=tuple(each for each in gang.members for _ in range(times(each))))


def updated(manifest: Manifest, old: Manifest, picture: Picture) -> Decision:
    """Return the decision on an updated pod: a pod of a gang keeps the `schedulerName` that it has, and the claim that
    replaced its requests for extended resources.

    Otherwise a user could not apply the first manifest again, because these fields cannot change.
    """
    patch = PatchBuilder(manifest)
    before = section(old, "spec").get("schedulerName")
    if _names_a_gang(old, picture):
        if before:
            patch.set(("spec", "schedulerName"), before)
        keep_claims(manifest, old, patch)
    return Admitted(patch.build())


def kept(manifest: Manifest, old: Manifest, picture: Picture) -> Decision:
    """Refuse an update by which a gated pod would name another gang or none, because its gate would never be removed.

    Any other update is admitted.
    """
    before, after = _claim(old, picture), _claim(manifest, picture)
    if before is None:
        return Admitted()
    pod, was = pod_of(manifest), pod_of(old)
    owned = keys.WORKLOAD in was.metadata.labels  # a workload's gang may have the name of a Gang object
    stays = after is not None and after[1] == before[1] and (keys.WORKLOAD in pod.metadata.labels or not owned)
    if stays or not pod.gated_by(keys.GATE):
        return Admitted()
    problem = f"the pod is held by the gate {keys.GATE} until its gang {before[1]} starts, and would leave the gang"
    remedy = "put it back, delete the pod, or take the gate away in the same change to let it start alone"
    return Refused(str(Fault(pod_ref(pod), _changed_key(before[0], was, pod), problem, remedy)))


def _changed_key(dialect: Dialect, old: Pod, new: Pod) -> str:
    """Return the path of the label or annotation that named the pod's gang and that the update changes."""
    for part, names in (("labels", dialect.pod_keys.labels), ("annotations", dialect.pod_keys.annotations)):
        before, after = getattr(old.metadata, part), getattr(new.metadata, part)
        for name in names:
            if before.get(name) != after.get(name):
                return f"metadata.{part}[{name}]"
    return "metadata.labels"


def _names_a_gang(manifest: Manifest, picture: Picture) -> bool:
    return _claim(manifest, picture) is not None


def _claim(manifest: Manifest, picture: Picture) -> tuple[Dialect, GangKey] | None:
    """Return the dialect and the gang that the pod names; None if it names no gang, or if the gang is ceded."""
    try:
        pod = pod_of(manifest)
    except MalformedError:
        return None
    named = dialect_of(pod)
    return None if named is None else dialect_of(pod, ceded_to_others(picture.sources_of(named[1])))


def _gated(manifest: Manifest, dialect: Dialect, key: GangKey) -> PatchBuilder:
    patch = PatchBuilder(manifest)
    patch.append(("spec", "schedulingGates"), {"name": keys.GATE})
    labels = (manifest.get("metadata") or {}).get("labels") or {}
    if keys.GANG not in labels and _LABEL_VALUE.fullmatch(key.name):
        patch.set(("metadata", "labels", keys.GANG), key.name)
    patch.set(("metadata", "labels", keys.DIALECT), dialect.name)
    return patch


def pin(patch: PatchBuilder, pod: Pod, labels: Labels) -> None:
    """Pin the pod to the domain with these node labels, in a way that keeps its manifest applicable.

    The labels go into the required node affinity. If the user wrote one, it stays unchanged, because a later `kubectl
    apply` would fail; the labels then go into the node selector. A pod that is pinned already stays unchanged, because
    the API server may call the webhook twice. So does a pod whose node selector excludes the domain or names it.

    :param patch: receives the changes.
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
