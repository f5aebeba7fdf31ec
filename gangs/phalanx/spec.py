"""The `spec`s of Gang and Topology objects (`phalanx.dev`). Decoding is strict: an unknown field is an error."""

from typing import Literal

import msgspec

from kube.nulls import without_nulls
from kube.objects import NodeAffinity


class Strict(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """The base class of the `spec`s of Gang and Topology objects. An unknown field is an error."""


class LevelSpec(Strict, frozen=True):
    """One level of a Topology object: its name, and the node label that names a node's domain.

    A level below the node has a device attribute in place of the label.
    """

    name: str
    node_label: str = ""
    device_attribute: str = ""


class TopologySpec(Strict, frozen=True):
    """`spec` of a Topology object: its levels, the widest first."""

    levels: tuple[LevelSpec, ...]


class SliceSpec(Strict, frozen=True):
    """An entry of `slices`: every `size` members with consecutive ranks share one domain of `level`."""

    level: str
    size: int


class MultipleSpec(Strict, frozen=True):
    """An entry of `multiples`: the number of members in each domain of `level` is a multiple of `of`, or 0."""

    level: str
    of: int


class CapSpec(Strict, frozen=True):
    """An entry of `maxPerDomain`: each domain of `level` has at most `count` members."""

    level: str
    count: int


class TogetherSpec(Strict, frozen=True):
    """An entry of `together`: all members of these pod sets are in one domain of `level`."""

    pod_sets: tuple[str, ...]
    level: str


class PodSetSpec(Strict, frozen=True):
    """An entry of `podSets` in a Gang's spec: one role, such as `worker`, with its own count and constraints."""

    name: str
    count: int
    min_count: int | None = None
    required: str | None = None
    preferred: str | None = None
    slices: tuple[SliceSpec, ...] | None = None
    multiples: tuple[MultipleSpec, ...] | None = None
    max_per_domain: tuple[CapSpec, ...] | None = None


class RequirementSpec(Strict, frozen=True):
    """core/v1 NodeSelectorRequirement, in the `nodeAffinity` of a Gang's spec."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: tuple[str, ...] | None = None


class TermSpec(Strict, frozen=True):
    """core/v1 NodeSelectorTerm, in the `nodeAffinity` of a Gang's spec."""

    match_expressions: tuple[RequirementSpec, ...] | None = None
    match_fields: tuple[RequirementSpec, ...] | None = None


class SelectorSpec(Strict, frozen=True):
    """core/v1 NodeSelector, in the `nodeAffinity` of a Gang's spec."""

    node_selector_terms: tuple[TermSpec, ...]


class WeightedTermSpec(Strict, frozen=True):
    """core/v1 PreferredSchedulingTerm, in the `nodeAffinity` of a Gang's spec."""

    weight: int
    preference: TermSpec


class NodeAffinitySpec(Strict, frozen=True):
    """core/v1 NodeAffinity in a Gang's spec, decoded strictly.

    Otherwise a typo in one of the long field names would silently drop the request.
    """

    required: SelectorSpec | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[WeightedTermSpec, ...] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )

    def value(self) -> NodeAffinity | None:
        """Return the affinity as the type that pods use; None if it has no terms."""
        written = msgspec.to_builtins(self)
        affinity = msgspec.convert(without_nulls(written), NodeAffinity)
        return affinity if affinity.required or affinity.preferred else None


class GangSpec(Strict, frozen=True):
    """`spec` of a Gang object. A field that is null counts as absent."""

    topology: str | None = None
    min_member: int | None = None
    required: str | None = None
    preferred: str | None = None
    schedule_timeout_seconds: int | None = None
    on_failure: str | None = None
    max_restarts: int | None = None
    queue: str | None = None
    node_affinity: NodeAffinitySpec | None = None
    pod_sets: tuple[PodSetSpec, ...] | None = None
    together: tuple[TogetherSpec, ...] | None = None
    multiples: tuple[MultipleSpec, ...] | None = None
    preempts: bool | None = None
