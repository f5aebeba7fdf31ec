"""The exact choice of victims on one node for a given number of members: the least price, then the ties of goal 6."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kube.names import natural_key
from solver.instance import Instance

_STEPS = 2_000
"""The most choices of victims that are examined for one node and number of members."""

ResourceVector = tuple[int, ...]
"""An amount of each resource of the problem, each in its own unit."""
VictimCounts = tuple[int, ...]
"""How many victims of each class are evicted, in the order of the classes in `VictimSearch`. The victims of a class
have equal prices and equal requests.
"""


class TooManyError(Exception):
    """A node has too many choices of victims to examine all of them."""


@dataclass(frozen=True, slots=True)
class VictimChoice:
    """A choice of victims on a node whose eviction makes space for a given number of members. It is the best choice if
    `exact`.

    `price`: the price of the victims (goal 1 as one number). `waits`: the capacity that the members use and terminating
    pods still hold. `starts`: the start times of the victims, the earliest first. If `exact` is False, there were too
    many choices to examine: `victims` is empty, and `price` is a lower bound.
    """

    price: int
    waits: int
    starts: tuple[int, ...]
    victims: tuple[int, ...]
    exact: bool = True


@dataclass(frozen=True, slots=True)
class _VictimClass:
    """A class of victims with equal price and requests, in order of preference: the latest start first, then the first
    name.
    """

    price: int
    requests: ResourceVector
    victims: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Rest:
    """The total requests of some classes of victims on a node. `cheapest`: by resource, the price and the amount of the
    victim with the lowest price per amount; None: no victim holds any of the resource.
    """

    total: ResourceVector
    cheapest: tuple[tuple[int, int] | None, ...]

    def with_kind(self, kind: _VictimClass) -> "_Rest":
        """Return the totals with one more class of victims, `kind`."""
        pairs = zip(self.cheapest, kind.requests, strict=True)
        return _Rest(
            tuple(have + len(kind.victims) * held for have, held in zip(self.total, kind.requests, strict=True)),
            tuple(_cheaper(unit, (kind.price, held)) if held > 0 else unit for unit, held in pairs),
        )

    def least(self, missing: ResourceVector) -> int | None:
        """Return a lower bound on the price of victims of these classes that together free the amounts `missing`; None
        if all victims of the classes hold too little.
        """
        least = 0
        for have, unit, amount in zip(self.total, self.cheapest, missing, strict=True):
            if amount > max(have, 0):
                return None
            if amount > 0 and unit is not None:
                least = max(least, -(-amount * unit[0] // unit[1]))
        return least


def _cheaper(one: tuple[int, int] | None, other: tuple[int, int]) -> tuple[int, int]:
    """Return the pair (price, amount) with the lower price per amount, of `one` and `other`. If `one` is None, return
    `other`.
    """
    return other if one is None or other[0] * one[1] < one[0] * other[1] else one


class VictimSearch:
    """Finds the best choice of victims on one node for any number of alike members.

    `shares[victim]`: the price of a victim, which is positive. Victims that can never be evicted have no entry.
    `requests`: what one member requests, by resource. `elsewhere[victim]`: victims on other nodes that must be evicted
    with this victim. `effort`: how many choices of victims were examined so far. Other work is converted into such
    choices.
    """

    def __init__(
        self,
        instance: Instance,
        node: int,
        shares: Mapping[int, int],
        requests: ResourceVector,
        elsewhere: Mapping[int, tuple[int, ...]] = MappingProxyType({}),
    ) -> None:
        self._elsewhere = elsewhere
        self._pods, self._scarce = instance.problem.victims, instance.scarce
        self._node, self._requests = instance.problem.nodes[node], requests
        by_kind: dict[tuple[int, ResourceVector, int], list[int]] = {}
        for victim in sorted(shares, key=lambda each: (-self._started(each), self._name(each))):
            alone = victim + 1 if victim in elsewhere else 0
            by_kind.setdefault((shares[victim], tuple(self._pods.requests[victim].tolist()), alone), []).append(victim)
        self._kinds = [
            _VictimClass(price, held, tuple(alike)) for (price, held, _), alike in sorted(by_kind.items(), reverse=True)
        ]
        rests = [_Rest((0,) * len(requests), (None,) * len(requests))]
        for kind in reversed(self._kinds):
            rests.append(rests[-1].with_kind(kind))
        self._rests = rests[::-1]
        self._steps = 0
        self.effort = len(shares)

    def best(self, members: int) -> VictimChoice | None:
        """Return the best choice of victims that makes space for `members` members on the node. None if the members do
        not fit even when all victims are evicted.
        """
        free = self._node.free
        missing = tuple(
            members * asked - there if members * asked > 0 else 0
            for asked, there in zip(self._requests, free, strict=True)
        )
        forced = self._forced(missing)
        missing = self._without(missing, forced)
        self._steps = 0
        self.effort += len(self._kinds)
        best: VictimChoice | None = None
        try:
            for counts in self._choices(0, missing, forced, 0, []):
                choice = self._choice(counts, members * self._requests[self._scarce])
                if best is None or self._better(choice, best):
                    best = choice
        except TooManyError:
            return self._lower_bound(missing, forced)
        return best

    def _lower_bound(self, missing: ResourceVector, forced: VictimCounts) -> VictimChoice:
        """Return a `VictimChoice` without victims whose price is a lower bound. No choice of victims that makes space
        for the members is cheaper.

        `forced`: by class, the victims that every such choice contains. `missing`: the amounts that must still be freed
        when the forced victims are evicted.
        """
        paid = sum(count * kind.price for kind, count in zip(self._kinds, forced, strict=True))
        return VictimChoice(paid + (self._rests[0].least(missing) or 0), 0, (), (), exact=False)

    def _forced(self, missing: ResourceVector) -> VictimCounts:
        """Return, by class of victims, how many victims every choice must evict to free `missing`. With fewer victims
        of the class, all other victims on the node together free too little.
        """
        rest = self._rests[0].total
        return tuple(
            max(
                0,
                *(
                    min(len(kind.victims), -(-(amount - total + len(kind.victims) * held) // held))
                    for amount, total, held in zip(missing, rest, kind.requests, strict=True)
                    if amount > 0 and held > 0
                ),
                0,
            )
            for kind in self._kinds
        )

    def _without(self, missing: ResourceVector, counts: VictimCounts) -> ResourceVector:
        """Return the amounts that are still missing when `counts` victims, by class, are evicted. `missing`: the
        amounts that are missing before.
        """
        for kind, count in zip(self._kinds, counts, strict=True):
            missing = tuple(amount - count * held for amount, held in zip(missing, kind.requests, strict=True))
        return missing

    def _choices(
        self, place: int, missing: ResourceVector, forced: VictimCounts, price: int, bound: list[int]
    ) -> Iterator[VictimCounts]:
        """Yield ever cheaper choices of victims that free the amounts `missing`.

        A choice has the number of evicted victims for each class from position `place` on, including the `forced`
        victims. The most expensive classes come first, and of each class as few victims as possible are tried first.
        `price`: the price of the victims decided so far, without the forced ones. `bound`: the prices of the choices
        yielded so far, without the forced victims; the last one is the least. No choice costs more than the choice
        before it. Raises `TooManyError` after too many steps.
        """
        self._steps += 1
        self.effort += 1
        if self._steps > _STEPS:
            raise TooManyError
        if all(amount <= 0 for amount in missing):
            if not bound or price <= bound[-1]:
                bound.append(price)
                yield forced[place:]
            return
        least = self._rests[place].least(missing)
        if least is None or (bound and price + least > bound[-1]):
            return
        kind, before = self._kinds[place], forced[place]
        for count in range(self._most(kind, before, missing) + 1):
            if bound and price + count * kind.price > bound[-1]:
                return
            left = tuple(amount - count * held for amount, held in zip(missing, kind.requests, strict=True))
            for rest in self._choices(place + 1, left, forced, price + count * kind.price, bound):
                yield (before + count, *rest)

    def _most(self, kind: _VictimClass, before: int, missing: ResourceVector) -> int:
        """Return how many victims of the class `kind` may be evicted in addition to the `before` victims that every
        choice evicts. More victims of the class would free nothing of the amounts `missing`.
        """
        wanted = [
            -(-amount // held) for amount, held in zip(missing, kind.requests, strict=True) if amount > 0 and held > 0
        ]
        return min(len(kind.victims) - before, max(wanted, default=0))

    def _choice(self, counts: VictimCounts, used: int) -> VictimChoice:
        """Return the `VictimChoice` that evicts `counts` victims, by class. `used`: the amount of the scarcest resource
        that the members use.
        """
        victims = [victim for kind, count in zip(self._kinds, counts, strict=True) for victim in kind.victims[:count]]
        freed = int(self._pods.requests[victims, self._scarce].sum()) if victims else 0
        now = max(0, self._node.free[self._scarce] - self._node.terminating[self._scarce] + freed)
        victims += [other for victim in victims for other in self._elsewhere.get(victim, ())]
        return VictimChoice(
            sum(count * kind.price for kind, count in zip(self._kinds, counts, strict=True)),
            max(0, used - now),
            tuple(sorted(map(self._started, victims))),
            tuple(victims),
        )

    def _better(self, one: VictimChoice, other: VictimChoice) -> bool:
        """Return whether `one` is better than `other`: by price, then by the capacity of terminating pods that members
        use, then by later start times, then by victims' names.
        """
        rank, best = ((each.price, each.waits, tuple(-start for start in each.starts)) for each in (one, other))
        return rank < best or (rank == best and self._names(one) < self._names(other))

    def _names(self, choice: VictimChoice) -> list[tuple[object, ...]]:
        return sorted(self._name(victim) for victim in choice.victims)

    def _name(self, victim: int) -> tuple[object, ...]:
        return natural_key(self._pods.keys[victim])

    def _started(self, victim: int) -> int:
        return int(self._pods.started[victim])
