"""The solver's results: a verified plan, or a rejection with its reasons. Expected results are values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Proof(Enum):
    """The strength of a result. The first two come with a plan, the others without one."""

    OPTIMAL = "Optimal"
    FEASIBLE = "Feasible"
    INFEASIBLE = "Infeasible"
    UNPROVEN = "Unproven"


GoalParts = dict[str, int]
"""The values of a goal by part, in their order. A goal of one part has the part ""."""


@dataclass(frozen=True, slots=True)
class Goal:
    """One goal of docs/decisions/0002. Smaller is better. `bound` is the least value that is not ruled out by proof.

    `name` is one of: victims, gangsBroken, evicted, extras, compactness/<level>, preferences, terminating, waste,
    ranks, ties. `value` is the goal's first part. For victims it is the sum over priorities, for ties always 0. `parts`
    names each part of a goal that has several, in their order. These are victims by priority, compactness of the gang
    and of its sets, waste (a)-(d), and ranks by level. All parts of waste are amounts, except those of (d), which count
    domains. Extras and preferences count a gain: larger is better, and `bound` is an upper bound.
    """

    name: str
    value: int
    bound: int
    parts: Mapping[str, int] = field(default_factory=dict)

    @property
    def digits(self) -> tuple[int, ...]:
        """The numbers to compare, in this order: the parts, or the value if the goal has one part only."""
        return tuple(self.parts.values()) or (self.value,)


@dataclass(frozen=True, slots=True)
class Plan:
    """A placement of the gang. `nodes[s][m]` is the node of member m of set s, None if the member is not placed.

    `victims`: positions of the pods to evict.
    """

    nodes: tuple[tuple[int | None, ...], ...]
    victims: tuple[int, ...]
    goals: tuple[Goal, ...]
    proof: Proof


@dataclass(frozen=True, slots=True)
class NearDomain:
    """A domain that came close: how many members it can hold, and why its other nodes are excluded (each node counts
    once).

    `fits` counts with all victims evicted that may be. `path` runs from the widest level down to this domain. It is
    empty for the whole cluster, whose `level` is "".
    """

    level: str
    path: tuple[str, ...]
    fits: int
    needed: int
    nodes: int
    excluded: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NoPlan:
    """No placement of the minimum exists (INFEASIBLE, confirmed), or none was found in time (UNPROVEN).

    `fits_without_eviction`: by domain, how many more members it can hold without evictions, in the order of the tree
    (Koordinator calls this offered slots). The domains are those of the required level, or the whole cluster if no
    level is required. If members have nodes already, only the domains that hold these members may hold the others.

    `would_fit_if`: changes as the ends of sentences. Each change is verified by a plan that breaks no rule, by
    counting, or by another solve.
    """

    proof: Proof
    nearest: tuple[NearDomain, ...] = ()
    fits_without_eviction: tuple[tuple[tuple[str, ...], int], ...] = ()
    would_fit_if: tuple[str, ...] = ()


Answer = Plan | NoPlan


@dataclass(frozen=True, slots=True)
class NextDoor:
    """The best plan elsewhere. `level`: the narrowest level above the node of which one domain holds the gang.

    `paths`: the domains of that level that the other plan uses, empty if there is no other plan. `goal` and `part`: the
    first in which the other plan is worse; "" if it is worse by names alone. `value` and `other_value`: their values in
    this plan and in the other one.
    """

    level: str
    paths: tuple[tuple[str, ...], ...] = ()
    goal: str = ""
    part: str = ""
    value: int = 0
    other_value: int = 0
