"""Linear sums of a model's variables that can be evaluated on a solution without the solver."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from solver.cp_model import IntVar, LinearExpr

Term = tuple[int, IntVar]


@dataclass(frozen=True, slots=True)
class Sum:
    """A linear expression: `constant` plus each variable times its coefficient. `terms`: pairs of coefficient and
    variable.
    """

    terms: tuple[Term, ...] = ()
    constant: int = 0

    def __add__(self, other: "Sum") -> "Sum":
        return Sum(self.terms + other.terms, self.constant + other.constant)

    def times(self, factor: int) -> "Sum":
        """Return the sum with every coefficient and the constant multiplied by `factor`."""
        return Sum(tuple((factor * weight, variable) for weight, variable in self.terms), factor * self.constant)

    def expression(self) -> LinearExpr:
        """Return the sum as an expression of CP-SAT."""
        variables = [variable for _, variable in self.terms]
        return LinearExpr.weighted_sum(variables, [weight for weight, _ in self.terms]) + self.constant

    def known(self, solution: Sequence[int]) -> bool:
        """Return whether a solution has values for all variables of the sum. It has no values for variables created
        after the solution was found.
        """
        return all(variable.index < len(solution) for _, variable in self.terms)

    def value(self, solution: Sequence[int]) -> int:
        """Return the sum's value in a solution. `solution`: the values of all variables by their index."""
        return self.constant + sum(weight * solution[variable.index] for weight, variable in self.terms)


def one(variable: IntVar) -> Sum:
    """Return a sum of one term: the variable with the coefficient 1."""
    return Sum(((1, variable),))


def total(sums: Iterable[Sum]) -> Sum:
    """Return the sum of several sums."""
    listed = list(sums)
    return Sum(tuple(term for each in listed for term in each.terms), sum(each.constant for each in listed))
