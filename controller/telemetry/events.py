"""The table of all event reasons that Phalanx writes: on gangs, pods, victims and its own webhook configuration."""

from dataclasses import dataclass
from enum import Enum

from gangs.coexistence.ownership import ADMISSION, MUTATING
from gangs.model import ObjectRef
from kube.keys import CONFIGURATION


class Kind(Enum):
    """The two types of events that Kubernetes knows."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason of an event, with the fields that all its events share.

    `action`: what was done or tried. `doc`: the description on the reference page of events.
    """

    name: str
    kind: Kind
    action: str
    doc: str


GANG_WAITING = Reason(
    "GangWaiting", Kind.NORMAL, "Waiting", "Fewer members exist than must start together, or a named object is missing."
)
MEMBER_WAITING = Reason(
    "MemberWaiting",
    Kind.NORMAL,
    "Waiting",
    "On up to eight gated members of a gang: why the gang has not started.",
)
GANG_UNPLACEABLE = Reason(
    "GangUnplaceable", Kind.WARNING, "Planning", "The members that must start together fit nowhere now."
)
GANG_INVALID = Reason("GangInvalid", Kind.WARNING, "Reading", "The request contradicts itself or its topology.")
GANG_PLANNED = Reason(
    "GangPlanned", Kind.NORMAL, "Planning", "A plan was found; the note says where and what is proven."
)
GANG_NOMINATED = Reason("GangNominated", Kind.NORMAL, "Nominating", "Room is held for every member of the plan.")
PREEMPTED = Reason("Preempted", Kind.NORMAL, "Evicting", "On a victim: it is evicted for the gang named in the note.")
GANG_EVICTED = Reason(
    "GangEvicted",
    Kind.WARNING,
    "Evicting",
    "On a gang and its workload: members are evicted for the gang that the note names.",
)
VICTIM_EVICTED = Reason("VictimEvicted", Kind.NORMAL, "Evicting", "On a gang: a victim is evicted for it.")
EVICTION_REFUSED = Reason(
    "EvictionRefused",
    Kind.WARNING,
    "Evicting",
    "The eviction of a victim is refused: most often by a disruption budget; the note says by what.",
)
ROOM_LOST = Reason(
    "RoomLost",
    Kind.WARNING,
    "Verifying",
    "Held room was taken before release; nothing was let go, planning begins anew.",
)
QUOTA_SHORT = Reason(
    "QuotaShort",
    Kind.WARNING,
    "Verifying",
    "A ResourceQuota refuses pods that are to come: their room is given back until it has room for them.",
)
ROOM_UNWANTED = Reason(
    "RoomUnwanted",
    Kind.WARNING,
    "Verifying",
    "No room is to be held any more for pods that are to come: it is given back, and the gang waits for them.",
)
GANG_RELEASED = Reason("GangReleased", Kind.NORMAL, "Releasing", "The members were let go for the scheduler to bind.")
GANG_PLACED = Reason("GangPlaced", Kind.NORMAL, "Binding", "Every planned member is bound.")
MEMBER_UNBOUND = Reason(
    "MemberUnbound", Kind.WARNING, "Binding", "A released member cannot bind where the plan put it."
)
MEMBER_REPLACED = Reason(
    "MemberReplaced", Kind.NORMAL, "Repairing", "A lost member's replacement has its place beside its siblings."
)
MEMBER_IRREPLACEABLE = Reason(
    "MemberIrreplaceable", Kind.WARNING, "Repairing", "A lost member cannot be replaced where it must be."
)
MEMBER_SET_FREE = Reason(
    "MemberSetFree",
    Kind.NORMAL,
    "Repairing",
    "A gated member was tied to siblings that are gone: it is deleted, and its controller makes it again without that.",
)
GANG_UNTRIED = Reason(
    "GangUntried",
    Kind.WARNING,
    "Binding",
    "No scheduler has tried members that were let go; the note says what follows.",
)
MEMBER_UNTRIED = Reason(
    "MemberUntried",
    Kind.WARNING,
    "Binding",
    "The scheduler that a released member names has not tried it; its room is given back.",
)
MEMBER_MADE_AGAIN = Reason(
    "MemberMadeAgain",
    Kind.NORMAL,
    "Repairing",
    "The scheduler that a member names does not run here: it is deleted, and its controller makes it again.",
)
GANG_WITHDRAWN = Reason(
    "GangWithdrawn",
    Kind.WARNING,
    "Withdrawing",
    "Some members had started and the rest could not: the gang was never whole, and those are evicted.",
)
MEMBER_WITHDRAWN = Reason(
    "MemberWithdrawn", Kind.WARNING, "Withdrawing", "On a member: it is evicted because its gang cannot become whole."
)
GANG_RESTARTED = Reason(
    "GangRestarted",
    Kind.WARNING,
    "Restarting",
    "A lost member could not be replaced beside the others: those are evicted, so that all start anew (onFailure).",
)
MEMBER_RESTARTED = Reason(
    "MemberRestarted",
    Kind.WARNING,
    "Restarting",
    "On a member: it is evicted to restart its gang as a whole.",
)
GANG_TIMED_OUT = Reason(
    "GangTimedOut", Kind.WARNING, "Waiting", "The gang's time to be scheduled is over; its held room was given back."
)
SCHEDULER_ABSENT = Reason(
    "SchedulerAbsent",
    Kind.WARNING,
    "Scheduling",
    "On a pod of no gang: the scheduler that it names does not run here, so that nothing will start it.",
)
SYSTEM_LEFT = Reason(
    "SystemLeft",
    Kind.NORMAL,
    "Leaving",
    "On the webhook configuration that shows it: another system runs here, and its workloads are left to it.",
)
SYSTEM_TAKEN = Reason(
    "SystemTaken",
    Kind.NORMAL,
    "Taking",
    "On our own webhook configuration: a system runs here no more, or is adopted; its workloads are placed now.",
)

ROOM_NOT_HELD = Reason(
    "RoomNotHeld",
    Kind.WARNING,
    "Leading",
    "On our own webhook configuration: this version of Kubernetes may lose held room; the note says when.",
)

OUR_CONFIGURATION = ObjectRef(f"{ADMISSION}/v1", MUTATING, "", CONFIGURATION)
"""The object on which events about the whole installation are recorded."""

REASONS: tuple[Reason, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Reason))
"""All reasons, in the order of the reference page."""
