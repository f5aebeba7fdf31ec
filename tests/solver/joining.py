"""Several gangs, each drawn alone on the same nodes and victims, as one problem."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from solver.multi_gang.joint_problem import ManyGangs
from solver.problem import GangRules, PodSet, Problem, Shape, Together


@dataclass(frozen=True)
class Several:
    """Gangs, each drawn alone, and the problem of all of them, which may have rules between gangs."""

    gangs: tuple[Problem, ...]
    problem: Problem

    @property
    def many(self) -> ManyGangs:
        """The gangs as a problem of many gangs, each with its own statement."""
        return ManyGangs(self.gangs, tuple((1,) * len(gang.resources) for gang in self.gangs))


def several(*gangs: Problem) -> Several:
    """These gangs, without rules between them."""
    return Several(gangs, in_one(gangs))


def in_one(gangs: Sequence[Problem]) -> Problem:
    """The problem of all gangs. Their nodes, resources and victims are equal."""
    shapes: list[Shape] = []
    sets: list[PodSet] = []
    together: list[Together] = []
    rules: list[GangRules] = []
    about_shapes: dict[str, list[Any]] = {name: [] for name in RULES}
    for gang in gangs:
        first, first_set = len(shapes), len(sets)
        shapes += gang.shapes
        sets += [_moved(each, first) for each in gang.sets]
        positions = tuple(range(first_set, len(sets)))
        together += [Together(tuple(first_set + each for each in rule.pod_sets), rule.level) for rule in gang.together]
        if gang.required is not None:
            together.append(Together(positions, gang.required))
        rules.append(GangRules(positions, gang.minimum, gang.multiples))
        for name, fields in RULES.items():
            for rule in getattr(gang, name):
                moved = {field: tuple(first + each for each in getattr(rule, field)) for field in fields}
                about_shapes[name].append(replace(rule, **moved))
    of_shapes: dict[str, Any] = {name: tuple(found) for name, found in about_shapes.items()}
    return replace(
        gangs[0],
        shapes=tuple(shapes),
        sets=tuple(sets),
        minimum=sum(each.minimum for each in rules),
        required=None,
        multiples=(),
        together=tuple(together),
        gangs=tuple(rules),
        **of_shapes,
    )


RULES = {
    "exclusions": ("shapes",),
    "separations": ("shapes", "others"),
    "spreads": ("shapes", "counted"),
    "conflicts": ("shapes",),
    "affinities": ("shapes", "counted"),
}
"""The rules of a problem that name shapes, with the fields that do."""


def _moved(pod_set: PodSet, first: int) -> PodSet:
    members = tuple(replace(member, shape=first + member.shape) for member in pod_set.members)
    return replace(pod_set, members=members)
