"""Claims with constraints, alternatives, shared counters or shared devices, as resources of the solver's problem.

Members with equal claims have one profile. For each distinct set of devices of a node, a search finds which numbers of
members of each profile the node can serve at once. Each resource is a limit on a weighted sum of these numbers: every
profile has a weight, and the node offers an amount. Such limits are exact only if they allow exactly the numbers that
the search has found. This is checked for each distinct set of devices. Several choices of weights are tried, first each
alone and then all together. If no choice is exact, the gang is not planned.
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
    """The profiles of one problem, and the resources that represent devices to the solver.

    `every`: the profiles. `limits`: the largest number of members of each profile that the search tries on one node. If
    a profile only observes devices, the limit is 1, because a node serves either no such member or any number.
    `multiples`: how many members one tried member of each profile represents.

    `rows`: for each resource, the amount that one member of each profile requests. `in_devices`: the number of devices
    that one member of each profile takes; empty if no resource counts devices. `bounded`: whether `limits` are the
    numbers of members, although some node may serve more. The amount of such a node may then be smaller than its
    capacity, but it suffices for the members.
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
        """Return the profiles, with weights that describe these nodes exactly. `members`: the number of members of each
        profile.

        The search tries as many members as the devices allow. Then a node's amount is its whole capacity, so the solver
        counts waste in devices. If this search takes too long, or no weights are exact for its result, the search tries
        only as many members as there are.

        Raises `NotPlannedError` if no weights are exact, or if there are more than `MOST_PROFILES` profiles.
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

        `families`: the choices of weights; each has one weight for each profile. Each is tried alone, then all are
        tried together. Raises `NotPlannedError` if none is exact.
        """
        for weights in (*([each] for each in families), families):
            found = replace(self, rows=_rows(self.in_devices, weights), _found={})
            if all(found.is_exact(each) for each in nodes):
                return found
        raise NotPlannedError("different claims with constraints for the same devices")

    def reaches_limit(self, node: NodeDevices) -> bool:
        """Return whether the node can serve `limits` members of some profile at once, so that it may have devices for
        even more members. The search tries no larger numbers.

        Profiles without devices for themselves do not count: a node serves any number of their members, or none.
        """
        return any(
            count == limit and multiple == 1
            for vector in self.served(node)
            for count, limit, multiple in zip(vector, self.limits, self.multiples, strict=True)
        )

    def amounts(self, node: NodeDevices) -> tuple[int, ...]:
        """Return the amount of each resource that the node offers.

        If a resource counts devices (the weight of a member is its number of devices), the amount includes free devices
        that are too few for one more member, because waste counts them.
        """
        return self._of(node)[0]

    def is_exact(self, node: NodeDevices) -> bool:
        """Return whether the amounts allow exactly the numbers of members that the node can serve, and no others."""
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
        """Return whether these amounts of the resources allow exactly the numbers of members in `vectors`, and no
        others.
        """
        tops = [max(vector[place] for vector in vectors) for place in range(len(self.every))]
        return all(
            vector in vectors
            for vector in product(*(range(top + 1) for top in tops))
            if all(self._sum(row, vector) <= most for row, most in zip(self.rows, amounts, strict=True))
        )

    def _left_over(self, row: Vector, amount: int, node: NodeDevices) -> int:
        """Return how many free devices can be added to a resource's amount on a node without allowing one more member.

        These devices are free, but too few for a further member. 0 if the resource does not count devices (`row`
        differs from `in_devices`), if a member needs one device only, or if claims can share a device of the node.

        `row`: the weights of the resource. `amount`: the largest weighted sum of members that the node can serve.
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
        """By resource, the positions of the profiles whose members request an amount of this resource."""
        return tuple(tuple(place for place, weight in enumerate(row) if weight) for row in self.rows)

    def asked(self, place: int) -> tuple[int, ...]:
        """Return the amount of each resource that a member of the profile at this position asks for."""
        return tuple(row[place] for row in self.rows)

    def _sum(self, row: Vector, vector: Vector) -> int:
        every = zip(row, self.multiples, vector, strict=True)
        return sum(weight * multiple * number for weight, multiple, number in every)

    def served(self, node: NodeDevices) -> frozenset[Vector]:
        """Return all vectors (how many members of each profile) that the node can serve at once."""
        if node.key not in self._served:
            self._served[node.key] = self._search(node)
        return self._served[node.key]

    def _search(self, node: NodeDevices) -> frozenset[Vector]:
        """Return all vectors (how many members of each profile) for which the search finds devices on the node. A
        vector is tried only if the node serves every vector with one member less.
        """
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
        """Return how many members the node serves if there is only one profile. The search doubles its steps and then
        bisects, because a node that serves some number of members also serves every smaller number.
        """
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
    """Return the number of members of each profile that the search must try, so that it finds the whole capacity of
    each node.

    None if such a search takes too long. This is the case with more than `MOST_BEYOND` vectors for one node. It is also
    the case if claims can share a device, unless there is one profile whose members need one device each.

    :param bounds: the number of members of each profile.
    :param takes: by profile, whether a member takes devices for itself.
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
    """Return the weights of each resource: one resource for each profile alone, and one for each family and each set of
    several profiles.

    `single`: the weight of each profile in its own resource. `families`: the choices of weights for sets of profiles.
    """
    places = range(len(single))
    alone = [((place,), single) for place in places]
    sets = [each for size in range(2, len(single) + 1) for each in combinations(places, size)]
    together = [(one_set, weights) for weights in families for one_set in sets if all(weights[one] for one in one_set)]
    rows = (
        tuple(weights[place] if place in one_set else 0 for place in places) for one_set, weights in (*alone, *together)
    )
    return tuple(dict.fromkeys(rows))


def _capacities(every: Sequence[Profile], inventory: Inventory) -> Iterator[Vector]:
    """Yield one choice of weights for each capacity of devices that several claims share: the largest amount of the
    capacity that a member of each profile consumes.

    The amounts are whole numbers, in the largest unit of which all of them are multiples. A capacity is left out if one
    of its numbers is larger than `MOST_WEIGHT`.
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
    """Return, by name of a capacity, the largest amount that a member of the profile may consume. Only devices that
    several claims can share have such capacities.
    """
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
    """Return the vectors that have one member less than this vector, in one profile each."""
    return {(*vector[:place], count - 1, *vector[place + 1 :]) for place, count in enumerate(vector) if count}
