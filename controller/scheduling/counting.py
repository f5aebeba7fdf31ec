"""Whether there can be a place for a gang at all, by counting room alone: what is known before anything is planned.

Planning a gang of 2,000 pods that fits nowhere takes a tenth of a second and more, and says no. Counting says the same
at the price of a few sums, so that nobody who may have a place has to wait for that no.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from cluster.snapshot import Amounts, NodeState, Snapshot
from gangs.held_nodes import held_node
from gangs.model import Gang
from kube.requests import pod_requests


@dataclass(frozen=True)
class Least:
    """The least that a gang takes from the room of a cluster: nothing that is counted here can it do without."""

    gang: Gang

    @cached_property
    def members(self) -> int:
        """How many there are: what planning it costs."""
        return len(self.gang.members)

    @cached_property
    def priority(self) -> int:
        """As far as it is known: of a pod whose class nobody has looked up it is not."""
        return self.gang.priority

    @cached_property
    def amounts(self) -> Amounts:
        """By resource; empty where some of it is there already, or is counted against a quota in its turn; where the
        members differ in priority; and where a request cannot be read, which whoever plans the gang tells.
        """
        gang = self.gang
        if gang.queue or gang.account is not None or any(held_node(member.pod) for member in gang.members):
            return {}
        if len({member.pod.spec.priority for member in gang.members}) > 1:
            return {}
        try:
            return self._least()
        except ValueError:
            return {}

    def _least(self) -> Amounts:
        gang = self.gang
        needed = gang.still_needed
        if not gang.succeeded:
            needed = max(needed, sum(each.min_count for each in gang.pod_sets))
        least: dict[str, int] | None = None
        for member in gang.members:
            asked = pod_requests(member.pod)
            if least is None:
                least = asked
            elif least != asked:
                least = {name: min(value, asked.get(name, 0)) for name, value in least.items()}
        return {name: needed * value for name, value in (least or {}).items() if value}


class Room:
    """What the nodes of one picture of the cluster could give at most: more than any plan finds there."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._by_priority: dict[int, Mapping[str, int]] = {}

    def may_hold(self, least: Least) -> bool:
        """Whether counting leaves it open that there is a place."""
        amounts = least.amounts
        if not amounts:
            return True
        there = self._at(least.priority)
        return all(there.get(name, 0) >= amount for name, amount in amounts.items())

    def _at(self, priority: int) -> Mapping[str, int]:
        """For a gang of that priority: whoever is less important may go, whoever is about to be evicted goes, and what
        is reserved may be its own.
        """
        if priority not in self._by_priority:
            total: dict[str, int] = {}
            for state in self._snapshot.nodes:
                for name, amount in _could_give(state, priority, self._snapshot.leaving).items():
                    if amount > 0:
                        total[name] = total.get(name, 0) + amount
            self._by_priority[priority] = total
        return self._by_priority[priority]


def _could_give(state: NodeState, priority: int, leaving: frozenset[str]) -> Amounts:
    lowest = state.lowest_evictable
    stays = state.marks.isdisjoint(leaving)
    if stays and not state.reserving and (lowest is None or lowest >= priority):
        return state.room[0]
    return state.room_beside(
        each
        for each in state.tenants
        if (each.priority > priority or (each.priority == priority and not each.reserved))
        and (stays or each.pod.key not in leaving)
    )[0]
