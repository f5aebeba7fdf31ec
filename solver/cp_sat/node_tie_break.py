"""Ties by name for members that are alike: which concrete node each rank gets, smallest names first.

Ranks are seated so that every domain's ranks are consecutive (that is what the goal of ranks asks for). So, rank by
rank, the next member stays on its predecessor's node or moves on, and a domain that is left is left for good. The
smallest name that still allows a plan as good is taken each time.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from solver.cp_model import BoundedLinearExpression, IntVar
from solver.cp_sat.lexicographic import Search
from solver.cp_sat.linear import Sum, one, total
from solver.cp_sat.variables import Model
from solver.tree import ROOT

WORTHWHILE = 4
"""Members from which on it pays to look first where there is a choice at all."""
_Rule = BoundedLinearExpression | bool
"""A comparison of a model's variables, as OR-Tools types it."""
_AT_FIRST = 2
"""Of so many members, of those that have a choice at all, it is asked at once at first."""
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


@dataclass(frozen=True, slots=True)
class _Turn:
    """One member's. `node`: where it is in the present solution; `smaller`: nodes of smaller names that may be its
    instead. The rest is as before that turn: `closing`, by level, the domain of the member before it and how many are
    there (empty for the first member); `parting`, by node, the widest level on which its domain is another than that;
    `done`, by node, its members; `out`, the nodes to which nobody goes any more.
    """

    node: int
    smaller: Sequence[int]
    closing: Mapping[int, tuple[Sum, int]]
    parting: Mapping[int, int]
    done: Mapping[int, int]
    out: frozenset[int]


class _Row:
    """One kind on its way from the lowest rank to the highest. `choice`: nodes that may have more or fewer members
    than in the present solution.

    Most members have the smallest name that they can have where they are. So it is asked of several at once whether one
    of them can have a smaller one while those before it stay: of twice as many each time that none can.
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
        count, ahead = self.model.placed(self.kind).value(self.search.solution), _AT_FIRST
        while len(self.nodes) < count:
            self.model.instance.deadline.look()
            turns = list[_Turn]()
            while len(self.nodes) < count and sum(bool(each.smaller) for each in turns) < ahead:
                turns.append(self._next())
            ahead = 2 * ahead if self._kept(turns) else _AT_FIRST
        for node, variable in sorted(self.seats.items()):
            self.search.hold(one(variable), self.done[node])
        return self.nodes

    def _next(self) -> _Turn:
        """Seat the next member as in the present solution, of which the model knows nothing yet."""
        node, smaller = self._present(), list[int]()
        if not self._must_stay(node):
            rank = self.name_rank
            smaller = sorted(each for each in self.seats if rank[each] < rank[node] and self._is_open(each))
        parting = {each: self._parting(each) for each in (node, *smaller)}
        last = self.tree.depth if self.nodes else 0
        turn = _Turn(
            node,
            smaller,
            {level: self._domain_of_last(level) for level in range(min(parting.values()), last)},
            parting,
            {each: self.done[each] for each in (node, *smaller)},
            frozenset(self.out),
        )
        self._seat(turn, node)
        return turn

    def _kept(self, turns: Sequence[_Turn]) -> bool:
        """Whether all these members have the smallest names possible where they are. Else the first that can have a
        smaller one gets the smallest, and those after it are not seated any more.
        """
        place, node = self._better(turns)
        for turn in turns[:place]:
            self._hold(turn, turn.node)
        if place == len(turns):
            return True
        turn = turns[place]
        del self.nodes[place - len(turns) :]
        self.done, self.out = Counter(self.nodes), set(turn.out)
        self._seat(turn, node)
        self._hold(turn, node)
        return False

    def _better(self, turns: Sequence[_Turn]) -> tuple[int, int]:
        """The first of these members that can have a smaller name while those before it stay, and its smallest node;
        where none can, how many they are.
        """
        picks, others = self._picks(turns)
        gains = {key: self.name_rank[turns[key[0]].node] - self.name_rank[key[1]] for key in picks}
        width = max(gains.values(), default=0) + 1
        gain = ((width * (len(turns) - key[0]) + gains[key], pick) for key, pick in picks.items())
        improved = self.search.try_improve(Sum(tuple(gain)))
        taken = (key for key, pick in picks.items() if improved and self.search.solution[pick.index])
        found = next(taken, (len(turns), -1))
        for flag in (*picks.values(), *others):
            self.search.hold(one(flag), 0)
            if improved:
                self.search.solution[flag.index] = 0
        return found

    def _picks(self, turns: Sequence[_Turn]) -> tuple[dict[tuple[int, int], IntVar], list[IntVar]]:
        """Flags, by place among these members and node: it goes there, and all before it stay; one at most is set. And
        the flags that these need. What holds where a flag is set need not hold where it is not.
        """
        cp, picks, others = self.model.cp, dict[tuple[int, int], IntVar](), list[IntVar]()
        staying, stay = list[_Rule](), list[IntVar]()
        for place, turn in enumerate(turns):
            if turn.smaller and staying:
                others.append(self.model.flag())
                for each in staying:
                    cp.add(each).only_enforce_if(others[-1])
                for before in stay:
                    cp.add_implication(others[-1], before)
                staying, stay = [], [others[-1]]
            leave = self._leave_flags(turn) if turn.smaller else {}
            others += leave.values()
            for node in turn.smaller:
                picks[place, node] = pick = self.model.flag()
                cp.add(self.seats[node] >= turn.done[node] + 1).only_enforce_if(pick)
                if turn.parting[node] in leave:
                    cp.add_implication(pick, leave[turn.parting[node]])
                for before in stay:
                    cp.add_implication(pick, before)
            staying += self._seated(turn, turn.node)
        if picks:
            cp.add_at_most_one(picks.values())
        return picks, others

    def _leave_flags(self, turn: _Turn) -> dict[int, IntVar]:
        """By level: the domain of the member before gets nobody more. Leaving a domain leaves those inside it."""
        flags = dict[int, IntVar]()
        for level, (in_domain, count) in turn.closing.items():
            flags[level] = self.model.flag()
            self.model.cp.add(in_domain.expression() == count).only_enforce_if(flags[level])
        for wider, narrower in pairwise(flags.values()):
            self.model.cp.add_implication(wider, narrower)
        return flags

    def _seated(self, turn: _Turn, node: int) -> list[_Rule]:
        """What it means that the next member is on `node`."""
        closing = (each for level, each in turn.closing.items() if level >= turn.parting[node])
        closed = [in_domain.expression() == count for in_domain, count in closing]
        return [*closed, self.seats[node] >= turn.done[node] + 1]

    def _hold(self, turn: _Turn, node: int) -> None:
        """Hold that the next member is on `node`, and that nobody is on the nodes that are out for that."""
        for each in self._seated(turn, node):
            self.model.cp.add(each)
        if self.search.proven:
            for rejected in self._rejected(turn, node):
                if not turn.done[rejected]:
                    self.search.hold(one(self.seats[rejected]), 0)

    def _rejected(self, turn: _Turn, chosen: int) -> list[int]:
        """The smaller names that could have been had by leaving no more than for the chosen one: they are in no plan
        that is as good.
        """
        rank = self.name_rank
        smaller = (node for node in turn.smaller if rank[node] < rank[chosen])
        return [node for node in smaller if turn.parting[node] >= turn.parting[chosen]]

    def _seat(self, turn: _Turn, node: int) -> None:
        """The next member is on `node`: the domains that it leaves are left for good."""
        self.out.update(self._rejected(turn, node))
        for level in range(turn.parting[node], self.tree.depth if self.nodes else 0):
            self.out.update(self.tree.nodes(level, self.tree.domain(level, self.nodes[-1])))
        self.nodes.append(node)
        self.done[node] += 1

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

    def _same(self, level: int, one: int, other: int) -> bool:
        return self.tree.domain(level, one) == self.tree.domain(level, other)
