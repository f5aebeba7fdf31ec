"""From the tables of several member classes back to nodes: which nodes the best plans use, and which plans are best by
further goals.

The tables' cost holds only as many goals as fit into 59 bits. Plans with equal cost are compared here by the remaining
goals, the later cost, in numbers of any size. Only divisions of members that lead to plans of least cost are followed.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from solver.tree_dp.class_vectors import Vector, splits, splitting
from solver.tree_dp.multi_class_tables import NOTHING, MergeStep, TableEffort, Tables

_Split = tuple[Vector, Vector]
"""A division of members at one `MergeStep`, as two count vectors. The first has the members of the children merged in
earlier steps. The second has the members of the child that this step adds.
"""


class BestPaths:
    """The best ways to divide members among the nodes of a domain. Ways are compared by the cost in the tables, and
    then by the later cost (the goals that do not fit into a table's cost).

    `states`: how many pairs of a domain and a count vector may be compared by the later cost; `TooMuchError` is raised
    beyond this number. None: the later cost is ignored.
    """

    def __init__(self, tables: Tables, states: int | None) -> None:
        self.tables = tables
        self._instance = tables.rules.instance
        self._last = self._instance.tree.depth - 1
        self._comparing = states is not None and tables.later is not NOTHING
        self._states = TableEffort(states or 0, tables.effort.deadline)
        # Caches of the least later cost of a count vector: in a domain, under the key of the domain's table; in the
        # children that are merged up to a step, under the step's place.
        self._in_domain: dict[tuple[int, Vector], int] = {}
        self._up_to: dict[tuple[int, Vector], int] = {}

    def later(self, level: int, number: int, counts: Vector) -> int:
        """Return the least later cost of placing `counts` members in a domain. Only ways with the least cost in the
        tables count. The later cost is the value of the goals that do not fit into the tables' cost.

        0 if the later cost is ignored, or if the domain can hold no member.
        """
        key = self.tables.key(level, number)
        return 0 if key is None or not self._comparing else self._least(key, counts)

    def nodes(self, level: int, number: int, counts: Vector) -> Iterator[tuple[int, Vector]]:
        """Yield the nodes of a domain with the count vectors that they can have in the best ways to place `counts`
        members in the domain.

        A node occurs once for each of its count vectors. Of nodes that differ in names only, no more are yielded than
        can be used: the nodes with the first names. Domains just above the node that differ in names only are reduced
        in the same way.
        """
        wanted = {number: {counts}}
        for each in range(level, self._last):
            inside: dict[int, set[Vector]] = {}
            for domain, totals in wanted.items():
                self._trace(each, domain, totals, inside)
            wanted = inside
        for node, totals in wanted.items():
            for total in sorted(totals):
                yield node, total

    def one(self, level: int, number: int, counts: Vector) -> dict[int, Vector]:
        """Return one best way to place `counts` members in a domain: the count vector of each node that it uses.

        Of nodes that differ in names only, the nodes with the first names are used.
        """
        wanted = {number: counts}
        for each in range(level, self._last):
            inside: dict[int, Vector] = {}
            for domain, total in wanted.items():
                self._take(each, domain, total, inside)
            wanted = inside
        return wanted

    def _trace(self, level: int, number: int, totals: set[Vector], inside: dict[int, set[Vector]]) -> None:
        """Find, for each child of a domain, the count vectors that the child can have in a best way to place one of
        `totals` in the domain. Add them to `inside`, by child.

        Alike children are interchangeable, so each of them gets every count vector that the last of them can have.
        """
        key = self.tables.key(level, number)
        if key is None:
            return
        alike, used = self.tables.children(level, number), max(map(sum, totals))
        for step in reversed(self.tables.known[key].steps):
            parts, rests = set[Vector](), set[Vector]()
            for total in totals:
                for rest, part in self._best(step, total):
                    parts.add(part)
                    rests.add(rest)
            children = alike.pop(step.key, [])
            if any(map(any, parts)):
                children = self._first_by_name(level + 1, children, used)
                inside.update({child: {part for part in parts if any(part)} for child in children})
            totals = rests

    def _first_by_name(self, level: int, alike: list[int], used: int) -> list[int]:
        """Return those of the domains `alike` that the plan with the first node names can use. The domains differ in
        names only, and a plan uses at most `used` of them.

        A domain is left out if `used` other domains are preferred to it. One domain is preferred to another if each of
        its node names comes before the corresponding name of the other. The n-th name in a class of alike nodes
        corresponds to the n-th name in the same class of the other domain.
        """
        if level < self._last - 1 or len(alike) <= used or not self.tables.has_all_goals:
            return alike
        names = np.array([self._names(level, each) for each in alike], dtype=np.int64)
        kept: list[int] = []
        for place in np.argsort(names[:, 0], kind="stable").tolist():
            before = (names[kept] < names[place]).all(axis=1)
            if np.count_nonzero(before) < used:
                kept.append(place)
        return [alike[place] for place in sorted(kept)]

    def _names(self, level: int, domain: int) -> list[int]:
        """Return, for a domain's usable nodes, their places in the natural order of names, class by class of alike
        nodes.

        If `domain` is a node, the result is its own place only.
        """
        rank, key = self._instance.name_rank, self.tables.key(level, domain)
        if level == self._last or key is None:
            return [rank[domain]]
        used = Counter(step.key for step in self.tables.known[key].steps)
        of_sort = self.tables.children(level, domain)
        return [place for sort in used for place in sorted(rank[node] for node in of_sort[sort])[: used[sort]]]

    def _take(self, level: int, number: int, total: Vector, inside: dict[int, Vector]) -> None:
        """Choose one of the best ways to place `total` members in a domain. Record the count vector of each child that
        gets members in `inside`.
        """
        key = self.tables.key(level, number)
        if key is None:
            return
        alike = self.tables.children(level, number)
        if level == self._last - 1:
            by_name = self._instance.name_rank.__getitem__
            alike = {each: sorted(nodes, key=by_name) for each, nodes in alike.items()}
        alike = {each: self._first_by_name(level + 1, children, sum(total)) for each, children in alike.items()}
        for step in reversed(self.tables.known[key].steps):
            total, part = self._best(step, total)[0]
            if any(part):
                inside[alike[step.key].pop(0)] = part

    def _best(self, step: MergeStep, total: Vector) -> Sequence[_Split]:
        """Return the best divisions of `total` members at a step: by the cost in the tables, and then by the later
        cost.

        A division gives some members to the step's child, and the rest to the children of earlier steps.
        """
        ways = self._ways(step, total)
        if not self._comparing:
            return ways
        least = self._up_to[step.place, total]
        return [way for way in ways if self._cost(step, way) == least]

    def _ways(self, step: MergeStep, total: Vector) -> list[_Split]:
        """Return the divisions of `total` members at a step that have the least cost in the tables. The later cost is
        ignored.

        A division gives some members to the step's child, and the rest to the children of earlier steps.
        """
        self.tables.effort.spend(splitting(step.before))
        return splits(step.before, self.tables.known[step.key].table, total, int(step.after[total]))

    def _cost(self, step: MergeStep, way: _Split) -> int:
        """Return the least later cost of the division `way` at a step. It is known only if the later cost of the
        children of earlier steps has been computed before.
        """
        rest, part = way
        before = self._up_to[step.previous, rest] if step.previous else 0
        return before + self._least(step.key, part)

    def _least(self, key: int, counts: Vector) -> int:
        """Return the least later cost of `counts` members in a domain. `key`: the number of the domain's table."""
        if (key, counts) not in self._in_domain:
            self._states.spend(1)
            sort = self.tables.known[key]
            inside = self._inside(sort.steps, counts) if sort.steps else 0
            self._in_domain[key, counts] = inside + self.tables.own_later(sort, counts)
        return self._in_domain[key, counts]

    def _inside(self, steps: Sequence[MergeStep], counts: Vector) -> int:
        """Return the least later cost of `counts` members in all children of a domain together. `steps`: the steps that
        merge the children's tables.
        """
        wanted, ways = {counts}, list[tuple[MergeStep, dict[Vector, list[_Split]]]]()
        for step in reversed(steps):
            unknown = [total for total in wanted if (step.place, total) not in self._up_to]
            self._states.spend(len(unknown))
            ways.append((step, {total: self._ways(step, total) for total in unknown}))
            wanted = {rest for found in ways[-1][1].values() for rest, _ in found}
        for step, found in reversed(ways):
            for total, each in found.items():
                self._up_to[step.place, total] = min(self._cost(step, way) for way in each)
        return self._up_to[steps[-1].place, counts]
