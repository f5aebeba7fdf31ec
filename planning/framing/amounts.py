"""Amounts of resources in units of one problem: exact, and small enough for sums in 64 bits.

The unit of a resource is the greatest common divisor of all its amounts, so that nothing is rounded and numbers stay
small. If the amounts of all rows together still reach 2^61, the amounts of nodes are cut to what the gang could ever
use. If that is not enough, the unit grows: requests are rounded up and capacities are rounded down. A plan then still
fits on the nodes. But the solver may miss a plan that fits to the last byte, so nothing is proven.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

Amounts = tuple[int, ...]
"""Amounts in base units, parallel to the resources of the problem."""

_LARGEST_SUM = 1 << 61
"""The limit of the sum of one resource over all nodes and victims. Twice this sum stays within 64 bits."""
_LARGEST_ROUNDED = 1 << 57
"""The limit of the sum of one resource over all nodes and victims if amounts are rounded anyway. Sums over several
levels then stay within 64 bits, too.
"""


@dataclass(frozen=True, slots=True)
class Units:
    """The units of a problem's resources.

    `sizes`: the size of one unit of each resource, in base units. `most`: the largest amount of each resource that
    makes a difference to the gang, in units; empty if no amount is capped. `exact`: whether no amount is rounded.
    """

    sizes: Amounts
    most: Amounts = ()
    exact: bool = True

    @classmethod
    def of(cls, asked: Sequence[Amounts], offered: Sequence[Iterable[int]], rows: int) -> Self:
        """Return the units in which the amounts of a problem are stated.

        `asked`: the requests of each member. `offered`: by resource, the amounts of nodes and victims; equal amounts
        may be given once. `rows`: the number of nodes and victims.
        """
        wanted = [*zip(*asked, strict=True)]
        columns = [{*own, *each} for own, each in zip(wanted, offered, strict=True)]
        divisors = tuple(math.gcd(*column) or 1 for column in columns)
        count = max(1, rows + len(asked))
        largest = _LARGEST_SUM // count
        if all(max(column) <= largest and -min(column) <= largest for column in columns):
            return cls(divisors)
        sizes, most = list(divisors), list[int]()
        for place, column in enumerate(columns):
            cap = _cap(wanted[place], min(column), sizes[place])
            while cap > largest or (sizes[place] > divisors[place] and cap > _LARGEST_ROUNDED // count):
                sizes[place] *= 2
                cap = _cap(wanted[place], min(column), sizes[place])
            most.append(cap)
        return cls(tuple(sizes), tuple(most), exact=tuple(sizes) == divisors)

    def asked(self, amounts: Amounts) -> Amounts:
        """Return a member's requests in units, rounded up."""
        return tuple([-(-amount // size) for amount, size in zip(amounts, self.sizes, strict=True)])

    def offered(self, columns: Sequence[Sequence[int]]) -> NDArray[np.int64]:
        """Return the free capacity of nodes, or the requests of victims, in units, rounded down.

        The result has one row for each node or victim and one column for each resource. `columns` holds the amounts by
        resource, in base units.
        """
        found = np.empty((len(columns[0]), len(self.sizes)), dtype=np.int64)
        for place, (column, size) in enumerate(zip(columns, self.sizes, strict=True)):
            if self.most:
                found[:, place] = [min(amount // size, self.most[place]) for amount in column]
            else:
                found[:, place] = column
                found[:, place] //= size
        return found


def _cap(wanted: Sequence[int], least: int, size: int) -> int:
    """Return an amount of one resource, in units of `size`, beyond which more makes no difference to the gang.

    It is the sum of the members' requests (`wanted`) plus the deficit of the most overcommitted node. `least`: the
    smallest offered amount; a negative amount is a deficit.
    """
    return sum(-(-amount // size) for amount in wanted) + max(0, -(least // size))
