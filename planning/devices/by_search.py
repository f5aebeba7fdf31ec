"""Claims with constraints, alternatives, shared counters or shared devices, as resources of the solver's problem.

Members with equal claims have one profile. For each distinct set of devices of a node, a search finds which numbers of
members of each profile the node can serve at once. These numbers are written as limits on weighted sums over sets of
profiles. That form is exact only if it allows no other numbers, which is checked for each distinct set of devices.
Several choices of weights are tried, first each alone and then all together. If no choice is exact, the gang is not
planned.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, product
from math import gcd, lcm

import numpy as np

from cluster.devices.capacity import consumed
from cluster.devices.inventory import Inventory
from planning.devices.by_device import kind_of, served
from planning.devices.demands import Asked, NotPlannedError, fewest_devices, most_devices
from planning.devices.kinds import accepted
from planning.devices.node_search import NodeDevices, NodeSearch

MOST_PROFILES = 4
"""The most profiles that one problem may have: 15 sets of profiles at most."""
MOST_WEIGHT = 1_000_000
"""The largest weight of a member in a resource. The solver's sums stay far below 2 ** 63."""
MOST_VECTORS = 2_000
"""The most vectors of numbers that are searched for one set of devices of a node."""
MOST_BEYOND = 150
"""The most vectors for one set of devices of a node, if numbers beyond the members are searched as well, for the
remaining capacity.

With two profiles, all numbers for 8 devices are at most 45 vectors, for 16 devices 153.
"""

Profile = tuple[Asked, ...]
"""The claims of a member, without their names."""
Vector = tuple[int, ...]
"""How many members of each profile."""


@dataclass(slots=True)
class Profiles:
    """The profiles of one problem. `limits`: how many members of each profile are tried on one node.

    A profile that takes no devices, because it only observes them, is tried with one member. If the node serves one, it
    serves any number. `multiples`: how many members one tried member represents.

    `rows`: by resource, how much a member of each profile counts in it. `in_devices`: by profile, the devices of a
    member; empty if no amounts are in devices. `bounded`: whether the limits are the members'
    numbers although a node may serve more. Its amounts may then be smaller than its capacity, but not too small for the
    members.
    """

    every: tuple[Profile, ...]
    limits: Vector
    multiples: Vector
    rows: tuple[Vector, ...]
    inventory: Inventory
    in_devices: Vector = ()
    _served: dict[object, frozenset[Vector]] = field(default_factory=dict)
    bounded: bool = False
    _found: dict[object, tuple[Vector, bool]] = field(default_factory=dict)
    """By content of a node: the amounts, and whether they are exact. Many nodes have equal contents."""

    @classmethod
    def of(cls, members: Mapping[Profile, int], inventory: Inventory, nodes: Sequence[NodeDevices]) -> "Profiles":
        """Return the profiles with weights that describe these nodes exactly. `members`: by profile, their number.

        As many members are tried as the devices allow, so that the amounts are the capacities of the nodes, and waste
        is counted in them. If that takes too long, or has no exact form, only the numbers of the members are tried.

        Raises `NotPlannedError` if there are no such weights, or too many profiles.
        """
        if len(members) > MOST_PROFILES:
            raise NotPlannedError(f"more than {MOST_PROFILES} different sets of claims with constraints in one gang")
        every = tuple(members)
        takes = [any(most_devices(asked, every=1) for asked in profile) for profile in every]
        bounds = tuple(count if taking else 1 for count, taking in zip(members.values(), takes, strict=True))
        multiples = tuple(1 if taking else count for count, taking in zip(members.values(), takes, strict=True))
        most = max((len(node.positions) for node in nodes), default=1)
        in_devices = tuple(max(1, sum(most_devices(asked, every=most) for asked in profile)) for profile in every)
        families = [in_devices, (1,) * len(every), *_capacities(every, inventory)]
        distinct = list({node.key: node for node in nodes}.values())
        beyond = _beyond(every, bounds, takes, distinct)
        if beyond is not None:
            with suppress(NotPlannedError):
                return cls(every, beyond, multiples, (), inventory, in_devices).weighted(families, distinct)
        found = cls(every, bounds, multiples, (), inventory, in_devices).weighted(families, distinct)
        return replace(found, bounded=beyond != bounds and any(map(found.reaches_limit, distinct)))

    def weighted(self, families: Sequence[Vector], nodes: Sequence[NodeDevices]) -> "Profiles":
        """Return the profiles with the first choice of weights that describes these nodes exactly.

        Raises `NotPlannedError` if there is none. `families`: choices of weights.
        """
        for weights in (*([each] for each in families), families):
            found = replace(self, rows=_rows(self.in_devices, weights), _found={})
            if all(found.is_exact(each) for each in nodes):
                return found
        raise NotPlannedError("different claims with constraints for the same devices")

    def reaches_limit(self, node: NodeDevices) -> bool:
        """Return whether the node serves as many members of a profile as are tried. It may serve more."""
        return any(
            count == limit and multiple == 1
            for vector in self.served(node)
            for count, limit, multiple in zip(vector, self.limits, self.multiples, strict=True)
        )

    def amounts(self, node: NodeDevices) -> tuple[int, ...]:
        """Return the amount of each resource that the node offers.

        If members are weighed by their devices, free devices count that are too few for a further member.
        """
        return self._of(node)[0]

    def is_exact(self, node: NodeDevices) -> bool:
        """Return whether the amounts allow just those numbers of members that the node can serve."""
        return self._of(node)[1]

    def _of(self, node: NodeDevices) -> tuple[Vector, bool]:
        key = node.key
        if key not in self._found:
            vectors = self.served(node)
            most = (max(self._sum(row, vector) for vector in vectors) for row in self.rows)
            amounts = tuple(each + self._left_over(row, each, node) for row, each in zip(self.rows, most, strict=True))
            self._found[key] = amounts, self._allows_only(vectors, amounts)
        return self._found[key]

    def _allows_only(self, vectors: frozenset[Vector], amounts: Vector) -> bool:
        """Return whether the amounts allow just these numbers of members."""
        tops = [max(vector[place] for vector in vectors) for place in range(len(self.every))]
        return all(
            vector in vectors
            for vector in product(*(range(top + 1) for top in tops))
            if all(self._sum(row, vector) <= most for row, most in zip(self.rows, amounts, strict=True))
        )

    def _left_over(self, row: Vector, amount: int, node: NodeDevices) -> int:
        """Return how many more devices are free than members of the row can use, but not enough for a further member.

        The row allows the same numbers of members with these devices and without: no numbers have a sum in between.
        """
        weights = [weight for weight in row if weight]
        places = [place for place, weight in enumerate(row) if weight]
        by_devices = bool(self.in_devices) and all(row[place] == self.in_devices[place] for place in places)
        if not by_devices or 1 in weights or any(each is not None for each in node.shares):
            return 0
        kinds = {
            request.kind
            for place in places
            for asked in self.every[place]
            for alternatives in asked.requests
            for request in alternatives
            if not request.admin
        }
        flags = [accepted(kind, self.inventory) for kind in kinds]
        free = sum(
            free and any(flag[content] for flag in flags)
            for free, content in zip(node.free, node.contents, strict=True)
        )
        return max(0, min(free, _next_sum(weights, amount) - 1) - amount)

    @property
    def sets(self) -> tuple[tuple[int, ...], ...]:
        """By resource, the positions of the profiles that count in it."""
        return tuple(tuple(place for place, weight in enumerate(row) if weight) for row in self.rows)

    def asked(self, place: int) -> tuple[int, ...]:
        """Return the amount of each resource that a member of the profile at this position asks for."""
        return tuple(row[place] for row in self.rows)

    def _sum(self, row: Vector, vector: Vector) -> int:
        every = zip(row, self.multiples, vector, strict=True)
        return sum(weight * multiple * number for weight, multiple, number in every)

    def served(self, node: NodeDevices) -> frozenset[Vector]:
        """Return the numbers of members of each profile that the node can serve at once."""
        if node.key not in self._served:
            self._served[node.key] = self._search(node)
        return self._served[node.key]

    def _search(self, node: NodeDevices) -> frozenset[Vector]:
        """Return the vectors for which devices are found. A vector is tried if all smaller ones are served."""
        search, nothing = NodeSearch(self.inventory, node), (0,) * len(self.every)
        sharing = any(each is not None for each in node.shares)
        kinds = [kind for profile in self.every if (kind := kind_of(profile)) is not None]
        if sharing and len(kinds) == len(self.every):
            numbers = served(kinds, self.limits, node, self.inventory)
            if numbers is not None:
                return numbers
        if len(self.every) == 1:
            return frozenset((number,) for number in range(self._most_alone(search) + 1))
        found, level = {nothing}, [nothing]
        while level:
            if len(found) > MOST_VECTORS:
                raise NotPlannedError("claims for whose devices the search on one node takes too long")
            longer = {
                (*vector[:place], count + 1, *vector[place + 1 :])
                for vector in level
                for place, count in enumerate(vector)
                if count < self.limits[place]
            }
            level = [each for each in sorted(longer) if _below(each) <= found and self._serves(search, each)]
            found.update(level)
        return frozenset(found)

    def _most_alone(self, search: NodeSearch) -> int:
        """Return how many members of the only profile the node serves. If it serves some, it serves fewer, too."""
        most, step = 0, 1
        while most + step <= self.limits[0] and self._serves(search, (most + step,)):
            most, step = most + step, 2 * step
        rest = range(most + 1, min(most + step, self.limits[0] + 1))
        return most + bisect_left(rest, 1, key=lambda count: not self._serves(search, (count,)))

    def _serves(self, search: NodeSearch, vector: Vector) -> bool:
        claims = [asked for profile, count in zip(self.every, vector, strict=True) for asked in profile * count]
        return search.choose(claims) is not None


def _next_sum(weights: Sequence[int], above: int) -> int:
    """Return the smallest sum of these weights, each taken any number of times, that is larger than `above`."""
    sums = [True] + [False] * (above + min(weights))
    for number in range(1, len(sums)):
        sums[number] = any(weight <= number and sums[number - weight] for weight in weights)
    return next(number for number in range(above + 1, len(sums)) if sums[number])


def _beyond(
    every: Sequence[Profile], bounds: Vector, takes: Sequence[bool], nodes: Sequence[NodeDevices]
) -> Vector | None:
    """Return how many members of each profile are tried, so that each node's whole capacity is found.

    None if that would take too long: with shared devices and not one device for each member, or with too many numbers.

    :param bounds: the numbers of the members. :param takes: by profile, whether a member takes devices for itself.
    """
    if any(each is not None for node in nodes for each in node.shares):
        alone = len(every) == 1 and kind_of(every[0]) is not None
        return (max(bounds[0], MOST_VECTORS),) if alone else None
    devices = max((len(node.positions) for node in nodes), default=0)
    least = [max(1, sum(fewest_devices(asked) for asked in profile)) for profile in every]
    if len(every) > 1:
        vectors = [1] + [0] * devices
        for each, taking in zip(least, takes, strict=True):
            for number in range(each, devices + 1) if taking else ():
                vectors[number] += vectors[number - each]
        if sum(vectors) > MOST_BEYOND:
            return None
    reached = zip(bounds, takes, least, strict=True)
    return tuple(max(bound, devices // each) if taking else bound for bound, taking, each in reached)


def _rows(single: Vector, families: Iterable[Vector]) -> tuple[Vector, ...]:
    """Return the weights of each profile alone, and those of each family over every set of several profiles."""
    places = range(len(single))
    alone = [((place,), single) for place in places]
    sets = [each for size in range(2, len(single) + 1) for each in combinations(places, size)]
    together = [(one_set, weights) for weights in families for one_set in sets if all(weights[one] for one in one_set)]
    rows = (
        tuple(weights[place] if place in one_set else 0 for place in places) for one_set, weights in (*alone, *together)
    )
    return tuple(dict.fromkeys(rows))


def _capacities(every: Sequence[Profile], inventory: Inventory) -> Iterator[Vector]:
    """Yield, by capacity of devices that several claims share, what a member of each profile consumes at most.

    The amounts are whole numbers in the largest unit of which all of them are multiples. Capacities with larger numbers
    than `MOST_WEIGHT` are left out.
    """
    amounts = [_most_consumed(profile, inventory) for profile in every]
    for name in sorted({name for each in amounts for name in each}):
        exact = [Fraction(each.get(name, Decimal(0))) for each in amounts]
        scale = lcm(*(each.denominator for each in exact))
        whole = [int(each * scale) for each in exact]
        weights = tuple(each // (gcd(*whole) or 1) for each in whole)
        if any(weights) and max(weights) <= MOST_WEIGHT:
            yield weights


def _most_consumed(profile: Profile, inventory: Inventory) -> dict[str, Decimal]:
    """Return what a member consumes of each capacity, on the devices on which it consumes the most."""
    found: defaultdict[str, Decimal] = defaultdict(Decimal)
    for asked in profile:
        for alternatives in asked.requests:
            most: defaultdict[str, Decimal] = defaultdict(Decimal)
            for request in alternatives:
                for place in np.flatnonzero(accepted(request.kind, inventory)).tolist():
                    device = inventory.contents[place].device
                    if device.allow_multiple_allocations:
                        for name, amount in (consumed(device, dict(request.kind.capacity)) or {}).items():
                            most[name] = max(most[name], amount * max(1, request.count))
            for name, amount in most.items():
                found[name] += amount
    return found


def _below(vector: Vector) -> set[Vector]:
    """Return the vectors with one member less."""
    return {(*vector[:place], count - 1, *vector[place + 1 :]) for place, count in enumerate(vector) if count}
