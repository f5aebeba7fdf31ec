"""Place the blocks of a gang one after the other, without backtracking. A block is placed where its evictions cost the
least.

A block is tried in the domains where it may be the cheapest. Its cost in a tried domain is compared with the lower
bounds of the other domains, to decide whether to try another domain. Nodes are taken in the order in which a compact
plan fills them.
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace
from itertools import groupby

import numpy as np

from solver.capacity import Counts
from solver.deadline import DeadlineCheck
from solver.heuristics.blocks import Block, Run
from solver.heuristics.remaining_room import RemainingRoom
from solver.heuristics.rule_limits import Allowances
from solver.heuristics.running_pods import RunningPods, Weights
from solver.instance import Instance, Seat
from solver.tree import ROOT

_Heap = list[tuple[float, int, int]]
"""A heap of domains that may hold a block, the cheapest first.

An entry is an estimate of the block's cost in the domain, the domain's place in the order of `filling_order`, and the
domain's number.
"""
_Heaps = dict[object, _Heap]
"""Heaps of domains by `Block.sign`. Interchangeable blocks have an equal sign, so they share one heap."""
_Candidate = tuple[int, float, int, int]
"""A node for one more member, as four values by which candidates are compared.

They are the number of pods in the node's topology spread groups, a lower bound of the member's cost, the node's place
in the `filling_order`, and the node.
"""

_TRIES, _AGAIN = 24, 3
"""In how many domains a block is tried at most. `_AGAIN` is used in place of `_TRIES` for a block inside another block,
and for a block whose interchangeable predecessor was placed just before.
"""
_EFFORT = 240
"""How many tries (one block in one domain) all outermost blocks together have."""


@dataclass(frozen=True, slots=True)
class BlockPlace:
    """A domain in which a block is to be placed: its level (or ROOT, the whole cluster) and its number."""

    level: int
    domain: int


@dataclass(frozen=True, slots=True)
class Seated:
    """A part of a gang (a block or a run of members) with the nodes on which it is placed. A run has `nodes`, the node
    of each member. A block has `parts`, its placed parts.
    """

    part: Block | Run
    nodes: tuple[int, ...] = ()
    parts: tuple["Seated", ...] = ()

    def all_nodes(self) -> Iterator[int]:
        """Yield the nodes of all members of the part."""
        yield from self.nodes
        for part in self.parts:
            yield from part.all_nodes()

    def seats(self, order: Sequence[int]) -> Iterator[tuple[Seat, int]]:
        """Yield each member of the part with its node.

        `order`: by node, its place in the tree. Interchangeable parts may swap their nodes, so members of lower rank
        get nodes that come earlier in this order.
        """
        if isinstance(self.part, Run):
            yield from zip(self.part.seats, sorted(self.nodes, key=order.__getitem__), strict=True)
            return
        for _, group in groupby(self.parts, key=lambda each: each.part.sign):
            alike = list(group)
            parts = [each.part for each in alike]
            alike.sort(key=lambda each: min(map(order.__getitem__, each.all_nodes()), default=0))
            for part, each in zip(parts, alike, strict=True):
                yield from Seated(part, each.nodes, _transferred(part, each.parts)).seats(order)


def _transferred(part: Block | Run, parts: Sequence[Seated]) -> tuple[Seated, ...]:
    """Return the parts of the block `part`, placed on the nodes of `parts`: the placed parts of a block that is
    interchangeable with `part`. Empty if `part` is a run.
    """
    if isinstance(part, Run):
        return ()
    return tuple(
        Seated(own, its.nodes, _transferred(own, its.parts)) for own, its in zip(part.parts, parts, strict=True)
    )


class Seating:
    """Places members on the nodes of an instance and keeps the state: the evicted pods, the free capacity, and how many
    members each domain may still take.

    `over`: once this function returns True, the first domain or node that fits is taken.
    """

    def __init__(self, instance: Instance, pods: RunningPods, over: DeadlineCheck) -> None:
        self.instance, self.tree, self.over = instance, instance.tree, over
        self.standing = RemainingRoom(instance, pods, evicting=instance.evicting)
        self.allowances = Allowances(instance)
        self.order = filling_order(instance)
        self._depth, self._effort = 0, _EFFORT

    def seat(self, part: Block | Run, place: BlockPlace) -> Seated | None:
        """Place a block or a run inside a domain, and return its nodes. None if the part does not fit; the state is
        then the same as before the call.
        """
        mark = self._mark()
        found = self._run(part, self._nodes(place)) if isinstance(part, Run) else self._alike([part], place, {})
        if found is None:
            self._back_to(mark)
            return None
        return found if isinstance(found, Seated) else found[0]

    def as_many(self, part: Block | Run, place: BlockPlace) -> dict[Seat, int]:
        """Place as many members of a run as fit inside a domain, and return the node of each. A block is placed as a
        whole or not at all. Empty if nothing fits.
        """
        if isinstance(part, Block):
            seated = self.seat(part, place)
            return {} if seated is None else dict(seated.seats(self.tree.order))
        binding, nodes = self.allowances.binding(part), self._nodes(place)
        found = self._one_by_one(part, nodes, binding, len(part.seats)) if binding else self._without_cost(part, nodes)
        return dict(zip(part.seats, sorted(found, key=self.tree.order.__getitem__), strict=False))

    def _parts(self, block: Block, place: BlockPlace) -> Seated | None:
        """Place all parts of a block inside one domain. None if a part does not fit; the caller then takes back the
        parts that were placed before.
        """
        found: list[Seated] = []
        heaps: _Heaps = {}
        for _, group in groupby(block.parts, key=lambda part: part.sign):
            alike = list(group)
            blocks = [part for part in alike if isinstance(part, Block)]
            runs = [part for part in alike if isinstance(part, Run)]
            seated = self._alike(blocks, place, heaps) if blocks else self._runs(runs, place)
            if seated is None:
                return None
            found += seated
        return Seated(block, parts=tuple(found))

    def _runs(self, runs: Sequence[Run], place: BlockPlace) -> list[Seated] | None:
        """Place these runs inside one domain, one after the other. None if a run does not fit; the caller then takes
        back the runs that were placed before.
        """
        found = []
        for run in runs:
            seated = self._run(run, self._nodes(place))
            if seated is None:
                return None
            found.append(seated)
        return found

    def _alike(self, blocks: Sequence[Block], place: BlockPlace, heaps: _Heaps) -> list[Seated] | None:
        """Place interchangeable blocks inside the domain `place`, each one in the domain of its level where it costs
        the least. None if a block does not fit.

        `heaps`: by `Block.sign`, the heap of domains from which earlier interchangeable blocks were placed. It is
        reused, and extended by new heaps.
        """
        first = blocks[0]
        if first.level <= place.level:
            found = []
            for block in blocks:
                seated = self._parts(block, place)
                if seated is None:
                    return None
                found.append(seated)
            return found
        self.instance.deadline.check()
        again = first.sign in heaps
        heap = heaps[first.sign] if again else self._domains(first, place)
        heaps[first.sign] = heap
        tries = _AGAIN if self._depth or again else max(_AGAIN, min(_TRIES, self._effort // max(1, len(blocks))))
        self._effort -= tries
        found = []
        for block in blocks:
            self._depth += 1
            seated = self._cheapest(block, heap, tries if not found else _AGAIN)
            self._depth -= 1
            if seated is None:
                return None
            found.append(seated)
        return found

    def _cheapest(self, block: Block, heap: _Heap, tries: int) -> Seated | None:
        """Place a block in the first domain whose cost is no higher than the estimates for the other domains. After
        `tries` domains, place it in the cheapest of them. None if the block fits nowhere.

        `heap`: the domains, by estimated cost of the block in each.
        """
        best: tuple[float, int, int] | None = None
        while heap:
            if best is not None and tries <= 0:
                heappush(heap, (-1.0, *best[1:]))
            tries -= 1
            bound, place, domain = heap[0]
            self.instance.deadline.check()
            mark, before = self._mark(), self.standing.weight
            seated = self._parts(block, BlockPlace(block.level, domain))
            cost = self.standing.weight - before
            if seated is not None and (cost <= bound or bound < 0 or not _better(heap, cost) or self.over()):
                again = self._bound(block, np.array(self.tree.nodes(block.level, domain), dtype=np.int64))
                heapreplace(heap, (again, place, domain))
                return seated
            self._back_to(mark)
            if seated is None:
                heappop(heap)
            else:
                heapreplace(heap, (cost, place, domain))
                best = min(best or (cost, place, domain), (cost, place, domain))
        return None

    def _domains(self, block: Block, place: BlockPlace) -> _Heap:
        """Return the domains inside `place` that may hold a block, as a heap by a lower bound on the block's cost in
        each.
        """
        # The nodes, sorted by their domain, so that reduceat sums or compares each domain's own: domain k has the nodes
        # from starts[k] up to starts[k + 1]. bounds, places, numbers: one entry per domain.
        nodes = self._nodes(place)
        pinned = {self.tree.domain(block.level, node) for node in block.pinned}
        of_node = self.tree.domains(block.level)[nodes]
        order = np.argsort(of_node, kind="stable")
        nodes, of_node = nodes[order], of_node[order]
        numbers, starts = np.unique(of_node, return_index=True)
        bounds = self._bounds(block, nodes, starts)
        places = np.minimum.reduceat(self.order[nodes], starts)
        heap = [
            (bound, at, number)
            for bound, at, number in zip(bounds.tolist(), places.tolist(), numbers.tolist(), strict=True)
            if bound < np.inf and pinned <= {number}
        ]
        heapify(heap)
        return heap

    def _bound(self, block: Block, nodes: Counts) -> float:
        """Return a lower bound on the cost of a block on `nodes`, the nodes of one domain; infinite if the block does
        not fit.
        """
        return float(self._bounds(block, nodes, np.zeros(1, dtype=np.int64))[0])

    def _bounds(self, block: Block, nodes: Counts, starts: Counts) -> Weights:
        """Return, by domain, a lower bound on the cost of a block in the domain; infinite if the block does not fit.

        `nodes`: the nodes of all domains, domain by domain. `starts`: the position in `nodes` of each domain's first
        node.
        """
        # The bound is the largest over the shapes, each by itself, because a block places them all. least, room, most:
        # nodes (cost of one more member, members that fit without evictions, members at all). missing, cheapest, cost:
        # domains. Each member that does not fit without evictions costs as much as the cheapest member of its domain.
        found: Weights = np.zeros(len(starts))
        for shape, count in self.instance.deadline.iterate(block.counts.items()):
            least = self.standing.at_least(shape, nodes)
            room = np.where(least == 0, self.standing.room(shape, nodes), 0)
            most = np.where(least < np.inf, self.instance.capacity[shape][nodes], 0)
            missing = np.maximum(count - np.add.reduceat(room, starts), 0)
            cheapest = np.minimum.reduceat(np.where(least > 0, least, np.inf), starts)
            cost = np.where(missing > 0, np.where(cheapest < np.inf, missing * np.minimum(cheapest, 1e300), 0), 0)
            cost[np.add.reduceat(most, starts) < count] = np.inf
            found = np.maximum(found, cost)
        return found

    def _run(self, run: Run, nodes: Counts) -> Seated | None:
        """Place the members of a run on these nodes, each where it costs the least; None if not all of them fit."""
        binding = self.allowances.binding(run)
        found: list[int] = []
        if not binding:
            found = self._without_cost(run, nodes)
        if len(found) < len(run.seats):
            if not binding and not self.standing.evicting:
                return None
            found += self._one_by_one(run, nodes, binding, len(run.seats) - len(found))
        return Seated(run, tuple(found)) if len(found) == len(run.seats) else None

    def _without_cost(self, run: Run, nodes: Counts) -> list[int]:
        """Place as many members of a run as fit without evictions, and return their nodes. Nodes are filled in the
        order of `filling_order`, each with as many members as it holds.
        """
        # First fit along the filling order. np.cumsum(room) - room is the free capacity before each node. So taken[k]
        # is how many members are unplaced once the nodes before k are full, cut to 0 .. room[k].
        room = self.standing.room(run.shape, nodes)
        nodes = nodes[room > 0]
        by_order = np.argsort(self.order[nodes])
        nodes, room = nodes[by_order], room[room > 0][by_order]
        taken = np.clip(len(run.seats) - (np.cumsum(room) - room), 0, room)
        for node, count in zip(nodes[taken > 0].tolist(), taken[taken > 0].tolist(), strict=True):
            self.standing.take(node, run.shape, count)
        return np.repeat(nodes, taken).tolist()

    def _one_by_one(self, run: Run, nodes: Counts, binding: list[int], wanted: int) -> list[int]:
        """Place up to `wanted` members of a run one by one, each on the cheapest node. Return their nodes.

        `binding`: the positions of the constraints that limit or count the run's members (`Allowances.binding`).
        """
        bounds = self.standing.at_least(run.shape, nodes)
        spreading = self.allowances.spreading(binding)
        heap = [
            (self.allowances.crowd(binding, node) if spreading else 0, bound, int(self.order[node]), node)
            for node, bound in zip(nodes.tolist(), bounds.tolist(), strict=True)
            if bound < np.inf
        ]
        heapify(heap)
        found: list[int] = []
        costed, hurrying = set[int](), False
        while heap and len(found) < wanted:
            self.instance.deadline.check()
            if costed and not hurrying and self.over():
                heap, hurrying = _known_costs_first(heap, costed), True
            crowd, bound, place, node = heappop(heap)
            left = self.allowances.left(run, binding, node, wanted - len(found))
            cost_of_node = self.standing.eviction_cost(node, run.shape, left) if left > 0 else None
            if cost_of_node is None:
                continue
            now = (self.allowances.crowd(binding, node) if spreading else 0, cost_of_node.each, place, node)
            if now > (crowd, bound, place, node) and heap and now > heap[0]:
                costed.add(node)
                heappush(heap, now)
                continue
            self.standing.evict(cost_of_node)
            count = min(left, 1 if spreading else self.standing.fits(node, run.shape))
            if count <= 0:
                continue
            self.standing.take(node, run.shape, count)
            self.allowances.seat(run, node, count)
            found += [node] * count
            heappush(heap, (now[0], 0.0, place, node))
        return found

    def _nodes(self, place: BlockPlace) -> Counts:
        return np.array(self.tree.nodes(place.level, place.domain), dtype=np.int64)

    def _mark(self) -> tuple[int, int]:
        return self.standing.mark(), self.allowances.mark()

    def _back_to(self, mark: tuple[int, int]) -> None:
        self.standing.back_to(mark[0])
        self.allowances.back_to(mark[1])


def _better(heap: _Heap, cost: float) -> bool:
    """Return whether a domain of the heap, other than the first one, may cost less than `cost`, a block's cost in the
    first.
    """
    return any(heap[child][0] < cost for child in (1, 2) if child < len(heap))


def _known_costs_first(heap: list[_Candidate], nodes: Container[int]) -> list[_Candidate]:
    """Return a heap of nodes for one more member, rebuilt so that the nodes `nodes` come first.

    The cost of a member on one of `nodes` is known. All other nodes get an infinite cost until theirs is computed.
    """
    found = [each if each[-1] in nodes else (each[0], np.inf, *each[2:]) for each in heap]
    heapify(found)
    return found


def filling_order(instance: Instance) -> Counts:
    """Return, by node, its place in an order that fills few domains: on every level, the domains with the most capacity
    come first.

    Capacity is counted for the shape with the largest request of the scarcest resource.
    """
    shapes = {instance.member(seat).shape for seat in instance.pending}
    largest = max(
        shapes, key=lambda shape: (instance.problem.shapes[shape].requests[instance.scarce], -shape), default=None
    )
    if largest is None:
        return np.arange(len(instance.problem.nodes), dtype=np.int64)
    # columns: one entry per node, the most important column first. For each level, the capacity of the node's domain
    # (more capacity comes earlier), then the domain itself, so that its nodes stay together. On the node level, the
    # preference follows. Last come the free amount of the scarcest resource, and the name. lexsort takes the most
    # important column last. order[node]: the node's position.
    room, columns = instance.capacity[largest], list[Counts]()
    preference_score = np.zeros(len(room), dtype=np.int64)
    for node, weight in instance.problem.shapes[largest].preferences.items():
        preference_score[node] = weight
    for level in range(ROOT + 1, instance.tree.depth):
        of_node = instance.tree.domains(level)
        columns += [
            -instance.tree.summed(level, room)[of_node],
            of_node if level < instance.tree.depth - 1 else -preference_score,
        ]
    columns += [np.array(instance.potential), np.array(instance.name_rank)]
    order = np.empty(len(room), dtype=np.int64)
    order[np.lexsort(columns[::-1])] = np.arange(len(room))
    return order
