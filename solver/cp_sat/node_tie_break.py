"""Ties by name for members that are alike: which concrete node each rank gets, smallest names first.

Ranks are seated so that every domain's ranks are consecutive (that is what the goal of ranks asks for). So, rank by
rank, the next member stays on its predecessor's node or moves on, and a domain that is left is left for good. The
smallest name that still allows a plan as good is taken each time.
"""

from collections import Counter
from itertools import pairwise

from solver.cp_model import IntVar
from solver.cp_sat.lexicographic import Search
from solver.cp_sat.linear import Sum, one, total
from solver.cp_sat.variables import Model
from solver.tree import ROOT

WORTHWHILE = 4
"""Members from which on it pays to look first where there is a choice at all."""
_OFTEN = 8
"""Members between two looks at the clock."""
_ROUNDS = 2
"""After so many solves for that, there is taken to be one everywhere."""


def name_nodes(model: Model, search: Search, *, by_name: bool = True) -> list[list[int]]:
    """The nodes of each kind's placed members in order of rank. The search's solution agrees with them.

    `by_name` False takes any plan that is as good, without comparing names.
    """
    if not by_name:
        return [_as_they_are(model, search, kind) for kind in range(len(model.kinds))]
    open_nodes = _open_nodes(model, search)
    return [_Row(model, search, kind, open_nodes[kind]).seated() for kind in range(len(model.kinds))]


def _open_nodes(model: Model, search: Search) -> list[set[int]]:
    """By kind, the nodes whose number of members is not certainly the same in all solutions that are as good.

    Each round asks for a solution that differs in as many places as possible of those that have not differed so far.
    """
    first = search.solution
    taken: dict[tuple[int, int], int] = {}
    open_nodes: list[set[int]] = [set() for _ in model.kinds]
    for kind, seats in enumerate(model.seats):
        for node, variable in seats.items():
            count = first[variable.index]
            if count in (0, model.most(kind, node)):
                taken[kind, node] = count
            else:
                open_nodes[kind].add(node)
    if len(model.instance.pending) < WORTHWHILE:
        return [set(seats) for seats in model.seats]
    for _ in range(_ROUNDS):
        wish = total(
            one(model.seats[kind][node]).times(-1 if count else 1) + Sum((), count)
            for (kind, node), count in taken.items()
        )
        if not search.try_improve(wish):
            return open_nodes
        for (kind, node), count in list(taken.items()):
            if search.solution[model.seats[kind][node].index] != count:
                open_nodes[kind].add(node)
                del taken[kind, node]
    return [set(seats) for seats in model.seats]


def _as_they_are(model: Model, search: Search, kind: int) -> list[int]:
    """The nodes of the present solution, held, those of a domain together."""
    tree, seats = model.instance.tree, model.seats[kind]
    planned = {node: search.solution[variable.index] for node, variable in seats.items()}
    for node, variable in seats.items():
        search.hold(Sum(((1, variable),)), planned[node])
    order = sorted(planned, key=lambda node: tuple(tree.domain(level, node) for level in range(tree.depth)))
    return [node for node in order for _ in range(planned[node])]


class _Row:
    """One kind on its way from the lowest rank to the highest. `choice`: nodes that may have more or fewer members
    than in the present solution.
    """

    def __init__(self, model: Model, search: Search, kind: int, choice: set[int]) -> None:
        self.model, self.search = model, search
        self.tree, self.name_rank = model.instance.tree, model.instance.name_rank
        self.seats = model.seats[kind]
        self.kind, self.choice = kind, choice
        self.nodes: list[int] = []
        self.done: Counter[int] = Counter()
        self.out: set[int] = set()

    def seated(self) -> list[int]:
        """Seat everybody; from then on the model holds exactly these seats."""
        count = self.model.placed(self.kind).value(self.search.solution)
        for _ in self.model.instance.deadline.through(range(count), often=_OFTEN):
            self._seat(self._best(self._present()))
        for node, variable in sorted(self.seats.items()):
            self.search.hold(Sum(((1, variable),)), self.done[node])
        return self.nodes

    def _present(self) -> int:
        """Where the next member goes in the present solution."""
        if self.nodes:
            last = self.nodes[-1]
            if self._waits(last):
                return last
            for level in range(self.tree.depth - 2, -1, -1):
                near = [node for node in self.tree.nodes(level, self.tree.domain(level, last)) if self._waits(node)]
                if near:
                    return min(near, key=self.name_rank.__getitem__)
        return min(filter(self._waits, self.seats), key=self.name_rank.__getitem__)

    def _waits(self, node: int) -> bool:
        """Whether a node is to have more members than it has so far."""
        seat = self.seats.get(node)
        return seat is not None and self.search.solution[seat.index] > self.done[node]

    def _best(self, present: int) -> int:
        """The smallest name that the next member can have."""
        if self._must_stay(present):
            return present
        first = self.name_rank[present]
        smaller = [node for node in self.seats if self.name_rank[node] < first and self._is_open(node)]
        if not smaller:
            return present
        picks = {node: self.model.flag() for node in sorted(smaller)}
        self._tie_picks(picks)
        gain = Sum(tuple((first - self.name_rank[node], pick) for node, pick in picks.items()))
        chosen = present
        if self.search.try_improve(gain):
            chosen = next(node for node, pick in picks.items() if self.search.solution[pick.index])
        for node, pick in picks.items():
            self.search.hold(Sum(((1, pick),)), int(node == chosen))
        self._rule_out([node for node in smaller if self.name_rank[node] < self.name_rank[chosen]], chosen)
        return chosen

    def _is_open(self, node: int) -> bool:
        if node in self.out or (self.done[node] and node != self.nodes[-1]):
            return False
        return node in self.choice or self.search.solution[self.seats[node].index] > self.done[node]

    def _must_stay(self, present: int) -> bool:
        """Whether the next member shares a domain with the last one that has to be filled first, in one way only."""
        if not self.nodes:
            return not self.choice
        last = self.nodes[-1]
        level = max((each for each in range(self.tree.depth) if self._same(each, last, present)), default=ROOT)
        return self.choice.isdisjoint(self.tree.nodes(level, self.tree.domain(level, last)))

    def _tie_picks(self, picks: dict[int, IntVar]) -> None:
        """A picked node gets a member more; what has to be left for it keeps what it has."""
        cp = self.model.cp
        leave = self._leave_flags() if self.nodes else []
        for node, pick in picks.items():
            cp.add(self.seats[node] >= self.done[node] + 1).only_enforce_if(pick)
            parting = self._parting(node)
            if parting < self.tree.depth and self.nodes:
                cp.add_implication(pick, leave[parting])
        cp.add_at_most_one(picks.values())

    def _leave_flags(self) -> list[IntVar]:
        """By level: the last member's domain there gets nobody more. Leaving a domain leaves those inside it."""
        flags = []
        for level in range(self.tree.depth):
            flag = self.model.flag()
            in_domain, count = self._domain_of_last(level)
            self.model.cp.add(in_domain.expression() == count).only_enforce_if(flag)
            flags.append(flag)
        for wider, narrower in pairwise(flags):
            self.model.cp.add_implication(wider, narrower)
        return flags

    def _domain_of_last(self, level: int) -> tuple[Sum, int]:
        domain = self.tree.domain(level, self.nodes[-1])
        in_domain = self.model.in_domain(self.kind, level, domain)
        return in_domain, sum(self.done[node] for node in self.tree.nodes(level, domain))

    def _parting(self, node: int) -> int:
        """The widest level at which a node's domain is not the last member's; the tree's depth: it is that node."""
        if not self.nodes:
            return 0
        last = self.nodes[-1]
        return next((level for level in range(self.tree.depth) if not self._same(level, node, last)), self.tree.depth)

    def _rule_out(self, rejected: list[int], chosen: int) -> None:
        """A rejected node that could have been had by leaving no more than for the chosen one is in no such plan."""
        parting = self._parting(chosen)
        for node in rejected:
            if self._parting(node) >= parting and self.search.proven:
                self.out.add(node)
                if not self.done[node]:
                    self.search.hold(Sum(((1, self.seats[node]),)), 0)

    def _seat(self, node: int) -> None:
        """Hold that the next member is on `node`."""
        for level in range(self._parting(node), self.tree.depth if self.nodes else 0):
            in_domain, count = self._domain_of_last(level)
            self.search.hold(in_domain, count)
            self.out.update(self.tree.nodes(level, self.tree.domain(level, self.nodes[-1])))
        self.nodes.append(node)
        self.done[node] += 1
        self.model.cp.add(self.seats[node] >= self.done[node])

    def _same(self, level: int, one: int, other: int) -> bool:
        return self.tree.domain(level, one) == self.tree.domain(level, other)
