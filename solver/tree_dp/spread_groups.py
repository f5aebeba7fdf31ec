"""Hard topology spread as limits on the number of members in each group.

If the final number of pods in the emptiest group is fixed, hard topology spread only limits how many members each group
may get. Few such numbers are possible, and the dynamic programme runs once for each number.
"""

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from solver.bounds.emptiest_group import fewest_in_emptiest
from solver.bounds.member_classes import MemberClass
from solver.instance import Instance
from solver.problem import Spread
from solver.tree import Tree
from solver.tree_dp.class_vectors import CostTable, Vector
from solver.tree_dp.multi_class_rules import Allowed

MOST_WAYS = 16
"""The most possible numbers of pods in the emptiest groups for which tables are computed. If there are more, CP-SAT
solves the gang.
"""


@dataclass(frozen=True)
class SpreadGroups:
    """One topology spread constraint whose groups are domains of `level`.

    `held`: by domain that is a group, the pods there now that the constraint counts. `counting[c]` and `bound[c]`: of
    the members in count vector c, how many the constraint counts and how many it limits. `skew`: its `maxSkew`.
    `emptiest`: the possible numbers of pods in the emptiest group at the end.
    """

    level: int
    held: Mapping[int, int]
    counting: CostTable
    bound: CostTable
    skew: int
    emptiest: range

    def within(self, held: int, emptiest: int) -> Allowed:
        """Return, by count vector, whether these members may be added to a group that has `held` pods, if the emptiest
        group has `emptiest` pods at the end.

        The group may then have at most `skew` (`maxSkew`) pods more than the emptiest group. If none of the members has
        the constraint, they are always allowed.
        """
        within: Allowed = (self.bound == 0) | (held + self.counting <= emptiest + self.skew)
        return within

    def filled(self, held: int, emptiest: int) -> Allowed:
        """Return, by count vector, whether a group that has `held` pods has at least `emptiest` pods after these
        members are added.
        """
        filled: Allowed = held + self.counting >= emptiest
        return filled


@dataclass(frozen=True)
class SpreadWay:
    """One alternative by which a plan can meet all topology spread constraints. `emptiest`: for each constraint, the
    number of pods that its emptiest group has at the end.
    """

    tree: Tree
    rules: tuple[SpreadGroups, ...]
    emptiest: tuple[int, ...]

    def sign(self, level: int, domain: int) -> tuple[int, ...]:
        """Return, by constraint, the present number of pods in the group that contains a domain; -1 if the domain is in
        no group. Two domains of one level with equal results may get the same members.
        """
        return tuple(rule.held.get(self._group(rule, level, domain), -1) for rule in self.rules)

    def allowed(self, level: int, domain: int, allowed: Allowed) -> Allowed:
        """Return, by count vector, whether a domain may have these members under `allowed` and under the topology
        spread constraints. Only constraints whose group is the domain, or contains it, are considered.
        """
        part = tuple(map(slice, allowed.shape))
        for rule, emptiest in zip(self.rules, self.emptiest, strict=True):
            held = rule.held.get(self._group(rule, level, domain))
            if held is not None:
                allowed = allowed & rule.within(held, emptiest)[part]
                if rule.level == level:
                    allowed &= rule.filled(held, emptiest)[part]
        return allowed

    def allows(self, level: int, domain: int, counts: Vector) -> bool:
        """Return whether the constraints allow a plan with `counts` members in this domain and no member elsewhere.

        If the groups of a constraint lie inside the domain, only its groups elsewhere are checked.
        """
        for rule, emptiest in zip(self.rules, self.emptiest, strict=True):
            empty = {group for group, held in rule.held.items() if held < emptiest}
            if rule.level >= level:
                around = self.tree.around(rule.level, level)
                if any(around[group] != domain for group in empty):
                    return False
                continue
            group = self._group(rule, level, domain)
            if empty - {group} or (group in rule.held and not rule.filled(rule.held[group], emptiest)[counts]):
                return False
        return True

    def _group(self, rule: SpreadGroups, level: int, domain: int) -> int:
        """Return the group of a constraint that is the domain or contains it; -1 if the domain is wider than groups."""
        return self.tree.domain(rule.level, self.tree.nodes(level, domain)[0]) if rule.level <= level else -1


def ways_to_spread(instance: Instance, kinds: Sequence[MemberClass]) -> tuple[SpreadWay, ...] | None:
    """Return all alternatives by which a plan can meet topology spread, for members that are all pending and all to be
    placed.

    Each valid plan respects at least one alternative. None if limits on counts cannot express the constraints, or if
    there are too many alternatives.
    """
    rules: list[SpreadGroups] = []
    for spread in instance.spreads:
        if never_binds(spread) or not any(kind.shape in spread.shapes for kind in kinds):
            continue
        rule = _groups_of(instance, kinds, spread)
        if rule is None:
            return None
        rules.append(rule)
    if math.prod(len(rule.emptiest) for rule in rules) > MOST_WAYS:
        return None
    ways = itertools.product(*(rule.emptiest for rule in rules))
    return tuple(SpreadWay(instance.tree, tuple(rules), way) for way in ways)


def _groups_of(instance: Instance, kinds: Sequence[MemberClass], spread: Spread) -> SpreadGroups | None:
    """Return a topology spread constraint as limits of domains; None if its groups are not domains of one level."""
    place = level_of_groups(instance, np.flatnonzero(instance.usable).tolist(), spread.group)
    if place is None:
        return None
    level, domains = place
    counts = np.indices([len(kind.ranks) + 1 for kind in kinds], dtype=np.int64)
    counting = [kind.shape in spread.counted for kind in kinds]
    bound = [kind.shape in spread.shapes for kind in kinds]
    members = np.array([len(kind.ranks) for kind in kinds], dtype=np.int64)
    able = instance.capacity[sorted({kind.shape for kind, counts in zip(kinds, counting, strict=True) if counts})]
    opened = {spread.group[node] for node in np.flatnonzero(able.any(axis=0)).tolist()}
    return SpreadGroups(
        level,
        {domain: spread.counts[name] for name, domain in domains.items() if name in spread.counts},
        counts[counting].sum(axis=0),
        counts[bound].sum(axis=0),
        spread.skew,
        possible_emptiest(
            spread, opened, int(members[np.array(counting) & np.array(bound)].sum()), int(members[counting].sum())
        ),
    )


def never_binds(spread: Spread) -> bool:
    """Return whether a topology spread constraint can never be violated, because it has no group, or only one group,
    which is then the emptiest group itself.

    If `from_zero` is set, a single group can violate it, because the emptiest group counts as having no pods.
    """
    return len(spread.counts) < (1 if spread.from_zero else 2)


def possible_emptiest(
    spread: Spread,
    opened: Collection[str | None],
    least: int,
    most: int,
    counts: Mapping[str, int] | None = None,
) -> range:
    """Return the possible numbers of pods in the emptiest group of a topology spread constraint, once the plan is
    placed.

    No number above the range is possible, because members are too few, or because some group has no capacity for more.
    No number below the range is possible, because then the other groups cannot take all members that must be placed.

    The constraint counts a member if its selector matches the member. The constraint limits a member if the member
    itself has the constraint.

    `opened`: the groups with capacity for members that the constraint counts. `least`: the number of members that a
    plan must place and that the constraint both counts and limits. `most`: the largest number of members that a plan
    can place and that the constraint counts. `counts`: the present number of pods in each group; None: `spread.counts`.
    """
    counts = spread.counts if counts is None else counts
    if spread.from_zero:
        return range(1)
    first = last = min(counts.values())
    while all(count > last or name in opened for name, count in counts.items()) and (
        sum(max(0, last + 1 - count) for count in counts.values()) <= most
    ):
        last += 1
    if set(opened) <= counts.keys():
        held = [counts[name] for name in opened if name is not None]
        first = min(last, max(first, fewest_in_emptiest(held, spread.skew, least)))
    return range(first, last + 1)


def level_of_groups(
    instance: Instance, nodes: Sequence[int], group: Sequence[str | None]
) -> tuple[int, dict[str, int]] | None:
    """Return the level whose domains are the groups of these nodes, and the domain of each group. None if no level has
    these groups as domains.

    `group`: by node, the name of its group; None: the node is in no group.
    """
    for level in range(instance.tree.depth - 1, -1, -1):
        pairs = {(group[node], instance.tree.domain(level, node)) for node in nodes}
        domains = {name: domain for name, domain in pairs if name is not None}
        named = sum(name is not None for name, _ in pairs)
        if len({domain for _, domain in pairs}) == len(pairs) and len(domains) == named:
            return level, domains
    return None
