"""`Decision`: the planner's result for one gang, which the command line, the webhook and the controller share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from cluster.devices.allocation import ClaimAllocation
from gangs.model import Fault, Gang, GangKey, Member
from planning.devices.counts import DeviceCount
from planning.message import Message
from solver.plan import Goal, NearDomain


class WaitReason(Enum):
    """Why a gang waits although its members and the objects that it names exist. The value is a condition's reason."""

    QUOTA_EXHAUSTED = "QuotaExhausted"
    """Other gangs use the quota that the gang needs (`planning.quota.queueing`)."""
    RESOURCE_CLAIMS = "ResourceClaims"
    """Its pods need devices, and no plan is made for devices yet (`planning.scheduler_rules.resource_claims`)."""


class Outcome(Enum):
    """The possible results of planning a gang. Reports of the command line and the JSON output contain the values."""

    PLACED = "Placed"
    WAITING = "Waiting"
    UNPLACEABLE = "Unplaceable"
    INVALID = "Invalid"


class Refusal(Enum):
    """Why a gang is rejected as unplaceable. The value is the reason in the status of its Gang object."""

    NO_ROOM = "NoRoom"
    NOT_PROVEN = "NotProven"
    NEVER_FITS = "NeverFits"


@dataclass(frozen=True, slots=True)
class Assignment:
    """One member of a planned gang, and its node.

    `index`: the member's rank in its pod set if its workload gives ranks, else its position in the order of names.
    `held`: the member was bound or released to this node before the plan, so the plan takes no new capacity for it.
    `devices`: the devices that the plan gives to its claims. A claim that several members share is in the entry of the
    first of them.
    """

    member: Member
    index: int
    node: str
    held: bool = False
    devices: tuple[ClaimAllocation, ...] = ()


@dataclass(frozen=True, slots=True)
class DomainUse:
    """How many members of the gang the plan places in one domain. `path`: the domain's name after its parents'
    names.
    """

    path: tuple[str, ...]
    pods: int


@dataclass(frozen=True, slots=True)
class LevelUse:
    """The domains of one topology level that a plan uses. `label`: the node label, or the attribute of devices.

    `mode`: the gang's constraint on this level: "required", "preferred" or "none".
    """

    level: str
    label: str
    mode: str
    domains: tuple[DomainUse, ...]


@dataclass(frozen=True, slots=True)
class Eviction:
    """A running pod that the plan evicts. `gang`: the pod's own gang; None if it belongs to no gang."""

    namespace: str
    name: str
    uid: str
    node: str
    priority: int
    gang: GangKey | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Details of a decision that its one-line message does not contain.

    For a rejection: the nearest domains, and the smallest changes that would help. For a plan: why another domain is
    worse.
    """

    nearest: tuple[NearDomain, ...] = ()
    would_fit_if: tuple[str, ...] = ()
    """Changes that would help, without the names of pods that they evict."""
    example_victims: Mapping[str, str] = field(default_factory=dict)
    """By change in `would_fit_if`, one of the pods that it evicts, as `namespace/name`."""
    offered: tuple[tuple[str, tuple[str, ...], int], ...] = ()
    """(level, path, members that fit without eviction) for each domain of the level that decides, in tree order."""
    devices: tuple[tuple[DeviceCount, ...], ...] = ()
    """For each domain of `nearest`, its devices; empty if the gang asks for none."""
    why_here: str = ""
    """The cost of the best plan outside the gang's domain; "" if it was not searched or there is nothing to compare."""
    only_in: Message = field(default_factory=Message)
    """The few domains to which a node selector or node affinity confines a rejected gang; empty if none does."""

    @property
    def changes(self) -> tuple[str, ...]:
        """The changes after which the rejected gang would have a plan, each with the name of one of the pods that the
        plan evicts.
        """
        examples = self.example_victims
        return tuple(
            f"{each}, for example {examples[each]}" if each in examples else each for each in self.would_fit_if
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """The planner's result for one gang, of any outcome. `line` is its message to the user, as typed parts.

    `proof` is the value of a `solver.plan.Proof` ("" for Waiting and Invalid). `seconds` holds the time of the steps
    "snapshot" (building the problem) and "solve". `notes` name the constraints that were not considered, because
    Phalanx does not model them.
    """

    gang: Gang | None
    key: GangKey
    outcome: Outcome
    line: Message
    assignments: tuple[Assignment, ...] = ()
    levels: tuple[LevelUse, ...] = ()
    device_levels: tuple[LevelUse, ...] = ()
    """The levels below the node that devices of the plan's claims publish, with the domains that the gang uses."""
    evictions: tuple[Eviction, ...] = ()
    goals: tuple[Goal, ...] = ()
    device_goals: tuple[Goal, ...] = ()
    """The goals after `goals`: by level below the node, the number of domains, named `compactness/<level>`."""
    reason: WaitReason | None = None
    """Why the gang waits although no member and no object is missing; None in all other cases."""
    proof: str = ""
    flavors: tuple[str, ...] = ()
    """Names of the flavors whose quotas and nodes the plan uses."""
    topology: str = ""
    """Name of the topology in which the gang was planned; "" for none and for levels found on the nodes."""
    explanation: Explanation = field(default_factory=Explanation)
    faults: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()
    refusal: Refusal | None = None
    """Why the gang is unplaceable; None if no reason is known beyond `proof`."""
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def message(self) -> str:
        """The text of `line`, including the names of other users' objects."""
        return str(self.line)
