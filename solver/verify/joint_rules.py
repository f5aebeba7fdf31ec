"""The independent check of a plan for several gangs: the minimum and multiples of each gang, and the quotas that they
share.
"""

from collections.abc import Callable, Iterator

from solver.quota import Quota
from solver.verify.plan_view import PlanView


def _gangs(view: PlanView) -> Iterator[str]:
    for number, gang in enumerate(view.problem.gangs):
        placed = [each for pod_set in gang.pod_sets for each in view.of_set[pod_set]]
        if len(placed) < gang.minimum:
            yield f"gang {number} has {len(placed)} members, {gang.minimum} must be placed"
        for rule in gang.multiples:
            if any(count % rule.of for count in view.domains(rule.level, placed).values()):
                yield f"gang {number} is not in multiples of {rule.of} in each {view.level(rule.level)}"


def _quotas(view: PlanView) -> Iterator[str]:
    for quota in view.problem.quotas:
        yield from _quota(view, quota)


def _quota(view: PlanView, quota: Quota) -> Iterator[str]:
    """Yield a sentence for each exceeded quota. As in Kueue's admission, a queue's available quota is computed level by
    level upward.
    """
    direct = [share.used for share in quota.shares]
    entered = set()
    for charge in quota.charges:
        members = [each for each in view.of_set[charge.pod_set] if each.member.shape == charge.shape]
        direct[charge.share] += charge.amount * len(members)
        if any(each.new for each in members):
            entered.add(charge.share)
    for position in sorted(entered):
        left = _available(quota, direct, position)
        if left < 0:
            yield f"quota {quota.name} has {-left} too little for share {position}"


def _available(quota: Quota, direct: list[int], position: int) -> int:
    """Return how much of the quota the queue or cohort at `position` may still use; negative if the quota is exceeded.

    `direct`: for each queue and cohort, the use that is charged to it directly.
    """
    share, used = quota.shares[position], _used(quota, direct, position)
    if share.parent is None:
        return share.quota - used
    left = _available(quota, direct, share.parent) + max(0, share.kept - used)
    return left if share.limit is None else min(left, share.limit - used)


def _used(quota: Quota, direct: list[int], position: int) -> int:
    below = [place for place, share in enumerate(quota.shares) if share.parent == position]
    lent = (max(0, _used(quota, direct, place) - quota.shares[place].kept) for place in below)
    return direct[position] + sum(lent)


JOINT_CHECKS: tuple[Callable[[PlanView], Iterator[str]], ...] = (_gangs, _quotas)
