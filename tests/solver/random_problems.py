"""Small random problems. Together they contain every constraint and every goal of the solver."""

from dataclasses import replace
from random import Random

from joining import Several, several

from solver.nodes import Node, nodes_of
from solver.problem import (
    Affinity,
    Cap,
    Conflict,
    DisruptionBudget,
    Exclusion,
    Member,
    Multiple,
    PodSet,
    Problem,
    Separation,
    Shape,
    Slice,
    Spread,
    Together,
    Victim,
    VictimGang,
    VictimSet,
    victim_table,
)
from solver.quota import Quota, QuotaCharge, QuotaShare

LEVELS = ("block", "rack", "node")
SIZES = ((1,), (2,), (3,), (3,), (4,), (4,), (1, 1), (1, 2), (1, 2), (2, 2), (1, 3), (0, 2), (1, 1, 1), (1, 1, 2))
"""How many members each set has."""
GANGS = (
    ((1,), (2,)),
    ((2,), (2,)),
    ((3,), (2,)),
    ((2,), (1,)),
    ((1, 1), (2,)),
    ((1,), (1, 1)),
    ((1, 2), (2,)),
    ((1,), (1,), (2,)),
    ((2,), (1,), (2,)),
    ((1,), (1,), (1,)),
    ((1,), (1, 1), (1,)),
    ((2, 1), (1, 2)),
    ((4,), (2,)),
    ((4,), (1,)),
    ((4,), (1,)),
    ((4,), (3,)),
)
"""The number of members in each set, for each gang of a joint problem."""
PAIR = 2
MANY = 8
NESTED = ((8, 4, 2), (8, 4, 2), (8, 2, 2), (4, 4, 2), (4, 2, 2))
"""Sizes of slices in slices, level by level."""
PATHS = (("b0", "r0"), ("b0", "r0"), ("b0", "r1"), ("b1", "r0"), ("b1", "r1"))


def random_problem(seed: int) -> Problem:
    """Return a random problem of one gang. Equal seeds give equal problems."""
    return _Draw(Random(seed)).problem()  # noqa: S311 - instances are to be repeatable, not secret


def random_joint(seed: int) -> Several:
    """Return two or three gangs of a few members on one cluster, some with rules between them or with quotas.

    Equal seeds give equal problems.
    """
    drawn = _Draw(Random(f"joint {seed}")).joint()  # noqa: S311 - as above
    return _Between(Random(f"between {seed}"), drawn).drawn()  # noqa: S311 - as above


class _Draw:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.crowded = self.chance(0.55)
        self.resources = ("cpu", "pods") if self.chance(0.4) else ("pods",)
        self.priorities = self.random.choice(((0,), (0,), (0, 0, 0, 5), (0, 5, 9)))
        self.levels = LEVELS if self.chance(0.7) else LEVELS[1:] if self.chance(0.6) else LEVELS[2:]

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def problem(self) -> Problem:
        return self.nested_problem() if self.chance(0.06) else self.mixed_problem()

    def mixed_problem(self) -> Problem:
        nodes = self.nodes()
        shapes = self.shapes(nodes)
        sets = self.sets(shapes, nodes)
        victims, gangs, budgets = self.victims(nodes) if self.crowded or self.chance(0.3) else ((), (), ())
        members = sum(len(each.members) for each in sets)
        return Problem(
            levels=self.levels,
            resources=self.resources,
            nodes=nodes_of(nodes),
            shapes=shapes,
            sets=sets,
            minimum=self.random.randint(0, members) if self.chance(0.4) else members,
            required=self.level() if self.rule(0.3) else None,
            together=self.together(len(sets)),
            multiples=self.multiples(0.25, members),
            exclusions=self.exclusions(shapes, nodes),
            separations=self.separations(shapes, nodes),
            victims=victim_table(victims),
            victim_gangs=gangs,
            budgets=budgets,
            spreads=self.spreads(shapes, nodes, victims),
            conflicts=self.conflicts(shapes, victims),
            affinities=self.affinities(shapes, nodes, victims),
        )

    def joint(self) -> tuple[Problem, ...]:
        self.crowded = self.chance(0.35)
        nodes = self.nodes()
        victims, gangs, budgets = self.victims(nodes) if self.crowded or self.chance(0.3) else ((), (), ())
        drawn = tuple(self.gang(nodes, sizes, victims) for sizes in self.random.choice(GANGS))
        everybody = victim_table(victims)
        return tuple(replace(each, victims=everybody, victim_gangs=gangs, budgets=budgets) for each in drawn)

    def gang(self, nodes: tuple[Node, ...], sizes: tuple[int, ...], victims: tuple[Victim, ...]) -> Problem:
        """Draw one gang, with nodes and victims that all gangs of a joint problem share."""
        shapes = self.shapes(nodes)
        sets = tuple(self.pod_set(number, size, shapes, nodes) for number, size in enumerate(sizes))
        members = sum(sizes)
        needed = sum(each.minimum for each in sets)
        return Problem(
            levels=self.levels,
            resources=self.resources,
            nodes=nodes_of(nodes),
            shapes=shapes,
            sets=sets,
            minimum=self.random.randint(0, members if len(sizes) == 1 else needed) if self.chance(0.5) else needed,
            required=self.level() if self.rule(0.3) else None,
            together=self.together(len(sets)),
            exclusions=self.exclusions(shapes, nodes),
            separations=self.separations(shapes, nodes),
            conflicts=self.conflicts(shapes, victims),
            affinities=self.affinities(shapes, nodes, victims),
        )

    def nested_problem(self) -> Problem:
        """Eight members in slices of slices of slices, on few nodes."""
        self.levels, self.resources, self.crowded = LEVELS, ("pods",), False
        nodes = tuple(
            Node(f"n{number}", self.random.choice(PATHS), (self.random.choice((1, 2, 3, 3, 5, 8)),), (0,))
            for number in self.random.sample(range(1, 13), self.random.randint(3, 5))
        )
        shape = self.shape(nodes)
        pin = self.random.randrange(len(nodes)) if self.chance(0.2) else None
        members = tuple(Member(f"set0-{rank}", 0, pin if rank == MANY // 2 else None) for rank in range(MANY))
        slices = tuple(Slice(level, size) for level, size in enumerate(self.random.choice(NESTED)))
        least = self.random.choice((MANY, MANY, MANY - 1, MANY - 2))
        return Problem(
            self.levels, self.resources, nodes_of(nodes), (shape,), (PodSet("set0", members, 0, None, slices),), least
        )

    def rule(self, share: float) -> bool:
        """Draw whether to add a rule. The chance is a third if capacity is scarce already."""
        return self.chance(share / 3 if self.crowded else share)

    def level(self) -> int:
        return self.random.randrange(len(self.levels))

    def together(self, sets: int) -> tuple[Together, ...]:
        if sets < PAIR or not self.chance(0.35):
            return ()
        return (Together(tuple(sorted(self.random.sample(range(sets), PAIR))), self.level()),)

    def multiples(self, share: float, members: int) -> tuple[Multiple, ...]:
        if members < PAIR or not self.rule(share):
            return ()
        wide, narrow = self.level(), self.level()
        first = Multiple(wide, self.random.choice((2, 3)) if members % PAIR else 2)
        return (first, Multiple(narrow, 2)) if wide < narrow else (first,)

    def nodes(self) -> tuple[Node, ...]:
        count = self.random.randint(2, 6)
        numbers = self.random.sample(range(1, 13), count)
        blocks, racks = self.random.randint(1, 2), self.random.randint(1, 3)
        most = self.random.choice((1, 2, 3))
        tight = self.chance(0.5)
        return tuple(self.node(number, blocks, racks, most, tight=tight) for number in numbers)

    def node(self, number: int, blocks: int, racks: int, most: int, *, tight: bool) -> Node:
        rack, block = self.random.randrange(racks), self.random.randrange(blocks)
        path = (f"b{block}", f"r{rack}")[len(LEVELS) - len(self.levels) :]
        least = -1 if self.chance(0.2) else 0
        pods = (
            self.random.choice((least, 0, 0, 1))
            if self.crowded
            else self.random.randint(least, most)
            if tight
            else most
        )
        cpu = self.random.randint(0, 5)
        free = (cpu, pods) if len(self.resources) > 1 else (pods,)
        leaving = tuple(self.random.randint(0, max(0, each)) if self.chance(0.25) else 0 for each in free)
        return Node(f"n{number}", path, free, leaving)

    def shapes(self, nodes: tuple[Node, ...]) -> tuple[Shape, ...]:
        """Draw one to three shapes. Some are equal and differ only in their exclusions and separations."""
        first = self.shape(nodes)
        others = self.random.choice((0, 0, 1, 1, 2))
        return (first, *(first if self.chance(0.35) else self.shape(nodes) for _ in range(others)))

    def some(self, shapes: tuple[Shape, ...]) -> tuple[int, ...]:
        """Return the positions of one or more of the shapes."""
        return tuple(sorted(self.random.sample(range(len(shapes)), self.random.randint(1, len(shapes)))))

    def shape(self, nodes: tuple[Node, ...]) -> Shape:
        requests = (self.random.randint(0, 3), 1) if len(self.resources) > 1 else (1,)
        everywhere = self.crowded or self.chance(0.6)
        allowed = frozenset(node for node in range(len(nodes)) if everywhere or self.chance(0.8))
        wishes = {node: self.random.choice((1, 2, 5)) for node in sorted(allowed) if self.chance(0.6)}
        excluded = {node: "node(s) had untolerated taint(s)" for node in range(len(nodes)) if node not in allowed}
        return Shape(requests, allowed, excluded, wishes if self.chance(0.4) else {})

    def sets(self, shapes: tuple[Shape, ...], nodes: tuple[Node, ...]) -> tuple[PodSet, ...]:
        sizes = self.random.choice(SIZES)
        return tuple(self.pod_set(number, size, shapes, nodes) for number, size in enumerate(sizes))

    def pod_set(self, number: int, size: int, shapes: tuple[Shape, ...], nodes: tuple[Node, ...]) -> PodSet:
        mixed, first = self.chance(0.45), self.random.randrange(len(shapes))
        pinning = self.chance(0.25)
        members = []
        for rank in range(size):
            shape = self.random.randrange(len(shapes)) if mixed else first
            pin = self.random.randrange(len(nodes)) if pinning and self.chance(0.4) else None
            members.append(Member(f"set{number}-{rank}", shape, pin))
        return PodSet(
            name=f"set{number}",
            members=tuple(members),
            minimum=self.random.randint(0, size) if self.chance(0.4) else size,
            required=self.level() if self.rule(0.15) else None,
            slices=self.slices(size) if self.rule(0.2) else (),
            multiples=self.multiples(0.15, size),
            caps=(Cap(self.level(), self.random.randint(1, 2)),) if self.rule(0.15) else (),
        )

    def slices(self, size: int) -> tuple[Slice, ...]:
        outer = self.level()
        if size % 4 == 0 and outer < len(self.levels) - 1 and self.chance(0.6):
            return Slice(outer, 4), Slice(outer + 1, 2)
        return (Slice(outer, 2),)

    def groups(self, nodes: tuple[Node, ...]) -> tuple[str | None, ...]:
        """Every node for itself, or two sides that some nodes are on."""
        sides = [None, "x", "y"]
        by_node = self.chance(0.5)
        return tuple(node.name if by_node else self.random.choice(sides) for node in nodes)

    def exclusions(self, shapes: tuple[Shape, ...], nodes: tuple[Node, ...]) -> tuple[Exclusion, ...]:
        if not self.rule(0.3):
            return ()
        return (Exclusion(self.some(shapes), self.groups(nodes), self.random.randint(1, 2)),)

    def separations(self, shapes: tuple[Shape, ...], nodes: tuple[Node, ...]) -> tuple[Separation, ...]:
        """Draw a separation between the members of some shapes and the members of some others."""
        if len(shapes) < PAIR or not self.chance(0.45):
            return ()
        order = self.random.sample(range(len(shapes)), self.random.randint(PAIR, len(shapes)))
        cut = self.random.randint(1, len(order) - 1)
        return (Separation(tuple(order[:cut]), tuple(order[cut:]), self.groups(nodes)),)

    def conflicts(self, shapes: tuple[Shape, ...], victims: tuple[Victim, ...]) -> tuple[Conflict, ...]:
        """Draw conflicts: victims that keep members off their own node, or off another node as well."""
        if not victims or not self.chance(0.25):
            return ()
        return tuple(self.conflict(shapes, victims) for _ in range(self.random.choice((1, 1, 2, 3))))

    def conflict(self, shapes: tuple[Shape, ...], victims: tuple[Victim, ...]) -> Conflict:
        chosen = self.some(shapes)
        eligible = frozenset[int]().union(*(shapes[each].nodes for each in chosen))
        several = min(len(victims), self.random.choice((1, 1, 2)))
        going = frozenset(self.random.sample(range(len(victims)), several))
        nodes = {victims[each].node for each in going}
        nodes |= {node for node in sorted(eligible) if self.chance(0.2)}
        return Conflict(chosen, frozenset(nodes), going, "node(s) didn't have free ports for the requested pod ports")

    def affinities(
        self, shapes: tuple[Shape, ...], nodes: tuple[Node, ...], victims: tuple[Victim, ...]
    ) -> tuple[Affinity, ...]:
        """Draw affinities: of members to each other, to other members of the gang, or to possible victims."""
        if not self.chance(0.3):
            return ()
        chosen, themselves = self.some(shapes), self.chance(0.6)
        groups = tuple(self.groups(nodes) for _ in range(self.random.choice((1, 1, 1, 2))))
        mates = self.chance(0.5)
        everybody = range(len(shapes))
        counted = tuple(each for each in everybody if (each in chosen and themselves) or self.chance(0.6 * mates))
        wanted = frozenset(each for each in range(len(victims)) if not mates and self.chance(0.4))
        there = tuple(
            frozenset(name for name in sorted({*group} - {None}, key=str) if name and self.chance(0.25 * (not mates)))
            for group in groups
        )
        return (Affinity(chosen, counted, groups, there, wanted, themselves and set(chosen) <= set(counted)),)

    def spreads(
        self, shapes: tuple[Shape, ...], nodes: tuple[Node, ...], victims: tuple[Victim, ...]
    ) -> tuple[Spread, ...]:
        """One or none: over nodes or zones, some of which may hold pods already, victims too, or have no node here."""
        if not self.rule(0.25) and not (self.crowded and self.chance(0.15)):
            return ()
        zones = ("x", "x", "y", "z", None) if self.chance(0.2) else ("x", "y")
        by_node = self.chance(0.4)
        group = tuple(node.name if by_node else self.random.choice(zones) for node in nodes)
        names = sorted({name for name in group if name is not None} | ({"elsewhere"} if self.chance(0.15) else set()))
        counts = {name: self.random.choice((0, 0, 0, 1, 2)) for name in names}
        leaving = frozenset(each for each in range(len(victims)) if group[victims[each].node] and self.chance(0.6))
        for each in leaving:
            counts[group[victims[each].node] or ""] += 1
        everybody = tuple(range(len(shapes)))
        bound = everybody if self.chance(0.5) else self.some(shapes)
        counted = () if leaving and self.chance(0.3) else everybody if self.chance(0.7) else self.some(shapes)
        return (Spread(bound, counted, group, counts, self.random.choice((1, 1, 2)), self.chance(0.15), leaving),)

    def victims(
        self, nodes: tuple[Node, ...]
    ) -> tuple[tuple[Victim, ...], tuple[VictimGang, ...], tuple[DisruptionBudget, ...]]:
        gangs = self.random.choice((0, 2, 3, 3, 4) if self.crowded else (0, 0, 1))
        count = self.random.randint(2, 6) if self.crowded else self.random.randint(1, 3)
        numbers = self.random.sample(range(1, 20), count)
        victims = tuple(self.victim(number, nodes, gangs) for number in numbers)
        sizes = [sum(victim.gang == gang for victim in victims) for gang in range(gangs)]
        running = [size + (self.random.randint(1, 2) if self.chance(0.25) else 0) for size in sizes]
        groups = tuple(
            VictimGang(f"gang-{gang}", total, self.random.randint(total // 2, total))
            for gang, total in enumerate(running)
        )
        budgets = self.budgets(count)
        return victims, tuple(self.in_sets(each, number, victims) for number, each in enumerate(groups)), budgets

    def in_sets(self, gang: VictimGang, number: int, victims: tuple[Victim, ...]) -> VictimGang:
        """Return the running gang, or split it into two sets with a minimum each."""
        if not self.chance(0.5):
            return gang
        mine = [position for position, victim in enumerate(victims) if victim.gang == number]
        first = frozenset(position for position in mine if self.chance(0.5))
        staying = gang.running - len(mine)
        beside = self.random.randint(0, staying)
        parts = ((first, len(first) + beside), (frozenset(mine) - first, gang.running - len(first) - beside))
        sets = tuple(
            VictimSet(f"set{position}", part, running, self.random.randint(0, running))
            for position, (part, running) in enumerate(parts)
        )
        return replace(gang, minimum=self.random.randint(0, gang.minimum), sets=sets)

    def budgets(self, victims: int) -> tuple[DisruptionBudget, ...]:
        """Draw no, one or two disruption budgets. Two budgets may cover the same victims."""
        names = self.random.choice(((), (), (), ("one",), ("one", "two")))
        return tuple(
            DisruptionBudget(
                name, frozenset(each for each in range(victims) if self.chance(0.5)), self.random.randint(0, 2)
            )
            for name in names
        )

    def victim(self, number: int, nodes: tuple[Node, ...], gangs: int) -> Victim:
        node = self.random.randrange(len(nodes))
        requests = (self.random.randint(0, 4), 1) if len(self.resources) > 1 else (self.random.choice((1, 1, 1, 2)),)
        gang = self.random.randrange(gangs) if gangs and self.chance(0.6) else None
        return Victim(
            f"low-{number}", node, self.random.choice(self.priorities), requests, gang, self.random.randint(0, 2)
        )


class _Between:
    """Draws the rules between gangs that are planned together. Each kind of rule occurs in some of the instances."""

    def __init__(self, random: Random, gangs: tuple[Problem, ...]) -> None:
        self.random = random
        self.gangs = gangs
        self.nodes = tuple(gangs[0].nodes)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def drawn(self) -> Several:
        own = several(*(self.of_one(gang) for gang in self.gangs))
        problem = own.problem
        first, other = self.shapes_of_two(problem)
        problem = replace(
            problem,
            separations=problem.separations + self.separations(first, other),
            affinities=problem.affinities + self.affinities(first, other),
            spreads=problem.spreads + self.spreads(first, other),
            quotas=self.quotas(problem),
        )
        return replace(own, problem=problem)

    def of_one(self, gang: Problem) -> Problem:
        """The gang, which may have spread, multiples or a minimum over all of its sets."""
        members = sum(len(each.members) for each in gang.sets)
        if self.chance(0.15):
            shapes = tuple(range(len(gang.shapes)))
            gang = replace(gang, spreads=(self.spread(shapes, shapes),))
        if members > 1 and self.chance(0.12):
            level = self.random.randrange(len(gang.levels))
            gang = replace(gang, multiples=(Multiple(level, 2),))
        if len(gang.sets) > 1 and self.chance(0.3):
            gang = replace(gang, minimum=self.random.randint(gang.minimum, members))
        return gang

    def shapes_of_two(self, problem: Problem) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shapes of two gangs, in any order."""
        one, other = (
            tuple(sorted({member.shape for position in gang.pod_sets for member in problem.sets[position].members}))
            for gang in self.random.sample(problem.gangs, 2)
        )
        return one, other

    def groups(self) -> tuple[str | None, ...]:
        by_node = self.chance(0.5)
        return tuple(node.name if by_node else self.random.choice(("x", "y")) for node in self.nodes)

    def separations(self, first: tuple[int, ...], other: tuple[int, ...]) -> tuple[Separation, ...]:
        return (Separation(first, other, self.groups()),) if first and other and self.chance(0.2) else ()

    def affinities(self, first: tuple[int, ...], other: tuple[int, ...]) -> tuple[Affinity, ...]:
        """Draw affinity of the members of one gang to the members of another."""
        if not first or not other or not self.chance(0.15):
            return ()
        group = self.groups()
        there = frozenset(name for name in group if name is not None and self.chance(0.15))
        return (Affinity(first, other, (group,), (there,)),)

    def spreads(self, first: tuple[int, ...], other: tuple[int, ...]) -> tuple[Spread, ...]:
        """Draw topology spread for the members of one gang that counts the members of both gangs."""
        if not first or not other or not self.chance(0.15):
            return ()
        return (self.spread(first, tuple(sorted((*first, *other)))),)

    def spread(self, shapes: tuple[int, ...], counted: tuple[int, ...]) -> Spread:
        group = self.groups()
        counts = {name: self.random.choice((0, 0, 1)) for name in sorted({*group} - {None}, key=str) if name}
        return Spread(shapes, counted, group, counts, self.random.choice((1, 1, 2)))

    def quotas(self, problem: Problem) -> tuple[Quota, ...]:
        """One quota in some of the instances: queues alone, in a cohort, or in a tree of cohorts."""
        if not self.chance(0.4):
            return ()
        queues = self.random.randint(1, 3)
        shares = [self.queue() for _ in range(queues)]
        if self.chance(0.8):
            shares = self.tree(shares)
        charges = [
            QuotaCharge(queue, pod_set, shape, amount)
            for gang in problem.gangs
            if self.chance(0.9)
            for queue, amount in [(self.random.randrange(queues), self.random.choice((1, 1, 2)))]
            for pod_set in gang.pod_sets
            for shape in sorted({member.shape for member in problem.sets[pod_set].members})
        ]
        return (Quota("gpu", tuple(shares), tuple(charges)),) if charges else ()

    def queue(self) -> QuotaShare:
        quota = self.random.choice((0, 1, 1, 2, 2, 3, 4))
        used = self.random.choice((0, 0, 0, 1, 2))
        return QuotaShare(None, quota, self.random.choice((0, 0, quota, quota // 2)), used=used)

    def tree(self, queues: list[QuotaShare]) -> list[QuotaShare]:
        """Put the queues into a tree of cohorts.

        Either all queues are in the top cohort, or some of them are in an inner cohort below the top cohort.
        """
        inner = len(queues) if self.chance(0.4) else None
        top = len(queues) + (inner is not None)
        parents = [inner if inner is not None and self.chance(0.7) else top for _ in queues]
        shares = [self.in_cohort(each, parent) for each, parent in zip(queues, parents, strict=True)]
        for position in range(len(queues), top + 1):
            below = [each for each in shares if each.parent == position]
            quota = self.random.choice((0, 0, 1)) + sum(each.quota - each.kept for each in below)
            share = QuotaShare(None, quota, self.random.choice((0, 0, quota // 2)))
            shares.append(share if position == top else self.in_cohort(share, top))
        return shares

    def in_cohort(self, share: QuotaShare, parent: int) -> QuotaShare:
        limit = share.quota + self.random.choice((0, 1, 2)) if self.chance(0.4) else None
        return replace(share, parent=parent, limit=limit)
