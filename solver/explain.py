"""Why a gang has no place."""
from collections.abc import Callable
from solver.plan import Answer, NoPlan
from solver.problem import Limits, Problem


def explained(problem: Problem, answer: NoPlan, limits: Limits, decide: Callable[[Problem, Limits], Answer]) -> NoPlan:
    return answer
