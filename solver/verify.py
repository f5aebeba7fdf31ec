"""An independent check of a plan: every hard rule, and every goal value counted again.

Written from contract section 4 and docs/decisions/0002 alone; it shares no code with the model that made the plan.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from solver.plan import Goal, Plan, Proof
from solver.problem import Exclusion, Member, PodSet, Problem

Path = tuple[str, ...]
Parts = dict[str, int]

_MORE_IS_BETTER = ("extras", "preferences")


def verify(problem: Problem, plan: Plan) -> tuple[str, ...]:
    """The faults of a plan as sentences; empty where it is fine."""
    shape = tuple(_wrong_form(problem, plan))
    return shape or (*broken_rules(problem, plan), *_wrong_goals(_Picture(problem, plan)))


def broken_rules(problem: Problem, plan: Plan) -> tuple[str, ...]:
    """The hard rules that a plan breaks, as sentences; its goals are not looked at."""
    shape = tuple(_wrong_form(problem, plan))
    if shape:
        return shape
    picture = _Picture(problem, plan)
    return tuple(fault for check in CHECKS for fault in check(picture))


@dataclass(frozen=True)
class _Placed:
    """A member that has a node; `new` where this plan gave it."""

    pod_set: int
    rank: int
    member: Member
    node: int
    new: bool


class _Picture:
    """A plan with its members listed."""

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self.problem, self.plan = problem, plan
        self.placed = [
            _Placed(position, rank, member, node, member.node is None)
            for position, (pod_set, row) in enumerate(zip(problem.sets, plan.nodes, strict=True))
            for rank, (member, node) in enumerate(zip(pod_set.members, row, strict=True))
            if node is not None
        ]
        self.evicted = [problem.victims[victim] for victim in plan.victims]

    def path(self, level: int, node: int) -> Path:
        """The path of the domain of `level` (-1: the cluster) that holds the node."""
        each = self.problem.nodes[node]
        return (*each.path, each.name)[: level + 1]

    def domains(self, level: int, placed: Iterable[_Placed]) -> Counter[Path]:
        return Counter(self.path(level, each.node) for each in placed)

    def of_set(self, pod_set: int) -> list[_Placed]:
        return [each for each in self.placed if each.pod_set == pod_set]

    def asks(self, each: _Placed) -> tuple[int, ...]:
        return self.problem.shapes[each.member.shape].requests

    def level(self, level: int) -> str:
        return self.problem.levels[level]


def _wrong_form(problem: Problem, plan: Plan) -> Iterator[str]:
    """What would make the other checks meaningless."""
    if [len(row) for row in plan.nodes] != [len(pod_set.members) for pod_set in problem.sets]:
        yield "the plan does not list every member of every set"
        return
    known = range(len(problem.nodes))
    if any(node is not None and node not in known for row in plan.nodes for node in row):
        yield "a member is on a node that does not exist"
    if len(set(plan.victims)) < len(plan.victims):
        yield "a victim is named twice"
    if any(victim not in range(len(problem.victims)) for victim in plan.victims):
        yield "a victim does not exist"
    if plan.proof not in (Proof.OPTIMAL, Proof.FEASIBLE):
        yield f"a plan cannot be proven {plan.proof.value}"


def _pinned(picture: _Picture) -> Iterator[str]:
    for pod_set, row in zip(picture.problem.sets, picture.plan.nodes, strict=True):
        for member, node in zip(pod_set.members, row, strict=True):
            if member.node is not None and member.node != node:
                yield f"{member.key} does not stay where it is"


def _eligible(picture: _Picture) -> Iterator[str]:
    for each in picture.placed:
        if each.new and each.node not in picture.problem.shapes[each.member.shape].nodes:
            yield f"{each.member.key} may not run on {picture.problem.nodes[each.node].name}"


def _room(picture: _Picture) -> Iterator[str]:
    """A resource that nobody new asks for may be overcommitted already."""
    new: dict[int, list[tuple[int, ...]]] = {}
    for each in picture.placed:
        if each.new:
            new.setdefault(each.node, []).append(picture.asks(each))
    evicted: dict[int, list[tuple[int, ...]]] = {}
    for victim in picture.evicted:
        evicted.setdefault(victim.node, []).append(victim.requests)
    for position, amounts in sorted(new.items()):
        node = picture.problem.nodes[position]
        gone = evicted.get(position, [])
        for resource, name in enumerate(picture.problem.resources):
            asked = sum(each[resource] for each in amounts)
            if asked > 0 and asked > node.free[resource] + sum(each[resource] for each in gone):
                yield f"{node.name} has too little {name}"


def _minimums(picture: _Picture) -> Iterator[str]:
    if len(picture.placed) < picture.problem.minimum:
        yield f"{len(picture.placed)} members are placed, {picture.problem.minimum} must be"
    for position, pod_set in enumerate(picture.problem.sets):
        if len(picture.of_set(position)) < pod_set.minimum:
            yield f"set {pod_set.name} has fewer than its {pod_set.minimum} members"


def _required_levels(picture: _Picture) -> Iterator[str]:
    problem = picture.problem
    if problem.required is not None and len(picture.domains(problem.required, picture.placed)) > 1:
        yield f"the gang is in several domains of {picture.level(problem.required)}"
    for position, pod_set in enumerate(problem.sets):
        if pod_set.required is not None and len(picture.domains(pod_set.required, picture.of_set(position))) > 1:
            yield f"set {pod_set.name} is in several domains of {picture.level(pod_set.required)}"


def _together(picture: _Picture) -> Iterator[str]:
    for rule in picture.problem.together:
        members = [each for each in picture.placed if each.pod_set in rule.pod_sets]
        if len(picture.domains(rule.level, members)) > 1:
            names = ", ".join(picture.problem.sets[pod_set].name for pod_set in rule.pod_sets)
            yield f"sets {names} share no domain of {picture.level(rule.level)}"


def _slices(picture: _Picture) -> Iterator[str]:
    for position, pod_set in enumerate(picture.problem.sets):
        for rule in pod_set.slices:
            parts: dict[int, set[Path]] = {}
            for each in picture.of_set(position):
                parts.setdefault(each.rank // rule.size, set()).add(picture.path(rule.level, each.node))
            if any(len(paths) > 1 for paths in parts.values()):
                yield f"a slice of set {pod_set.name} is in several domains of {picture.level(rule.level)}"


def _counts(picture: _Picture) -> Iterator[str]:
    everybody = [each for position in range(len(picture.problem.sets)) for each in picture.of_set(position)]
    for rule in picture.problem.multiples:
        if any(count % rule.of for count in picture.domains(rule.level, everybody).values()):
            yield f"the gang is not in multiples of {rule.of} in each {picture.level(rule.level)}"
    for position, pod_set in enumerate(picture.problem.sets):
        yield from _counts_of_set(picture, pod_set, picture.of_set(position))


def _counts_of_set(picture: _Picture, pod_set: PodSet, placed: list[_Placed]) -> Iterator[str]:
    for multiple in pod_set.multiples:
        if any(count % multiple.of for count in picture.domains(multiple.level, placed).values()):
            yield f"set {pod_set.name} is not in multiples of {multiple.of} in each {picture.level(multiple.level)}"
    for cap in pod_set.caps:
        if any(count > cap.count for count in picture.domains(cap.level, placed).values()):
            yield f"set {pod_set.name} has more than {cap.count} members in one {picture.level(cap.level)}"


def _exclusions(picture: _Picture) -> Iterator[str]:
    for rule in picture.problem.exclusions:
        for group, count in sorted(_groups(picture, rule).items()):
            if count > rule.count:
                yield f"{count} members that exclude each other are in {group}"


def _spreads(picture: _Picture) -> Iterator[str]:
    for rule in picture.problem.spreads:
        pods = Counter(rule.counts)
        pods.update(_counted(rule.group, (each for each in picture.placed if each.pod_set in rule.counted)))
        least = 0 if rule.from_zero else min((pods[name] for name in rule.counts), default=0)
        new = (each for each in picture.placed if each.new and each.pod_set in rule.pod_sets)
        for group in sorted(_counted(rule.group, new)):
            if pods[group] - least > rule.skew:
                yield f"{group} has {pods[group] - least} pods more than the emptiest, not {rule.skew}"


def _counted(group: tuple[str | None, ...], placed: Iterable[_Placed]) -> Counter[str]:
    return Counter(name for each in placed if (name := group[each.node]) is not None)


def _groups(picture: _Picture, rule: Exclusion) -> Counter[str]:
    return _counted(rule.group, (each for each in picture.placed if each.pod_set in rule.pod_sets))


def _victim_gangs(picture: _Picture) -> Iterator[str]:
    gone = Counter(victim.gang for victim in picture.evicted)
    for position, gang in enumerate(picture.problem.victim_gangs):
        left = gang.running - gone[position]
        if gone[position] and 0 < left < gang.minimum:
            yield f"gang {gang.name} is cut to {left}, below its minimum of {gang.minimum}"


def _budgets(picture: _Picture) -> Iterator[str]:
    for budget in picture.problem.budgets:
        gone = len(budget.victims.intersection(picture.plan.victims))
        if gone > budget.allowed:
            yield f"budget {budget.name} allows {budget.allowed} evictions, not {gone}"


CHECKS: tuple[Callable[[_Picture], Iterator[str]], ...] = (
    _pinned,
    _eligible,
    _room,
    _minimums,
    _required_levels,
    _together,
    _slices,
    _counts,
    _exclusions,
    _spreads,
    _victim_gangs,
    _budgets,
)


def _wrong_goals(picture: _Picture) -> Iterator[str]:
    """Goals that are missing, wrongly counted, or whose bound contradicts the proof."""
    told, counted = picture.plan.goals, list(_Recount(picture).goals())
    if [goal.name for goal in told] != [name for name, _, _ in counted]:
        yield "the goals are not those of the contract, in its order"
        return
    for goal, (name, value, parts) in zip(told, counted, strict=True):
        if goal.value != value or dict(goal.parts) != (parts if len(parts) > 1 else {}):
            yield f"goal {name} is {value} {parts}, not {goal.value} {dict(goal.parts)}"
        if not _bound_fits(goal, picture.plan.proof):
            yield f"goal {name} has the value {goal.value} and the bound {goal.bound}, {picture.plan.proof.value}"


def _bound_fits(goal: Goal, proof: Proof) -> bool:
    if proof is Proof.OPTIMAL:
        return goal.bound == goal.value
    return goal.bound >= goal.value if goal.name in _MORE_IS_BETTER else goal.bound <= goal.value


class _Recount:
    """The goals of contract section 4, counted from the plan."""

    def __init__(self, picture: _Picture) -> None:
        self.picture, self.problem = picture, picture.problem
        pending = [member for each in self.problem.sets for member in each.members if member.node is None]
        self.scarce = self._scarcest(pending)
        shapes = {member.shape for member in pending}
        self.usable = frozenset[int]().union(*(self.problem.shapes[shape].nodes for shape in shapes))
        self.used: Counter[int] = Counter()
        for each in picture.placed:
            if each.new:
                self.used[each.node] += picture.asks(each)[self.scarce]
        self.sets = sorted({each.pod_set for each in picture.placed})
        self.evictable: Counter[int] = Counter()
        for victim in self.problem.victims if picture.evicted else ():
            self.evictable[victim.node] += victim.requests[self.scarce]

    def goals(self) -> Iterator[tuple[str, int, Parts]]:
        """Name, value and parts, in the contract's order."""
        tiers = self._victims()
        yield "victims", sum(tiers.values()), tiers
        yield "gangsBroken", self._broken(), {}
        yield "evicted", sum(victim.requests[self.scarce] for victim in self.picture.evicted), {}
        least = max(self.problem.minimum, sum(pod_set.minimum for pod_set in self.problem.sets))
        yield "extras", len(self.picture.placed) - least, {}
        for level, name in enumerate(self.problem.levels):
            spread = self._spread(level)
            yield f"compactness/{name}", spread["gang"], spread
        yield "preferences", self._preferences(), {}
        waste = self._waste()
        yield "waste", waste["a"], waste
        crossings = {name: self._crossings(level) for level, name in enumerate(self.problem.levels)}
        yield "ranks", crossings[self.problem.levels[0]], crossings
        yield "ties", self._terminating(), {}

    def _scarcest(self, pending: list[Member]) -> int:
        best, share = 0, Fraction(0)
        counts = Counter(member.shape for member in pending)
        for resource in range(len(self.problem.resources)):
            asked = sum(count * self.problem.shapes[shape].requests[resource] for shape, count in counts.items())
            if not asked:
                continue
            held = [node.free[resource] for node in self.problem.nodes]
            free = sum(amount for amount in held if amount > 0) if min(held, default=0) < 0 else sum(held)
            if not free:
                return resource
            if Fraction(asked, free) > share:
                best, share = resource, Fraction(asked, free)
        return best

    def _victims(self) -> Parts:
        priorities = sorted((victim.priority for victim in self.picture.evicted), reverse=True)
        return {f"priority {priority}": priorities.count(priority) for priority in dict.fromkeys(priorities)}

    def _broken(self) -> int:
        gone = Counter(victim.gang for victim in self.picture.evicted)
        return sum(
            bool(gone[position]) and gang.running - gone[position] < gang.minimum
            for position, gang in enumerate(self.problem.victim_gangs)
        )

    def _spread(self, level: int) -> Parts:
        spread = {"gang": len(self.picture.domains(level, self.picture.placed))}
        if len(self.sets) > 1:
            spread["sets"] = sum(len(self.picture.domains(level, self.picture.of_set(each))) for each in self.sets)
        return spread

    def _preferences(self) -> int:
        shapes = self.problem.shapes
        return sum(shapes[each.member.shape].preferences.get(each.node, 0) for each in self.picture.placed if each.new)

    def _waste(self) -> Parts:
        levels, depth = self.problem.levels, len(self.problem.levels)
        narrowest = -1
        while narrowest + 1 < depth and len(self.picture.domains(narrowest + 1, self.picture.placed)) <= 1:
            narrowest += 1
        left = self._left(depth)
        parts = {"a": sum(left[narrowest].values())}
        parts |= {
            f"b/{levels[level] if level >= 0 else 'cluster'}": sum(left[level].values())
            for level in range(narrowest - 1, -2, -1)
        }
        below = range(narrowest + 1, depth)
        parts |= {f"c/{levels[level]}": sum(left[level].values()) for level in below}
        return parts | {f"d/{levels[level]}": sum(room > 0 for room in left[level].values()) for level in below}

    def _left(self, depth: int) -> dict[int, dict[Path, int]]:
        """By level, -1 the cluster, the room left in each touched domain."""
        left = {level: dict.fromkeys(self.picture.domains(level, self.picture.placed), 0) for level in range(-1, depth)}
        left[-1] = dict.fromkeys(left[-1], sum(self._potentials(self.usable)) - self.used.total())
        within = self._within(left[0])
        for node, potential in zip(within, self._potentials(within), strict=True):
            self._add(left, node, potential - self.used.get(node, 0))
        return left

    def _within(self, touched: dict[Path, int]) -> list[int]:
        """The usable nodes that are in these domains of the widest level; the room of all others counts for the
        cluster alone.
        """
        nodes = self.problem.nodes
        widest = {path[0] for path in touched}
        return [node for node in self.usable if (nodes[node].path or (nodes[node].name,))[0] in widest]

    def _add(self, left: dict[int, dict[Path, int]], node: int, amount: int) -> None:
        """Count an amount in the domains around a node, the widest first: those inside a domain that nobody touches are
        not touched.
        """
        each = self.problem.nodes[node]
        whole = (*each.path, each.name)
        for level in range(len(whole)):
            path, touched = whole[: level + 1], left[level]
            if path not in touched:
                return
            touched[path] += amount

    def _potentials(self, at: Iterable[int]) -> list[int]:
        """What the gang could have had of the scarcest resource on each of these nodes."""
        nodes, scarce = self.problem.nodes, self.scarce
        if self.picture.evicted:
            return [max(nodes[node].free[scarce] + self.evictable.get(node, 0), 0) for node in at]
        return [free if (free := nodes[node].free[scarce]) > 0 else 0 for node in at]

    def _crossings(self, level: int) -> int:
        rows = [self.picture.of_set(each) for each in self.sets]
        pairs = [pair for row in rows for pair in pairwise(self.picture.path(level, each.node) for each in row)]
        return sum(one != other for one, other in pairs)

    def _terminating(self) -> int:
        waits = 0
        for node, used in self.used.items():
            free, leaving = (
                self.problem.nodes[node].free[self.scarce],
                self.problem.nodes[node].terminating[self.scarce],
            )
            freed = sum(victim.requests[self.scarce] for victim in self.picture.evicted if victim.node == node)
            waits += max(used - max(free - leaving + freed, 0), 0)
        return waits
