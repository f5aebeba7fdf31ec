"""Gangs for the benchmark, as a dialect would hand them to planning."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.arrivals import Ask
from benchmarks.filling import container
from gangs.model import Gang, GangKey, Member, ObjectRef, PodSet, SliceRule, TogetherRule
from kube.keys import GATE
from kube.objects import ObjectMeta, Pod, PodSpec, SchedulingGate

_NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class Role:
    """A pod set: so many pods that are alike. Levels by name."""

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
    priority: int = 0,
    number: int = 0,
) -> Gang:
    """A gang whose members are all needed. `number`: a lower one is older."""
    members = tuple(
        Member(_pod(f"{name}-{role.name}-{rank}", role.each, priority), role.name, rank)
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


def _pod(name: str, ask: Ask, priority: int) -> Pod:
    spec = PodSpec(priority=priority, containers=(container(ask),), scheduling_gates=(SchedulingGate(GATE),))
    return Pod(metadata=ObjectMeta(name=name, namespace=_NAMESPACE), spec=spec)
