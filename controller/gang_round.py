"""One gang in one round of the controller: what every step of the round reads, and what it leaves for the next step."""

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


@dataclass(slots=True)
class GangRound:
    """One gang in one round: what it asks for, the plan in progress, what is done about it, and how it stands then."""

    gang: Gang
    manifest: Manifest
    """Its Gang object, as last seen."""
    record: PlanRecord | None
    step: Step
    placeholders: Mapping[str, Pod] = field(default_factory=dict)
    """Those that hold room for it, by the seats that they are for."""
    decision: Decision | None = None
    timed_out: bool | None = None
    untried: str = ""
    """What is to be said of members that were let go and that nobody tries."""
    withdrawal: Withdrawal | None = None
    """Why its members that have started are evicted in this round; None if they are not."""
    restarts: int = 0
    """How often it has been restarted as a whole, with this round's; 0: as often as its status says."""
    stays: str = ""
    """Why it is not restarted, where it asks for that and has lost a member."""
    watched: bool = False
    """Whether there are members that a scheduler could try now, that are to be made again, or to be withdrawn."""
    fallen: PlanRecord | None = None
    """The plan that was in progress, where it does not hold any more."""
    deferred: bool = False
    """Whether it is being planned since a moment ago: all stays as it is until there is an answer."""
    expired_now: bool = False
    """Whether its time ended in this very round."""
    last: Decision | None = None
    """The answer of the round before, if nothing has changed since."""
    writing: bool = False
    """Whether something was written for it in this round, or tried."""
    moved: bool = False
    """Whether something that was written for it in this round stands now, and the scheduler need not be waited for."""
    settled: bool = False
    """Whether the scheduler is next: all that was to be written before it may do its part has been."""
    behind: bool = False
    """Whether it has not been told yet how it stands, for lack of time."""
    failed: str = ""
    """What is said of it where an error of ours shows at it: it is left alone for a moment."""
    resting: bool = False
    """Whether nothing is to be done until something changes, or there is another answer."""

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
        """Its Gang object's status, as last seen."""
        return self.manifest.get("status") or {}

    @property
    def held(self) -> tuple[Pod, ...]:
        """The pods that hold room for it and have not been let go: gated members, and placeholders."""
        members = (member.pod for member in self.gang.members)
        nominated = (pod for pod in members if pod.status.nominated_node_name and pod.gated_by(GATE))
        return (*nominated, *self.placeholders.values())

    @property
    def on_its_way(self) -> bool:
        """Whether a plan for it is being carried out, or has just been made or given up."""
        return not isinstance(self.step, AllBound | NeedPlan) or self.record is not None or self.writing

    @property
    def unchanged(self) -> bool:
        """Whether it rests, and the answer it has got is the one that it had before."""
        return self.resting and self.decision is self.last

    @property
    def waits_for_time(self) -> bool:
        """Whether it may have to be looked at again though nothing changes."""
        if not self.resting or self.watched or not isinstance(self.step, NeedPlan):
            return self.watched or not (self.resting and isinstance(self.step, AllBound))
        limited = self.gang.schedule_timeout_seconds is not None and self.timed_out is None
        return limited or self.decision is None  # of a no the planner knows when it may be asked again
