"""Topology spread by counting: once it is known how many pods the emptiest group ends with, hard spread says no more
than how many members each group may get. There are few such numbers, so each is a count of its own.
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
from solver.tree_dp.class_vectors import Table, Vector
from solver.tree_dp.multi_class_rules import Allowed

MOST_WAYS = 16
"""Rules that could be kept in more ways are CP-SAT's: each way is a dynamic programme of its own."""


@dataclass(frozen=True)
class SpreadGroups:
    """One rule, whose groups are domains of a level.

    `held`: by domain that is a group, the pods that count there now. `counting[c]`, `bound[c]`: of `c[k]` members of
    each kind k, those who count and those who are bound. `emptiest`: how many pods the emptiest group may end with.
    """

    level: int
    held: Mapping[int, int]
    counting: Table
    bound: Table
    skew: int
    emptiest: range

    def within(self, held: int, emptiest: int) -> Allowed:
        """Whether a group that holds so many pods may get so many members of each kind and more, one axis per kind."""
        within: Allowed = (self.bound == 0) | (held + self.counting <= emptiest + self.skew)
        return within

    def filled(self, held: int, emptiest: int) -> Allowed:
        """Whether so many members are enough for such a group, one axis per kind."""
        filled: Allowed = held + self.counting >= emptiest
        return filled


@dataclass(frozen=True)
class SpreadWay:
    """One way to keep the rules: how many pods the emptiest group of each ends with. `tree`: that of the domains."""

    tree: Tree
    rules: tuple[SpreadGroups, ...]
    emptiest: tuple[int, ...]

    def sign(self, level: int, domain: int) -> tuple[int, ...]:
        """What is equal for domains of a level that may get the same: by rule, the pods that the group around holds;
        -1: it is in no group.
        """
        return tuple(rule.held.get(self._group(rule, level, domain), -1) for rule in self.rules)

    def allowed(self, level: int, domain: int, allowed: Allowed) -> Allowed:
        """What is allowed in a domain by these rules, too: if it is a group, or lies in one that must not get more."""
        part = tuple(map(slice, allowed.shape))
        for rule, emptiest in zip(self.rules, self.emptiest, strict=True):
            held = rule.held.get(self._group(rule, level, domain))
            if held is not None:
                allowed = allowed & rule.within(held, emptiest)[part]
                if rule.level == level:
                    allowed &= rule.filled(held, emptiest)[part]
        return allowed

    def allows(self, level: int, domain: int, counts: Vector) -> bool:
        """Whether so many members in one domain and nobody elsewhere are allowed, as far as that is not a question of
        where they are inside.
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
        """The domain of a rule's level around a domain of a level, or itself; -1: it is wider than that."""
        return self.tree.domain(rule.level, self.tree.nodes(level, domain)[0]) if rule.level <= level else -1


def ways_to_spread(instance: Instance, kinds: Sequence[MemberClass]) -> tuple[SpreadWay, ...] | None:
    """All ways to keep the topology spread of members who are all pending and all placed, of which each plan keeps at
    least one; None where counting does not tell the whole truth, or where there are too many.
    """
    rules: list[SpreadGroups] = []
    for spread in instance.spreads:
        if binds_nobody(spread) or not any(kind.shape in spread.shapes for kind in kinds):
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
    """One rule as limits of domains; None where its groups are none."""
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


def binds_nobody(spread: Spread) -> bool:
    """Whether there are no groups, or but one, which is then the emptiest as well."""
    return len(spread.counts) < (1 if spread.from_zero else 2)


def possible_emptiest(
    spread: Spread,
    opened: Collection[str | None],
    least: int,
    most: int,
    counts: Mapping[str, int] | None = None,
) -> range:
    """How many pods the emptiest group may end with: for more there are too few members, or one of the groups has no
    room for any; with fewer the others cannot take all that must be placed.

    `opened`: the groups with room for members that count; `least`, `most`: how many of these come, who are bound too;
    `counts`: the pods that are there now, if they are not those of the rule.
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
    """The level of which the groups with these nodes are domains, and the domain of each; None: there is none."""
    for level in range(instance.tree.depth - 1, -1, -1):
        pairs = {(group[node], instance.tree.domain(level, node)) for node in nodes}
        domains = {name: domain for name, domain in pairs if name is not None}
        named = sum(name is not None for name, _ in pairs)
        if len({domain for _, domain in pairs}) == len(pairs) and len(domains) == named:
            return level, domains
    return None
