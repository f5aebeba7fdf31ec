"""Goals of a model with several gangs that are stated differently than for one gang: compactness and waste.

The value of a goal is the sum of the gangs' values (docs/decisions/0002). The stages of one gang count all members of a
model together. For all other goals, such a stage is the sum over the gangs already. For compactness and waste it is
not, because two gangs in one domain count the domain twice.
"""

from collections.abc import Iterator, Sequence

from solver.bounds.domain_cover import Covers
from solver.cp_sat import goal_terms as goals
from solver.cp_sat.lexicographic import Stage
from solver.cp_sat.linear import Sum, one, total
from solver.cp_sat.solve import Stated
from solver.cp_sat.variables import Model, any_of
from solver.objective import SolvePhase, in_order
from solver.tree import ROOT

Touched = list[dict[int, Sum]]
"""By level and domain, a model expression that is 1 if the gang has a placed member in the domain, else 0."""


class JointGoals:
    """States compactness and waste of a joint problem as stages. `gangs`: for each gang, the positions of its sets;
    earlier gangs come first.
    """

    def __init__(self, gangs: Sequence[Sequence[int]]) -> None:
        self._gangs = tuple(tuple(sets) for sets in gangs)
        self._known: list[tuple[Model, list[Touched]]] = []

    @property
    def where(self) -> tuple[Stated, ...]:
        """The functions that state the goal terms from compactness to waste, for the argument `where` of
        `solve_within`.

        `compactness`, `precedence` (just before waste) and `waste` are methods of this class. All other terms are
        stated as for one gang.
        """
        joint = {"compactness": self.compactness, "waste": self.waste}
        spread, start, room = (
            tuple(joint.get(name, goals.TERMS[name]) for name in names)
            for names in in_order(SolvePhase.SPREAD, SolvePhase.START, SolvePhase.ROOM)
        )
        return spread, start, (self.precedence,), room

    def compactness(self, model: Model, solution: goals.Solution) -> Iterator[Stage]:
        """Goal 3, `compactness`: minimise the number of domains level by level. On each level, the domains of each gang
        are summed over the gangs, and then the domains of each set over all sets.
        """
        covers = Covers(model.instance)
        sets = goals.placed_in_sets(model, solution)
        filled = [[pod_set for pod_set in gang if sets[pod_set]] for gang in self._gangs]
        gangs = self._touched(model)
        for level, name in enumerate(model.instance.problem.levels):
            least = sum(covers.least(level, [seat for each in own_sets for seat in sets[each]]) for own_sets in filled)
            flags = [flag for touched in gangs for flag in touched[level].values()]
            yield Stage(f"compactness/{name}", "gang", total(flags), least, len(flags))
            if any(len(own_sets) > 1 for own_sets in filled):
                each = [pod_set for own_sets in filled for pod_set in own_sets]
                flags = [flag for pod_set in each for flag in model.set_touched[pod_set][level].values()]
                least = sum(covers.least(level, sets[pod_set]) for pod_set in each)
                yield Stage(f"compactness/{name}", "sets", total(flags), least, len(flags))

    def precedence(self, model: Model, _solution: goals.Solution) -> Iterator[Stage]:
        """Goal 3, `compactness`: minimise the number of domains of the first gang, then of the second, and so on.

        The sums over all gangs are fixed already, so this only decides which gang is the more compact one. No stage if
        there is only one gang.
        """
        if len(self._gangs) < 2:  # noqa: PLR2004 -- a single gang precedes none
            return
        for gang, touched in enumerate(self._touched(model)):
            for level, name in enumerate(model.instance.problem.levels):
                flags = touched[level].values()
                yield Stage(f"compactness/{name}", f"gang {gang}", total(flags), 0, len(flags))

    def waste(self, model: Model, solution: goals.Solution) -> Iterator[Stage]:
        """Goal 4, `waste`: minimise each part of waste, summed over the gangs.

        Capacity that other gangs use in a domain does not count as free.
        """
        parts: dict[tuple[int, int, str], list[tuple[Sum, int]]] = {}
        for gang, touched in enumerate(self._touched(model)):
            view = _View(model, self._eligible(model, gang), touched)
            for key, left in view.waste(_narrowest(model, self._gangs[gang], solution)):
                parts.setdefault(key, []).append(left)
        for key, lefts in sorted(parts.items()):
            yield Stage("waste", key[2], total(left for left, _ in lefts), 0, sum(most for _, most in lefts))

    def _eligible(self, model: Model, gang: int) -> frozenset[int]:
        """Return the nodes where a pending member of the gang may run."""
        problem = model.instance.problem
        shapes = {
            member.shape
            for pod_set in self._gangs[gang]
            for member in problem.sets[pod_set].members
            if member.node is None
        }
        return frozenset[int]().union(*map(model.instance.eligible, shapes))

    def _touched(self, model: Model) -> list[Touched]:
        """Return the touched domains of each gang. They are computed once for each model, because this creates
        variables.
        """
        for known, touched in self._known:
            if known is model:
                return touched
        touched = [_of_gang(model, sets) for sets in self._gangs]
        self._known.append((model, touched))
        return touched


def _of_gang(model: Model, sets: Sequence[int]) -> Touched:
    """Return the touched domains of a gang: a domain is touched if one of the gang's sets touches it. `sets`: the
    gang's sets.
    """
    levels: Touched = []
    for level in range(len(model.instance.problem.levels)):
        found: dict[int, list[Sum]] = {}
        for pod_set in sets:
            for domain, flag in model.set_touched[pod_set][level].items():
                found.setdefault(domain, []).append(flag)
        levels.append({domain: any_of(model, flags) for domain, flags in sorted(found.items())})
    return levels


def _narrowest(model: Model, sets: Sequence[int], solution: goals.Solution) -> int:
    """Return the narrowest level of which one domain holds a gang in this solution. `sets`: the gang's sets.

    The level is computed from the flags of the sets. A solution that was found before the gang's own flags were created
    has no values for these flags.
    """
    narrowest = ROOT
    for level in range(len(model.instance.problem.levels)):
        flags = [item for pod_set in sets for item in model.set_touched[pod_set][level].items()]
        if len({domain for domain, flag in flags if flag.value(solution)}) > 1:
            break
        narrowest = level
    return narrowest


class _View:
    """The free capacity that counts as one gang's waste: the free capacity of the nodes on which the gang's pending
    members may run.
    """

    def __init__(self, model: Model, eligible: frozenset[int], touched: Touched) -> None:
        self.model, self.eligible, self.touched = model, eligible, touched
        self.tree, self.names = model.instance.tree, model.instance.problem.levels

    def waste(self, narrowest: int) -> Iterator[tuple[tuple[int, int, str], tuple[Sum, int]]]:
        """Yield the parts of waste as (key, (value, upper bound)), the value as a model expression.

        Sorting by key gives the order of the parts. The last entry of a key is the part's name, such as `b/rack`.

        The parts (a) to (d) are those of `solver.objective.WASTE`. `narrowest`: the narrowest level of which one domain
        holds the gang.
        """
        depth = len(self.names)
        yield (0, 0, "a"), self._left(narrowest)
        for level in range(narrowest - 1, ROOT - 1, -1):
            name = self.names[level] if level > ROOT else "cluster"
            yield (1, -level, f"b/{name}"), self._left(level)
        for level in range(narrowest + 1, depth):
            yield (2, level, f"c/{self.names[level]}"), self._left(level)
        for level in range(narrowest + 1, depth):
            yield (3, level, f"d/{self.names[level]}"), self._unfilled(level)

    def _domains(self, level: int) -> dict[int, Sum]:
        """Return, by domain of a level, the flag that is 1 if the gang touches the domain. The whole cluster (ROOT) is
        always touched.
        """
        return {0: Sum((), 1)} if level == ROOT else self.touched[level]

    def _inside(self, level: int, domain: int) -> tuple[int, Sum]:
        """Return two values: the potential of a domain for this gang, and what members of all gangs use of the scarcest
        resource on the same nodes.
        """
        nodes = [node for node in self.tree.nodes(level, domain) if node in self.eligible]
        return sum(self.model.instance.potential[node] for node in nodes), total(
            self.model.used(node) for node in nodes
        )

    def _left(self, level: int) -> tuple[Sum, int]:
        """Return two values: the free capacity that remains in the touched domains of a level, as a model expression,
        and its upper bound.
        """
        left, most = [], 0
        for domain, flag in self._domains(level).items():
            potential, used = self._inside(level, domain)
            most += potential
            if not flag.terms:
                left.append(used.times(-1) + Sum((), potential * flag.constant))
            elif potential:
                rest = self.model.cp.new_int_var(0, potential, "")
                self.model.cp.add((one(rest) + used).expression() >= flag.times(potential).expression())
                left.append(one(rest))
        return total(left), most

    def _unfilled(self, level: int) -> tuple[Sum, int]:
        """Return two values: the number of touched domains of a level that have capacity left, as a model expression,
        and its upper bound.
        """
        left = []
        for domain, flag in self._domains(level).items():
            potential, used = self._inside(level, domain)
            if potential:
                rest = self.model.flag()
                self.model.cp.add(
                    (one(rest).times(potential) + used).expression() >= flag.times(potential).expression()
                )
                left.append(one(rest))
        return total(left), len(left)
