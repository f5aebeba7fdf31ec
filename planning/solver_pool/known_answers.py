"""Answers to problems that were solved a moment ago, for problems that differ in the names of their members alone.

Of many equal gangs, all that find no place get the same answer: it is looked for once.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from solver.plan import Answer
from solver.problem import Problem

_KEPT = 4
"""Answers that are kept. Gangs of a few kinds take turns; a comparison takes 0.1 ms on 1,000 nodes."""


class KnownAnswers:
    """The last answers by problem. The solver gives equal problems equal answers: no answer names a member."""

    def __init__(self) -> None:
        self._known: deque[tuple[Problem, Answer]] = deque(maxlen=_KEPT)

    def solved(self, problem: Problem, solve: Callable[[Problem], Answer]) -> Answer:
        """The known answer to a problem, else the one of `solve`."""
        nameless = _nameless(problem)
        for known, answer in self._known:
            if known == nameless:
                return answer
        answer = solve(problem)
        self._known.append((nameless, answer))
        return answer


def _nameless(problem: Problem) -> Problem:
    return replace(
        problem,
        sets=tuple(
            replace(each, members=tuple(replace(member, key="") for member in each.members)) for each in problem.sets
        ),
    )
