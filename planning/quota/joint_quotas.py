"""Turns the quotas that several gangs share into constraints of their joint problem."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gangs.model import Gang, Member
from planning.framing.gang_problem import Framing
from planning.quota.flavors import Choice
from planning.quota.usage import QuotaBalance, TreeShare, Usage, needs
from solver.quota import Quota, QuotaCharge, QuotaShare

Tree = tuple[str, str, str]
"""A quota that several queues share: the flavor, the resource, and the topmost cohort of the queues. For a queue
without a cohort, the queue itself is named instead of the cohort.
"""


@dataclass(slots=True)
class _Stated:
    """One quota constraint of a joint problem while it is built, in base units."""

    shares: list[TreeShare]
    charges: Counter[tuple[int, int, int, int]] = field(default_factory=Counter)
    """How many members are charged alike. The key is (the queue's position in `shares`, pod set, shape, amount of one
    member)."""


def quotas_of(gangs: Sequence[tuple[Gang, Choice]], framing: Framing, usage: Usage) -> tuple[Quota, ...]:
    """Return the quotas that may limit the plans of these gangs, each gang in a choice of flavors.

    `framing`: the joint framing of these gangs. `usage`: the quota that other gangs use. A quota that suffices for all
    members is left out.
    """
    found: dict[Tree, _Stated] = {}
    for (gang, choice), rules in zip(gangs, framing.problem.gangs, strict=True):
        members = [
            (pod_set, stated.shape, member)
            for pod_set in rules.pod_sets
            for stated, member in zip(framing.problem.sets[pod_set].members, framing.members[pod_set], strict=True)
        ]
        for resource, flavor in choice.items():
            _charge(found, gang, (flavor, resource), members, usage)
    return tuple(_in_small_units(tree, stated) for tree, stated in found.items() if not _covers_all_members(stated))


def quotas_may_limit(gangs: Sequence[tuple[Gang, Choice]], usage: Usage) -> bool:
    """Whether a quota may limit these gangs, each in a choice of flavors: it does not suffice for all their members."""
    found: dict[Tree, _Stated] = {}
    for gang, choice in gangs:
        for resource, flavor in choice.items():
            _charge(found, gang, (flavor, resource), ((0, 0, member) for member in gang.members), usage)
    return not all(map(_covers_all_members, found.values()))


def any_shared_quota(gangs: Sequence[Gang]) -> bool:
    """Whether two of the gangs are charged to one queue, or to queues of one tree of cohorts."""
    seen = set[str]()
    for gang in gangs:
        if gang.account is not None:
            queues = {each.name for each in gang.account.cohort} | {gang.account.queue.name}
            if queues & seen:
                return True
            seen |= queues
    return False


def _charge(
    found: dict[Tree, _Stated],
    gang: Gang,
    place: tuple[str, str],
    members: Iterable[tuple[int, int, Member]],
    usage: Usage,
) -> None:
    """Add the members' requests for one resource to the quota constraint in `found` to which the gang is charged.

    `place`: flavor and resource. `members`: each with the positions of its pod set and shape.
    """
    account, (flavor, resource) = gang.account, place
    if account is None:
        return
    shares = QuotaBalance(account.queue, flavor, resource, account.cohort, account.cohorts).tree(usage)
    tree = flavor, resource, shares[-1].cohort or shares[-1].queue
    stated = found.setdefault(tree, _Stated(shares))
    queue = next(position for position, each in enumerate(stated.shares) if each.queue == account.queue.name)
    for pod_set, shape, member in members:
        if amount := needs([member]).get(resource, 0):
            stated.charges[queue, pod_set, shape, amount] += 1


def _covers_all_members(stated: _Stated) -> bool:
    """Whether the quota suffices for all members of all gangs that are charged to it."""
    used = [each.used for each in stated.shares]
    for (share, _, _, amount), count in stated.charges.items():
        used[share] += amount * count
    cohorts = {each.cohort: position for position, each in enumerate(stated.shares) if each.cohort}
    for position, each in enumerate(stated.shares):
        if each.parent:
            used[cohorts[each.parent]] += max(0, used[position] - each.kept)
    return all(
        used[position] <= (each.quota if not each.parent else each.limit if each.limit is not None else used[position])
        for position, each in enumerate(stated.shares)
    )


def _in_small_units(tree: Tree, stated: _Stated) -> Quota:
    """Return the quota in the largest unit that divides all its amounts.

    An amount that can never be used up is cut down, so that sums stay within 64 bits.
    """
    most = sum(each.used for each in stated.shares) + sum(
        amount * count for (_, _, _, amount), count in stated.charges.items()
    )
    amounts = [amount for _, _, _, amount in stated.charges]
    amounts += [each for share in stated.shares for each in _amounts(share) if each <= most]
    unit = math.gcd(*amounts) or 1
    cohorts = {each.cohort: position for position, each in enumerate(stated.shares) if each.cohort}

    def small(amount: int) -> int:
        return -(-min(amount, most) // unit)

    shares = tuple(
        QuotaShare(
            cohorts[each.parent] if each.parent else None,
            small(each.quota),
            small(each.kept),
            None if each.limit is None else small(each.limit),
            each.used // unit,
        )
        for each in stated.shares
    )
    charges = (QuotaCharge(share, pod_set, shape, amount // unit) for share, pod_set, shape, amount in stated.charges)
    flavor, resource, top = tree
    return Quota(f"{resource} in flavor {flavor} of {top}", shares, tuple(charges))


def _amounts(share: TreeShare) -> list[int]:
    return [share.quota, share.kept, share.used, *([] if share.limit is None else [share.limit])]
