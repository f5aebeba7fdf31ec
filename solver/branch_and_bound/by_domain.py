"""Branch and bound over domains, for a gang that one domain can hold.

The best plan then lies in a domain of the narrowest level with a domain that holds the whole gang.

Every domain is a small instance of its own. Its bound is a lower bound on the goals of all plans inside. Domains are
solved in order of their bounds, until the next bound is worse than the best plan. Then this plan is proven to be the
best one over all domains.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heapify, heappop, heappush

import numpy as np

from solver.bounds.domain_cover import Covers, DomainCounts
from solver.branch_and_bound.reduction import compact
from solver.branch_and_bound.subproblem import part_of, whole_nodes
from solver.capacity import Counts, deciding_level
from solver.cp_sat.lexicographic import SolveStatus, TimeBudget, time_budget_of
from solver.cp_sat.solve import Solved, solve_within
from solver.deadline import OutOfTimeError
from solver.instance import Instance, Seat
from solver.objective import ComparisonKey, Nodes, comparison_key, goals_of, is_of_level, ordered
from solver.plan import Plan, Proof
from solver.problem import Limits
from solver.tree_dp.multi_class import Mixtures, mixtures_of
from solver.tree_dp.multi_class_tables import TooMuchError

WORTHWHILE = 12
"""From this number of nodes on, solving domains one by one is faster than one model of all of them."""

NodesCallback = Callable[[Nodes], None]
"""A function that receives a plan as the node of every member, by set and rank."""
Values = Mapping[str, tuple[int, ...]]
"""The values of some goals, by the keys of `solver.objective.ordered`, such as "compactness" or "waste/a".

These are all goals from compactness on, or the first of these goals.
"""


@dataclass(frozen=True)
class _Branch:
    """A domain that may hold the gang, with bounds for the plans inside.

    `spread`: a lower bound on the values of goal 3, the numbers of domains that a plan uses (see `DomainCounts`).
    `preference_score`: an upper bound on the weight of fulfilled node preferences. `terminating`: a lower bound on the
    used capacity of terminating pods. `mixtures`: the dynamic programme over count vectors for all domains; None if it
    does not apply.
    """

    instance: Instance
    level: int
    domain: int
    spread: DomainCounts
    preference_score: int
    terminating: int
    mixtures: Mixtures | None

    @property
    def bound(self) -> Values:
        """The lower bounds of goal 3, and of the parts (a) and (b) of goal 4 (waste), for all plans in this domain."""
        return {
            "compactness": self.spread,
            "preferences": (-self.preference_score,),
            "terminating": (self.terminating,),
            **self.around,
        }

    @property
    def nodes(self) -> tuple[int, ...]:
        """The nodes of the domain, in order of position."""
        return self.instance.tree.nodes(self.level, self.domain)

    @cached_property
    def first_name(self) -> int:
        """The index of the domain's first node name in the natural order of all node names."""
        return min(self.instance.name_rank[node] for node in self.nodes)

    @cached_property
    def part(self) -> Instance:
        """The domain as an instance of its own, in which every member must be placed."""
        return part_of(self.instance, self.nodes)

    @cached_property
    def sign(self) -> object:
        """A key that is equal for two domains if they differ in names only. A plan for one of them then also fits the
        other.
        """
        return _sign(self.part, self.level, 0)

    @cached_property
    def around(self) -> Values:
        """The potential of the domain (key `waste/a`), and of each wider domain around it (key `waste/b`).

        The parts (a) and (b) of waste are these potentials minus the capacity that the gang uses. The gang uses equally
        much in every plan inside the domain. So the potentials alone decide which of two domains wastes less.
        """
        instance, node = self.instance, self.nodes[0]
        return {
            "waste/a": (instance.domain_potential(self.level, self.domain),),
            "waste/b": tuple(instance.domain_potential(*each) for each in instance.parents(self.level, node)),
        }

    @cached_property
    def exact(self) -> Values | None:
        """The exact values of the best plan inside this domain: of goal 3, and of parts (a) and (b) of goal 4 (waste).
        None if there is provably no plan.

        The dynamic programme computes the values. The value of `terminating` may be a lower bound.
        """
        best = None if self.mixtures is None else self.mixtures.best(self.level, self.domain)
        if best is None:
            return None
        terminating = max(best.terminating, self.terminating)
        return {
            **self.bound,
            "compactness": best.spread,
            "preferences": (-best.preference_score,),
            "terminating": (terminating,),
        }


@dataclass(frozen=True)
class _Leaf:
    """The best plan inside one domain. `values`: its goal values from compactness on, by goal and part."""

    values: Values
    solved: Solved

    @cached_property
    def key(self) -> ComparisonKey:
        """The goal values in the order of the goals. The plan with the smaller key is better."""
        return ordered(self.values)


def _ignore_nodes(_nodes: Nodes) -> None:
    """Do nothing: the `NodesCallback` of callers that need only the final result."""


def solve_by_domains(
    instance: Instance, limits: Limits, worthwhile: int = WORTHWHILE, on_plan: NodesCallback = _ignore_nodes
) -> Solved | SolveStatus | None:
    """Return the best plan if it lies inside one domain and places every member without evictions.

    None if the best plan does not lie inside one domain, or if the instance is so small that this method saves no time.
    None also if the deadline passes before a plan is found. INFEASIBLE only if the dynamic programme proves that no
    plan exists. `worthwhile`: the number of nodes from which on the method runs. `on_plan` is called with plans that
    are optimal except for ranks and node names.
    """
    if instance.evicting or len(instance.problem.nodes) < worthwhile or not instance.pending:
        return None
    budget = time_budget_of(limits, instance.deadline)
    try:
        return _by_domains(instance, budget, mixtures_of(instance), on_plan)
    except TooMuchError:
        return _by_domains(instance, budget, None, on_plan)
    except OutOfTimeError:
        return None


def _by_domains(
    instance: Instance, budget: TimeBudget, mixtures: Mixtures | None, on_plan: NodesCallback
) -> Solved | SolveStatus | None:
    """Return the best plan inside one domain of the narrowest level at which a domain has a plan. None if no such plan
    is found, or if the method does not apply.

    INFEASIBLE only if the dynamic programme (`mixtures`; None: it does not apply) proves that no plan exists. Raises
    `TooMuchError`.
    """
    if instance.spreads and mixtures is None:  # `compact` ignores spread, which may need more domains
        return None
    for level in range(instance.tree.depth - 1, _widest(instance, mixtures) - 1, -1):
        best, proven = _best_of(instance, list(_branches(instance, level, mixtures)), budget, on_plan)
        if best is not None:
            return replace(best.solved, proven=proven and best.solved.proven)
        if not proven:
            return None
    everybody = instance.problem.minimum == sum(len(pod_set.members) for pod_set in instance.problem.sets)
    return SolveStatus.INFEASIBLE if mixtures is not None and everybody else None


def _widest(instance: Instance, mixtures: Mixtures | None) -> int:
    """Return the widest level whose domains are solved: the required level (or ROOT, the whole cluster) with the
    dynamic programme, else level 0.
    """
    if mixtures is None:
        return 0
    return deciding_level(instance.problem)


def _best_of(
    instance: Instance, branches: list[_Branch], budget: TimeBudget, on_plan: NodesCallback
) -> tuple[_Leaf | None, bool]:
    """Return the best plan of the domains `branches`, and whether it is proven that none of them has a better plan."""
    best: _Leaf | None = None
    proven = True
    solved_alike: dict[object, Values | None] = {}
    of_name = {branch.first_name: branch for branch in branches}
    order = [(ordered(branch.bound), branch.first_name) for branch in branches]
    closer: dict[int, Instance | None] = {}
    heapify(order)
    try:
        while order:
            if budget.spent:
                return best, False
            bound, first_name = heappop(order)
            branch = of_name[first_name]
            if best is not None and bound > best.key[: len(bound)]:
                break
            if solved_alike and branch.sign in solved_alike and not _may_win(branch, solved_alike[branch.sign], best):
                continue
            if first_name not in closer:
                better, closer[first_name] = _examined(branch, budget)
                if better is not None:
                    heappush(order, (ordered(better), first_name))
                continue
            solved = _solved(branch, closer[first_name], budget, on_plan)
            proven = proven and (solved is SolveStatus.INFEASIBLE or (isinstance(solved, Solved) and solved.proven))
            leaf = _leaf(instance, branch, solved) if isinstance(solved, Solved) else None
            if order and (solved is SolveStatus.INFEASIBLE or (leaf is not None and leaf.solved.proven)):
                solved_alike[branch.sign] = None if leaf is None else leaf.values
            if leaf is not None:
                best = leaf if best is None or leaf.key < best.key else best
    except OutOfTimeError:
        return best, False
    return best, proven


def _examined(branch: _Branch, budget: TimeBudget) -> tuple[Values | None, Instance | None]:
    """Return the exact values of the first goals of a domain's best plan, and an instance with only the nodes that its
    best plans can use.

    The values are None if the domain has no plan. The instance is None if the dynamic programme computes the values.
    """
    if branch.mixtures is not None:
        return branch.exact, None
    found = compact(branch.part, budget)
    return {**branch.bound, "compactness": found.spread or branch.spread}, found.instance


def _solved(
    branch: _Branch, closer: Instance | None, budget: TimeBudget, on_plan: NodesCallback
) -> Solved | SolveStatus:
    """Return the best plan of a domain by CP-SAT, over the nodes that its best plans can use.

    `closer`: the instance over these nodes; None: the dynamic programme finds these nodes.
    """
    if closer is not None or branch.mixtures is None:
        return solve_within(closer or branch.part, budget)
    narrowed = branch.mixtures.narrowed(branch.level, branch.domain)
    on_plan(narrowed.one)
    part = replace(branch.part, capacity=narrowed.capacity[:, list(branch.nodes)])
    place = {node: position for position, node in enumerate(branch.nodes)}
    rows = tuple(tuple(None if node is None else place[node] for node in row) for row in narrowed.one)
    start = Plan(rows, (), (), Proof.FEASIBLE)
    return solve_within(part, budget, start=start, least=narrowed.reached)


def _may_win(branch: _Branch, alike: Values | None, best: _Leaf | None) -> bool:
    """Return whether a domain may have the best plan, if a domain that differs from it in names only is solved already.

    `alike`: the goal values of the solved domain's plan; None: it has no plan. `best`: the best plan so far. The wider
    domains around the two domains may have different capacity, so the parts (a) and (b) of waste are those of `branch`.
    """
    if alike is None:
        return False
    key = ordered({**alike, **branch.around, "names": (branch.first_name,)})
    return best is None or key < best.key


def _branches(instance: Instance, level: int, mixtures: Mixtures | None) -> Iterator[_Branch]:
    """Yield the domains of a level (or ROOT, the whole cluster) that may hold every member, by counting. Each has the
    bounds of its plans.
    """
    covers = Covers(instance)
    enough = np.all(covers.capacities(level) >= covers.needs(instance.pending), axis=1).tolist()
    held = {instance.tree.domain(level, instance.pinned_node(seat)) for seat in instance.pinned}
    able = [domain for domain in range(instance.tree.count(level)) if enough[domain] and held <= {domain}]
    fewest = [] if mixtures is None else _fewest(instance, level)
    waits = _least_terminating(instance, level)
    for domain in instance.deadline.iterate(able, every=1):
        if mixtures is None:
            spread, preference_score = bounds_by_counting(part_of(instance, instance.tree.nodes(level, domain)))
            yield _Branch(instance, level, domain, spread, preference_score, waits[domain], mixtures)
        else:
            yield _Branch(instance, level, domain, fewest[domain], mixtures.max_preference, waits[domain], mixtures)


def _least_terminating(instance: Instance, level: int) -> list[int]:
    """Return, by domain of `level`, a lower bound on terminating capacity: what all pending members use in the domain
    while terminating pods still hold it.
    """
    nodes, scarce = instance.problem.nodes, instance.scarce
    now = np.where(instance.usable, np.maximum(nodes.free[:, scarce] - nodes.terminating[:, scarce], 0), 0)
    used = sum(map(instance.request, instance.pending))
    least: list[int] = np.maximum(used - instance.tree.summed(level, now), 0).tolist()
    return least


def _fewest(instance: Instance, level: int) -> list[DomainCounts]:
    """Return, by domain of `level`, a lower bound on the values of goal 3 of plans that place every member in the
    domain. No member may be pinned.
    """
    covers, count = Covers(instance), instance.tree.count(level)
    sets = [[seat for seat in instance.pending if seat.pod_set == at] for at in range(len(instance.problem.sets))]
    filled = [each for each in sets if each]
    columns: list[Counts] = []
    for narrower in range(instance.tree.depth):
        wide = narrower <= level
        gang = np.ones(count, dtype=np.int64) if wide else covers.fewest(level, narrower, instance.pending)
        columns.append(gang)
        if len(filled) > 1:
            each = [np.ones(count, dtype=np.int64) if wide else covers.fewest(level, narrower, one) for one in filled]
            columns.append(np.maximum(gang, np.sum(each, axis=0)))
    return [tuple(row) for row in np.stack(columns, axis=1).tolist()]


def _sign(part: Instance, level: int, domain: int) -> object:
    """Return a key of everything in a domain that affects the plans inside it, except node names. Two domains with
    equal keys differ in names only.
    """
    if level < part.tree.depth - 1:
        children = part.tree.children(level, domain)
        return tuple(sorted((_sign(part, level + 1, child) for child in children), key=repr))
    node, problem = part.problem.nodes[domain], part.problem
    shapes = tuple((domain in shape.nodes, shape.preferences.get(domain, 0)) for shape in problem.shapes)
    spread = tuple(rule.counts.get(rule.group[domain] or "") for rule in problem.spreads)
    return node.free, node.terminating, shapes, spread, _distinctions(part, domain)


def _distinctions(part: Instance, node: int) -> object:
    """Return what can make a node different from all other nodes: its pinned members, and the groups of exclusions,
    separations and pod affinity that it belongs to.

    Empty if the node has no pinned member and belongs to no such group.
    """
    pinned = tuple(seat for seat in part.pinned if part.pinned_node(seat) == node)
    problem = part.problem
    groups = [rule.group[node] for rule in problem.exclusions] + [rule.group[node] for rule in problem.separations]
    groups += [group[node] for rule in problem.affinities for group in rule.groups]
    return (problem.nodes[node].name, pinned) if pinned or any(groups) else ()


def bounds_by_counting(part: Instance) -> tuple[DomainCounts, int]:
    """Return two bounds for plans that place every member of an instance. The first has, for each level, the fewest
    domains that a plan can use (`DomainCounts`). The second is the most weight of node preferences that a plan can
    fulfil.
    """
    return _spread(part, [*part.pinned, *part.pending]), _best_preference_score(part)


def _spread(part: Instance, seats: list[Seat]) -> DomainCounts:
    """Return, for each level, a lower bound on the number of domains that a plan with these members uses, in the form
    of `DomainCounts`.
    """
    covers = Covers(part)
    sets = [[seat for seat in seats if seat.pod_set == position] for position in range(len(part.problem.sets))]
    filled = [each for each in sets if each]
    found: list[int] = []
    for level in range(part.tree.depth):
        gang = covers.least(level, seats)
        found.append(gang)
        if len(filled) > 1:
            found.append(max(gang, sum(covers.least(level, each) for each in filled)))
    return tuple(found)


def _best_preference_score(part: Instance) -> int:
    """Return an upper bound on the weight of node preferences if every pending member is placed."""
    preference_score = 0
    for shape, count in Counter(part.member(seat).shape for seat in part.pending).items():
        weights = part.problem.shapes[shape].preferences
        nodes = part.problem.shapes[shape].nodes
        preference_score += count * max((weights.get(node, 0) for node in sorted(nodes)), default=0) if weights else 0
    return preference_score


def _leaf(instance: Instance, branch: _Branch, solved: Solved) -> _Leaf:
    """Return the plan `solved` of a domain, with its goal values. Its nodes are converted from positions in the domain
    to positions in the whole instance.
    """
    goals = {goal.name: goal for goal in goals_of(branch.part, solved.nodes, ())}
    nodes = whole_nodes(branch.nodes, solved.nodes)
    names = tuple(instance.name_rank[node] for row in nodes for node in row if node is not None)
    waste = goals["waste"].parts.items()
    values = {
        "compactness": tuple(part for name, goal in goals.items() if is_of_level(name) for part in goal.digits),
        **{name: comparison_key(goals[name]) for name in ("preferences", "terminating", "ranks")},
        **branch.around,
        **{f"waste/{group}": tuple(value for part, value in waste if part[0] == group) for group in "cd"},
        "names": names,
    }
    return _Leaf(values, replace(solved, nodes=nodes, victims=()))
