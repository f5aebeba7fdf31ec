"""A bound for topology spread by counting: the fewest pods that the emptiest group can have after placement."""

from collections.abc import Collection


def fewest_in_emptiest(held: Collection[int], skew: int, coming: int) -> int:
    """Return a lower bound on the pods of the emptiest group once the plan is placed. `held`: the pods of each group
    before.

    `coming`: the pods that the plan adds. A group that gets a pod may have at most `skew` pods more than the emptiest
    group. If the emptiest group had fewer pods than the bound, the groups could not take all new pods.
    """
    emptiest = min(held, default=0)
    while held and sum(max(0, emptiest + skew - each) for each in held) < coming:
        emptiest += 1
    return emptiest
