"""PodGroups of scheduling.k8s.io at admission: members join a PodGroup of Phalanx, or lose that of another program.

`spec.schedulingGroup` can only be set at CREATE. Two annotations of Phalanx's own webhook configuration turn this on:
`phalanx.dev/atomic-release` lets members join a PodGroup, and `phalanx.dev/strip` removes that of another program. Both
are off by default (docs/decisions/0041).
"""

from collections.abc import Callable

from gangs.coexistence.ownership import EVIDENCE_KINDS, chosen
from gangs.dialects.reviewing import Arrival
from gangs.manifests import MalformedError, pod_of, section
from gangs.model import Gang, Manifest
from gangs.sources import Sources
from kube import keys
from kube.objects import Pod
from kube.scheduling_groups import group_of, is_release_group, release_group
from webhook.errors import Unavailable
from webhook.picture import Picture

FIELD = "schedulingGroup"
"""The field of a pod's `spec` that names its PodGroup."""
NATIVE = "native"
"""The value of the annotation `STRIP` with which the webhook removes `spec.schedulingGroup` from created pods."""
ON = "true"


def stripped(manifest: Manifest, picture: Picture) -> Manifest:
    """Return the pod without `spec.schedulingGroup`, if the annotation `phalanx.dev/strip` of the webhook configuration
    says so; else return the pod unchanged.

    A PodGroup of Phalanx is kept.

    :raises Unavailable: the caches do not show the annotation yet. The field cannot be removed after CREATE.
    """
    try:
        name = group_of(pod_of(manifest))
    except MalformedError:
        return manifest
    if not name or is_release_group(name):
        return manifest
    if not all(picture.listed(kind.plural) for kind in EVIDENCE_KINDS):
        raise Unavailable("still reading what happens to pods with a schedulingGroup; try again in a few seconds")
    if NATIVE not in chosen(picture.sources_of(), keys.STRIP):
        return manifest
    spec = {key: value for key, value in section(manifest, "spec").items() if key != FIELD}
    return {**manifest, "spec": spec}


def group_to_join(arriving: Arrival, scheduler: str, sources: Sources, existing: Callable[[Gang], int]) -> str:
    """Return the name of the PodGroup that an arriving member joins, so that its gang starts in one cycle; "" for none.

    kube-scheduler tries no pod of a PodGroup while one is gated. So a gang joins only if it needs all its members at
    once, and no member has to be bound before another one. docs/decisions/0041 lists the conditions.

    :param scheduler: the name of the scheduler that binds the pod.
    :param existing: returns the number of the gang's members, the arriving one included. `arriving` itself has only one
        member of each equivalence class.
    """
    gang, member = arriving.gang, arriving.member
    if gang is None or member is None or group_of(member.pod) or scheduler not in (keys.STOCK_SCHEDULER, ""):
        return ""
    if not releases_atomically(sources) or not _needs_all_at_once(gang):
        return ""
    name = release_group(*gang.key)
    others = [each.pod for each in gang.members if each is not member]
    joined = all(not pod.bound and group_of(pod) == name for pod in others)
    one_namespace = {each.namespace for each in gang.groups} | {pod.metadata.namespace for pod in others}
    alone = one_namespace <= {member.pod.metadata.namespace}
    if not joined or not alone or _waits_for_siblings(member.pod):
        return ""
    return name if existing(gang) <= gang.min_member else ""


def releases_atomically(sources: Sources) -> bool:
    """Return whether the annotation `phalanx.dev/atomic-release` lets members join PodGroups of Phalanx."""
    return ON in chosen(sources, keys.ATOMIC_RELEASE)


def _needs_all_at_once(gang: Gang) -> bool:
    """Whether the gang's minimum is all its members (at least two), and all of them are created before it starts."""
    whole = 1 < gang.expected <= gang.min_member
    return whole and gang.all_or_none and not gang.waiting_for and gang.later is None and not gang.succeeded


def _waits_for_siblings(pod: Pod) -> bool:
    """Whether the pod has pod affinity, pod anti-affinity or topology spread constraints.

    With these, the scheduler may accept the pod only after siblings are bound (`scheduler_rules.binding_order`).
    """
    affinity = pod.spec.affinity
    near = affinity is not None and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None)
    return near or bool(pod.spec.topology_spread_constraints)
