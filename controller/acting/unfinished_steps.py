"""Nominations and releases of which not all writes are known to be done. Their events are recorded once all are done.

The API server may reject a write because the object has changed, or its answer may be lost. Then the next reconcile
continues the step. This module remembers what the cluster does not show. That is the decision, from which the
conditions of members without a nomination are derived, and the members that the event counts. It is kept in memory
only, so a new leader may omit such an event.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from controller.cluster_view import ClusterView
from controller.reconcile_state import ReconcileState
from controller.release.next_step import NeedPlan, Planned
from controller.status.conditions import Condition
from controller.status.reporting import Reporter
from gangs.model import GangKey
from kube.keys import GATE
from planning.decision import Decision


@dataclass(frozen=True, slots=True)
class _Nomination:
    """A plan whose nomination is unfinished: it is not known of every member that the API server has accepted its
    nomination.

    `recorded`: whether the event GangPlanned or MemberReplaced of the plan has been recorded.
    """

    plan_id: str
    decision: Decision
    recorded: bool = False


@dataclass(frozen=True, slots=True)
class _Release:
    """A release that is unfinished: it is not known of each of its `members` that the API server has accepted the
    release.
    """

    plan_id: str
    members: Sequence[Planned]


class UnfinishedSteps:
    """Remembers each nomination or release of a gang that is not known to be complete, and records its event when it is
    complete.
    """

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._nominations: dict[GangKey, _Nomination] = {}
        self._releases: dict[GangKey, _Release] = {}

    def keep(self, keys: Collection[GangKey]) -> None:
        """Forget all gangs except these, because the others do not exist any more."""
        for steps in (self._nominations, self._releases):
            for key in steps.keys() - set(keys):
                del steps[key]

    def begin(self, gang_state: ReconcileState) -> None:
        """Remember that the nomination of a new plan begins. Called before the plan is written to the status.

        Nothing is remembered for a gang without a plan.
        """
        if gang_state.record is not None and gang_state.decision is not None:
            self._nominations[gang_state.gang.key] = _Nomination(gang_state.record.plan_id, gang_state.decision)

    def conditions(self, gang_state: ReconcileState, cluster_view: ClusterView) -> Mapping[str, Condition]:
        """Return the conditions to write with the nominations of the plan, by UID. Record the event of a new plan.

        Empty once all members of the plan have been nominated, because their conditions are written.
        """
        nomination = self._nomination(gang_state)
        if nomination is None:
            return {}
        self._record_plan(gang_state, nomination)
        return self._reporter.pod_conditions(gang_state, nomination.decision, cluster_view)

    def nominated(self, gang_state: ReconcileState, members: Sequence[Planned]) -> None:
        """Record the event GangNominated for a plan of which all members are nominated, once for each plan."""
        nomination = self._nomination(gang_state)
        if nomination is not None:
            self._record_plan(gang_state, nomination)
            self._reporter.nominated(gang_state, members)
            del self._nominations[gang_state.gang.key]

    def release(self, gang_state: ReconcileState, members: Iterable[Planned], done: Collection[str]) -> None:
        """Record one event GangReleased for these members and the members released before, once all are released.

        Until then the members are remembered.

        :param done: the UIDs of the members whose release the API server has confirmed.
        """
        if gang_state.record is None:
            return
        plan_id, earlier = gang_state.record.plan_id, self._releases.pop(gang_state.gang.key, None)
        before = earlier.members if earlier is not None and earlier.plan_id == plan_id else ()
        begun = list({each.pod.metadata.uid: each for each in (*before, *members)}.values())
        gated = _gated(gang_state) - set(done)
        if any(each.pod.metadata.uid in gated for each in begun):
            self._releases[gang_state.gang.key] = _Release(plan_id, begun)
        else:
            self._reporter.released(gang_state, begun)

    def settle(self, gang_state: ReconcileState, members: Callable[[], Sequence[Planned]]) -> None:
        """Record the events of unfinished steps that the cluster shows as done, because only an answer was lost.

        :param members: returns the members of the plan as they are now. Called only for an unfinished nomination.
        """
        key, nomination = gang_state.gang.key, self._nomination(gang_state)
        if isinstance(gang_state.step, NeedPlan):
            self._nominations.pop(key, None)
        elif nomination is not None:
            now = members()
            if all(each.nominated_by(nomination.plan_id) for each in now if each.gated):
                self.nominated(gang_state, now)
        release = self._releases.get(key)
        if release is None:
            return
        there = {member.pod.metadata.uid for member in gang_state.gang.members}
        left = [each for each in release.members if each.pod.metadata.uid in there]
        if not _gated(gang_state) & {each.pod.metadata.uid for each in left}:
            del self._releases[key]
            if left:
                self._reporter.released(gang_state, left)

    def _nomination(self, gang_state: ReconcileState) -> _Nomination | None:
        """Return the unfinished nomination of the gang's plan in force; None if there is none."""
        found = self._nominations.get(gang_state.gang.key)
        in_force = gang_state.record is not None and found is not None and found.plan_id == gang_state.record.plan_id
        return found if in_force else None

    def _record_plan(self, gang_state: ReconcileState, nomination: _Nomination) -> None:
        if not nomination.recorded:
            self._reporter.planned(gang_state, nomination.decision)
            self._nominations[gang_state.gang.key] = replace(nomination, recorded=True)


def _gated(gang_state: ReconcileState) -> set[str]:
    """Return the UIDs of the gang's members that are still gated, so not released."""
    return {each.pod.metadata.uid for each in gang_state.gang.members if each.pod.gated_by(GATE)}
