"""What was decided for one gang: the value that the command line, the webhook and the controller share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from gangs.model import Fault, Gang, GangKey, Member
from solver.plan import Goal, NearDomain


class WaitReason(Enum):
    """Why a gang waits although its members and the objects that it names exist. The value is a condition's reason."""

    QUOTA_EXHAUSTED = "QuotaExhausted"
    """Other gangs use the quota that it needs (`planning.quota.queueing`)."""
    RESOURCE_CLAIMS = "ResourceClaims"
    """Its pods need devices, and no plan is made for devices yet (`planning.scheduler_rules.resource_claims`)."""


class Outcome(Enum):
    """What may have become of a gang, in the words of reports."""

    PLACED = "Placed"
    WAITING = "Waiting"
    UNPLACEABLE = "Unplaceable"
    INVALID = "Invalid"


class Refusal(Enum):
    """Why a gang is unplaceable, in the words of `status.reason`."""

    NO_ROOM = "NoRoom"
    NOT_PROVEN = "NotProven"
    NEVER_FITS = "NeverFits"


@dataclass(frozen=True, slots=True)
class Assignment:
    """A member and its node. `index` is its rank in its pod set: as given, else its place in the order of the names.
    `held` says that the member was bound or released there before this plan.
    """

    member: Member
    index: int
    node: str
    held: bool = False


@dataclass(frozen=True, slots=True)
class DomainUse:
    """Members of the gang in one domain."""

    path: tuple[str, ...]
    pods: int


@dataclass(frozen=True, slots=True)
class LevelUse:
    """How the plan uses one level; `mode` is "required", "preferred" or "none"."""

    level: str
    label: str
    mode: str
    domains: tuple[DomainUse, ...]


@dataclass(frozen=True, slots=True)
class Eviction:
    """A running pod that has to go for the plan."""

    namespace: str
    name: str
    uid: str
    node: str
    priority: int
    gang: GangKey | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """For a no: the nearest domains and the smallest changes that would help. For a yes: why not next door."""

    nearest: tuple[NearDomain, ...] = ()
    would_fit_if: tuple[str, ...] = ()
    offered: tuple[tuple[str, tuple[str, ...], int], ...] = ()
    """(level, path, members that fit without eviction) for each domain of the level that decides, in tree order."""
    why_here: str = ""
    """What the best plan elsewhere would cost; "" where nobody looked or there is nothing to compare."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer for one gang, whatever the outcome. `message` is one line for a person.

    `proof` is the value of a `solver.plan.Proof` ("" for Waiting and Invalid). `seconds` holds the time of the steps
    "snapshot" (building the problem) and "solve". `notes` name what is not modelled and was therefore not considered.
    """

    gang: Gang | None
    key: GangKey
    outcome: Outcome
    message: str
    assignments: tuple[Assignment, ...] = ()
    levels: tuple[LevelUse, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    goals: tuple[Goal, ...] = ()
    reason: WaitReason | None = None
    """Why it waits, where neither a member nor an object is missing."""
    proof: str = ""
    flavors: tuple[str, ...] = ()
    """Names of the flavors whose quotas and nodes the plan uses."""
    topology: str = ""
    """Name of the topology that it was planned in, "" for none and for levels found on the nodes."""
    explanation: Explanation = field(default_factory=Explanation)
    faults: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()
    refusal: Refusal | None = None
    """Why the gang is unplaceable, as far as that is known; None: `proof` tells."""
    shortfall: str = ""
    """The part of the message about members beyond the minimum that have no node."""
    naming: tuple[tuple[str, str], ...] = ()
    """Parts of the message that name what belongs to others, each with what stands there for who may not see that."""
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def nameless(self) -> str:
        """The message for those who may not see the others' pods and budgets: counts and nodes alone."""
        text = self.message
        for part, instead in self.naming:
            text = text.replace(part, instead)
        return text
