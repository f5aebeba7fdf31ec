"""One gang in one reconcile: the values that the steps of the reconcile read and pass on to later steps."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.release.next_step import AllBound, NeedPlan, Step
from controller.release.records import PlanRecord
from controller.release.wholeness import Withdrawal
from controller.writes.writer import gang_path
from gangs.model import Gang, Manifest
from kube.keys import GATE
from kube.objects import Pod
from planning.decision import Decision

Topic = tuple[object, ...]
"""The parts of a message without its counts (`planning.message.Message.topic`). Topics are only compared."""


@dataclass(slots=True)
class Reported:
    """The topics that events on a gang and its members have reported. Another count is no new event.

    It is kept from reconcile to reconcile, and empty after a start of the controller.
    """

    waiting: Topic | None = None
    """The topic of the message while the gang waits; None in any other phase."""
    untried: str = ""
    """The message about released members that no scheduler tries."""
    members: dict[str, Topic] = field(default_factory=dict)
    """Topics by the UID of a gated member."""


@dataclass(slots=True)
class ReconcileState:
    """One gang in one reconcile: its request, the plan in force, the step that is due, and the resulting state."""

    gang: Gang
    manifest: Manifest
    """The gang's Gang object, as last read."""
    record: PlanRecord | None
    step: Step
    placeholders: Mapping[str, Pod] = field(default_factory=dict)
    """The placeholders that reserve capacity for the gang, by the expected pods that they are for."""
    decision: Decision | None = None
    timed_out: bool | None = None
    untried: str = ""
    """The message about released members that no scheduler tries; "" if there are none."""
    withdrawal: Withdrawal | None = None
    """Why the members that have started are evicted in this reconcile; None if they are not."""
    restarts: int = 0
    """The number of restarts as a whole, including a restart in this reconcile. 0: the number in the status holds."""
    stays: str = ""
    """Why a gang that asks for restarts and has lost a member is not restarted; "" for any other gang."""
    watched: bool = False
    """Whether some members could be tried by a scheduler now, or must be recreated or withdrawn."""
    fallen: PlanRecord | None = None
    """The plan in force that was invalidated; None if there is none."""
    deferred: bool = False
    """Whether planning has begun a moment ago. The gang's state does not change until there is an answer."""
    expired_now: bool = False
    """Whether the gang's schedule timeout ended in this reconcile."""
    last: Decision | None = None
    """The decision of the previous reconcile, if nothing has changed since."""
    writing: bool = False
    """Whether a write for the gang was sent in this reconcile, successful or not."""
    moved: bool = False
    """Whether a write for the gang succeeded in this reconcile and the next step need not wait for the scheduler."""
    settled: bool = False
    """Whether all writes before the scheduler's part are done, so that the scheduler acts next."""
    behind: bool = False
    """Whether the gang's state has not been reported yet, for lack of time."""
    failed: str = ""
    """The message about an internal error at this gang, for which it is skipped for a moment; "" without an error."""
    reported: Reported = field(default_factory=Reported)
    resting: bool = False
    """Whether there is nothing to do until an input changes or there is another decision."""

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
        return not isinstance(self.step, AllBound | NeedPlan) or self.record is not None or self.writing

    @property
    def unchanged(self) -> bool:
        """Whether the gang rests and has the same decision as in the previous reconcile."""
        return self.resting and self.decision is self.last

    @property
    def waits_for_time(self) -> bool:
        """Whether the gang may have to be reconciled again without an event."""
        if not self.resting or self.watched or not isinstance(self.step, NeedPlan):
            return self.watched or not (self.resting and isinstance(self.step, AllBound))
        limited = self.gang.schedule_timeout_seconds is not None and self.timed_out is None
        return limited or self.decision is None  # for a rejection, the planner knows the time to replan
