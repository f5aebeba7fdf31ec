"""Cached rejections: how long one holds, when its gang is planned again, and which other gangs share it.

A rejected gang is planned again after an event that can cure its rejection, and after its back-off. kube-scheduler does
the same with an unschedulable pod:

- The rejection holds until the cluster changes in a way that can cure it (`cluster_changes`).
- After such a change the gang backs off. The back-off grows with each rejection in a row.
- After the back-off the gang is active again, so it is planned.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from zlib import crc32

from cluster.snapshot import Snapshot
from controller.scheduling.cluster_changes import Basis, ClusterChanges, Cure, cure_of
from controller.scheduling.demand import DemandClass, MinimumDemand, asks_for_the_same
from controller.scheduling.planning_requests import PlanningResult
from gangs.model import Gang, GangKey
from kube.objects import Pod
from planning.decision import Decision
from solver.plan import Proof
from timing.backoff import Backoff
from timing.duty_cycle import DutyCycle

FAST_LANE_SECONDS = 3.0
"""The most seconds in the fast lane for one gang, or for the competing gangs of one priority."""
PROVEN_RETRIES = Backoff(first=0.1, longest=2.0)
"""The back-off, in seconds, of a gang with a proven rejection whose inputs keep changing."""
HOLD_SECONDS = 2.0
"""The back-off, in seconds, of a gang whose planning failed or whose plan could not be carried out.

A plan cannot be carried out if, for example, a disruption budget refuses an eviction.
"""
UNPROVEN_RETRIES = Backoff(first=5.0, longest=60.0)
"""The back-off, in seconds, after an unproven rejection. The pause is at least four times as long as planning took."""
FRESH_SECONDS = 60.0
"""About how many seconds a rejection holds while the only changes are further pods.

Then the gang is replanned, so that the figures in its message become current.
"""
_REST = DutyCycle(rest=4, longest=UNPROVEN_RETRIES.longest)
"""The least pause after an unproven rejection: four times the time for which other gangs waited for its planning."""
MOST_MEMBERS = 20_000
"""The most members of gangs that one reconcile compares with cached rejections. The comparison takes at most 0.1 s."""
_MOST_REJECTIONS = 8
"""The most cached rejections of one demand class with which a gang is compared."""


@dataclass(slots=True)
class CachedRejection:
    """A rejection of a gang, with the conditions until which it holds. All times are in monotonic seconds.

    `cure`: the events that can cure it. `basis`: the inputs with which the rejection holds; None once a change may have
    cured it, or if only time can. `pause`: the length of the back-off; `again`: its end. `fresh_until`: until this
    time, further pods alone do not end the rejection. `final`: whether more planning time would not have helped.
    `tied`: members that cause the rejection only by their pin to a domain of siblings that are gone, and that can be
    recreated at no cost.
    """

    decision: Decision
    cure: Cure
    basis: Basis | None
    pause: float
    again: float
    fresh_until: float = 0.0
    final: bool = True
    tied: tuple[Pod, ...] = ()

    def holds(self, changes: ClusterChanges, at: float) -> bool:
        """Return whether the rejection still holds, because no change of the cluster since then can cure it.

        :param at: the present time, in monotonic seconds.
        """
        if self.basis is None:
            return False
        if changes.are_none(self.basis):
            return True
        # The present cluster becomes the basis: the next call compares only the changes since this one. A cured
        # rejection loses its basis to free memory, because each basis holds a snapshot of the whole cluster.
        self.basis = changes.basis if self._is_uncured(self.basis, changes, at) else None
        return self.basis is not None

    def _is_uncured(self, basis: Basis, changes: ClusterChanges, at: float) -> bool:
        gang = self.decision.gang
        if self.cure is not Cure.MORE_THAN_NEW_PODS or at >= self.fresh_until or gang is None:
            return False
        return changes.are_only_new_pods(basis, gang)

    def outdate(self) -> None:
        """End the rejection and its back-off, because the gang's placement request has changed. The gang is planned at
        once.
        """
        self.basis, self.again = None, float("-inf")

    def shared_with(self, gang: Gang, at: float) -> "CachedRejection":
        """Return a copy of the rejection for another gang with an equal placement request and equal pods. `at`: the
        present time, in monotonic seconds.
        """
        decision = replace(self.decision, gang=gang, key=gang.key)
        return replace(self, decision=decision, fresh_until=at + _fresh_seconds(gang.key))


def rejection_of(result: PlanningResult, before: CachedRejection | None, at: float) -> CachedRejection:
    """Return the cached rejection for a planning result that contains no plan.

    :param before: the gang's last rejection, after which the pause grows.
    :param at: the present time, in monotonic seconds.
    """
    pause = _next_pause(result, before)
    return CachedRejection(
        result.decision,
        Cure.TIME if result.failed else Cure.ANY_CHANGE if result.tied else cure_of(result.decision),
        result.basis,
        pause,
        at + pause,
        fresh_until=at + _fresh_seconds(result.decision.key),
        final=result.final,
        tied=result.tied,
    )


def _fresh_seconds(key: GangKey) -> float:
    """Return for how many seconds a gang's rejection holds while the only changes are further pods.

    The value depends on a hash of the key, so that gangs are not all replanned at once.
    """
    return FRESH_SECONDS * (0.5 + crc32(str(key).encode()) % 1024 / 1024)


def _next_pause(result: PlanningResult, before: CachedRejection | None) -> float:
    """Return the seconds before a rejected gang may be replanned with changed inputs. They grow with each rejection."""
    if result.failed:
        return HOLD_SECONDS
    last = before.pause if before is not None and before.final else 0.0
    if result.decision.proof != Proof.UNPROVEN.value:
        return PROVEN_RETRIES.after(last)
    spent = min(result.seconds, FAST_LANE_SECONDS)  # the time for which other gangs waited
    return max(UNPROVEN_RETRIES.after(last), _REST.pause(spent))


class SharedRejections:
    """Finds, for a gang, the cached rejection of another gang with an equal placement request and equal pods, so that
    the gang need not be planned.

    Most waiting gangs are copies, such as a hundred jobs that one user has submitted. Planning them one by one would
    take minutes, and each gang would keep an explanation of its own.
    """

    def __init__(self, rejections: Iterable[tuple[MinimumDemand, CachedRejection]], snapshot: Snapshot) -> None:
        """Index the rejections that other gangs may share.

        :param rejections: the rejections that hold in this reconcile, each with the demand of its gang.
        :param snapshot: the snapshot of this reconcile.
        """
        self._labels_count = bool(snapshot.keeping_off)
        self._members_left = MOST_MEMBERS
        self._by_class: defaultdict[tuple[str, DemandClass], list[tuple[Gang, CachedRejection]]] = defaultdict(list)
        for demand, rejection in rejections:
            demand_class, gang = demand.demand_class, rejection.decision.gang
            if gang is None or not demand_class.needs:
                continue
            entries = self._by_class[gang.key.namespace, demand_class]
            if len(entries) < _MOST_REJECTIONS and _is_shareable(rejection, gang):
                entries.append((gang, rejection))

    def of(self, gang: Gang, demand: MinimumDemand) -> CachedRejection | None:
        """Return the rejection of another gang of the same namespace that has an equal placement request and equal
        pods.

        None if there is none, if no lower bound of the demand is known, or if this reconcile has compared
        `MOST_MEMBERS` members already.
        """
        for rejected, rejection in self._by_class.get((gang.key.namespace, demand.demand_class), ()):
            self._members_left -= len(gang.members)
            if self._members_left < 0:
                return None
            if asks_for_the_same(gang, rejected, labels_count=self._labels_count):
                return rejection
        return None


def _is_shareable(rejection: CachedRejection, gang: Gang) -> bool:
    """Return whether a rejection may be shared with other gangs.

    The rejection must be proven and independent of single pods. Its text must not name the gang or its members.
    """
    if rejection.cure is not Cure.MORE_THAN_NEW_PODS or any(_has_own_claims(member.pod) for member in gang.members):
        return False
    text = "\n".join(_texts(rejection.decision))
    return not any(name in text for name in _names(gang))


def _texts(decision: Decision) -> Iterator[str]:
    yield decision.message
    yield decision.explanation.why_here
    yield str(decision.explanation.only_in)
    yield from decision.explanation.changes
    yield from decision.notes
    yield decision.line.nameless


def _names(gang: Gang) -> Iterator[str]:
    yield gang.key.name
    yield from (reference.name for reference in (gang.source, *gang.groups))
    yield from (member.pod.metadata.name for member in gang.members)


def _has_own_claims(pod: Pod) -> bool:
    """Return whether the pod has ephemeral volumes, whose volume claims carry the pod's name, or has resource
    claims.
    """
    return bool(pod.spec.resource_claims) or any("ephemeral" in volume for volume in pod.spec.volumes)
