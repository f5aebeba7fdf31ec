"""Claims with constraints, alternatives or shared counters, as resources of the solver's problem.

Members with equal claims have one profile. For each distinct content of a node, a search finds which numbers of members
of each profile the node can serve at once. These numbers are written as limits on weighted sums over sets of profiles.
That form is exact only if it allows no other numbers, which is checked for each content. If it is not exact, the gang
is not planned.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations, product

from cluster.devices.inventory import Inventory
from planning.devices.demands import Asked, NotPlannedError, most_devices
from planning.devices.node_search import NodeDevices, NodeSearch

MOST_PROFILES = 4
"""The most profiles that one problem may have: 15 sets of profiles at most."""
MOST_VECTORS = 2_000
"""The most vectors of numbers that are searched for one content of a node."""

Profile = tuple[Asked, ...]
"""The claims of a member, without their names."""
Vector = tuple[int, ...]
"""How many members of each profile."""


@dataclass(slots=True)
class Profiles:
    """The profiles of one problem. `limits`: how many members of each profile are tried on one node.

    A profile that takes no devices, because it only observes them, is tried with one member. If the node serves one, it
    serves any number. `multiples`: how many members one tried member represents.

    `weights`: how much a member of each profile counts in every resource. `sets`: by resource, the positions of the
    profiles that count in it.
    """

    every: tuple[Profile, ...]
    limits: Vector
    multiples: Vector
    weights: Vector
    inventory: Inventory
    sets: tuple[tuple[int, ...], ...]
    _served: dict[object, frozenset[Vector]] = field(default_factory=dict)

    @classmethod
    def of(cls, members: Mapping[Profile, int], inventory: Inventory, nodes: Sequence[NodeDevices]) -> "Profiles":
        """Return the profiles with weights that describe these nodes exactly. `members`: by profile, their number.

        Raises `NotPlannedError` if there are no such weights, or too many profiles.
        """
        if len(members) > MOST_PROFILES:
            raise NotPlannedError(f"more than {MOST_PROFILES} different sets of claims with constraints in one gang")
        every = tuple(members)
        takes = [any(most_devices(asked, every=1) for asked in profile) for profile in every]
        limits = tuple(count if taking else 1 for count, taking in zip(members.values(), takes, strict=True))
        multiples = tuple(1 if taking else count for count, taking in zip(members.values(), takes, strict=True))
        sets = tuple(chain.from_iterable(combinations(range(len(every)), size + 1) for size in range(len(every))))
        most = max((len(node.positions) for node in nodes), default=1)
        in_devices = tuple(max(1, sum(most_devices(asked, every=most) for asked in profile)) for profile in every)
        served: dict[object, frozenset[Vector]] = {}
        for weights in (in_devices, (1,) * len(every)):
            found = cls(every, limits, multiples, weights, inventory, sets, served)
            if all(found.is_exact(each) for each in {node.key: node for node in nodes}.values()):
                return found
        raise NotPlannedError("different claims with constraints for the same devices")

    def amounts(self, node: NodeDevices) -> tuple[int, ...]:
        """Return the amount of each resource that the node offers."""
        vectors = self.served(node)
        return tuple(max(self._sum(one_set, vector) for vector in vectors) for one_set in self.sets)

    def asked(self, place: int) -> tuple[int, ...]:
        """Return the amount of each resource that a member of the profile at this position asks for."""
        return tuple(self.weights[place] if place in one_set else 0 for one_set in self.sets)

    def is_exact(self, node: NodeDevices) -> bool:
        """Return whether the amounts allow just those numbers of members that the node can serve."""
        vectors, amounts = self.served(node), self.amounts(node)
        tops = [max(vector[place] for vector in vectors) for place in range(len(self.every))]
        return all(
            vector in vectors
            for vector in product(*(range(top + 1) for top in tops))
            if all(self._sum(one_set, vector) <= most for one_set, most in zip(self.sets, amounts, strict=True))
        )

    def _sum(self, one_set: Sequence[int], vector: Vector) -> int:
        return sum(self.weights[place] * self.multiples[place] * vector[place] for place in one_set)

    def served(self, node: NodeDevices) -> frozenset[Vector]:
        """Return the numbers of members of each profile that the node can serve at once."""
        if node.key not in self._served:
            self._served[node.key] = self._search(node)
        return self._served[node.key]

    def _search(self, node: NodeDevices) -> frozenset[Vector]:
        """Return the vectors for which devices are found. A vector is tried if all smaller ones are served."""
        search, nothing = NodeSearch(self.inventory, node), (0,) * len(self.every)
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

    def _serves(self, search: NodeSearch, vector: Vector) -> bool:
        claims = [asked for profile, count in zip(self.every, vector, strict=True) for asked in profile * count]
        return search.choose(claims) is not None


def _below(vector: Vector) -> set[Vector]:
    """Return the vectors with one member less."""
    return {(*vector[:place], count - 1, *vector[place + 1 :]) for place, count in enumerate(vector) if count}
