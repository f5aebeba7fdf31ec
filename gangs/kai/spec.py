"""The `spec` of a PodGroup of KAI Scheduler: the fields of its guide, and those of its own API that have an effect."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from gangs.findings import Findings
from gangs.kai import keys
from gangs.manifests import advise_unknown, decode, section
from gangs.model import Manifest, ObjectRef
from kube.objects import Requirement

_INTEGER = re.compile(r"-?[0-9]+")
_CONSTRAINT_FIELDS = ("topology", "requiredTopologyLevel", "preferredTopologyLevel")
_SUB_GROUP_FIELDS = ("name", "minMember", "minSubGroup", "parent", "topologyConstraint")
_NEEDS = {
    "In": "values",
    "NotIn": "values",
    "Exists": "no values",
    "DoesNotExist": "no values",
    "Gt": "one",
    "Lt": "one",
}


class Affinity(msgspec.Struct, frozen=True):
    """Requirements on node labels, which a node must all fulfil."""

    required: tuple[Requirement, ...] | None = None


class TopologyPolicy(msgspec.Struct, frozen=True):
    """`topologyPolicy` of a PodGroup. `scope`: the level of which all pods of the gang must share one domain."""

    scope: str | None = None
    affinity: Affinity | None = None


class TopologyConstraint(msgspec.Struct, frozen=True, rename="camel"):
    """`topologyConstraint` of a PodGroup or subgroup: its topology, and its required and preferred level."""

    topology: str | None = None
    required_topology_level: str | None = None
    preferred_topology_level: str | None = None


class SubGroup(msgspec.Struct, frozen=True, rename="camel"):
    """A subgroup of a PodGroup. `parent`: the name of the subgroup that contains it.

    Pods belong to subgroups that contain no other subgroups.
    """

    name: str
    min_member: int | None = None
    min_sub_group: int | None = None
    parent: str | None = None
    topology_constraint: TopologyConstraint | None = None


class PodGroupSpec(msgspec.Struct, frozen=True, rename="camel"):
    """`spec` of a PodGroup: the fields that have an effect."""

    min_member: int | None = None
    queue: str | None = None
    topology_policy: TopologyPolicy | None = None
    affinity: Affinity | None = None
    topology_constraint: TopologyConstraint | None = None
    min_sub_group: int | None = None
    sub_groups: tuple[SubGroup, ...] = ()

    @property
    def scope(self) -> str | None:
        """The level of which all pods of the gang must share one domain (`topologyPolicy.scope`); None if the PodGroup
        names none.
        """
        scope = self.topology_policy.scope if self.topology_policy else None
        return keys.NUMA_LEVEL if scope == keys.NUMA_SCOPE else scope

    @property
    def required_labels(self) -> tuple[Requirement, ...]:
        """The requirements on the labels of the gang's nodes, from `topologyPolicy.affinity` and from `affinity` of the
        PodGroup.
        """
        inner = self.topology_policy.affinity if self.topology_policy else None
        return tuple(each for part in (inner, self.affinity) if part for each in part.required or ())


NOTHING = PodGroupSpec()


def spec_of(manifest: Manifest, ref: ObjectRef, findings: Findings) -> PodGroupSpec:
    """Return the `spec` of a PodGroup, and report the faults that are visible without any other object.

    Raises `MalformedError`.
    """
    written = section(manifest, "spec")
    spec = decode(written, PodGroupSpec, ref, "spec")
    _check_fields(written, ref, findings)
    if (spec.min_member is None and not spec.sub_groups) or (spec.min_member is not None and spec.min_member < 1):
        problem = "is missing" if spec.min_member is None else f"{spec.min_member} is less than 1"
        findings.fault(ref, "spec.minMember", problem, "write the number of pods that must start together")
    if spec.scope is not None and spec.topology_constraint is not None:
        problem = "is given beside spec.topologyPolicy.scope"
        findings.fault(ref, "spec.topologyConstraint", problem, "keep one of the two")
    return spec


def _check_fields(written: dict[str, Any], ref: ObjectRef, findings: Findings) -> None:
    for name in keys.WITHOUT_EFFECT:
        if written.get(name) is not None:
            findings.advise(ref, f"spec.{name}", "has no effect here: the pods' own fields count")
    known = (*keys.SPEC_FIELDS, "affinity", *keys.WITHOUT_EFFECT)
    advise_unknown({key: each for key, each in written.items() if key not in known}, known, ref, "spec", findings)
    policy, constraint = written.get("topologyPolicy"), written.get("topologyConstraint")
    advise_unknown(policy, ("scope", "affinity"), ref, "spec.topologyPolicy", findings)
    advise_unknown(constraint, _CONSTRAINT_FIELDS, ref, "spec.topologyConstraint", findings)
    for position, each in enumerate(written.get("subGroups") or ()):
        at = f"spec.subGroups[{position}]"
        advise_unknown(each, _SUB_GROUP_FIELDS, ref, at, findings)
        advise_unknown(each.get("topologyConstraint"), _CONSTRAINT_FIELDS, ref, f"{at}.topologyConstraint", findings)
    inner = policy.get("affinity") if isinstance(policy, dict) else None
    for at, part in (("spec.topologyPolicy.affinity", inner), ("spec.affinity", written.get("affinity"))):
        _check_affinity(part, ref, at, findings)


def _check_affinity(part: Any, ref: ObjectRef, at: str, findings: Findings) -> None:
    if not isinstance(part, dict):
        return
    for name in part:
        if name != "required":
            findings.fault(ref, f"{at}.{name}", "is not known", "write required: a list of key, operator and values")
    for position, each in enumerate(part.get("required") or ()):
        _check_requirement(msgspec.convert(each, Requirement), ref, f"{at}.required[{position}]", findings)


def _check_requirement(requirement: Requirement, ref: ObjectRef, at: str, findings: Findings) -> None:
    values: Sequence[str] = requirement.values
    needs = _NEEDS.get(requirement.operator)
    if not requirement.key:
        findings.fault(ref, f"{at}.key", "is missing", "name a label of the nodes")
    if needs is None:
        problem = f'"{requirement.operator}" is not known'
        findings.fault(ref, f"{at}.operator", problem, f"write one of {', '.join(_NEEDS)}")
    elif needs == "values" and not values:
        findings.fault(ref, f"{at}.values", f"is empty, and {requirement.operator} needs values", "list them")
    elif needs == "no values" and values:
        findings.fault(ref, f"{at}.values", f"is not empty, and {requirement.operator} takes none", "remove it")
    elif needs == "one" and (len(values) != 1 or not _INTEGER.fullmatch(values[0])):
        findings.fault(
            ref, f"{at}.values", f"is not one whole number, which {requirement.operator} needs", "correct it"
        )
