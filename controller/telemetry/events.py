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
    "GangPlanned", Kind.NORMAL, "Planning", "A plan was found. The note names its nodes and what is proven."
)
GANG_NOMINATED = Reason(
    "GangNominated", Kind.NORMAL, "Nominating", "Capacity is reserved for every member of the plan."
)
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
    "The eviction of a victim is refused, most often by a disruption budget. The note has the reason.",
)
ROOM_LOST = Reason(
    "RoomLost",
    Kind.WARNING,
    "Verifying",
    "Reserved capacity was taken before the release. No member was released, and the gang is replanned.",
)
DEVICES_LOST = Reason(
    "DevicesLost",
    Kind.WARNING,
    "Verifying",
    "Other pods got or need devices of the plan before the release. They are given up, and the gang is replanned.",
)
QUOTA_SHORT = Reason(
    "QuotaShort",
    Kind.WARNING,
    "Verifying",
    "A ResourceQuota refuses expected pods: their capacity is freed until the quota admits them.",
)
ROOM_UNWANTED = Reason(
    "RoomUnwanted",
    Kind.WARNING,
    "Verifying",
    "No capacity is to be reserved any more for expected pods: it is freed, and the gang waits for these pods.",
)
GANG_RELEASED = Reason(
    "GangReleased", Kind.NORMAL, "Releasing", "The members were released, and the scheduler binds them."
)
GANG_PLACED = Reason("GangPlaced", Kind.NORMAL, "Binding", "Every planned member is bound.")
MEMBER_UNBOUND = Reason(
    "MemberUnbound", Kind.WARNING, "Binding", "A released member cannot be bound to its planned node."
)
MEMBER_REPLACED = Reason(
    "MemberReplaced", Kind.NORMAL, "Repairing", "The replacement of a lost member has a plan beside its siblings."
)
MEMBER_IRREPLACEABLE = Reason(
    "MemberIrreplaceable",
    Kind.WARNING,
    "Repairing",
    "The replacement of a lost member has no plan beside its siblings.",
)
MEMBER_SET_FREE = Reason(
    "MemberSetFree",
    Kind.NORMAL,
    "Repairing",
    "A gated member was pinned beside siblings that are gone. It is deleted, and its controller recreates it.",
)
GANG_UNTRIED = Reason(
    "GangUntried",
    Kind.WARNING,
    "Binding",
    "No scheduler has tried members that were released; the note says what follows.",
)
MEMBER_UNTRIED = Reason(
    "MemberUntried",
    Kind.WARNING,
    "Binding",
    "The scheduler that a released member names has not tried it; its capacity is freed.",
)
MEMBER_MADE_AGAIN = Reason(
    "MemberMadeAgain",
    Kind.NORMAL,
    "Repairing",
    "The scheduler that a member names does not run. The member is deleted, and its controller recreates it.",
)
GANG_WITHDRAWN = Reason(
    "GangWithdrawn",
    Kind.WARNING,
    "Withdrawing",
    "Some members had started, and the others could not start. The gang was never whole: its members are evicted.",
)
MEMBER_WITHDRAWN = Reason(
    "MemberWithdrawn", Kind.WARNING, "Withdrawing", "On a member: it is evicted because its gang cannot become whole."
)
GANG_RESTARTED = Reason(
    "GangRestarted",
    Kind.WARNING,
    "Restarting",
    "A lost member could not be replaced beside the others. All are evicted, to start together again (onFailure).",
)
MEMBER_RESTARTED = Reason(
    "MemberRestarted",
    Kind.WARNING,
    "Restarting",
    "On a member: it is evicted to restart its gang as a whole.",
)
GANG_TIMED_OUT = Reason(
    "GangTimedOut", Kind.WARNING, "Waiting", "The gang's time to be scheduled is over; its reserved capacity was freed."
)
SCHEDULER_ABSENT = Reason(
    "SchedulerAbsent",
    Kind.WARNING,
    "Scheduling",
    "On a pod of no gang: the scheduler that it names does not run, so the pod will not start.",
)
SYSTEM_LEFT = Reason(
    "SystemLeft",
    Kind.NORMAL,
    "Leaving",
    "On another system's webhook configuration: the system runs in the cluster, so its workloads are ceded to it.",
)
SYSTEM_TAKEN = Reason(
    "SystemTaken",
    Kind.NORMAL,
    "Taking",
    "On Phalanx's webhook configuration: a system has ended or is adopted, so Phalanx places its workloads.",
)

ROOM_NOT_HELD = Reason(
    "RoomNotHeld",
    Kind.WARNING,
    "Leading",
    "On our own webhook configuration: this version of Kubernetes is not known to keep reserved capacity.",
)

OUR_CONFIGURATION = ObjectRef(f"{ADMISSION}/v1", MUTATING, "", CONFIGURATION)
"""The object on which events about the whole installation are recorded."""

REASONS: tuple[Reason, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Reason))
"""All reasons, in the order of the reference page."""
