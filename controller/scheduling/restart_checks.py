"""Whether gangs that have lost a member can be made again as a whole: looked at beside the rounds, one after the other.

Nobody else waits for these looks, and whoever has many gangs that could be restarted gets no more of them: it is always
the turn of the namespace that has had the least.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from cluster.node_state import NodeState
from cluster.snapshot import Snapshot
from controller.cluster_view import ClusterView
from controller.scheduling.lanes import Lane
from controller.scheduling.questions import Question, asked_alone
from controller.scheduling.shares import Shares
from gangs.model import Gang, GangKey
from planning.decision import Decision, Outcome
from planning.whole_again import hindrance, whole_again, without
from solver.plan import Proof
from solver.problem import Limits
from timing.clock import SYSTEM_CLOCK, Clock
from timing.duty_cycle import DutyCycle

SECONDS = 3.0
"""What one look may take."""
FRESH_SECONDS = 2.0
"""A yes is used within this time: what it rests on may change."""
PAUSE_SECONDS = 10.0
"""Between two looks at one gang."""
_REST = DutyCycle(rest=2)
"""Between two checks, of any gang."""

Planned = Mapping[str, Collection[str]]
"""By node: the uids of pods that plans put there."""
NOTHING_PLANNED: Planned = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Verdict:
    """`why`: what is in the way, "" where it is placed, or where that it has no place as it is is not sure any more.
    `at`: since when that is known.
    """

    gang: Gang
    at: float
    why: str = ""
    version: str = ""
    """Of the cluster that was looked at."""
    place: tuple[NodeState, ...] = ()
    """The nodes that all members together would have, as they were then."""

    @property
    def placed(self) -> bool:
        """Whether it can be made again, has no place as it is, and one as a whole that takes nobody else's."""
        return bool(self.place)

    def stands(self, at: float) -> bool:
        """Whether the gang need not be looked at again yet."""
        return at - self.at <= (FRESH_SECONDS if self.placed else PAUSE_SECONDS)

    def untouched(self, snapshot: Snapshot, planned: Planned) -> bool:
        """Whether nobody has come to its place since, has room held or is planned there, and it is as open as then."""
        names = {then.name for then in self.place}
        now = {state.name: state for state in snapshot.nodes if state.name in names}
        return all(
            then.name in now
            and now[then.name].open == then.open
            and now[then.name].marks.union(planned.get(then.name, ())) <= then.marks
            for then in self.place
        )

    def fresh(self, gang: Gang, at: float) -> bool:
        """Whether it may be acted on: a yes for this very gang, just given."""
        return self.placed and self.stands(at) and (self.gang is gang or self.gang == gang)


class RestartChecks:
    """To be used by one thread; the looks are taken in a lane of their own.

    :param wake: called, in the lane, when there is a verdict.
    """

    def __init__(
        self,
        lane: Lane,
        limits: Limits,
        wake: Callable[[], None] = lambda: None,
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._lane = lane
        self._limits = replace(limits, seconds=min(limits.seconds, SECONDS))
        self._wake = wake
        self._inbox: deque[tuple[GangKey, Verdict, float]] = deque()
        self._verdicts: dict[GangKey, Verdict] = {}
        self._shares = Shares()
        self._again = 0.0

    def look(
        self, gangs: Iterable[Gang], picture: ClusterView, planned: Planned = NOTHING_PLANNED
    ) -> Mapping[GangKey, Verdict]:
        """What is known of these gangs. One of those of which nothing is, or not of late, is looked at meanwhile.

        :param planned: who is to come to which nodes, of which the picture may not know yet.
        """
        while self._inbox:
            key, verdict, taken = self._inbox.popleft()
            self._verdicts[key] = verdict
            self._again = verdict.at + _REST.pause(taken)
        now, asking = self._clock.monotonic(), {gang.key: gang for gang in gangs}
        self._verdicts = {
            key: each
            for key, each in self._verdicts.items()
            if each.stands(now) and each.untouched(picture.snapshot, planned)
        }
        new = [key for key in asking if key not in self._verdicts]
        if new and self._lane.idle and now >= self._again:
            (key,) = self._shares.next_ones(new, lambda _: 1.0, 1.0)
            self._lane.do(partial(self._check, asking[key], picture))
            if self._inbox:
                return self.look(asking.values(), picture, planned)
        return self._verdicts

    def close(self) -> None:
        """Look at nothing any more."""
        self._lane.close()

    def _check(self, gang: Gang, picture: ClusterView) -> None:
        """In the lane."""
        began = self._clock.monotonic()
        why = hindrance(gang, picture.snapshot, picture.sources)
        place: tuple[NodeState, ...] = ()
        if not why and self._has_none(gang, picture):
            place = self._place_of(gang, picture)
            why = "" if place else "all its members together have no free place either"
        verdict = Verdict(gang, self._clock.monotonic(), why, picture.snapshot.version, place)
        self._inbox.append((gang.key, verdict, verdict.at - began))
        self._wake()

    def _has_none(self, gang: Gang, picture: ClusterView) -> bool:
        """Whether it is proven on this picture, too, that the gang has no place as it is."""
        decision = self._planned(gang, picture)
        return (
            decision is not None
            and decision.outcome is Outcome.UNPLACEABLE
            and decision.proof == Proof.INFEASIBLE.value
        )

    def _place_of(self, gang: Gang, picture: ClusterView) -> tuple[NodeState, ...]:
        """The free nodes that all its members together would have, once they are gone; () for none."""
        emptied = replace(picture, snapshot=without(gang, picture.snapshot))
        decision = self._planned(replace(whole_again(gang), preempts=False), emptied)
        if decision is None or decision.outcome is not Outcome.PLACED:
            return ()
        names = {assignment.node for assignment in decision.assignments}
        return tuple(state for state in picture.snapshot.nodes if state.name in names)

    def _planned(self, gang: Gang, picture: ClusterView) -> Decision | None:
        """What comes of planning it; nothing where planning fails."""
        return asked_alone(gang, Question((gang,), picture, (), self._limits, self._limits))
