"""From shares of bids to one bid for each: the largest share of the relaxation becomes whole, the others bid anew.

Bidding goes on beside every choice, so that what is bid next suits what was chosen: a dive, as in branch and price,
without a way back.
"""

from collections.abc import Callable, Sequence

from solver.bounds import Counts
from solver.master import Bid, Master, Relaxed

_ROUNDS = 4
"""Rounds of bidding after each choice."""
_WHOLE = 0.999
"""A share that is as good as all."""

Rebid = Callable[[Relaxed, Counts, Sequence[int]], bool]
"""Lets these gangs bid under the prices of a relaxation for what is left, by shape and class; whether a bid is new."""


def dived(master: Master, level: int, rebid: Rebid, bound: int, most: int) -> list[Bid] | None:
    """One bid for every gang, with fewer than `most` domains of a level; None where it does not end so. `bound`: the
    least that is possible; with a relaxation of no more, nobody need bid again.
    """
    left = master.offered.copy()
    chosen: dict[int, Bid] = {}
    try:
        while len(chosen) < len(master.shapes):
            waiting = [buyer for buyer in range(len(master.shapes)) if buyer not in chosen]
            relaxed = _settled(master, left, waiting, rebid, level=level, bound=bound)
            took = [] if relaxed is None or relaxed.cost >= most else _taken(master, relaxed, chosen, left)
            if not took:
                return None
            for bid in took:
                chosen[bid.buyer] = bid
                master.insist(bid)
    finally:
        master.release()
    return [chosen[buyer] for buyer in range(len(master.shapes))]


def _settled(
    master: Master, left: Counts, waiting: Sequence[int], rebid: Rebid, *, level: int, bound: int
) -> Relaxed | None:
    """The relaxation after some rounds of further bids."""
    relaxed = master.relaxed(level)
    for _ in range(_ROUNDS):
        if relaxed is None or relaxed.cost <= bound or not rebid(relaxed, left, waiting):
            break
        relaxed = master.relaxed(level)
    return relaxed


def _taken(master: Master, relaxed: Relaxed, chosen: dict[int, Bid], left: Counts) -> list[Bid]:
    """The bids that are taken as good as whole, or the one of the largest share; `left` becomes what they leave."""
    took: list[Bid] = []
    for bid, share in sorted(relaxed.shares, key=lambda each: -each[1]):
        if took and share < _WHOLE:
            break
        takes = master.displaced[master.shapes[bid.buyer]]
        fits = all((left[:, where] >= takes * count).all() for where, count in bid.use.items())
        if bid.buyer not in chosen and fits:
            for where, count in bid.use.items():
                left[:, where] -= takes * count
            took.append(bid)
    return took
