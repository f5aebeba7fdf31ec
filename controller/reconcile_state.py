"""The state of one gang in one reconcile, and the effects of steps on it.

Each step of the reconcile reads immutable states and returns its `Effects`. The loop applies them before the next step
(`after`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from operator import attrgetter
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
"""The parts of a message without its counts (`planning.message.Message.topic`).

Two messages with equal topics differ in their counts only, so the second one is no new event.
"""


@dataclass(frozen=True, slots=True)
class Reported:
    """The messages that events on a gang and its members have already reported, as topics.

    An event is recorded only for a message with another topic. So a message in which only a count has changed causes no
    event. The object is kept from reconcile to reconcile, and empty after a start of the controller.
    """

    waiting: Topic | None = None
    """The topic of the message while the gang waits; None in any other phase."""
    untried: str = ""
    """The reported message about released members that no scheduler tries; "" if there is none."""
    plan_alone: bool = False
    """Whether the status reports a plan with reserved capacity, and nothing besides it."""
    members: Mapping[str, Topic] = field(default_factory=dict)
    """The topic that an event on a gated member has reported, by the member's UID."""


class FollowUp(Enum):
    """The next reconcile's action for a gang of which no input has changed."""

    RECONCILE = "Reconcile"
    """The state is rebuilt from the cluster, and the step is derived again."""
    REPORT_LATER = "ReportLater"
    """The state is kept, and nothing is written until an input of the gang changes or no more members arrive."""
    REPORT = "Report"
    """The state is kept and its status is written, because this reconcile had no time to write it."""
    NONE = "None"
    """The state is kept. Nothing is due until an input of the gang changes or planning returns another decision."""


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
    """Whether a write was sent, successful or not. Status writes at the end of the reconcile do not count."""
    moved: bool = False
    """Whether the API server accepted a write of the gang's step, so that the gang's next step may be due."""
    settled: bool = False
    """Whether the step's writes are complete and the scheduler acts next. Then no reconcile is due before it has."""
    watched: bool = False
    """Whether the gang must be checked again even without an event, because a time limit of its members runs.

    Examples: a scheduler has not tried a released member yet, or the gang runs in part and may be withdrawn.
    """
    untried: str = ""
    """The message about released members that no scheduler tries; "" if there are none."""
    withdrawal: Withdrawal | None = None
    """Why this reconcile evicts the members that had started; None if it does not."""
    stays: str = ""
    """Why a gang that asks for restarts and has lost a member is not restarted now; "" for any other gang."""
    awaited: str = ""
    """The message about what keeps the gang from taking its devices, such as a pod or a refused write; "" if nothing
    does.
    """
    failed: str = ""
    """The message about an internal error at this gang, which is skipped until its back-off ends; "" without one."""
    plan: Plan | None = None
    """The new step, plan in force and decision: the plan was dropped, or arrived pods replaced expected pods in it.

    None if they have not changed.
    """
    manifest: Manifest | None = None
    """The gang's Gang object as it is after a write; None without a write."""
    reported: Reported | None = None
    follow_up: FollowUp | None = None

    @classmethod
    def of(cls, writes: Collection[Written], *, settled: bool = False) -> Self:
        """Return the effects of the writes that carried out the gang's step.

        :param settled: whether the scheduler acts next (`Effects.settled`).
        """
        return cls(written=bool(writes), moved=any(write.done for write in writes), settled=settled)

    def then(self, later: "Effects") -> "Effects":
        """Return these effects combined with later ones. A field that is set in `later` replaces the earlier value."""
        if later is NO_EFFECTS or self is NO_EFFECTS:
            return self if later is NO_EFFECTS else later
        return Effects(*[new or old for new, old in zip(_fields_of(later), _fields_of(self), strict=True)])


NO_EFFECTS = Effects()
"""The effects of a step that changes nothing. Most steps of most gangs have none."""
_fields_of = attrgetter(*(each.name for each in fields(Effects)))
"""Returns the values of all fields of `Effects`, in their order."""


@dataclass(frozen=True, slots=True)
class ReconcileState:
    """One gang in one reconcile: its request, the plan in force, the step that is due, and the effects so far."""

    gang: Gang
    manifest: Manifest
    """The gang's Gang object, as last read or written."""
    record: PlanRecord | None
    step: Step
    placeholders: Mapping[str, Pod] = field(default_factory=dict)
    """The placeholders that reserve capacity for the gang, each by the identifier of its pod."""
    ungated: bool = False
    """Whether placeholders reserve the capacity of all gated members (`next_step.Situation.ungated`)."""
    decision: Decision | None = None
    """The planning result of this reconcile. Before planning, it is the previous one if no input has changed."""
    timed_out: bool | None = None
    """True if the gang's schedule timeout has ended and the gang has not been released since; None otherwise."""
    expired_now: bool = False
    """Whether the gang's schedule timeout ended in this reconcile."""
    fallen: PlanRecord | None = None
    """The plan in force that was invalidated; None if there is none."""
    deferred: bool = False
    """Whether planning of the gang has just begun. Its status and its reservations stay until there is a result."""
    effects: Effects = NO_EFFECTS
    """The combined effects of this reconcile's steps so far."""
    reported: Reported = field(default_factory=Reported)
    follow_up: FollowUp = FollowUp.RECONCILE

    def after(self, effects: Effects) -> "ReconcileState":
        """Return the state of the gang with these effects of a step applied."""
        if effects is NO_EFFECTS:
            return self
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
        """The gang with the creation time by which the planning queue orders gangs of equal priority.

        A gang whose lost members are being recreated comes first, because it had its capacity before. A gang whose
        schedule timeout has ended comes last.
        """
        if self.gang.made_again:
            return replace(self.gang, created=FIRST_IN_LINE)
        return replace(self.gang, created=LAST_IN_LINE) if self.timed_out else self.gang

    @property
    def name(self) -> str:
        """The name of the gang's Gang object."""
        return str(self.manifest["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """The namespace of the gang's Gang object: that of the object that asked for the gang.

        It may differ from `gang.key.namespace` if the gang consists of several groups.
        """
        return str(self.manifest["metadata"]["namespace"])

    @property
    def path(self) -> str:
        """The API path of the gang's Gang object."""
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
        """Whether a plan of the gang is being carried out, or this reconcile has written for the gang.

        The status of such a gang is reported before that of other gangs.
        """
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
        """Whether the gang's status is still to be written, because the last reconcile had no time for it."""
        return self.follow_up is FollowUp.REPORT

    @property
    def arriving(self) -> bool:
        """Whether members were still being created when the gang's status was last written.

        The next status is then written when no further member arrives.
        """
        return self.follow_up is FollowUp.REPORT_LATER

    @property
    def resting(self) -> bool:
        """Whether nothing is due for the gang until an input changes or planning returns another decision."""
        return self.follow_up is FollowUp.NONE

    @property
    def waits_for_time(self) -> bool:
        """Whether the gang may have to be reconciled again without an event, because a pause or timeout may end.

        False for a resting gang that is bound, and for a resting gang that is rejected and has no schedule timeout. The
        planning queue knows the time to replan a rejected gang.
        """
        watched = self.effects.watched
        if not self.resting or watched or not isinstance(self.step, NeedPlan):
            return watched or not (self.resting and isinstance(self.step, AllBound))
        limited = self.gang.schedule_timeout_seconds is not None and self.timed_out is None
        return limited or self.decision is None  # the planning queue knows when to replan a rejected gang


def after(gang_states: Iterable[ReconcileState], effects: Mapping[GangKey, Effects]) -> list[ReconcileState]:
    """Return the states with the effects of one step of the reconcile. No other code applies effects to states.

    :param effects: by gang. A gang without an entry keeps its state.
    """
    done = ((gang_state, effects.get(gang_state.gang.key)) for gang_state in gang_states)
    return [gang_state.after(each) if each is not None else gang_state for gang_state, each in done]


def with_steps(gang_states: Sequence[ReconcileState], steps: Mapping[GangKey, Step]) -> Sequence[ReconcileState]:
    """Return the states. The state of a gang that has an entry in `steps` gets this step."""
    if not steps:
        return gang_states
    return [replace(each, step=steps[each.gang.key]) if each.gang.key in steps else each for each in gang_states]
