"""A no that holds for others: gangs that ask for just the same are told the same, and are not planned for it.

Where many wait, most are alike: a user has sent a hundred of one kind. Planned one after the other they were told only
after minutes, and each kept an explanation of its own.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import msgspec

from cluster.snapshot import Snapshot
from controller.scheduling.kept_noes import KeptNo
from controller.scheduling.needs import Alike
from controller.scheduling.standing_noes import may_stand
from gangs.model import Gang, GangKey, Member, ObjectRef
from kube.keys import PINNED_DOMAIN, PINNED_IN
from kube.objects import Pod, PodSpec
from planning.decision import Decision
from solver.plan import Proof

MOST_MEMBERS = 20_000
"""So many members are compared at once: a tenth of a second, whatever anybody has made."""
_MOST_NOES = 8
"""With so many noes of gangs that need the same amounts a gang is compared."""
_OF_NO_WEIGHT = frozenset(("projected", "configMap", "secret", "emptyDir", "downwardAPI"))
"""Kinds of volumes that tie no pod to a node. Some of them are named anew for each pod."""


@dataclass(slots=True)
class _Given:
    """A no that may be told to others, and the gang that it was given to."""

    kept: KeptNo
    gang: Gang


class AlikeNoes:
    """The noes that hold in one round, by what their gangs need."""

    def __init__(self, noes: Iterable[tuple[Alike, KeptNo]], snapshot: Snapshot) -> None:
        """`snapshot`: of the round."""
        self._labels_count = bool(snapshot.keeping_off)
        self._left = MOST_MEMBERS
        self._given: defaultdict[Alike, list[_Given]] = defaultdict(list)
        for alike, kept in noes:
            gang = kept.decision.gang
            if gang is not None and len(self._given[alike]) < _MOST_NOES and _tellable(kept):
                self._given[alike].append(_Given(kept, gang))

    def of(self, gang: Gang, alike: Alike) -> KeptNo | None:
        """A no of a gang that asks for the same; None where there is none, or no time to look for it."""
        for given in self._given.get(alike, ()):
            self._left -= len(gang.members)
            if self._left < 0:
                return None
            if self._same(gang, given.gang):
                return given.kept
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
            and _weighty(one.pod) == _weighty(other.pod)
        )


def renamed(kept: KeptNo, gang: Gang, request: object, fresh_until: float) -> KeptNo:
    """The same no for another gang."""
    decision = replace(kept.decision, gang=gang, key=gang.key)
    return replace(kept, request=request, decision=decision, fresh_until=fresh_until, paused=False)


def _tellable(kept: KeptNo) -> bool:
    """Whether it is proven, says nothing of single pods, and names nobody whom it was told to."""
    decision = kept.decision
    if kept.tied or not may_stand(decision) or decision.proof != Proof.INFEASIBLE.value:
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
    for part in decision.naming:
        yield from part


def _names(gang: Gang) -> Iterator[str]:
    yield gang.key.name
    yield from (each.name for each in (gang.source, *gang.groups))
    yield from (member.pod.metadata.name for member in gang.members)


def _nameless(gang: Gang) -> Gang:
    """What the gang asks for beside its members, whoever it is and however old."""
    asked = replace(gang.source, name="", uid="")
    key = GangKey(gang.key.dialect, gang.key.namespace, "")
    groups = tuple(ObjectRef("", "", "", "") for _ in gang.groups)
    return replace(gang, key=key, source=asked, groups=groups, members=(), created="", part="")


def _weighty(pod: Pod) -> PodSpec:
    """What decides where the pod may run."""
    volumes = tuple(each for each in pod.spec.volumes if _OF_NO_WEIGHT.isdisjoint(each))
    return pod.spec if len(volumes) == len(pod.spec.volumes) else msgspec.structs.replace(pod.spec, volumes=volumes)


def _own_claims(pod: Pod) -> bool:
    """Whether it has volumes that are claimed by its own name, or asks for devices by claims."""
    return bool(pod.spec.resource_claims) or any("ephemeral" in each for each in pod.spec.volumes)
