"""The specs of Phalanx's own objects. Decoding is strict: an unknown field is an error."""

from typing import Literal

import msgspec

from kube.nulls import without_nulls
from kube.objects import NodeAffinity


class Strict(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """The base class of the specs of Phalanx's own objects."""


class LevelSpec(Strict, frozen=True):
    """One level of a Topology."""

    name: str
    node_label: str


class TopologySpec(Strict, frozen=True):
    """`spec` of a Topology: levels, widest first."""

    levels: tuple[LevelSpec, ...]


class SliceSpec(Strict, frozen=True):
    """Every `size` consecutive members in one domain of `level`."""

    level: str
    size: int


class MultipleSpec(Strict, frozen=True):
    """Members in each used domain of `level` are a multiple of `of`."""

    level: str
    of: int


class CapSpec(Strict, frozen=True):
    """At most `count` members in each domain of `level`."""

    level: str
    count: int


class TogetherSpec(Strict, frozen=True):
    """These sets share one domain of `level`."""

    pod_sets: tuple[str, ...]
    level: str


class PodSetSpec(Strict, frozen=True):
    """One role of a gang."""

    name: str
    count: int
    min_count: int | None = None
    required: str | None = None
    preferred: str | None = None
    slices: tuple[SliceSpec, ...] | None = None
    multiples: tuple[MultipleSpec, ...] | None = None
    max_per_domain: tuple[CapSpec, ...] | None = None


class RequirementSpec(Strict, frozen=True):
    """A NodeSelectorRequirement; the operators are those of the API."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: tuple[str, ...] | None = None


class TermSpec(Strict, frozen=True):
    """A NodeSelectorTerm."""

    match_expressions: tuple[RequirementSpec, ...] | None = None
    match_fields: tuple[RequirementSpec, ...] | None = None


class SelectorSpec(Strict, frozen=True):
    """A NodeSelector."""

    node_selector_terms: tuple[TermSpec, ...]


class WeightedTermSpec(Strict, frozen=True):
    """A PreferredSchedulingTerm."""

    weight: int
    preference: TermSpec


class NodeAffinitySpec(Strict, frozen=True):
    """A NodeAffinity with strict decoding. Otherwise a typo in one of its long field names would silently drop the
    request.
    """

    required: SelectorSpec | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[WeightedTermSpec, ...] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )

    def value(self) -> NodeAffinity | None:
        """Return the affinity as a Kubernetes object; None if nothing is requested."""
        written = msgspec.to_builtins(self)
        affinity = msgspec.convert(without_nulls(written), NodeAffinity)
        return affinity if affinity.required or affinity.preferred else None


class GangSpec(Strict, frozen=True):
    """`spec` of a Gang. A null is as good as an absent field."""

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
