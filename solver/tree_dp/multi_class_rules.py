"""Arrays over all count vectors of an instance with several member classes: requests, and what constraints allow. All
tables share them.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from solver.bounds.member_classes import MemberClass
from solver.instance import Instance
from solver.problem import PodSet
from solver.tree_dp.class_vectors import CostTable, Vector

Allowed = NDArray[np.bool_]
"""Flags by count vector: one axis per member class."""


class MultiClassRules:
    """Arrays over all count vectors, with one axis per member class. Entry [2, 0] belongs to 2 members of the first
    class.

    `asked[resource]`: what the members request together; `used`: what they request of the scarcest resource.
    `in_set[k]`: how many of them belong to the k-th set that has members. `allowed[level]`: whether the constraints
    allow these members in one domain of the level. `penalties[class, node]`: the weight of node preferences that a
    member of the class loses on this node against its best node.
    """

    def __init__(self, instance: Instance, kinds: tuple[MemberClass, ...], filled: list[int]) -> None:
        self.instance, self.kinds, self.filled = instance, kinds, filled
        shapes = [instance.problem.shapes[kind.shape] for kind in kinds]
        full = [len(kind.ranks) for kind in kinds]
        self.full: Vector = tuple(full)
        # counts: classes x (full[0] + 1) x (full[1] + 1) x ..., where full[k] is the number of members of class k;
        # counts[k][c] = c[k]. The arrays below have these axes except the first one.
        self.counts = np.indices([count + 1 for count in full], dtype=np.int64)
        requests = np.array([shape.requests for shape in shapes], dtype=np.int64)
        # asked[resource][c] = sum over classes k of requests[k, resource] * c[k]
        self.asked = np.tensordot(requests.T, self.counts, axes=1)
        self.used = self.asked[instance.scarce]
        owners = np.array([[kind.pod_set == each for kind in kinds] for each in filled], dtype=np.int64)
        self.in_set = np.tensordot(owners, self.counts, axes=1)
        self.allowed = [self._allowed(level) for level in range(instance.tree.depth)]
        # capacity: nodes x classes; amounts: nodes x resources. Both are cut to what all members together could use, so
        # that nodes with more than enough are alike.
        self.capacity = np.minimum(instance.capacity[[kind.shape for kind in kinds]].T, full)
        self.amounts = np.minimum(np.maximum(instance.amounts, 0), self.capacity @ requests)
        preference_score = np.zeros((len(kinds), len(instance.problem.nodes)), dtype=np.int64)
        for place, shape in enumerate(shapes):
            for node, weight in shape.preferences.items():
                preference_score[place, node] = weight
        best = preference_score.max(axis=1, initial=0)
        self.max_preference = int(best @ np.array(full))
        self.penalties = best[:, None] - preference_score

    def _allowed(self, level: int) -> Allowed:
        """Return, by count vector, whether one domain of `level` may have these members under the multiples, caps,
        slices, required levels and `Together` constraints.
        """
        problem = self.instance.problem
        fine = np.ones(self.used.shape, dtype=np.bool_)
        for place, position in enumerate(self.filled):
            fine &= _allowed_of(problem.sets[position], level, self.in_set[place])
        for rule in problem.multiples:
            if rule.level == level:
                fine &= self.in_set.sum(axis=0) % rule.of == 0
        for each in problem.together:
            if each.level == level:
                bound = [place for place, position in enumerate(self.filled) if position in each.pod_sets]
                in_bound_set = self.in_set[bound].sum(axis=0)
                fine &= (in_bound_set == 0) | (
                    in_bound_set == sum(len(problem.sets[position].members) for position in each.pod_sets)
                )
        return fine

    @cached_property
    def now(self) -> list[int]:
        """By node, the free capacity of the scarcest resource that no terminating pod holds."""
        nodes, scarce = self.instance.problem.nodes, self.instance.scarce
        found: list[int] = np.maximum(0, nodes.free[:, scarce] - nodes.terminating[:, scarce]).tolist()
        return found

    @cached_property
    def most_terminating(self) -> int:
        """An upper bound of the capacity of terminating pods that a plan uses: the sum of what terminating pods hold on
        each node.
        """
        held = self.instance.problem.nodes.terminating[self.capacity.any(axis=1), self.instance.scarce]
        return min(int(np.maximum(held, 0).sum()), int(self.used.max()))

    @cached_property
    def present(self) -> CostTable:
        """By count vector, 1 if the vector has at least one member, else 0."""
        present: CostTable = np.any(self.in_set > 0, axis=0).astype(np.int64)
        return present

    @cached_property
    def sets_present(self) -> CostTable:
        """By count vector, the number of sets of which the vector has at least one member."""
        present: CostTable = np.sum(self.in_set > 0, axis=0, dtype=np.int64)
        return present


def _allowed_of(pod_set: PodSet, level: int, counts: CostTable) -> Allowed:
    """Return, by count vector, whether the constraints of one set allow these members in one domain of `level`.
    `counts`: by count vector, how many of the members belong to the set.
    """
    fine = np.ones(counts.shape, dtype=np.bool_)
    if pod_set.required == level:
        fine &= (counts == 0) | (counts == len(pod_set.members))
    for cap in pod_set.caps:
        if cap.level == level:
            fine &= counts <= cap.count
    rules = [(rule.level, rule.of) for rule in pod_set.multiples]
    rules += [(rule.level, rule.size) for rule in pod_set.slices]
    for at, of in rules:
        if at == level:
            fine &= counts % of == 0
    return fine
