"""Random problems, small enough to try every plan, that together use every rule and every goal."""

import random
from dataclasses import replace

from solver.problem import (
    Budget,
    Cap,
    Exclusion,
    Member,
    Multiple,
    Node,
    PodSet,
    Problem,
    Shape,
    Slice,
    Together,
    Victim,
    VictimGang,
)

LEVELS = (("node",), ("rack", "node"), ("block", "rack", "node"))
EFFORT = 12_000
"""About how many placements may have to be tried."""


def small_problem(seed: int) -> Problem:
    """The problem of a seed, always the same."""
    return _Maker(random.Random(seed)).problem()  # noqa: S311 - reproducible, not secret


class _Maker:
    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.levels = dice.choices(LEVELS, weights=(1, 3, 4))[0]
        self.resources = ("cpu", "pods") if dice.random() < 0.6 else ("cpu",)
        self.tight = dice.random() < 0.5
        """Amounts from a small choice, so that alike nodes and filled nodes are common."""
        self.crowded = dice.random() < 0.4
        """Hardly any room, and pods that may be evicted on most nodes."""

    def chance(self, probability: float) -> bool:
        return self.dice.random() < probability

    def level(self) -> int:
        return self.dice.randrange(len(self.levels))

    def problem(self) -> Problem:
        members = self.dice.choices((1, 2, 3, 4, 5), weights=(1, 4, 6, 5, 3))[0]
        most = max(count for count in range(2, 10) if (count + 1) ** members <= EFFORT or count == 2)
        nodes = self._nodes(self.dice.randint(min(3, most), min(8, max(3, most))))
        shapes = self._shapes(len(nodes), self.dice.choices((1, 2, 3), weights=(5, 3, 1))[0])
        sets = self._sets(members, len(nodes), shapes)
        total = sum(len(each.members) for each in sets)
        victims, gangs, budgets = self._victims(len(nodes)) if self.crowded or self.chance(0.1) else ((), (), ())
        return Problem(
            levels=self.levels,
            resources=self.resources,
            nodes=nodes,
            shapes=shapes,
            sets=sets,
            minimum=total if self.chance(0.6) else self.dice.randint(1, total),
            required=self.level() if self.chance(0.2) and len(self.levels) > 1 else None,
            together=(Together((0, 1), self.level()),) if len(sets) > 1 and self.chance(0.3) else (),
            exclusions=(self._exclusion(len(nodes), len(sets)),) if self.chance(0.15) else (),
            victims=victims,
            victim_gangs=gangs,
            budgets=budgets,
        )

    def _nodes(self, count: int) -> tuple[Node, ...]:
        numbers = self.dice.sample(range(1, 13), count)
        return tuple(self._node(f"n{number}") for number in numbers)

    def _node(self, name: str) -> Node:
        block, rack = f"b{self.dice.randint(1, 2)}", f"r{self.dice.randint(1, 2)}"
        free = self.dice.choice(self._amounts())
        leaving = self.dice.randint(0, 4) if self.chance(0.3) else 0
        slots = self.dice.randint(0, 4)
        return Node(
            name=name,
            path=(block, rack)[: len(self.levels) - 1],
            free=(free, slots)[: len(self.resources)],
            terminating=(leaving, 0)[: len(self.resources)],
        )

    def _amounts(self) -> tuple[int, ...]:
        if self.crowded:
            return (0, 0, 1) if self.tight else (-1, 0, 0, 1, 1, 2)
        return (2, 4) if self.tight else (-1, 0, 1, 2, 3, 3, 4, 5, 6)

    def _shapes(self, nodes: int, count: int) -> tuple[Shape, ...]:
        return tuple(self._shape(nodes) for _ in range(count))

    def _shape(self, nodes: int) -> Shape:
        eligible = frozenset(node for node in range(nodes) if self.chance(0.9))
        request = self.dice.choice((1, 2)) if self.tight else self.dice.choice((0, 1, 1, 2, 2, 3))
        if self.crowded:
            request = self.dice.choice((1, 2))
        return Shape(
            requests=(request, 1)[: len(self.resources)],
            nodes=eligible,
            excluded={node: "node(s) were unschedulable" for node in range(nodes) if node not in eligible},
            preferences={node: self.dice.choice((-1, 1, 2)) for node in eligible if self.chance(0.4)}
            if self.chance(0.35)
            else {},
        )

    def _sets(self, members: int, nodes: int, shapes: tuple[Shape, ...]) -> tuple[PodSet, ...]:
        sizes = [members]
        if members > 1 and self.chance(0.35):
            first = self.dice.randint(1, members - 1)
            sizes = [first, members - first]
        return tuple(self._set(f"set-{place}", size, nodes, shapes) for place, size in enumerate(sizes))

    def _set(self, name: str, size: int, nodes: int, shapes: tuple[Shape, ...]) -> PodSet:
        mixed = self.chance(0.3)
        one = self.dice.randrange(len(shapes))
        held = 0.25 if self.chance(0.25) else 0.0
        plain = PodSet(
            name=name,
            members=tuple(
                Member(
                    f"{name}-{rank}",
                    self.dice.randrange(len(shapes)) if mixed else one,
                    self.dice.randrange(nodes) if self.chance(held) else None,
                )
                for rank in range(size)
            ),
            minimum=size if self.chance(0.5) else self.dice.randint(0, size),
        )
        return self._ruled(plain, size)

    def _ruled(self, plain: PodSet, size: int) -> PodSet:
        ruled = plain
        if self.chance(0.12):
            ruled = replace(ruled, required=self.level())
        if self.chance(0.12):
            ruled = replace(ruled, caps=(Cap(self.level(), self.dice.randint(1, 2)),))
        if self.chance(0.08):
            ruled = replace(ruled, multiples=(Multiple(self.level(), 2),))
        if size > 1 and self.chance(0.15):
            ruled = replace(ruled, slices=self._slices(size))
        return ruled

    def _slices(self, size: int) -> tuple[Slice, ...]:
        if size == 4 and len(self.levels) > 1 and self.chance(0.5):  # noqa: PLR2004 - the only size that nests
            wide, narrow = sorted(self.dice.sample(range(len(self.levels)), 2))
            return Slice(wide, 4), Slice(narrow, 2)
        return (Slice(self.level(), 2),)

    def _exclusion(self, nodes: int, sets: int) -> Exclusion:
        return Exclusion(
            pod_sets=tuple(range(self.dice.randint(1, sets))),
            group=tuple(self.dice.choice(("x", "y", "z", None)) for _ in range(nodes)),
            count=self.dice.choice((1, 1, 2)),
        )

    def _victims(self, nodes: int) -> tuple[tuple[Victim, ...], tuple[VictimGang, ...], tuple[Budget, ...]]:
        numbers = self.dice.sample(range(1, 13), self.dice.randint(3, 7))
        gangs = self.dice.choice((0, 1, 2))
        victims = tuple(
            Victim(
                key=f"v{number}",
                node=self.dice.randrange(nodes),
                priority=self.dice.choice((1, 1, 1, 2)),
                requests=(self.dice.randint(1, 3), 1)[: len(self.resources)],
                gang=self.dice.randrange(gangs) if gangs and self.chance(0.7) else None,
                started=self.dice.randint(1, 3),
            )
            for number in numbers
        )
        return victims, tuple(self._gang(position, victims) for position in range(gangs)), self._budgets(len(victims))

    def _gang(self, position: int, victims: tuple[Victim, ...]) -> VictimGang:
        here = sum(victim.gang == position for victim in victims)
        running = max(1, here + (1 if self.chance(0.3) else 0))
        return VictimGang(f"gang-{position}", running, max(0, running - self.dice.choice((0, 0, 1, 2))))

    def _budgets(self, victims: int) -> tuple[Budget, ...]:
        if not self.chance(0.3):
            return ()
        some = frozenset(victim for victim in range(victims) if self.chance(0.6))
        return (Budget("budget", some, self.dice.randint(0, len(some))),)
