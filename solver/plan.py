"""The solver's results: a verified plan, or a rejection with its reasons. A rejection is a return value and no
exception.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Proof(Enum):
    """The strength of a result. OPTIMAL and FEASIBLE come with a plan, INFEASIBLE and UNPROVEN without a plan.

    OPTIMAL: no plan is better. FEASIBLE: a better plan may exist. INFEASIBLE: it is proven that no plan exists.
    UNPROVEN: no plan was found in time.
    """

    OPTIMAL = "Optimal"
    FEASIBLE = "Feasible"
    INFEASIBLE = "Infeasible"
    UNPROVEN = "Unproven"


GoalParts = dict[str, int]
"""The values of a goal by the name of each part, in the order of comparison. A goal of one part has the part ""."""


@dataclass(frozen=True, slots=True)
class Goal:
    """The value of one goal of docs/decisions/0002 in a plan. Smaller is better, except for extras and preferences.
    `bound` is the best value that is not ruled out by proof.

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
        """The numbers by which two plans are compared in this goal, the most important first: the parts, or the value
        if the goal has no parts.
        """
        return tuple(self.parts.values()) or (self.value,)


@dataclass(frozen=True, slots=True)
class Plan:
    """A placement of the gang. `nodes[s][m]` is the node of member m of set s; None: the member is not placed.

    `victims`: positions of the pods to evict. `goals`: the values of all goals in their order.
    """

    nodes: tuple[tuple[int | None, ...], ...]
    victims: tuple[int, ...]
    goals: tuple[Goal, ...]
    proof: Proof


@dataclass(frozen=True, slots=True)
class NearDomain:
    """A domain that came close to holding the gang: how many members it can hold, and why some of its nodes can hold
    none.

    `fits`: the members that it can hold if every pod that may be evicted were gone. `needed`: the members that it would
    have to hold. `fits_now`: the members that it can hold without evictions; None if that is not known, or if the gang
    may evict no pod. `nodes`: its number of nodes. `excluded`: by reason, the number of nodes that can hold no member;
    each node counts once. `path` runs from the widest level down to this domain. It is empty for the whole cluster,
    whose `level` is "".
    """

    level: str
    path: tuple[str, ...]
    fits: int
    needed: int
    nodes: int
    excluded: Mapping[str, int] = field(default_factory=dict)
    fits_now: int | None = None


@dataclass(frozen=True, slots=True)
class NoPlan:
    """A rejection: no placement of the minimum exists (INFEASIBLE, confirmed), or none was found in time (UNPROVEN).

    `nearest`: the domains that lack capacity for the fewest members. `fits_without_eviction`: pairs of a domain's path
    and the number of further members that it can hold without evictions, in the order of the tree (Koordinator calls
    this offered slots). The domains are those of the required level, or the whole cluster if no level is required. If
    members are pinned, only the domains that hold these members are listed.

    `would_fit_if`: changes after which the gang would have a plan, each as the end of a sentence. Each change is
    verified by a plan that breaks no rule, by counting, or by another solve. `example_victims`: by change, one of the
    pods that a plan after it evicts.
    """

    proof: Proof
    nearest: tuple[NearDomain, ...] = ()
    fits_without_eviction: tuple[tuple[tuple[str, ...], int], ...] = ()
    would_fit_if: tuple[str, ...] = ()
    example_victims: Mapping[str, str] = field(default_factory=dict)


Answer = Plan | NoPlan


@dataclass(frozen=True, slots=True)
class NextDoor:
    """The alternative to a plan: the best plan outside the domain that the plan uses. The domain is of `level`, the
    narrowest level above the node of which one domain holds the gang.

    `paths`: the domains of `level` that the alternative uses; empty if there is no alternative. `goal` and `part`: the
    first goal and its part in which the alternative is worse; "" if all goals are equal and only node names decided.
    `value` and `other_value`: the value of this part in the plan and in the alternative.
    """

    level: str
    paths: tuple[tuple[str, ...], ...] = ()
    goal: str = ""
    part: str = ""
    value: int = 0
    other_value: int = 0
