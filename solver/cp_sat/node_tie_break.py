"""Ties by node name for interchangeable members: which node each rank gets, smallest names first (goal 6).

Ranks are placed so that every domain's ranks are consecutive, as goal 5 requires. So, rank by rank, the next member
stays on its predecessor's node or moves on, and a domain that is left is never used again. Each member gets the
smallest name that still allows an equally good plan.
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
"""From this number of pending members on, a first search for nodes with a choice saves time."""
_Comparison = BoundedLinearExpression | bool
"""A comparison of a model's variables, as OR-Tools types it."""
_AT_FIRST = 2
"""How many members with a choice of nodes the first solve covers at once."""
_ROUNDS = 2
"""The most solves that look for nodes whose number of members may differ. After them, every node counts as such."""


def name_nodes(model: Model, search: Search, *, by_name: bool = True) -> list[list[int]]:
    """Return, by member class, the nodes of its placed members in order of rank. The model is fixed to this solution.

    `by_name` False: take any equally good solution, without comparing names.
    """
    if not by_name:
        return [_as_they_are(model, search, kind) for kind in range(len(model.kinds))]
    open_nodes = _open_nodes(model, search)
    return [_Row(model, search, kind, open_nodes[kind]).seated() for kind in range(len(model.kinds))]


def _open_nodes(model: Model, search: Search) -> list[set[int]]:
    """Return, by member class, the nodes whose number of members may differ between equally good solutions.

    A node that is neither empty nor full is always returned. For the other nodes, each round searches for an equally
    good solution. The solution changes the number of members on as many of these nodes as possible. All nodes are
    returned if fewer than `WORTHWHILE` members are pending, or if the last round still found a change.
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
    """Return the nodes of a member class in the present solution, domain by domain, and fix them."""
    tree, seats = model.instance.tree, model.seats[kind]
    planned = {node: search.solution[variable.index] for node, variable in seats.items()}
    for node, variable in seats.items():
        search.hold(Sum(((1, variable),)), planned[node])
    order = sorted(planned, key=lambda node: tuple(tree.domain(level, node) for level in range(tree.depth)))
    return [node for node in order for _ in range(planned[node])]


@dataclass(frozen=True, slots=True)
class _Turn:
    """One member's choice of a node. `node`: its node in the present solution. `smaller`: nodes with smaller names that
    may be possible instead.

    The other fields hold the state before this member. `closing`: by level, the domain of the previous member and how
    many members it has (empty for the first member). `parting`: by node, the widest level on which its domain differs
    from the previous member's. `done`: by node, its members. `out`: nodes that get no more members.
    """

    node: int
    smaller: Sequence[int]
    closing: Mapping[int, tuple[Sum, int]]
    parting: Mapping[int, int]
    done: Mapping[int, int]
    out: frozenset[int]


class _Row:
    """The search for the first node names of one member class, from the lowest rank to the highest.

    `choice`: nodes that may have more or fewer members than in the present solution. Most members already have their
    smallest possible name. So one solve covers several members: it asks whether one of them can have a smaller name
    while those before it stay. If none can, the next solve covers twice as many.
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
        """Place all members of the class and return their nodes by rank. From then on the model is fixed to these
        nodes.
        """
        count, ahead = self.model.placed(self.kind).value(self.search.solution), _AT_FIRST
        while len(self.nodes) < count:
            self.model.instance.deadline.check()
            turns = list[_Turn]()
            while len(self.nodes) < count and sum(bool(each.smaller) for each in turns) < ahead:
                turns.append(self._next())
            ahead = 2 * ahead if self._kept(turns) else _AT_FIRST
        for node, variable in sorted(self.seats.items()):
            self.search.hold(one(variable), self.done[node])
        return self.nodes

    def _next(self) -> _Turn:
        """Return the choice of the next member, and place it as in the present solution. The model gets no constraint
        yet.
        """
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
        """Return whether all these members have their smallest possible names, and fix those that do.

        Otherwise, the first member that can have a smaller name gets the smallest one. The members after it are
        unplaced again.
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
        """Return the place in `turns` of the first member that can have a smaller name while those before it stay, and
        its smallest node.

        If no member can, the place is the length of `turns`.
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
        """Return a flag for each pair of a member's place in `turns` and a node with a smaller name, and auxiliary
        flags.

        A flag may be set only if the member goes to the node and all members before it stay. At most one is set.
        """
        cp, picks, others = self.model.cp, dict[tuple[int, int], IntVar](), list[IntVar]()
        staying, stay = list[_Comparison](), list[IntVar]()
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
        """Return, by level, a flag that the previous member's domain gets no more members. A flag implies those of all
        narrower levels.
        """
        flags = dict[int, IntVar]()
        for level, (in_domain, count) in turn.closing.items():
            flags[level] = self.model.flag()
            self.model.cp.add(in_domain.expression() == count).only_enforce_if(flags[level])
        for wider, narrower in pairwise(flags.values()):
            self.model.cp.add_implication(wider, narrower)
        return flags

    def _seated(self, turn: _Turn, node: int) -> list[_Comparison]:
        """Return the constraints of a member on `node`: it is there, and the domains that it leaves get no more
        members.
        """
        closing = (each for level, each in turn.closing.items() if level >= turn.parting[node])
        closed = [in_domain.expression() == count for in_domain, count in closing]
        return [*closed, self.seats[node] >= turn.done[node] + 1]

    def _hold(self, turn: _Turn, node: int) -> None:
        """Fix a member on `node` in the model, and exclude the nodes that no equally good plan uses then."""
        for each in self._seated(turn, node):
            self.model.cp.add(each)
        if self.search.proven:
            for rejected in self._rejected(turn, node):
                if not turn.done[rejected]:
                    self.search.hold(one(self.seats[rejected]), 0)

    def _rejected(self, turn: _Turn, chosen: int) -> list[int]:
        """Return the nodes of smaller names than the chosen one that leave no wider domain than it does.

        They are in no equally good plan, because the search chooses the smallest possible name.
        """
        rank = self.name_rank
        smaller = (node for node in turn.smaller if rank[node] < rank[chosen])
        return [node for node in smaller if turn.parting[node] >= turn.parting[chosen]]

    def _seat(self, turn: _Turn, node: int) -> None:
        """Record the next member on `node`, without a constraint in the model. No later member uses the domains that it
        leaves.
        """
        self.out.update(self._rejected(turn, node))
        for level in range(turn.parting[node], self.tree.depth if self.nodes else 0):
            self.out.update(self.tree.nodes(level, self.tree.domain(level, self.nodes[-1])))
        self.nodes.append(node)
        self.done[node] += 1

    def _present(self) -> int:
        """Return the next member's node in the present solution: as near as possible to the previous member's."""
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
        """Return whether the present solution has more members on a node than were recorded there so far."""
        seat = self.seats.get(node)
        return seat is not None and self.search.solution[seat.index] > self.done[node]

    def _is_open(self, node: int) -> bool:
        """Return whether the next member may be on a node: the node is not left yet, and may have more members than
        recorded.
        """
        if node in self.out or (self.done[node] and node != self.nodes[-1]):
            return False
        return node in self.choice or self.search.solution[self.seats[node].index] > self.done[node]

    def _must_stay(self, present: int) -> bool:
        """Return whether the next member's node cannot change: the innermost domain around it and the previous member
        has no node with a choice.
        """
        if not self.nodes:
            return not self.choice
        last = self.nodes[-1]
        level = max((each for each in range(self.tree.depth) if self._same(each, last, present)), default=ROOT)
        return self.choice.isdisjoint(self.tree.nodes(level, self.tree.domain(level, last)))

    def _domain_of_last(self, level: int) -> tuple[Sum, int]:
        """Return the number of members in the previous member's domain of a level: as a sum of variables, and as
        recorded so far.
        """
        domain = self.tree.domain(level, self.nodes[-1])
        in_domain = self.model.in_domain(self.kind, level, domain)
        return in_domain, sum(self.done[node] for node in self.tree.nodes(level, domain))

    def _parting(self, node: int) -> int:
        """Return the widest level on which a node's domain differs from the previous member's; 0 for the first member.

        The depth of the tree means that it is the same node.
        """
        if not self.nodes:
            return 0
        last = self.nodes[-1]
        return next((level for level in range(self.tree.depth) if not self._same(level, node, last)), self.tree.depth)

    def _same(self, level: int, one: int, other: int) -> bool:
        return self.tree.domain(level, one) == self.tree.domain(level, other)
