"""`SamePriority`: the gangs of one priority, planned on one snapshot, with the functions that frame and plan them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from cluster.devices.allocation import ClaimAllocation
from cluster.snapshot import Snapshot
from gangs.model import Gang, GangKey
from planning.decision import Decision
from planning.framing.gang_problem import Framing
from planning.framing.running_gangs import RunningGangs
from planning.quota.flavors import Choice
from planning.quota.usage import Usage
from solver.heuristics.greedy import unproven
from solver.instance import instance_of
from solver.multi_gang.joint_problem import JointAnswer, Share
from solver.objective import goals_of, is_of_level
from solver.plan import Goal, Plan, Proof
from solver.problem import Limits, Problem
from solver.verify.rules import verify

NO_ALLOCATIONS: Mapping[str, tuple[ClaimAllocation, ...]] = {}


class Taken(NamedTuple):
    """The cluster and the use of quotas after the plans of earlier gangs. The next gang is planned in this state.

    `closed`: for each strict queue, its first gang without a plan. No later gang of that queue is planned.
    """

    snapshot: Snapshot
    usage: Usage
    closed: Mapping[str, GangKey]


StateOne = Callable[[Gang, Snapshot], Framing | Decision]
StateSeveral = Callable[[Sequence[Gang], Snapshot, Framing], Framing]
FlavorChoices = Callable[[Gang, Snapshot], list[tuple[Choice, Gang]]]
PlanOne = Callable[[Gang, Taken, bool], tuple[Decision, Taken]]
StandsInLine = Callable[[Gang, Snapshot], bool]


@dataclass(frozen=True, slots=True)
class SamePriority:
    """The gangs of one priority, in order of precedence, with the functions that plan them.

    `start`: the cluster and the use of quotas after the plans of gangs of higher priority. `choices`: returns a gang's
    choices of flavors, each with the gang in these flavors; one empty choice for a gang without a queue. `frame`:
    returns the gang's problem in its flavors, or a decision if there is nothing to place. `frame_together`: returns the
    joint problem of several gangs, each restricted to its flavors, in the topology of a given framing. `plan`: plans
    one gang on the cluster that a `Taken` describes. Its last argument says whether the best plan for this gang is also
    the best for all these gangs. `stands_in_line`: returns whether later gangs of a strict queue wait for the gang.
    """

    gangs: tuple[Gang, ...]
    start: Taken
    running: RunningGangs
    limits: Limits
    choices: FlavorChoices
    frame: StateOne
    frame_together: StateSeveral
    plan: PlanOne
    stands_in_line: StandsInLine


@dataclass(frozen=True, slots=True)
class Variant:
    """A gang in one choice of flavors, with its problem on the snapshot before any gang of its priority was planned.

    `in_flavors`: the gang restricted to the flavors of the choice.
    """

    gang: Gang
    choice: Choice
    in_flavors: Gang
    framing: Framing


@dataclass(frozen=True, slots=True)
class GangPart:
    """One gang's part of a joint plan: the node of each placed member and the evicted pods, by `namespace/name`.

    `devices`: the devices of each newly placed member with claims. They are chosen for all gangs at once.
    """

    nodes: Mapping[str, str]
    victims: frozenset[str]
    devices: Mapping[str, tuple[ClaimAllocation, ...]]

    @classmethod
    def of(
        cls,
        share: Share,
        framing: Framing,
        pod_sets: Sequence[int],
        devices: Mapping[str, tuple[ClaimAllocation, ...]] = NO_ALLOCATIONS,
    ) -> "GangPart":
        """Return one gang's part of a joint plan, as names of nodes and pods.

        `share`: the part, as positions in the joint problem. `framing`: the framing of the joint problem. `pod_sets`:
        the positions of the gang's pod sets in it. `devices`: the devices of all members of all gangs.
        """
        nodes = {
            member.pod.key: framing.nodes[node]
            for pod_set, row in zip(pod_sets, share.nodes, strict=True)
            for member, node in zip(framing.members[pod_set], row, strict=True)
            if node is not None
        }
        victims = frozenset(framing.victims[victim].pod.key for victim in share.victims)
        return cls(nodes, victims, {pod: each for pod, each in devices.items() if pod in nodes})

    def share(self, framing: Framing) -> Share | None:
        """Return the part as positions in `framing`, the problem of this gang alone. None if that problem lacks one of
        the nodes or victims.
        """
        places = {name: position for position, name in enumerate(framing.nodes)}
        known = {tenant.pod.key for tenant in framing.victims}
        if not self.victims <= known or not places.keys() >= set(self.nodes.values()):
            return None
        rows = tuple(
            tuple(places[self.nodes[m.pod.key]] if m.pod.key in self.nodes else None for m in members)
            for members in framing.members
        )
        gone = (position for position, each in enumerate(framing.victims) if each.pod.key in self.victims)
        return Share(rows, tuple(gone))


def share_as_plan(problem: Problem, share: Share, answer: JointAnswer) -> Plan | None:
    """Return the gang's part of a joint plan (`share`) as a plan with its goals; None if the part breaks a constraint
    of `problem`.

    If a goal is proven for all gangs together, it is marked as proven for this gang.
    """
    goals = goals_of(instance_of(problem, evicting=bool(share.victims)), share.nodes, share.victims)
    if answer.proof is not Proof.OPTIMAL:
        known = _before_levels(goals) + answer.levels if answer.levels else 0
        first = (replace(goal, bound=goal.value) for goal in goals[:known])
        goals = (*first, *unproven(problem, goals[known:]))
        if answer.levels == len(problem.levels):
            goals = _with_ranks(problem, goals)
    plan = Plan(share.nodes, share.victims, goals, answer.proof)
    return None if verify(problem, plan) else plan


def _before_levels(goals: Sequence[Goal]) -> int:
    """Return how many goals come before compactness."""
    return next(place for place, goal in enumerate(goals) if is_of_level(goal.name))


def _with_ranks(problem: Problem, goals: tuple[Goal, ...]) -> tuple[Goal, ...]:
    """Return the goals of a gang of one pod set, with the rank goal marked as proven if it has its lower bound.

    Expects that compactness is proven on all levels. Members in n domains of a level have at least n - 1 pairs of rank
    neighbours that are apart. If every gang is at this bound on every level, the sum over all gangs is optimal.
    """
    domains = goals[_before_levels(goals) :][: len(problem.levels)]
    least = {name: goal.value - 1 for name, goal in zip(problem.levels, domains, strict=True)}
    return tuple(
        replace(goal, bound=goal.value)
        if goal.name == "ranks" and (goal.parts or {problem.levels[0]: goal.value}) == least
        else goal
        for goal in goals
    )
