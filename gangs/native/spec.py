"""The specs of a PodGroup and of a CompositePodGroup, each checked by itself."""

from typing import Any

import msgspec

from gangs.findings import Findings
from gangs.manifests import advise_unknown, decode, section
from gangs.model import Manifest, ObjectRef
from gangs.native import keys

NEVER = "Never"
_FIELDS = (
    "parentCompositePodGroupName",
    "workloadRef",
    "schedulingPolicy",
    "schedulingConstraints",
    "resourceClaims",
    "disruptionMode",
    "priorityClassName",
    "priority",
    "preemptionPolicy",
)


class GangPolicy(msgspec.Struct, frozen=True, rename="camel"):
    """`schedulingPolicy.gang`: how many pods, or how many child groups, must start together."""

    min_count: int | None = None
    min_group_count: int | None = None


class Policy(msgspec.Struct, frozen=True):
    """`schedulingPolicy`: exactly one of its fields is set."""

    basic: dict[str, Any] | None = None
    gang: GangPolicy | None = None


class TopologyConstraint(msgspec.Struct, frozen=True):
    """One entry of `schedulingConstraints.topology`.

    `key`: a node label. All pods of the PodGroup, or below the CompositePodGroup, get nodes with the same value of this
    label.
    """

    key: str = ""


class Constraints(msgspec.Struct, frozen=True):
    """`schedulingConstraints` of a PodGroup or a CompositePodGroup, as far as it is read."""

    topology: tuple[TopologyConstraint, ...] = ()


class DisruptionMode(msgspec.Struct, frozen=True):
    """`disruptionMode`: exactly one of its fields is set."""

    single: dict[str, Any] | None = None
    all: dict[str, Any] | None = None


class GroupSpec(msgspec.Struct, frozen=True, rename="camel"):
    """`spec` of a PodGroup or of a CompositePodGroup, as far as it is read."""

    parent_composite_pod_group_name: str | None = None
    scheduling_policy: Policy = Policy()
    scheduling_constraints: Constraints | None = None
    resource_claims: tuple[dict[str, Any], ...] = ()
    disruption_mode: DisruptionMode | None = None
    priority_class_name: str = ""
    priority: int | None = None
    preemption_policy: str | None = None

    @property
    def parent(self) -> str:
        """The CompositePodGroup above the group; "" if there is none."""
        return self.parent_composite_pod_group_name or ""

    @property
    def level(self) -> str | None:
        """The node label that must have one value on the nodes of all members; None if the group names none."""
        topology = self.scheduling_constraints.topology if self.scheduling_constraints else ()
        return topology[0].key if topology else None

    @property
    def is_gang(self) -> bool:
        """Whether the group's policy is `gang`, so that its minimum starts together or not at all."""
        return self.scheduling_policy.gang is not None

    @property
    def minimum(self) -> int:
        """The number of pods of a PodGroup that must start together. It is 1 for the basic policy."""
        gang = self.scheduling_policy.gang
        return max(1, (gang.min_count or 1) if gang is not None else 1)

    @property
    def min_groups(self) -> int:
        """The number of child groups of a CompositePodGroup that must start together; 0 for the basic policy."""
        gang = self.scheduling_policy.gang
        return gang.min_group_count or 0 if gang is not None else 0


def group_spec(manifest: Manifest, ref: ObjectRef, findings: Findings) -> GroupSpec:
    """Return the spec of a PodGroup. Faults go to `findings`. Raises `MalformedError`."""
    spec = _decoded(manifest, ref, findings)
    gang = spec.scheduling_policy.gang
    if gang is not None and (gang.min_count is None or gang.min_count < 1):
        shown = "is missing" if gang.min_count is None else f"{gang.min_count} is less than 1"
        findings.fault(ref, keys.MIN_COUNT, shown, "write the number of pods that must start together")
    if spec.disruption_mode is not None and spec.disruption_mode.all is not None:
        text = "counts down to minCount: members beyond it may be evicted alone; set minCount to the number of all pods"
        findings.advise(ref, keys.ALL_TOGETHER, text)
    return spec


def composite_spec(manifest: Manifest, ref: ObjectRef, findings: Findings) -> GroupSpec:
    """Return the spec of a CompositePodGroup. Faults go to `findings`. Raises `MalformedError`."""
    spec = _decoded(manifest, ref, findings)
    gang = spec.scheduling_policy.gang
    if gang is not None and (gang.min_group_count is None or gang.min_group_count < 1):
        shown = "is missing" if gang.min_group_count is None else f"{gang.min_group_count} is less than 1"
        findings.fault(ref, keys.MIN_GROUP_COUNT, shown, "write the number of child groups that must start together")
    if gang is None and spec.level is not None:
        problem = "is given beside the policy basic, whose groups are planned one by one"
        findings.fault(ref, keys.TOPOLOGY, problem, f"set {keys.MIN_GROUP_COUNT}, or name the level in each PodGroup")
    return spec


def _decoded(manifest: Manifest, ref: ObjectRef, findings: Findings) -> GroupSpec:
    """Return the spec of a PodGroup or a CompositePodGroup, after the checks that apply to both kinds.

    Faults go to `findings`. Raises `MalformedError`.
    """
    written = section(manifest, "spec")
    spec = decode(written, GroupSpec, ref, "spec")
    advise_unknown(written, _FIELDS, ref, "spec", findings)
    policy, mode = spec.scheduling_policy, spec.disruption_mode
    if (policy.basic is None) == (policy.gang is None):
        shown = "has both basic and gang" if policy.gang is not None else "has neither basic nor gang"
        findings.fault(ref, keys.POLICY, shown, "write one of the two")
    if mode is not None and (mode.single is None) == (mode.all is None):
        shown = "has both single and all" if mode.all is not None else "has neither single nor all"
        findings.fault(ref, "spec.disruptionMode", shown, "write one of the two")
    if spec.scheduling_constraints is not None:
        _check_topology(spec.scheduling_constraints.topology, ref, findings)
    if spec.resource_claims:
        remedy = "give each pod a claim of its own, or leave the group to kube-scheduler"
        findings.fault(ref, "spec.resourceClaims", "devices that pods of a group share are not planned", remedy)
    return spec


def _check_topology(topology: tuple[TopologyConstraint, ...], ref: ObjectRef, findings: Findings) -> None:
    if len(topology) > 1:
        remedy = "keep the narrowest one: its domains lie within those of the others"
        findings.fault(ref, f"{keys.TOPOLOGY}[1]", "is a second constraint, and a group may have one", remedy)
    if any(not each.key for each in topology):
        findings.fault(ref, f"{keys.TOPOLOGY}[0].key", "is missing", "name a node label")
