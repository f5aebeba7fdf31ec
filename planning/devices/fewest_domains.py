"""The fewest domains of the levels below the node in which one node can give claims their devices."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, islice
from math import comb

import numpy as np

from cluster.devices.inventory import Flags, IntColumn, Inventory
from planning.devices.demands import Asked, ClaimDemand, Request
from planning.devices.domains import DomainLevel, constrained
from planning.devices.kinds import accepted
from planning.devices.node_search import Choice

MOST_TRIES = 300
"""The most sets of domains that are tried on one node: all sets of eight domains, which is 255, and some more. One try
takes up to some milliseconds.
"""
MOST_SETS = 5_000
"""The most sets of domains of one size whose room is added up. 32 domains have 600 million sets of 16."""
MOST_LONG = 3
"""The most searches that take too long before no further one is begun. Each takes a second."""

Claims = Sequence[tuple[str, ClaimDemand]]
"""Claims, each with its pod (`namespace/name`)."""
Serve = Callable[[Flags, Claims], list[Choice] | None]
"""Chooses the devices of each claim, among the devices of the inventory with a flag; None if they do not suffice."""
Counts = tuple[tuple[int, int], ...]
"""By level: the number of domains that the gang uses, and the sum of the numbers that its members use."""


@dataclass(frozen=True, slots=True)
class Fewest:
    """Devices for claims in the fewest domains of the levels below the node. `choices`: the devices of each claim.
    `counts`: by level, how many domains the devices use.

    `exact`: whether no other choice among the free devices has smaller `counts`. Counts are compared level by level,
    the widest level first. Within a level, the number of domains of the gang is compared first, then the sum over its
    members.
    """

    counts: Counts
    choices: list[Choice]
    exact: bool


@dataclass(slots=True)
class FewestDomains:
    """Searches the fewest domains of the levels below the node in which one node can give the claims of one gang their
    devices.

    At each level, the search tries all sets of domains, the smallest sets first. If the devices of a set suffice
    although each claim gets devices of one domain only, the sum of the members' domains is the smallest possible.
    Otherwise the first members' claims get devices of one domain each, as long as all other claims still get devices.
    In this case the sum is not proven to be the smallest.

    `held`: the devices on this node that running members of the gang have, as positions in the inventory. Their domains
    count as used, so free devices of these domains are preferred. `levels`: the widest first.
    """

    node: str
    claims: Claims
    held: Sequence[int]
    levels: Sequence[DomainLevel]
    inventory: Inventory
    serve: Serve
    cut_off: bool = False
    """Whether sets were left out, or a search of `serve` took too long, so that its result is unknown. `serve` sets it.
    """
    long: int = 0
    """The number of searches of `serve` that took too long. `serve` counts them."""
    _tries: int = 0
    _wanted: list["_Wanted"] = field(default_factory=list)

    def search(self, free: Flags) -> Fewest | None:
        """Return devices for all claims in the fewest domains; None if these free devices do not suffice for the
        claims.
        """
        self._tries = 0
        asked = [claim.asked for _, claim in self.claims]
        self._wanted = [_Wanted(level, asked, self.inventory) for level in self.levels]
        choices = self._search(0, free, self.claims)
        if choices is None:
            return None
        counts = self._counts(choices)
        least = [len({pod for pod, claim in self.claims if each.takes(claim.asked)}) for each in self._wanted]
        spread = [members > few for (_, members), few in zip(counts, least, strict=True)]
        exact = self._tries <= MOST_TRIES and not self.cut_off and not any(spread[:-1])
        return Fewest(counts, choices, exact)

    def _search(self, depth: int, free: Flags, claims: Claims) -> list[Choice] | None:
        """Return devices for the claims in the fewest domains of the levels from position `depth` on; None if none are
        found.
        """
        if depth == len(self.levels):
            self._tries += 1
            return None if self._over else self.serve(free, claims)
        level = self.levels[depth]
        bound = [(pod, constrained(claim, level, self.inventory)) for pod, claim in claims]
        for sets in self._sets(depth, free):
            for some in (bound, claims) if bound != claims else (claims,):
                found = [each for kept in sets if (each := self._search(depth + 1, kept, some)) is not None]
                if found:
                    best = min(found, key=self._counts)
                    return best if some is bound else self._bound_one_by_one(depth, free, claims, best)
        last = self._over and (not depth or self.long < MOST_LONG)
        return self.serve(free, claims) if last else None

    @property
    def _over(self) -> bool:
        return self._tries > MOST_TRIES or self.long >= MOST_LONG

    def _bound_one_by_one(self, depth: int, free: Flags, claims: Claims, choices: list[Choice]) -> list[Choice]:
        """Return devices for the claims, all in the domains that `choices` uses at the level at position `depth`.

        As many claims as possible get devices of one domain each, the claims of the first members first.
        """
        level, content = self.levels[depth], self.inventory.content
        used = {int(level.of_content[content[position]]) for choice in choices for _, position in choice}
        kept = self._only(depth, free, {*used, *self._held(depth)})
        every = list(claims)
        for place, (pod, claim) in enumerate(claims):
            if self.long >= MOST_LONG:
                break
            tried = [*every[:place], (pod, constrained(claim, level, self.inventory)), *every[place + 1 :]]
            if tried != every and (found := self.serve(kept, tried)) is not None:
                every, choices = tried, found
        return choices

    def _sets(self, depth: int, free: Flags) -> Iterator[list[Flags]]:
        """Yield, for each number of domains, the smallest first, the candidate sets of that many domains.

        Each candidate is given by flags for the free devices, without the devices that count for the level but are in
        no domain of the set. Sets with too few devices for the claims are left out. Domains of `held` devices are in
        every set.
        """
        level, wanted, content = self.levels[depth], self._wanted[depth], self.inventory.content
        held = self._held(depth)
        here = np.array(self.inventory.on(self.node), dtype=np.int64)
        mine = here[wanted.contents[content[here]]]
        domain, room = level.of_content[content[mine]], np.where(free[mine], shares(self.inventory)[content[mine]], 0)
        rooms = {each: int(room[domain == each].sum()) for each in dict.fromkeys(domain.tolist())}
        further = [each for each, amount in rooms.items() if amount and each not in held]
        least = wanted.devices - sum(rooms.get(each, 0) for each in held)
        by_room = sorted(further, key=lambda each: -rooms[each])
        for size in range(len(further) + 1):
            if self._over:
                return
            if sum(rooms[each] for each in by_room[:size]) < least:
                continue
            many = comb(len(further), size) > MOST_SETS
            self.cut_off |= many
            every = islice(combinations(by_room if many else further, size), MOST_SETS)
            sets = (some for some in every if sum(rooms[each] for each in some) >= least)
            yield [self._only(depth, free, {*held, *some}) for some in islice(sets, MOST_TRIES + 1)]

    def _only(self, depth: int, free: Flags, domains: Collection[int]) -> Flags:
        """Return the free devices, without this node's devices that count for the level and lie outside the given
        domains. The domains are those of the level at position `depth`.
        """
        here = np.array(self.inventory.on(self.node), dtype=np.int64)
        content = self.inventory.content[here]
        outside = ~np.isin(self.levels[depth].of_content[content], list(domains))
        kept: Flags = free.copy()
        kept[here[self._wanted[depth].contents[content] & outside]] = False
        return kept

    def _held(self, depth: int) -> set[int]:
        level, wanted = self.levels[depth], self._wanted[depth]
        contents = (int(self.inventory.content[each]) for each in self.held)
        return {int(level.of_content[content]) for content in contents if wanted.counts(content)}

    def _counts(self, choices: list[Choice]) -> Counts:
        """Return, for each level, the number of domains that the gang uses, and the sum of the numbers that its members
        use.

        The domains of `held` devices count for the gang only.
        """
        found = []
        for depth, level in enumerate(self.levels):
            wanted = self._wanted[depth]
            pairs = {
                (pod, int(level.of_content[content]))
                for (pod, _), choice in zip(self.claims, choices, strict=True)
                for request, position in choice
                if not request.admin and wanted.counts(content := int(self.inventory.content[position]))
            }
            found.append((len({domain for _, domain in pairs} | self._held(depth)), len(pairs)))
        return tuple(found)


@dataclass(frozen=True)
class _Wanted:
    """The demand of the claims of one gang's members on one node, at a level below the node. It consists of the device
    contents that count for the level, and of the least number of such devices that the claims take.
    """

    level: DomainLevel
    claims: Sequence[Asked]
    inventory: Inventory

    def counts(self, content: int) -> bool:
        """Return whether a device with this content counts for the level: `contents` has the content, or it has a value
        of the level's attribute.
        """
        return bool(self.contents[content]) or bool(self.level.of_content[content] >= 0)

    @cached_property
    def contents(self) -> Flags:
        """Which contents of the inventory count for the level, because a request of the claims accepts them
        (`counted_contents`).
        """
        return counted_contents(self.claims, self.level, self.inventory)

    def takes(self, asked: Asked) -> bool:
        """Return whether the claim takes a device that counts for the level, whichever alternatives it gets."""
        return least_devices(asked, self.level, self.inventory) > 0

    @cached_property
    def devices(self) -> int:
        """The least number of devices that count for the level and that all claims together take."""
        return sum(least_devices(asked, self.level, self.inventory) for asked in self.claims)


_SHARED = "contents of devices that claims share"
"""The key of these flags in `Inventory.flags`."""
_UNLIMITED = 1_000_000
"""Represents any number of claims: more claims than one node can have."""


def shares(inventory: Inventory) -> IntColumn:
    """Return, for each content of the inventory, how many claims may use one such device.

    The number is 1, or `_UNLIMITED` if several claims can share the device.
    """
    if _SHARED not in inventory.flags:
        every = [each.device.allow_multiple_allocations for each in inventory.contents]
        inventory.flags[_SHARED] = np.array(every, dtype=np.bool_)
    return np.where(inventory.flags[_SHARED], _UNLIMITED, 1).astype(np.int64)


def counted_contents(claims: Sequence[Asked], level: DomainLevel, inventory: Inventory) -> Flags:
    """Return which device contents count for a level below the node, as one flag for each content of the inventory.

    A content counts if a request of these claims accepts it. Only requests that select some device with a value of the
    level's attribute are considered.
    """
    found = np.zeros(len(inventory.contents), dtype=np.bool_)
    for request in {one for asked in claims for alternatives in asked.requests for one in alternatives}:
        if level.concerns(request, inventory):
            found |= accepted(request.kind, inventory)
    return found


def least_devices(asked: Asked, level: DomainLevel, inventory: Inventory) -> int:
    """Return how many devices that count for the level the claim takes at least. Of a request's alternatives, the one
    with the fewest such devices counts.
    """

    def taken(request: Request) -> int:
        return max(1, request.count) if level.concerns(request, inventory) else 0

    return sum(min(map(taken, alternatives)) for alternatives in asked.requests)
