"""From a mixture of bids to one bid for each: the largest share of the mixture becomes whole, the others bid anew.

Bidding goes on beside every choice, so that what is bid next suits what was chosen: a dive, as in branch and price,
without a way back.
"""

from collections.abc import Callable, Sequence

from solver.bounds import Counts
from solver.mixing import Bid, Mixed, Mixing

_ROUNDS = 4
"""Rounds of bidding after each choice."""
_WHOLE = 0.999
"""A share that is as good as all."""

Rebid = Callable[[Mixed, Counts, Sequence[int]], bool]
"""Lets these gangs bid under the prices of a mixture for what is left, by shape and class; whether a bid is new."""


def dived(mixing: Mixing, level: int, rebid: Rebid, bound: int, most: int) -> list[Bid] | None:
    """One bid for every gang, with fewer than `most` domains of a level; None where it does not end so. `bound`: the
    least that is possible; with a mixture of no more, nobody need bid again.
    """
    left = mixing.offered.copy()
    chosen: dict[int, Bid] = {}
    try:
        while len(chosen) < len(mixing.shapes):
            waiting = [buyer for buyer in range(len(mixing.shapes)) if buyer not in chosen]
            mixed = _settled(mixing, left, waiting, rebid, level=level, bound=bound)
            took = [] if mixed is None or mixed.cost >= most else _taken(mixing, mixed, chosen, left)
            if not took:
                return None
            for bid in took:
                chosen[bid.buyer] = bid
                mixing.insist(bid)
    finally:
        mixing.release()
    return [chosen[buyer] for buyer in range(len(mixing.shapes))]


def _settled(
    mixing: Mixing, left: Counts, waiting: Sequence[int], rebid: Rebid, *, level: int, bound: int
) -> Mixed | None:
    """The mixture after some rounds of further bids."""
    mixed = mixing.mixed(level)
    for _ in range(_ROUNDS):
        if mixed is None or mixed.cost <= bound or not rebid(mixed, left, waiting):
            break
        mixed = mixing.mixed(level)
    return mixed


def _taken(mixing: Mixing, mixed: Mixed, chosen: dict[int, Bid], left: Counts) -> list[Bid]:
    """The bids that are taken as good as whole, or the one of the largest share; `left` becomes what they leave."""
    took: list[Bid] = []
    for bid, share in sorted(mixed.shares, key=lambda each: -each[1]):
        if took and share < _WHOLE:
            break
        takes = mixing.displaced[mixing.shapes[bid.buyer]]
        fits = all((left[:, where] >= takes * count).all() for where, count in bid.use.items())
        if bid.buyer not in chosen and fits:
            for where, count in bid.use.items():
                left[:, where] -= takes * count
            took.append(bid)
    return took
