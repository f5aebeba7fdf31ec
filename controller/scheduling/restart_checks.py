"""Checks whether a gang that has lost a member would fit if all its members were recreated together.

The checks run one by one in the background, and no other work waits for them. The round-robin share of the namespaces
decides which gang is checked next, so a namespace with many such gangs gets no more checks than others.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from cluster.node_state import NodeState
from cluster.snapshot import Snapshot
from controller.cluster_view import ClusterView
from controller.scheduling.planning_requests import PlanningRequest, asked_alone
from controller.scheduling.shares import Shares
from controller.scheduling.single_slot_executor import SingleSlotExecutor
from gangs.model import Gang, GangKey
from planning.decision import Decision, Outcome
from planning.whole_again import hindrance, whole_again, without
from solver.plan import Proof
from solver.problem import Limits
from timing.clock import SYSTEM_CLOCK, Clock
from timing.duty_cycle import DutyCycle

SECONDS = 3.0
"""The most seconds for one planning in a check."""
FRESH_SECONDS = 2.0
"""Seconds for which a positive verdict is used, because its inputs may change."""
PAUSE_SECONDS = 10.0
"""Seconds between two checks of one gang."""
_REST = DutyCycle(rest=2)
"""The pause between two checks of any gangs: twice the time of the first check."""

Planned = Mapping[str, Collection[str]]
"""By node: the UIDs of the pods that plans place there."""
NOTHING_PLANNED: Planned = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one check whether a restart helps `gang`, which has lost a member.

    `why`: the reason against a restart; "" if the gang can be restarted. It is also "" if the check could not prove
    that the lost member fits nowhere beside the others. `at`: the end of the check, in monotonic seconds.
    """

    gang: Gang
    at: float
    why: str = ""
    version: str = ""
    """The version of the snapshot that was checked."""
    place: tuple[NodeState, ...] = ()
    """The nodes on which all recreated members fit together, in their state at the check. Empty if there are none."""

    @property
    def placed(self) -> bool:
        """Whether a restart helps: the lost member fits nowhere, but all members fit together without preemption."""
        return bool(self.place)

    def stands(self, at: float) -> bool:
        """Return whether the verdict is recent enough, so that the gang need not be checked again yet.

        :param at: the present time, in monotonic seconds.
        """
        return at - self.at <= (FRESH_SECONDS if self.placed else PAUSE_SECONDS)

    def untouched(self, snapshot: Snapshot, planned: Planned) -> bool:
        """Return whether the nodes in `place` are still as free as at the check.

        Since then no pod was added there, no capacity was reserved, and no plan places a further pod there. Readiness,
        cordon and taints of the nodes are as before.

        :param planned: the UIDs of the pods that plans place on each node.
        """
        names = {then.name for then in self.place}
        now = {state.name: state for state in snapshot.nodes if state.name in names}
        return all(
            then.name in now
            and now[then.name].open == then.open
            and now[then.name].marks.union(planned.get(then.name, ())) <= then.marks
            for then in self.place
        )

    def fresh(self, gang: Gang, at: float) -> bool:
        """Return whether the gang may be restarted now: a restart helps (`placed`), the verdict is recent, and the gang
        is the same as at the check.
        """
        return self.placed and self.stands(at) and (self.gang is gang or self.gang == gang)


class RestartChecks:
    """Runs the checks in an executor of their own and caches the verdicts. Use an object from one thread only.

    :param wake: called in the executor's thread when there is a verdict.
    """

    def __init__(
        self,
        executor: SingleSlotExecutor,
        limits: Limits,
        wake: Callable[[], None] = lambda: None,
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._executor = executor
        self._limits = replace(limits, seconds=min(limits.seconds, SECONDS))
        self._wake = wake
        self._inbox: deque[tuple[GangKey, Verdict, float]] = deque()
        self._verdicts: dict[GangKey, Verdict] = {}
        self._shares = Shares()
        self._again = 0.0

    def verdicts(
        self, gangs: Iterable[Gang], cluster_view: ClusterView, planned: Planned = NOTHING_PLANNED
    ) -> Mapping[GangKey, Verdict]:
        """Return the verdicts that are valid now, by gang. If the executor is idle, check one gang without a verdict.

        A verdict decides whether a gang is restarted, that is, evicted as a whole and recreated. It is positive if the
        lost member fits nowhere beside the running members, but all members fit together.

        :param gangs: the gangs that have lost a member and wait to be restarted.
        :param planned: by node, the UIDs of pods that plans place there, which the cluster view may not show yet.
        """
        while self._inbox:
            key, verdict, taken = self._inbox.popleft()
            self._verdicts[key] = verdict
            self._again = verdict.at + _REST.pause(taken)
        now, asking = self._clock.monotonic(), {gang.key: gang for gang in gangs}
        self._verdicts = {
            key: each
            for key, each in self._verdicts.items()
            if each.stands(now) and each.untouched(cluster_view.snapshot, planned)
        }
        new = [key for key in asking if key not in self._verdicts]
        if new and self._executor.idle and now >= self._again:
            (key,) = self._shares.next_ones(new, lambda _: 1.0, 1.0)
            self._executor.submit(partial(self._check, asking[key], cluster_view))
            if self._inbox:
                return self.verdicts(asking.values(), cluster_view, planned)
        return self._verdicts

    def close(self) -> None:
        """Start no further check."""
        self._executor.close()

    def _check(self, gang: Gang, cluster_view: ClusterView) -> None:
        """Check whether a restart would help this gang, and queue the verdict. Runs in the executor's thread."""
        began = self._clock.monotonic()
        why = hindrance(gang, cluster_view.snapshot, cluster_view.sources)
        place: tuple[NodeState, ...] = ()
        if not why and self._has_none(gang, cluster_view):
            place = self._place_of(gang, cluster_view)
            why = "" if place else "all its members together have no free place either"
        verdict = Verdict(gang, self._clock.monotonic(), why, cluster_view.snapshot.version, place)
        self._inbox.append((gang.key, verdict, verdict.at - began))
        self._wake()

    def _has_none(self, gang: Gang, cluster_view: ClusterView) -> bool:
        """Return whether planning proves that the gang's lost members fit nowhere beside its running members."""
        decision = self._planned(gang, cluster_view)
        return (
            decision is not None
            and decision.outcome is Outcome.UNPLACEABLE
            and decision.proof == Proof.INFEASIBLE.value
        )

    def _place_of(self, gang: Gang, cluster_view: ClusterView) -> tuple[NodeState, ...]:
        """Return the nodes on which all members fit together without preemption, once the members are deleted.

        Empty if there are none.
        """
        emptied = replace(cluster_view, snapshot=without(gang, cluster_view.snapshot))
        decision = self._planned(replace(whole_again(gang), preempts=False), emptied)
        if decision is None or decision.outcome is not Outcome.PLACED:
            return ()
        names = {assignment.node for assignment in decision.assignments}
        return tuple(state for state in cluster_view.snapshot.nodes if state.name in names)

    def _planned(self, gang: Gang, cluster_view: ClusterView) -> Decision | None:
        """Return the decision for the gang planned alone; None if planning fails."""
        return asked_alone(gang, PlanningRequest((gang,), cluster_view, (), self._limits, self._limits))
