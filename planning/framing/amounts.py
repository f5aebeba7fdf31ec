"""Amounts of resources in the units of one problem: exact, and small enough to be added up in 64 bits.

The greatest common divisor of all amounts of a resource is its unit, so that nothing is rounded and numbers stay small.
Where they are still too large (from 2^61 on, all rows together), a node offers no more than the gang could ever use.
If that is not enough the unit grows: what is asked is then rounded up and what is there rounded down, so that a plan
always holds, but one that fits to the last byte may be missed, and nothing is proven.
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
"""Of all rows together: nodes and victims, twice, stay within 64 bits."""
_LARGEST_ROUNDED = 1 << 57
"""The same of amounts that are rounded anyway: sums over several levels stay within 64 bits, too."""


@dataclass(frozen=True, slots=True)
class Units:
    """`sizes`: of one unit of each resource, in base units. `most`: of each the largest amount that makes a difference
    to the gang, in units; empty where all amounts count as they are. `exact`: whether none is rounded.
    """

    sizes: Amounts
    most: Amounts = ()
    exact: bool = True

    @classmethod
    def of(cls, asked: Sequence[Amounts], offered: Sequence[Iterable[int]], rows: int) -> Self:
        """The units for requests of members (one for each) and amounts of nodes and victims, resource by resource;
        `rows`: how many those are, `offered` need not repeat equal ones.
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
        """What a member asks for, in units."""
        return tuple([-(-amount // size) for amount, size in zip(amounts, self.sizes, strict=True)])

    def offered(self, columns: Sequence[Sequence[int]]) -> NDArray[np.int64]:
        """What nodes have, or victims would leave, given resource by resource: a row for each, a column per resource,
        in units.
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
    """What the members ask for in all, in units of that size, and what the emptiest node lacks (`least`, where < 0)."""
    return sum(-(-amount // size) for amount in wanted) + max(0, -(least // size))
