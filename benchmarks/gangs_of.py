"""Creates gangs for the benchmark, in the form in which planning gets gangs from the dialects."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.arrivals import Ask
from benchmarks.filling import container
from gangs.model import Gang, GangKey, Member, ObjectRef, PodSet, SliceRule, TogetherRule
from kube.keys import GATE
from kube.objects import LabelSelector, ObjectMeta, Pod, PodSpec, SchedulingGate, TopologySpreadConstraint

_NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class Role:
    """A pod set of `pods` equal pods. `each`: the requests of one pod. Levels are given by name."""

    name: str
    pods: int
    each: Ask
    required: str | None = None
    slices: tuple[SliceRule, ...] = ()


def gang(
    name: str,
    roles: Sequence[Role],
    *,
    required: str | None = None,
    preferred: str | None = None,
    together: tuple[TogetherRule, ...] = (),
    spread: str | None = None,
    priority: int = 0,
    number: int = 0,
) -> Gang:
    """Return a gang of which every member must be placed.

    `spread`: the label over which the members must be spread evenly. `number`: a lower number means an older gang.
    """
    members = tuple(
        Member(_pod(name, f"{name}-{role.name}-{rank}", role.each, priority, spread), role.name, rank)
        for role in roles
        for rank in range(role.pods)
    )
    return Gang(
        key=GangKey("phalanx", _NAMESPACE, name),
        source=ObjectRef("phalanx.dev/v1alpha1", "Gang", _NAMESPACE, name),
        members=members,
        pod_sets=tuple(
            PodSet(role.name, role.pods, role.pods, required=role.required, slices=role.slices) for role in roles
        ),
        expected=len(members),
        min_member=len(members),
        required=required,
        preferred=preferred,
        together=together,
        created=f"2026-01-01T00:{number // 60:02}:{number % 60:02}Z",
    )


def _pod(gang_name: str, name: str, ask: Ask, priority: int, spread: str | None) -> Pod:
    labels = {"gang": gang_name}
    constraint = TopologySpreadConstraint(topology_key=spread or "", label_selector=LabelSelector(match_labels=labels))
    spec = PodSpec(
        priority=priority,
        containers=(container(ask),),
        scheduling_gates=(SchedulingGate(GATE),),
        topology_spread_constraints=(constraint,) if spread else (),
    )
    return Pod(metadata=ObjectMeta(name=name, namespace=_NAMESPACE, labels=labels), spec=spec)
