"""The best plan by trying every plan: a reference written from docs/decisions/0002 alone.

It knows nothing of the solver but the shapes of its input, and it is only meant for a handful of pods and nodes.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from itertools import combinations, groupby, pairwise
from typing import Any, NamedTuple

from running_gangs import cut_short, gangs_hold

from solver.problem import Affinity, Multiple, PodSet, Problem, Spread

Row = tuple[int | None, ...]


class Outcome(NamedTuple):
    """A plan: the node of every member, set by set; and the victims."""

    rows: tuple[Row, ...]
    victims: tuple[int, ...]


Goal = tuple[str, Callable[["World", Outcome], Any]]


class World:
    """A problem with the few figures that all goals need."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.seats = [(s, m) for s, each in enumerate(problem.sets) for m in range(len(each.members))]
        self.open = [(s, m) for s, m in self.seats if problem.sets[s].members[m].node is None]
        self.depth = len(problem.levels)
        self.whole = [(*node.path, node.name) for node in problem.nodes]
        self.scarce = self._scarcest()
        self.usable: set[int] = set()
        """Nodes that a pending member may use after some eviction. `unhindered`: nodes that need no eviction."""
        self.unhindered: set[int] = set()
        for s, m in self.open:
            shape = problem.sets[s].members[m].shape
            self.usable |= problem.shapes[shape].nodes
            self.unhindered |= {
                node
                for node in problem.shapes[shape].nodes
                if not _in_the_way(problem, shape, node) and not _crowded(problem, shape, node)
            }
        order = sorted(range(len(problem.nodes)), key=lambda i: _natural(problem.nodes[i].name))
        self.place = {node: position for position, node in enumerate(order)}

    def request(self, seat: tuple[int, int]) -> tuple[int, ...]:
        """Return the requests of a member, by resource."""
        s, m = seat
        return self.problem.shapes[self.problem.sets[s].members[m].shape].requests

    def domain(self, level: int, node: int) -> tuple[str, ...]:
        """Return the path of the node's domain at a level. Level -1 is the whole cluster."""
        return self.whole[node][: level + 1]

    def placed(self, outcome: Outcome) -> list[tuple[tuple[int, int], int]]:
        """Return all placed members with their nodes, in order of set and rank."""
        return [((s, m), node) for s, m in self.seats if (node := outcome.rows[s][m]) is not None]

    def fresh(self, outcome: Outcome) -> list[tuple[tuple[int, int], int]]:
        """Return the members that the plan places, without those that run already."""
        return [((s, m), outcome.rows[s][m]) for s, m in self.open if outcome.rows[s][m] is not None]

    def _scarcest(self) -> int:
        shares = []
        for r in range(len(self.problem.resources)):
            asked = sum(self.request(seat)[r] for seat in self.open)
            free = sum(node.free[r] for node in self.problem.nodes if node.free[r] > 0)
            shares.append(Fraction(0) if asked == 0 else Fraction(10**30) if free == 0 else Fraction(asked, free))
        return shares.index(max(shares))


def _natural(name: str) -> list[tuple[int, int, str]]:
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name) if part]


# --- constraints -----------------------------------------------------------------------------------------------------


def victim_sets(problem: Problem) -> Iterator[tuple[int, ...]]:
    """Every set of victims that budgets and running gangs allow."""
    everyone = range(len(problem.victims))
    for count in range(len(problem.victims) + 1):
        for chosen in combinations(everyone, count):
            if _budgets_hold(problem, chosen) and gangs_hold(problem, chosen):
                yield chosen


def _budgets_hold(problem: Problem, chosen: tuple[int, ...]) -> bool:
    return all(len(budget.victims & set(chosen)) <= budget.allowed for budget in problem.budgets)


def _in_the_way(problem: Problem, shape: int, node: int) -> set[int]:
    """The victims without whose going no such member may come to the node."""
    return {v for rule in problem.conflicts if shape in rule.shapes and node in rule.nodes for v in rule.victims}


def _crowded(problem: Problem, shape: int, node: int) -> bool:
    """Whether topology spread forbids the node while all running pods stay, whatever the gang's members do."""
    return any(
        shape in rule.shapes
        and not rule.counted
        and rule.group[node] is not None
        and rule.counts[str(rule.group[node])] - (0 if rule.from_zero else min(rule.counts.values())) > rule.skew
        for rule in problem.spreads
    )


def welcome(problem: Problem, shape: int, node: int, victims: tuple[int, ...]) -> bool:
    """Whether a member may use a node after the eviction of these victims. Capacity is not checked."""
    return node in problem.shapes[shape].nodes and _in_the_way(problem, shape, node) <= set(victims)


def placements(world: World, victims: tuple[int, ...]) -> Iterator[Outcome]:
    """Yield every placement that the constraints allow after the eviction of these victims."""
    for rows in seatings(world, room_with(world, victims), victims):
        outcome = Outcome(rows, victims)
        if numbers_hold(world, outcome):
            yield outcome


def room_with(world: World, victims: tuple[int, ...]) -> list[list[int]]:
    """By node and resource, what is free once these victims are gone."""
    room = [list(node.free) for node in world.problem.nodes]
    for v in victims:
        _take(room[world.problem.victims[v].node], world.problem.victims[v].requests, -1)
    return room


def seatings(world: World, room: list[list[int]], victims: tuple[int, ...]) -> Iterator[tuple[Row, ...]]:
    """Yield every placement of enough members that breaks no lasting constraint.

    While the caller handles a placement, `room` is reduced by the requests of its members.
    """
    rows: list[list[int | None]] = [[member.node for member in each.members] for each in world.problem.sets]
    problem = world.problem
    open_nodes = {
        seat: [node for node in range(len(problem.nodes)) if welcome(problem, shape_of(problem, *seat), node, victims)]
        for seat in world.open
    }
    if lasting_rules_hold(world, rows):
        for _ in _seatings(world, room, rows, open_nodes, world.open, len(world.seats) - problem.minimum):
            yield tuple(map(tuple, rows))


def shape_of(problem: Problem, s: int, m: int) -> int:
    """The shape of a member."""
    return problem.sets[s].members[m].shape


def _seatings(
    world: World,
    room: list[list[int]],
    rows: list[list[int | None]],
    open_nodes: dict[tuple[int, int], list[int]],
    waiting: list[tuple[int, int]],
    may_miss: int,
) -> Iterator[None]:
    """Yield once for every placement of the waiting members, without at most `may_miss` of them.

    The placement is in `rows` at each yield.
    """
    if not waiting:
        yield
        return
    (s, m), *others = waiting
    shape = world.problem.shapes[shape_of(world.problem, s, m)]
    for node in open_nodes[s, m]:
        if all(not ask or ask <= room[node][r] for r, ask in enumerate(shape.requests)):
            _take(room[node], shape.requests, 1)
            rows[s][m] = node
            if lasting_rules_hold(world, rows):
                yield from _seatings(world, room, rows, open_nodes, others, may_miss)
            rows[s][m] = None
            _take(room[node], shape.requests, -1)
    if may_miss:
        yield from _seatings(world, room, rows, open_nodes, others, may_miss - 1)


def _take(room: list[int], requests: tuple[int, ...], sign: int) -> None:
    for r, ask in enumerate(requests):
        room[r] -= sign * ask


def numbers_hold(world: World, outcome: Outcome) -> bool:
    """The rules that one member more may mend: minimums and multiples."""
    problem = world.problem
    placed = [node for _, node in world.placed(outcome)]
    return (
        len(placed) >= problem.minimum
        and _come_in(world, problem.multiples, placed)
        and rules_about_others_hold(world, outcome)
        and all(
            len(row) - row.count(None) >= each.minimum
            and _come_in(world, each.multiples, [node for node in row if node is not None])
            for each, row in zip(problem.sets, outcome.rows, strict=True)
        )
    )


def rules_about_others_hold(world: World, outcome: Outcome) -> bool:
    """Whether spread and affinity hold after all members are bound."""
    return all(_is_even(world, rule, outcome) for rule in world.problem.spreads) and all(
        _all_are_bound(world, rule, outcome) for rule in world.problem.affinities
    )


def _is_even(world: World, rule: Spread, outcome: Outcome) -> bool:
    """Whether each group that gets a new member has at most `skew` more pods than the emptiest group."""
    pods, problem = dict(rule.counts), world.problem
    for v in rule.victims & set(outcome.victims):
        pods[str(rule.group[problem.victims[v].node])] -= 1
    for seat, node in world.placed(outcome):
        name = rule.group[node]
        if shape_of(problem, *seat) in rule.counted and name is not None:
            pods[name] += 1
    bound = {rule.group[node] for seat, node in world.fresh(outcome) if shape_of(problem, *seat) in rule.shapes} - {
        None
    }
    least = 0 if rule.from_zero else min(pods.values(), default=0)
    return all(pods[name] - least <= rule.skew for name in bound if name is not None)


def _all_are_bound(world: World, rule: Affinity, outcome: Outcome) -> bool:
    """Whether the members with this affinity can be bound one after the other, after all other members are bound."""
    problem, waiting = world.problem, list[int]()
    places = [problem.victims[v].node for v in rule.victims if v not in outcome.victims]
    for (s, m), node in world.placed(outcome):
        member = problem.sets[s].members[m]
        if member.node is None and member.shape in rule.shapes:
            waiting.append(node)
        elif member.shape in rule.counted:
            places.append(node)
    near = [
        set(there) | {group[place] for place in places} - {None}
        for group, there in zip(rule.groups, rule.there, strict=True)
    ]
    while waiting:
        ways = [[group[node] for group in rule.groups] for node in waiting]
        if rule.themselves and not any(near):
            come = 0 if None not in ways[0] else None
        else:
            come = next((n for n, way in enumerate(ways) if all(map(set.__contains__, near, way))), None)
        if come is None:
            return False
        waiting.pop(come)
        if rule.themselves:
            for names, name in zip(near, ways[come], strict=True):
                names.add(name)
    return True


def _come_in(world: World, multiples: Sequence[Multiple], nodes: list[int]) -> bool:
    return all(n % rule.of == 0 for rule in multiples for n in _counts(world, rule.level, nodes))


def lasting_rules_hold(world: World, rows: Sequence[Sequence[int | None]]) -> bool:
    """The rules that no further member mends: levels, slices, caps, co-location and exclusions."""
    problem = world.problem
    placed = [(s, node) for s, row in enumerate(rows) for node in row if node is not None]
    return (
        _in_one(world, problem.required, [node for _, node in placed])
        and all(map(partial(_set_rules_hold, world), problem.sets, rows))
        and all(
            _in_one(world, rule.level, [node for s, node in placed if s in rule.pod_sets]) for rule in problem.together
        )
        and everybody_bears_the_others(problem, rows)
    )


def everybody_bears_the_others(problem: Problem, rows: Sequence[Sequence[int | None]]) -> bool:
    """Whether each new member may be on its node beside all other members, each checked on its own."""
    everybody = [
        (member.shape, node, member.node is None)
        for each, row in zip(problem.sets, rows, strict=True)
        for member, node in zip(each.members, row, strict=True)
        if node is not None
    ]
    return all(
        _bears(problem, shape, node, [(s, n) for at, (s, n, _) in enumerate(everybody) if at != position])
        for position, (shape, node, new) in enumerate(everybody)
        if new
    )


def _bears(problem: Problem, shape: int, node: int, others: Sequence[tuple[int, int]]) -> bool:
    """Whether a member may be on a node beside the other members. `others`: their shapes and nodes."""
    for exclusion in problem.exclusions:
        here = exclusion.group[node]
        if shape in exclusion.shapes and here is not None:
            beside = sum(s in exclusion.shapes and exclusion.group[n] == here for s, n in others)
            if beside + 1 > exclusion.count:
                return False
    for rule in problem.separations:
        here = rule.group[node]
        enemies: tuple[int, ...] = ()
        if shape in rule.shapes:
            enemies = rule.others
        elif shape in rule.others:
            enemies = rule.shapes
        if here is not None and any(s in enemies and rule.group[n] == here for s, n in others):
            return False
    return True


def _in_one(world: World, level: int | None, nodes: list[int]) -> bool:
    return level is None or len({world.domain(level, node) for node in nodes}) <= 1


def _set_rules_hold(world: World, each: PodSet, row: Sequence[int | None]) -> bool:
    nodes = [node for node in row if node is not None]
    return (
        _in_one(world, each.required, nodes)
        and all(
            _in_one(world, rule.level, [node for node in row[start : start + rule.size] if node is not None])
            for rule in each.slices
            for start in range(0, len(row), rule.size)
        )
        and all(n <= rule.count for rule in each.caps for n in _counts(world, rule.level, nodes))
    )


def _counts(world: World, level: int, nodes: list[int]) -> list[int]:
    return list(Counter(world.domain(level, node) for node in nodes).values())


# --- goals -----------------------------------------------------------------------------------------------------------


def victims_by_priority(world: World, outcome: Outcome) -> tuple[int, ...]:
    victims = world.problem.victims
    tiers = sorted({victim.priority for victim in victims}, reverse=True)
    return tuple(sum(victims[v].priority == tier for v in outcome.victims) for tier in tiers)


def gangs_broken(world: World, outcome: Outcome) -> int:
    return cut_short(world.problem, outcome.victims)


def evicted(world: World, outcome: Outcome) -> int:
    return sum(world.problem.victims[v].requests[world.scarce] for v in outcome.victims)


def extras(world: World, outcome: Outcome) -> tuple[int, tuple[bool, ...]]:
    return -len(world.placed(outcome)), tuple(outcome.rows[s][m] is None for s, m in world.seats)


def compactness(world: World, outcome: Outcome) -> list[tuple[int, int]]:
    """Per level: domains of the gang, and summed over its sets."""
    levels = []
    for level in range(world.depth):
        whole = {world.domain(level, node) for _, node in world.placed(outcome)}
        of_sets = {(s, world.domain(level, node)) for (s, _), node in world.placed(outcome)}
        levels.append((len(whole), len(of_sets)))
    return levels


def preferences(world: World, outcome: Outcome) -> int:
    shapes = world.problem.shapes
    return -sum(
        shapes[world.problem.sets[s].members[m].shape].preferences.get(node, 0) for (s, m), node in world.fresh(outcome)
    )


def waste(world: World, outcome: Outcome) -> tuple[list[int], list[int], list[int]]:
    """(a) with (b) outward, (c) downward, (d) downward."""
    nodes = [node for _, node in world.placed(outcome)]
    if not nodes:
        return [0], [], []
    narrowest = max(level for level in range(-1, world.depth) if len({world.domain(level, n) for n in nodes}) <= 1)
    around = [room_left(world, outcome, level, world.domain(level, nodes[0])) for level in range(narrowest, -2, -1)]
    below = []
    for level in range(narrowest + 1, world.depth):
        touched = sorted({world.domain(level, node) for node in nodes})
        below.append([room_left(world, outcome, level, domain) for domain in touched])
    return around, [sum(rooms) for rooms in below], [sum(room > 0 for room in rooms) for rooms in below]


def room_left(world: World, outcome: Outcome, level: int, domain: tuple[str, ...]) -> int:
    """Return the waste: how much of the scarcest resource the gang could still use in a domain.

    If the plan evicts pods, the requests of all victims on the domain's nodes count as free.
    """
    problem, left = world.problem, 0
    for node in sorted(world.usable if outcome.victims else world.unhindered):
        if world.domain(level, node) != domain:
            continue
        could = problem.nodes[node].free[world.scarce]
        if outcome.victims:
            could += sum(victim.requests[world.scarce] for victim in problem.victims if victim.node == node)
        left += max(0, could)
        left -= sum(world.request(seat)[world.scarce] for seat, at in world.fresh(outcome) if at == node)
    return left


def ranks(world: World, outcome: Outcome) -> list[int]:
    levels = []
    for level in range(world.depth):
        crossings = 0
        for row in outcome.rows:
            nodes = [node for node in row if node is not None]
            crossings += sum(world.domain(level, a) != world.domain(level, b) for a, b in pairwise(nodes))
        levels.append(crossings)
    return levels


def terminating(world: World, outcome: Outcome) -> int:
    waits = 0
    for number, node in enumerate(world.problem.nodes):
        used = sum(world.request(seat)[world.scarce] for seat, at in world.fresh(outcome) if at == number)
        now = node.free[world.scarce] - node.terminating[world.scarce]
        freed = sum(
            world.problem.victims[v].requests[world.scarce]
            for v in outcome.victims
            if world.problem.victims[v].node == number
        )
        waits += max(0, used - max(0, now + freed))
    return waits


def started_last(world: World, outcome: Outcome) -> list[int]:
    return [-start for start in sorted(world.problem.victims[v].started for v in outcome.victims)]


def names(world: World, outcome: Outcome) -> list[int]:
    return [world.place[node] for _, node in world.placed(outcome)]


def keys(world: World, outcome: Outcome) -> Any:
    return sorted(_natural(world.problem.victims[v].key) for v in outcome.victims)


VICTIM_GOALS: tuple[Goal, ...] = (("victims", victims_by_priority), ("gangsBroken", gangs_broken), ("evicted", evicted))
PLACE_GOALS: tuple[Goal, ...] = (
    ("extras", extras),
    ("compactness", compactness),
    ("preferences", preferences),
    ("terminating", terminating),
    ("waste", waste),
    ("ranks", ranks),
    ("ties/started", started_last),
    ("ties/names", names),
    ("ties/keys", keys),
)
RULED = ("ties/names", "ties/keys")
"""The rule that decides between equally good plans. It needs no proof."""
GOALS = tuple(name for name, _ in VICTIM_GOALS + PLACE_GOALS if name not in RULED)


def best(problem: Problem) -> Outcome | None:
    """Return the best plan; None if the problem is infeasible."""
    world = World(problem)
    survivors = _cheapest(world, VICTIM_GOALS)
    for _, score in PLACE_GOALS:
        survivors = _least(world, score, survivors)
    return survivors[0] if survivors else None


def is_as_good(problem: Problem, plan: tuple[Sequence[Row], Sequence[int]], expected: Outcome) -> bool:
    """Whether a plan is valid and equals the expected plan in every goal.

    `plan`: the nodes set by set, and the victims. Names may differ: a rule without a proof decides between equal plans
    (goal 6).
    """
    outcome = Outcome(tuple(map(tuple, plan[0])), tuple(plan[1]))
    if outcome == expected:
        return True
    world = World(problem)
    equal = all(score(world, outcome) == score(world, expected) for name, score in scores() if name not in RULED)
    return equal and outcome.victims in victim_sets(problem) and outcome in placements(world, outcome.victims)


def scores() -> tuple[Goal, ...]:
    """All goals in their order, with the rule for ties."""
    return VICTIM_GOALS + PLACE_GOALS


def deciding(problem: Problem) -> set[str]:
    """The goals without which another plan would be the best."""
    world = World(problem)
    found = best(problem)
    if found is None:
        return set()
    decides = set()
    for position, (name, _) in enumerate(VICTIM_GOALS):
        rest = VICTIM_GOALS[:position] + VICTIM_GOALS[position + 1 :]
        if problem.victims and _finish(world, _cheapest(world, rest), PLACE_GOALS) != found:
            decides.add(name)
    survivors = _cheapest(world, VICTIM_GOALS)
    for position, (name, score) in enumerate(PLACE_GOALS):
        if name not in RULED and _finish(world, survivors, PLACE_GOALS[position + 1 :]) != found:
            decides.add(name)
        survivors = _least(world, score, survivors)
    return decides


def _finish(world: World, survivors: list[Outcome], goals: Sequence[Goal]) -> Outcome:
    for _, score in goals:
        survivors = _least(world, score, survivors)
    return survivors[0]


def _cheapest(world: World, goals: Sequence[Goal]) -> list[Outcome]:
    """All plans of the least cost in victims: the cheapest sets of victims that leave any placement."""

    def cost(victims: tuple[int, ...]) -> list[Any]:
        return [score(world, Outcome((), victims)) for _, score in goals]

    for _, equals in groupby(sorted(victim_sets(world.problem), key=cost), key=cost):
        found = [outcome for victims in equals for outcome in placements(world, victims)]
        if found:
            return found
    return []


def _least(world: World, score: Callable[[World, Outcome], Any], outcomes: list[Outcome]) -> list[Outcome]:
    if len(outcomes) <= 1:
        return outcomes
    scored = [(score(world, outcome), outcome) for outcome in outcomes]
    least = min(value for value, _ in scored)
    return [outcome for value, outcome in scored if value == least]
