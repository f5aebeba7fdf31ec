"""What topology spread means for the group that has the fewest pods in the end: bounds by counting."""

from collections.abc import Collection


def fewest_in_emptiest(held: Collection[int], skew: int, coming: int) -> int:
    """How many pods the emptiest group has at least, once so many more are spread over groups that hold these.

    A group that takes one has at most `skew` more than the emptiest; with fewer in that, they could not take all.
    """
    emptiest = min(held, default=0)
    while held and sum(max(0, emptiest + skew - each) for each in held) < coming:
        emptiest += 1
    return emptiest
