"""Demand classes: a proven rejection of one gang is reused for gangs with an identical request, without planning them.

If many gangs wait, most of them are alike, such as a hundred jobs that one user has submitted. Planning them one by one
takes minutes, and each gang would keep an explanation of its own.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import msgspec

from cluster.snapshot import Snapshot
from controller.scheduling.cached_rejections import CachedRejection
from controller.scheduling.demand import DemandClass
from controller.scheduling.monotonicity_check import is_monotone
from gangs.model import Gang, GangKey, Member, ObjectRef
from kube.keys import PINNED_DOMAIN, PINNED_IN
from kube.objects import Pod, PodSpec
from planning.decision import Decision
from solver.plan import Proof

MOST_MEMBERS = 20_000
"""The most members that are compared in one reconcile. It bounds the comparison to a tenth of a second."""
_MOST_REJECTIONS = 8
"""The most cached rejections, of gangs that need the same amounts, with which one gang is compared."""
_UNTIED_VOLUMES = frozenset(("projected", "configMap", "secret", "emptyDir", "downwardAPI"))
"""Kinds of volumes that do not tie a pod to a node. The names of such volumes may differ from pod to pod."""


@dataclass(slots=True)
class _Entry:
    """A rejection that may be reused for other gangs, and the gang that was planned."""

    rejection: CachedRejection
    gang: Gang


class RejectionByDemandClass:
    """The cached rejections that hold in one reconcile, indexed by the demand classes of their gangs."""

    def __init__(self, rejections: Iterable[tuple[DemandClass, CachedRejection]], snapshot: Snapshot) -> None:
        """Index the rejections that may be reused for other gangs.

        :param snapshot: the snapshot of this reconcile.
        """
        self._labels_count = bool(snapshot.keeping_off)
        self._left = MOST_MEMBERS
        self._entries: defaultdict[DemandClass, list[_Entry]] = defaultdict(list)
        for demand_class, rejection in rejections:
            gang = rejection.decision.gang
            if gang is not None and len(self._entries[demand_class]) < _MOST_REJECTIONS and _is_reusable(rejection):
                self._entries[demand_class].append(_Entry(rejection, gang))

    def of(self, gang: Gang, demand_class: DemandClass) -> CachedRejection | None:
        """Return the rejection of a gang with the same request.

        None if there is none, or if the comparison has used up `MOST_MEMBERS`.
        """
        for entry in self._entries.get(demand_class, ()):
            self._left -= len(gang.members)
            if self._left < 0:
                return None
            if self._same(gang, entry.gang):
                return entry.rejection
        return None

    def _same(self, one: Gang, other: Gang) -> bool:
        return (
            one.key.namespace == other.key.namespace
            and len(one.members) == len(other.members)
            and _nameless(one) == _nameless(other)
            and all(self._same_member(*each) for each in zip(one.members, other.members, strict=True))
        )

    def _same_member(self, one: Member, other: Member) -> bool:
        of, to = one.pod.metadata, other.pod.metadata
        return (
            (one.pod_set, one.index) == (other.pod_set, other.index)
            and (not self._labels_count or of.labels == to.labels)
            and all(of.annotations.get(each) == to.annotations.get(each) for each in (PINNED_DOMAIN, PINNED_IN))
            and _without_untied_volumes(one.pod) == _without_untied_volumes(other.pod)
        )


def renamed(rejection: CachedRejection, gang: Gang, request: object, fresh_until: float) -> CachedRejection:
    """Return a copy of the rejection for another gang, with that gang's request and expiry."""
    decision = replace(rejection.decision, gang=gang, key=gang.key)
    return replace(rejection, request=request, decision=decision, fresh_until=fresh_until, paused=False)


def _is_reusable(rejection: CachedRejection) -> bool:
    """Return whether a rejection may be reused for other gangs.

    The rejection must be proven and independent of single pods. Its text must not name the gang or its members.
    """
    decision = rejection.decision
    if rejection.tied or not is_monotone(decision) or decision.proof != Proof.INFEASIBLE.value:
        return False
    if decision.gang is None or any(_own_claims(member.pod) for member in decision.gang.members):
        return False
    text = "\n".join(_words(decision))
    return not any(name in text for name in _names(decision.gang))


def _words(decision: Decision) -> Iterator[str]:
    yield decision.message
    yield decision.explanation.why_here
    yield from decision.explanation.would_fit_if
    yield from decision.notes
    yield decision.line.nameless


def _names(gang: Gang) -> Iterator[str]:
    yield gang.key.name
    yield from (each.name for each in (gang.source, *gang.groups))
    yield from (member.pod.metadata.name for member in gang.members)


def _nameless(gang: Gang) -> Gang:
    """Return the gang without its members, names, UID and age, for comparison with the request of another gang."""
    asked = replace(gang.source, name="", uid="")
    key = GangKey(gang.key.dialect, gang.key.namespace, "")
    groups = tuple(ObjectRef("", "", "", "") for _ in gang.groups)
    return replace(gang, key=key, source=asked, groups=groups, members=(), created="", part="")


def _without_untied_volumes(pod: Pod) -> PodSpec:
    """Return the pod's spec without the volumes that do not tie the pod to a node."""
    volumes = tuple(each for each in pod.spec.volumes if _UNTIED_VOLUMES.isdisjoint(each))
    return pod.spec if len(volumes) == len(pod.spec.volumes) else msgspec.structs.replace(pod.spec, volumes=volumes)


def _own_claims(pod: Pod) -> bool:
    """Return whether the pod has ephemeral volumes, whose claims carry the pod's name, or has resource claims."""
    return bool(pod.spec.resource_claims) or any("ephemeral" in each for each in pod.spec.volumes)
