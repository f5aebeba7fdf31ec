"""How many more members a group of nodes may get under caps, exclusions, separations and topology spread."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from solver.heuristics.blocks import Run
from solver.instance import Instance

Group = int | str | None
"""The group of a node in one constraint: a domain, or the value of a topology key. None: the node is in no group."""
_NONE_OF_THEM = 0
"""The limit of a separation, which keeps two lists of shapes apart: a group that gets members of one list may have no
member of the other list.
"""


@dataclass(frozen=True)
class _GroupLimit:
    """One constraint as a limit for each group of nodes: a group gets more `limited` members only while it has fewer
    than `most` `counted` members.

    `limited` and `counted` are each a pair: sets and shapes. A member matches if its set or its shape is among them. A
    constraint may limit members that it does not count. A group then gets them only if it has at most `most` counted
    members. If `most` is None, the constraint is topology spread. It then limits nothing, but groups with fewer pods
    are filled first. `group`: by node, its group. `before`: by group, the pods that count before any member is placed.
    """

    limited: tuple[frozenset[int], frozenset[int]]
    counted: tuple[frozenset[int], frozenset[int]]
    group: Sequence[Group]
    most: int | None
    before: Counter[Group]

    def limits(self, pod_set: int, shape: int) -> bool:
        """Whether the constraint limits how many members of this set and shape a group may get."""
        return pod_set in self.limited[0] or shape in self.limited[1]

    def counts(self, pod_set: int, shape: int) -> bool:
        """Whether members of this set and shape in a group count towards the constraint's limit."""
        return pod_set in self.counted[0] or shape in self.counted[1]


class Allowances:
    """How many more members each group of nodes may get under the constraints of an instance. Members placed so far are
    counted in their groups.
    """

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._rules = [*self._caps(), *self._exclusions(), *self._separations(), *self._spreads()]
        self._counts = [Counter(rule.before) for rule in self._rules]
        self._log: list[tuple[int, Group, int]] = []
        for seat in instance.pinned:
            self._count(seat.pod_set, instance.member(seat).shape, instance.pinned_node(seat), 1)

    def binding(self, run: Run) -> list[int]:
        """Return the positions of the constraints that limit or count the members of a run."""
        return [
            place
            for place, rule in enumerate(self._rules)
            if rule.limits(run.pod_set, run.shape) or rule.counts(run.pod_set, run.shape)
        ]

    def left(self, run: Run, binding: Sequence[int], node: int, most: int) -> int:
        """Return how many more members of a run may be placed on a node, at most `most`. `binding`: the positions of
        the constraints that limit or count the run's members.
        """
        for place in binding:
            rule = self._rules[place]
            group = rule.group[node]
            if rule.most is None or group is None or not rule.limits(run.pod_set, run.shape):
                continue
            if rule.counts(run.pod_set, run.shape):
                most = min(most, rule.most - self._counts[place][group])
            elif self._counts[place][group] > rule.most:
                most = 0
        return most

    def crowd(self, binding: Sequence[int], node: int) -> int:
        """Return how many pods the groups of a node have, summed over the topology spread constraints among `binding`.

        `binding`: positions of constraints; other constraints than topology spread are ignored.
        """
        return sum(
            self._counts[place][self._rules[place].group[node]]
            for place in binding
            if self._rules[place].most is None and self._rules[place].group[node] is not None
        )

    def spreading(self, binding: Sequence[int]) -> bool:
        """Return whether one of the constraints at the positions `binding` is a topology spread constraint."""
        return any(self._rules[place].most is None for place in binding)

    def seat(self, run: Run, node: int, count: int) -> None:
        """Record that `count` members of a run were placed on a node."""
        self._count(run.pod_set, run.shape, node, count)

    def mark(self) -> int:
        """Return a number for the present state. A later call of `back_to` with this number restores the state."""
        return len(self._log)

    def back_to(self, mark: int) -> None:
        """Undo all changes since `mark` was returned by the method `mark`."""
        while len(self._log) > mark:
            place, group, count = self._log.pop()
            self._counts[place][group] -= count

    def _count(self, pod_set: int, shape: int, node: int, count: int) -> None:
        for place, rule in enumerate(self._rules):
            if rule.counts(pod_set, shape):
                self._counts[place][rule.group[node]] += count
                self._log.append((place, rule.group[node], count))

    def _caps(self) -> list[_GroupLimit]:
        return [
            _GroupLimit(*(_of_sets(place),) * 2, self._instance.tree.domain_of[cap.level], cap.count, Counter())
            for place, pod_set in enumerate(self._instance.problem.sets)
            for cap in pod_set.caps
        ]

    def _exclusions(self) -> list[_GroupLimit]:
        rules = self._instance.problem.exclusions
        return [_GroupLimit(*(_of_shapes(rule.shapes),) * 2, rule.group, rule.count, Counter()) for rule in rules]

    def _separations(self) -> list[_GroupLimit]:
        return [
            _GroupLimit(_of_shapes(own), _of_shapes(its), rule.group, _NONE_OF_THEM, Counter())
            for rule in self._instance.problem.separations
            for own, its in ((rule.shapes, rule.others), (rule.others, rule.shapes))
        ]

    def _spreads(self) -> list[_GroupLimit]:
        return [
            _GroupLimit(_of_shapes(rule.shapes), _of_shapes(rule.counted), rule.group, None, Counter(rule.counts))
            for rule in self._instance.problem.spreads
        ]


def _of_sets(*pod_sets: int) -> tuple[frozenset[int], frozenset[int]]:
    return frozenset(pod_sets), frozenset()


def _of_shapes(shapes: Sequence[int]) -> tuple[frozenset[int], frozenset[int]]:
    return frozenset(), frozenset(shapes)
