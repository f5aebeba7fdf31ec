"""One gang in one reconcile. Each step of the reconcile reads an immutable state and returns its effects.

The loop applies the effects before the next step (`after`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any, Self

from controller.release.next_step import AllBound, NeedPlan, Step
from controller.release.records import PlanRecord
from controller.release.wholeness import Withdrawal
from controller.writes.writer import Written, gang_path
from gangs.model import Gang, GangKey, Manifest
from kube.keys import GATE
from kube.objects import Pod
from planning.decision import Decision

FIRST_IN_LINE = "0"
"""The creation time used for a gang whose lost members are being recreated: it sorts first within its priority."""
LAST_IN_LINE = "9998"
"""The creation time used for a gang whose schedule timeout has ended once: it sorts last within its priority."""
Topic = tuple[object, ...]
"""The parts of a message without its counts (`planning.message.Message.topic`). Topics are only compared."""


@dataclass(frozen=True, slots=True)
class Reported:
    """The topics that events on a gang and its members have reported. Another count is no new event.

    It is kept from reconcile to reconcile, and empty after a start of the controller.
    """

    waiting: Topic | None = None
    """The topic of the message while the gang waits; None in any other phase."""
    untried: str = ""
    """The message about released members that no scheduler tries."""
    members: Mapping[str, Topic] = field(default_factory=dict)
    """Topics by the UID of a gated member."""


class FollowUp(Enum):
    """The next reconcile's action for a gang of which no input has changed."""

    RECONCILE = "Reconcile"
    """The state is rebuilt from the cluster, and the step is derived again."""
    REPORT = "Report"
    """The state is kept and reported, because there was no time for that."""
    NONE = "None"
    """The state is kept. Nothing is due until there is another decision."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The step that is due for a gang, its plan in force, and its decision."""

    step: Step
    record: PlanRecord | None
    decision: Decision | None


@dataclass(frozen=True, slots=True)
class Effects:
    """The outcome of one step of the reconcile for one gang. The default of each field means that nothing has changed.

    `ReconcileState.after` applies it.
    """

    written: bool = False
    """Whether a write was sent, successful or not. The writes of the report at the end do not count."""
    moved: bool = False
    """Whether a write of the gang's own step succeeded."""
    settled: bool = False
    """Whether all writes before the scheduler's part are done, so that the scheduler acts next."""
    watched: bool = False
    """Whether some members could be tried by a scheduler now, or must be recreated or withdrawn."""
    untried: str = ""
    """The message about released members that no scheduler tries."""
    withdrawal: Withdrawal | None = None
    """Why the members that have started are evicted in this reconcile."""
    stays: str = ""
    """Why a gang that asks for restarts and has lost a member is not restarted."""
    failed: str = ""
    """The message about an internal error at this gang, for which it is skipped for a moment."""
    plan: Plan | None = None
    """The plan after a write dropped it, or after arrived pods took its places."""
    manifest: Manifest | None = None
    """The gang's Gang object after a write."""
    reported: Reported | None = None
    follow_up: FollowUp | None = None

    @classmethod
    def of(cls, writes: Collection[Written], *, settled: bool = False) -> Self:
        """Return the effects of these writes of the gang's own step."""
        return cls(written=bool(writes), moved=any(write.done for write in writes), settled=settled)

    def then(self, later: "Effects") -> "Effects":
        """Return these effects and the later ones. A later value replaces an earlier one."""
        return Effects(*(getattr(later, each.name) or getattr(self, each.name) for each in fields(self)))


@dataclass(frozen=True, slots=True)
class ReconcileState:
    """One gang in one reconcile: its request, the plan in force, the step that is due, and the effects so far."""

    gang: Gang
    manifest: Manifest
    """The gang's Gang object, as last read or written."""
    record: PlanRecord | None
    step: Step
    placeholders: Mapping[str, Pod] = field(default_factory=dict)
    """The placeholders that reserve capacity for the gang, by the expected pods that they are for."""
    decision: Decision | None = None
    """The decision of this reconcile, and before that of the previous one if nothing has changed since."""
    timed_out: bool | None = None
    expired_now: bool = False
    """Whether the gang's schedule timeout ended in this reconcile."""
    fallen: PlanRecord | None = None
    """The plan in force that was invalidated; None if there is none."""
    deferred: bool = False
    """Whether planning has begun a moment ago. The gang's state does not change until there is an answer."""
    effects: Effects = field(default_factory=Effects)
    """The combined effects of this reconcile's steps so far."""
    reported: Reported = field(default_factory=Reported)
    follow_up: FollowUp = FollowUp.RECONCILE

    def after(self, effects: Effects) -> "ReconcileState":
        """Return the state after these effects."""
        plan = effects.plan or self
        return replace(
            self,
            manifest=effects.manifest or self.manifest,
            step=plan.step,
            record=plan.record,
            decision=plan.decision,
            effects=self.effects.then(effects),
            reported=effects.reported or self.reported,
            follow_up=effects.follow_up or self.follow_up,
        )

    @property
    def gang_in_line(self) -> Gang:
        """The gang as the planning queue reads it, with the creation time that decides its order within its priority.

        A gang whose lost members are being recreated comes first, because it had its capacity before.
        """
        if self.gang.made_again:
            return replace(self.gang, created=FIRST_IN_LINE)
        return replace(self.gang, created=LAST_IN_LINE) if self.timed_out else self.gang

    @property
    def name(self) -> str:
        """Name of its Gang object."""
        return str(self.manifest["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """Where its Gang object is: with the object that asked, which of a group may not be the first of its names."""
        return str(self.manifest["metadata"]["namespace"])

    @property
    def path(self) -> str:
        """Where its Gang object is."""
        return gang_path(self.namespace, self.name)

    @property
    def status(self) -> Mapping[str, Any]:
        """The status of the gang's Gang object, as last read."""
        return self.manifest.get("status") or {}

    @property
    def held(self) -> tuple[Pod, ...]:
        """The pods that reserve capacity for the gang: nominated members that are still gated, and placeholders."""
        members = (member.pod for member in self.gang.members)
        nominated = (pod for pod in members if pod.status.nominated_node_name and pod.gated_by(GATE))
        return (*nominated, *self.placeholders.values())

    @property
    def on_its_way(self) -> bool:
        """Whether a plan for the gang is being carried out, or has just been made or dropped."""
        return not isinstance(self.step, AllBound | NeedPlan) or self.record is not None or self.effects.written

    @property
    def failed(self) -> str:
        """The message about an internal error at this gang; "" without an error."""
        return self.effects.failed

    @property
    def moved(self) -> bool:
        """Whether a write for the gang succeeded and the next step need not wait for the scheduler."""
        return self.effects.moved and not self.effects.settled

    @property
    def behind(self) -> bool:
        """Whether the gang's state has not been reported yet, for lack of time."""
        return self.follow_up is FollowUp.REPORT

    @property
    def resting(self) -> bool:
        """Whether there is nothing to do until an input changes or there is another decision."""
        return self.follow_up is FollowUp.NONE

    @property
    def waits_for_time(self) -> bool:
        """Whether the gang may have to be reconciled again without an event."""
        watched = self.effects.watched
        if not self.resting or watched or not isinstance(self.step, NeedPlan):
            return watched or not (self.resting and isinstance(self.step, AllBound))
        limited = self.gang.schedule_timeout_seconds is not None and self.timed_out is None
        return limited or self.decision is None  # for a rejection, the planner knows the time to replan


def after(gang_states: Iterable[ReconcileState], effects: Mapping[GangKey, Effects]) -> list[ReconcileState]:
    """Return the states after a step of the reconcile. This is the only place at which the effects of steps count."""
    done = ((gang_state, effects.get(gang_state.gang.key)) for gang_state in gang_states)
    return [gang_state.after(each) if each is not None else gang_state for gang_state, each in done]


def with_steps(gang_states: Sequence[ReconcileState], steps: Mapping[GangKey, Step]) -> Sequence[ReconcileState]:
    """Return the states with other steps for some gangs."""
    if not steps:
        return gang_states
    return [replace(each, step=steps[each.gang.key]) if each.gang.key in steps else each for each in gang_states]
