"""Problems of several gangs as one: what has the same name is the same."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from solver.nodes import Node, NodeTable, nodes_of
from solver.objective import Nodes
from solver.problem import (
    Affinity,
    Conflict,
    DisruptionBudget,
    Exclusion,
    PodSet,
    Problem,
    Separation,
    Shape,
    Together,
    Victim,
    VictimGang,
    VictimSet,
    VictimTable,
    victim_table,
)


@dataclass(frozen=True)
class Merged:
    """The one problem. `sets[g]`: the positions of gang g's sets in it; `parts[g]`: its own problem."""

    problem: Problem
    parts: tuple[Problem, ...]
    sets: tuple[tuple[int, ...], ...]

    def shares(self, nodes: Nodes, victims: Sequence[int]) -> list[tuple[Nodes, tuple[int, ...]]]:
        """A plan taken apart: nodes and victims of each gang, in the positions of its own problem."""
        owners = self._owners(nodes, victims)
        found = []
        for gang, (part, sets) in enumerate(zip(self.parts, self.sets, strict=True)):
            place = {name: position for position, name in enumerate(part.nodes.layout.names)}
            names = self.problem.nodes.layout.names
            rows = tuple(tuple(None if n is None else place[names[n]] for n in nodes[each]) for each in sets)
            own_victims = {self.problem.victims.keys[victim] for victim in victims if owners[victim] == gang}
            gone = tuple(position for position, key in enumerate(part.victims.keys) if key in own_victims)
            found.append((rows, gone))
        return found

    def joined(self, nodes: Sequence[Nodes], victims: Sequence[Sequence[int]]) -> tuple[Nodes, tuple[int, ...]]:
        """The plans of the gangs put together, in the positions of the one problem."""
        place = {name: position for position, name in enumerate(self.problem.nodes.layout.names)}
        rows: dict[int, tuple[int | None, ...]] = {}
        keys: set[str] = set()
        for part, sets, own, gone in zip(self.parts, self.sets, nodes, victims, strict=True):
            for position, row in zip(sets, own, strict=True):
                rows[position] = tuple(None if node is None else place[part.nodes.layout.names[node]] for node in row)
            keys |= {part.victims.keys[victim] for victim in gone}
        evicted = tuple(position for position, key in enumerate(self.problem.victims.keys) if key in keys)
        return tuple(rows[position] for position in sorted(rows)), evicted

    def _owners(self, nodes: Nodes, victims: Sequence[int]) -> dict[int, int]:
        """The gang for which a victim goes: the first that takes its node, or a node where it is in the way, or that of
        one of its gang's victims.
        """
        used = [{node for each in sets for node in nodes[each] if node is not None} for sets in self.sets]
        obstacles = [self._obstacles(nodes, sets) for sets in self.sets]
        owners: dict[int, int] = {}
        for victim in victims:
            same_gang = self._same_gang(victim, victims)
            places = {self.problem.victims[each].node for each in same_gang}
            takers = (
                gang
                for gang, own_nodes in enumerate(used)
                if own_nodes & places or not obstacles[gang].isdisjoint(same_gang)
            )
            owners[victim] = next(takers, 0)
        return owners

    def _obstacles(self, nodes: Nodes, sets: Sequence[int]) -> frozenset[int]:
        """Whoever is in the way of these sets' new members where they are."""
        seats = {
            (member.shape, node)
            for each in sets
            for member, node in zip(self.problem.sets[each].members, nodes[each], strict=True)
            if member.node is None and node is not None
        }
        return frozenset[int]().union(
            *(
                rule.victims
                for rule in self.problem.conflicts
                if any(shape in rule.shapes and node in rule.nodes for shape, node in seats)
            )
        )

    def _same_gang(self, victim: int, victims: Sequence[int]) -> list[int]:
        """The victims of the same running gang."""
        gang = self.problem.victims[victim].gang
        return [victim] if gang is None else [each for each in victims if self.problem.victims[each].gang == gang]


def merged(parts: Sequence[Problem], units: Sequence[Sequence[int]]) -> Merged:
    """One problem for all. `units[g][r]`: the size of a unit of resource r of part g."""
    return _Merger(parts, units).merged()


class _Merger:
    """What the steps of a merge share."""

    def __init__(self, parts: Sequence[Problem], units: Sequence[Sequence[int]]) -> None:
        self.parts = tuple(parts)
        self.resources = tuple(dict.fromkeys(name for part in parts for name in part.resources))
        sizes = [dict(zip(part.resources, sizes, strict=True)) for part, sizes in zip(parts, units, strict=True)]
        self.sizes = sizes
        self.unit = {name: math.gcd(*(each[name] for each in sizes if name in each)) for name in self.resources}
        self.names = tuple(dict.fromkeys(name for part in parts for name in part.nodes.layout.names))
        self.place = {name: position for position, name in enumerate(self.names)}
        self.keys = tuple(dict.fromkeys(key for part in parts for key in part.victims.keys))
        self.position = {key: position for position, key in enumerate(self.keys)}
        self.gangs = tuple(dict.fromkeys(gang.name for part in parts for gang in part.victim_gangs))

    def merged(self) -> Merged:
        sets: list[PodSet] = []
        positions: list[tuple[int, ...]] = []
        shapes: list[Shape] = []
        together: list[Together] = []
        exclusions: list[Exclusion] = []
        separations: list[Separation] = []
        conflicts: list[Conflict] = []
        affinities: list[Affinity] = []
        for gang, part in enumerate(self.parts):
            first = len(sets)
            positions.append(tuple(range(first, first + len(part.sets))))
            sets += [_set(gang, part, each, len(shapes)) for each in part.sets]
            together += _together(part, first)
            exclusions += [self._exclusion(part, rule, len(shapes)) for rule in part.exclusions]
            separations += [self._separation(part, rule, len(shapes)) for rule in part.separations]
            conflicts += [self._conflict(part, rule, len(shapes)) for rule in part.conflicts]
            affinities += [self._affinity(part, rule, len(shapes)) for rule in part.affinities]
            shapes += [self._shape(gang, shape) for shape in part.shapes]
        problem = Problem(
            levels=self.parts[0].levels,
            resources=self.resources,
            nodes=self._nodes(),
            shapes=tuple(shapes),
            sets=tuple(sets),
            minimum=sum(part.minimum for part in self.parts),
            together=tuple(together),
            exclusions=tuple(exclusions),
            separations=tuple(separations),
            victims=self._victims(),
            victim_gangs=tuple(map(self._victim_gang, self.gangs)),
            budgets=self._budgets(),
            conflicts=tuple(conflicts),
            affinities=tuple(affinities),
        )
        return Merged(problem, self.parts, tuple(positions))

    def _amounts(self, gang: int, amounts: Sequence[int]) -> dict[str, int]:
        """By resource, in the units of the one problem."""
        names = self.parts[gang].resources
        return {
            name: amount * self.sizes[gang][name] // self.unit[name]
            for name, amount in zip(names, amounts, strict=True)
        }

    def _parallel(self, known: Sequence[dict[str, int]]) -> tuple[int, ...]:
        """The least that any part knows of each resource; nothing where none knows it."""
        return tuple(min((each[name] for each in known if name in each), default=0) for name in self.resources)

    def _nodes(self) -> NodeTable:
        """Every node once, in order of first mention."""
        free: dict[str, list[dict[str, int]]] = {}
        terminating: dict[str, list[dict[str, int]]] = {}
        path: dict[str, tuple[str, ...]] = {}
        for gang, part in enumerate(self.parts):
            for node in part.nodes:
                free.setdefault(node.name, []).append(self._amounts(gang, node.free))
                terminating.setdefault(node.name, []).append(self._amounts(gang, node.terminating))
                path[node.name] = node.path
        return nodes_of(
            Node(name, path[name], self._parallel(free[name]), self._parallel(terminating[name])) for name in self.names
        )

    def _shape(self, gang: int, shape: Shape) -> Shape:
        names = self.parts[gang].nodes.layout.names

        def joint_position(node: int) -> int:
            return self.place[names[node]]

        return Shape(
            self._parallel([self._amounts(gang, shape.requests)]),
            frozenset(map(joint_position, shape.nodes)),
            {joint_position(node): reason for node, reason in shape.excluded.items()},
            {joint_position(node): weight for node, weight in shape.preferences.items()},
        )

    def _exclusion(self, part: Problem, rule: Exclusion, first: int) -> Exclusion:
        return Exclusion(_moved(rule.shapes, first), self._groups(part, rule.group), rule.count)

    def _separation(self, part: Problem, rule: Separation, first: int) -> Separation:
        return Separation(_moved(rule.shapes, first), _moved(rule.others, first), self._groups(part, rule.group))

    def _groups(self, part: Problem, group: Sequence[str | None]) -> tuple[str | None, ...]:
        groups = dict(zip(part.nodes.layout.names, group, strict=True))
        return tuple(groups.get(name) for name in self.names)

    def _conflict(self, part: Problem, rule: Conflict, first: int) -> Conflict:
        names = part.nodes.layout.names
        return replace(
            rule,
            shapes=_moved(rule.shapes, first),
            nodes=frozenset(self.place[names[node]] for node in rule.nodes),
            victims=self._among_all(part, rule.victims),
        )

    def _affinity(self, part: Problem, rule: Affinity, first: int) -> Affinity:
        return replace(
            rule,
            shapes=_moved(rule.shapes, first),
            counted=_moved(rule.counted, first),
            groups=tuple(self._groups(part, group) for group in rule.groups),
            victims=self._among_all(part, rule.victims),
        )

    def _among_all(self, part: Problem, victims: Iterable[int]) -> frozenset[int]:
        return frozenset(self.position[part.victims.keys[victim]] for victim in victims)

    def _victims(self) -> VictimTable:
        """Every victim once, in order of first mention."""
        known: dict[str, list[dict[str, int]]] = {}
        found: dict[str, Victim] = {}
        gangs = {name: position for position, name in enumerate(self.gangs)}
        for gang, part in enumerate(self.parts):
            for victim in part.victims:
                known.setdefault(victim.key, []).append(self._amounts(gang, victim.requests))
                running = None if victim.gang is None else gangs[part.victim_gangs[victim.gang].name]
                found[victim.key] = replace(victim, node=self.place[part.nodes.layout.names[victim.node]], gang=running)
        return victim_table(replace(found[key], requests=self._parallel(known[key])) for key in self.keys)

    def _victim_gang(self, name: str) -> VictimGang:
        """A gang with the victims that any part knows of its sets."""
        known = [(part, gang) for part in self.parts for gang in part.victim_gangs if gang.name == name]
        victims: dict[str, frozenset[int]] = {}
        sets: dict[str, VictimSet] = {}
        for part, gang in known:
            for each in gang.sets:
                gang_victims = frozenset(self.position[part.victims.keys[victim]] for victim in each.victims)
                victims[each.name] = victims.get(each.name, frozenset()) | gang_victims
                sets[each.name] = each
        return replace(known[0][1], sets=tuple(replace(each, victims=victims[each.name]) for each in sets.values()))

    def _budgets(self) -> tuple[DisruptionBudget, ...]:
        found: dict[str, DisruptionBudget] = {}
        for part in self.parts:
            for budget in part.budgets:
                victims = self._among_all(part, budget.victims)
                before = found.get(budget.name)
                both = victims if before is None else victims | before.victims
                allowed = budget.allowed if before is None else min(budget.allowed, before.allowed)
                found[budget.name] = DisruptionBudget(budget.name, both, allowed)
        return tuple(found.values())


def _moved(shapes: Sequence[int], first: int) -> tuple[int, ...]:
    """The positions of a gang's shapes among those of all."""
    return tuple(first + each for each in shapes)


def _set(gang: int, part: Problem, pod_set: PodSet, first_shape: int) -> PodSet:
    """The set with the gang's own rules, where it is the gang's only one."""
    alone = sum(bool(each.members) for each in part.sets) == 1 and bool(pod_set.members)
    levels = [level for level in (pod_set.required, part.required if alone else None) if level is not None]
    return replace(
        pod_set,
        name=f"{gang}/{pod_set.name}",
        members=tuple(replace(member, shape=first_shape + member.shape) for member in pod_set.members),
        minimum=max(pod_set.minimum, part.minimum) if alone else pod_set.minimum,
        required=max(levels, default=None),
    )


def _together(part: Problem, first: int) -> list[Together]:
    rules = [Together(tuple(first + each for each in rule.pod_sets), rule.level) for rule in part.together]
    if part.required is not None:
        rules.append(Together(tuple(range(first, first + len(part.sets))), part.required))
    return rules
