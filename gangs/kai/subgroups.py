"""Subgroups of a PodGroup of KAI Scheduler, each with a minimum and levels of its own. Subgroups may be nested.

A subgroup without subgroups is a leaf. Pods name a leaf by a label, and each leaf is a pod set. The required level of a
subgroup with several leaves applies to the pods of all these leaves together. The rules are those of KAI Scheduler's
CRD and of its validating webhook (v2alpha2, v0.17).
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gangs.findings import Findings
from gangs.kai import keys
from gangs.kai.spec import PodGroupSpec, SubGroup, TopologyConstraint
from gangs.manifests import pod_ref
from gangs.model import ObjectRef, PodSet, TogetherRule
from gangs.topology.levels import LevelWish, Span
from kube.objects import Pod
from kube.topology import Topology

AT = "spec.subGroups"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Parts:
    """The subgroups of a PodGroup, in the order of its spec."""

    groups: tuple[SubGroup, ...]

    @property
    def leaves(self) -> tuple[SubGroup, ...]:
        """The subgroups that contain no other subgroups. Pods name only these."""
        parents = {each.parent for each in self.groups}
        return tuple(each for each in self.groups if each.name not in parents)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the leaves: the subgroups that contain no other subgroups."""
        return tuple(each.name for each in self.leaves)

    @property
    def minimum(self) -> int:
        """The number of pods that must start together: the sum of the minimums of the leaves (subgroups without
        subgroups).
        """
        return sum(each.min_member or 0 for each in self.leaves)

    def under(self, name: str) -> tuple[str, ...]:
        """Return the names of the leaves (subgroups without subgroups) in a subgroup; for a leaf, its own name."""
        return tuple(leaf.name for leaf in self.leaves if name in self.above(leaf))

    def above(self, leaf: SubGroup) -> tuple[str, ...]:
        """Return the names of a leaf (a subgroup without subgroups) and of the subgroups that contain it, the innermost
        first.
        """
        known = {each.name: each for each in self.groups}
        path: list[str] = []
        name: str | None = leaf.name
        while name in known and name not in path:
            path.append(name)
            name = known[name].parent
        return tuple(path)


def set_of(pod: Pod) -> str:
    """Return the subgroup that a pod's label names; "" if it names none."""
    return pod.metadata.labels.get(keys.SUB_GROUP, "")


def check(spec: PodGroupSpec, ref: ObjectRef, findings: Findings) -> None:
    """Report the faults of a PodGroup's subgroups that are visible without the pods and the topology."""
    groups = spec.sub_groups
    if spec.min_sub_group is not None and spec.min_member is not None:
        findings.fault(ref, "spec.minSubGroup", "is given beside spec.minMember", "keep one of the two")
    names = [each.name for each in groups]
    for position, each in enumerate(groups):
        at = f"{AT}[{position}]"
        if not _NAME.fullmatch(each.name):
            problem = f'"{each.name}" cannot name a subgroup'
            findings.fault(ref, f"{at}.name", problem, "write small letters, digits and dashes")
        if each.name in names[:position]:
            first = names.index(each.name)
            findings.fault(ref, f"{at}.name", f'"{each.name}" is {AT}[{first}] already', "give each a name of its own")
        if each.parent is not None and each.parent not in names:
            problem, remedy = f'"{each.parent}" is no subgroup', f"name one of {', '.join(names)}"
            findings.fault(ref, f"{at}.parent", problem, remedy)
        elif _in_a_circle(each, groups):
            findings.fault(ref, f"{at}.parent", f'"{each.parent}" is in "{each.name}" itself', "name another one")
    _check_minimums(spec, ref, findings)
    _check_topologies(spec, ref, findings)


def check_members(pods: Sequence[Pod], parts: Parts, ref: ObjectRef, findings: Findings) -> None:
    """Report as faults the pods that name no leaf (a subgroup without subgroups) of a PodGroup with subgroups.

    Roles on pods, which have no effect in such a PodGroup, are reported as advice.

    :param ref: the PodGroup.
    """
    for pod in pods:
        at, name = f"metadata.labels[{keys.SUB_GROUP}]", set_of(pod)
        if name not in parts.names:
            problem = (
                f'"{name}" is no subgroup of {ref} that pods join' if name else f"is missing, and {ref} has subgroups"
            )
            findings.fault(pod_ref(pod), at, problem, f"write one of {', '.join(parts.names)}")
        if keys.ROLE in pod.metadata.annotations:
            text = f"is ignored: the subgroups of {ref} are its pod sets"
            findings.advise(pod_ref(pod), f"metadata.annotations[{keys.ROLE}]", text)


def pod_sets(
    parts: Parts, pods: Sequence[Pod], made: Mapping[str, int], ended: Mapping[str, int], topology: Topology | None
) -> tuple[PodSet, ...]:
    """Return one pod set for each leaf, which is a subgroup that contains no other subgroups.

    :param pods: the live pods of the gang.
    :param made: by leaf, the number of pods that Jobs should run now.
    :param ended: by leaf, the number of pods that have completed in Jobs.
    :param topology: the topology of the gang; None if it is unknown.
    """
    existing = Counter(map(set_of, pods))
    known = {each.name: each for each in parts.groups}
    sets = []
    for leaf in parts.leaves:
        minimum = max(0, (leaf.min_member or 0) - ended.get(leaf.name, 0))
        own = [known[name] for name in parts.above(leaf) if len(parts.under(name)) == 1]
        required = _narrowest([each.topology_constraint.required_topology_level for each in _placed(own)], topology)
        preferred = [each.topology_constraint.preferred_topology_level for each in _placed(own)]
        sets.append(
            PodSet(
                name=leaf.name,
                count=max(minimum, existing[leaf.name], made.get(leaf.name, 0)),
                min_count=minimum,
                required=required,
                preferred=next((each for each in preferred if each is not None), None),
            )
        )
    return tuple(sets)


def together(parts: Parts) -> tuple[TogetherRule, ...]:
    """Return the constraints of subgroups with several leaves: these leaves share one domain of the required level."""
    return tuple(
        TogetherRule(parts.under(each.name), level)
        for each in _placed(parts.groups)
        if len(parts.under(each.name)) > 1 and (level := each.topology_constraint.required_topology_level) is not None
    )


def constraints(groups: Sequence[SubGroup]) -> Iterator[tuple[str, TopologyConstraint]]:
    """Yield each `topologyConstraint` of a subgroup, with its path."""
    for position, each in enumerate(groups):
        if each.topology_constraint is not None:
            yield f"{AT}[{position}].topologyConstraint", each.topology_constraint


def wishes(groups: Sequence[SubGroup]) -> tuple[tuple[LevelWish, ...], tuple[Span, ...]]:
    """Return all levels that subgroups name, each with the field that names it, and for each subgroup its pair of
    required and preferred level.

    The preferred level of a pair must not be the wider one.
    """
    levels, spans = list[LevelWish](), list[Span]()
    for at, constraint in constraints(groups):
        required = _wish(at, "requiredTopologyLevel", constraint.required_topology_level)
        preferred = _wish(at, "preferredTopologyLevel", constraint.preferred_topology_level)
        levels += [each for each in (required, preferred) if each is not None]
        spans.append(Span(required, preferred))
    return tuple(levels), tuple(spans)


def topology_of(spec: PodGroupSpec) -> str | None:
    """Return the first topology that a PodGroup or one of its subgroups names; None if none does."""
    own = [spec.topology_constraint] if spec.topology_constraint is not None else []
    named = [each.topology for each in (*own, *(each for _, each in constraints(spec.sub_groups)))]
    return next((each for each in named if each), None)


def _check_minimums(spec: PodGroupSpec, ref: ObjectRef, findings: Findings) -> None:
    parts = Parts(spec.sub_groups)
    for position, each in enumerate(spec.sub_groups):
        at = f"{AT}[{position}]"
        children = [child for child in spec.sub_groups if child.parent == each.name]
        if not children:
            if each.min_member is None:
                findings.fault(
                    ref, f"{at}.minMember", "is missing", "write the number of pods that must start together"
                )
            elif each.min_member < 0:
                findings.fault(ref, f"{at}.minMember", f"{each.min_member} is less than 0", "write 0 or more")
            if each.min_sub_group is not None:
                findings.fault(ref, f"{at}.minSubGroup", "is for subgroups that have some of their own", "leave it out")
            continue
        if each.min_member is not None:
            problem = f'is for subgroups that pods join, and "{children[0].name}" is in this one'
            findings.fault(ref, f"{at}.minMember", problem, "leave it out")
        _check_all(each.min_sub_group, len(children), f"{at}.minSubGroup", ref, findings)
    top = [each for each in spec.sub_groups if each.parent is None]
    if spec.sub_groups or spec.min_sub_group is not None:
        _check_all(spec.min_sub_group, len(top), "spec.minSubGroup", ref, findings)
    if spec.sub_groups and not parts.minimum and not spec.min_member:
        findings.fault(ref, AT, "need no pod at all", "give at least one a minMember of 1 or more")


def _check_all(least: int | None, count: int, at: str, ref: ObjectRef, findings: Findings) -> None:
    if least is None or least == count:
        return
    if least > count:
        findings.fault(ref, at, f"{least} is more than the {count} subgroups", f"lower it to {count} or leave it out")
    else:
        remedy = "leave it out: all of them start; parts that may be missing get a minMember of 0"
        findings.fault(ref, at, f"{least} of {count} subgroups cannot be asked for", remedy)


def _check_topologies(spec: PodGroupSpec, ref: ObjectRef, findings: Findings) -> None:
    parts, first = Parts(spec.sub_groups), topology_of(spec)
    for at, constraint in constraints(spec.sub_groups):
        if spec.scope is not None:
            findings.fault(ref, at, "is given beside spec.topologyPolicy.scope", "keep one of the two")
        if constraint.topology and constraint.topology != first:
            problem = f'"{constraint.topology}" differs from "{first}"'
            findings.fault(ref, f"{at}.topology", problem, "name one topology: a group is placed in one")
    for position, each in enumerate(spec.sub_groups):
        place = each.topology_constraint
        if place is not None and place.preferred_topology_level and len(parts.under(each.name)) > 1:
            text = "has no effect: a preferred level counts for the whole group and for subgroups that pods join"
            findings.advise(ref, f"{AT}[{position}].topologyConstraint.preferredTopologyLevel", text)


def _in_a_circle(group: SubGroup, groups: Sequence[SubGroup]) -> bool:
    known = {each.name: each.parent for each in groups}
    seen: set[str] = set()
    name = group.parent
    while name is not None and name in known and name not in seen:
        if name == group.name:
            return True
        seen.add(name)
        name = known[name]
    return False


@dataclass(frozen=True, slots=True)
class _Place:
    """A subgroup with a `topologyConstraint`: its name and the constraint."""

    name: str
    topology_constraint: TopologyConstraint


def _placed(groups: Sequence[SubGroup]) -> list[_Place]:
    return [_Place(each.name, each.topology_constraint) for each in groups if each.topology_constraint is not None]


def _narrowest(levels: Sequence[str | None], topology: Topology | None) -> str | None:
    """Return the narrowest of several required levels, which implies the others; None if none is required.

    If the topology is unknown, so is the order of the levels, and the first one is returned. The gang then waits for
    the topology anyway.
    """
    named = [each for each in levels if each is not None]
    if topology is None or not named:
        return named[0] if named else None
    return max(named, key=lambda each: topology.find(each) or 0)


def _wish(at: str, field: str, level: str | None) -> LevelWish | None:
    return None if level is None else LevelWish(f"{at}.{field}", level)
