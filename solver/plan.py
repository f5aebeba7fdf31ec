"""What the solver answers: a verified plan, or a no with its reasons. Expected outcomes are values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Proof(Enum):
    """What has been proven. The first two go with a plan, the others without one."""

    OPTIMAL = "Optimal"
    FEASIBLE = "Feasible"
    INFEASIBLE = "Infeasible"
    UNPROVEN = "Unproven"


@dataclass(frozen=True, slots=True)
class Goal:
    """One goal of docs/decisions/0002: smaller is better, `bound` is the least that is still possible as far as proven.

    `name` is one of: victims, gangsBroken, evicted, extras, compactness/<level>, preferences, terminating, waste,
    ranks, ties. `value` is the goal's first part, of victims the sum over priorities, of ties always 0. `parts` names
    each part of a goal that has several, in their order. These are victims by priority, compactness of the gang and of
    its sets, waste (a)-(d), and ranks by level. All parts of waste are amounts but those of (d), which count domains.
    Extras and preferences count what is had, so there larger is better and `bound` is an upper bound.
    """

    name: str
    value: int
    bound: int
    parts: Mapping[str, int] = field(default_factory=dict)

    @property
    def digits(self) -> tuple[int, ...]:
        """What is compared one after the other: the parts or, where there is but one, the value."""
        return tuple(self.parts.values()) or (self.value,)


@dataclass(frozen=True, slots=True)
class Plan:
    """Where every member goes. `nodes[s][m]` is the node of member m of set s, None where it is not placed."""

    nodes: tuple[tuple[int | None, ...], ...]
    victims: tuple[int, ...]
    goals: tuple[Goal, ...]
    proof: Proof


@dataclass(frozen=True, slots=True)
class NearDomain:
    """A domain that came close: how many members it can hold, what excluded its other nodes (each node counted once).

    `fits` counts with everything evicted that may be. `path` runs from the widest level down to this domain; it is
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

    `fits_without_eviction`: how many more members each domain of the level that decides (the required one, else the
    whole cluster) can hold as it is, in the order of the tree: what Koordinator calls its offered slots. Where members
    have their nodes already, only the domains that hold these may hold the others.
    `would_fit_if`: changes, each verified by a plan that breaks no rule, by counting or by solving again, as
    sentences' ends.
    """

    proof: Proof
    nearest: tuple[NearDomain, ...] = ()
    fits_without_eviction: tuple[tuple[tuple[str, ...], int], ...] = ()
    would_fit_if: tuple[str, ...] = ()


Answer = Plan | NoPlan


@dataclass(frozen=True, slots=True)
class NextDoor:
    """The best plan elsewhere. `level`: the narrowest level, above the node, of which one domain holds the gang;
    `paths`: the domains of that level that the other plan uses, none where there is no other plan.

    `goal` and `part`: the first in which the other plan is worse, `value` and `other_value` what it is in both; ""
    where it loses by names alone.
    """

    level: str
    paths: tuple[tuple[str, ...], ...] = ()
    goal: str = ""
    part: str = ""
    value: int = 0
    other_value: int = 0
