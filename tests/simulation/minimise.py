"""The shortest version of a failing schedule that still fails."""

from collections.abc import Callable, Collection

from simulation.schedule import Result, run


def minimised(result: Result, show: Callable[[str], None] = lambda _text: None, runs: int = 400) -> Result:
    """Return the result of the same seed with as few faults, delays and actions as break the same invariant.

    Questions are answered by the harmless option, in chunks of half of them, then smaller ones (delta debugging: Zeller
    and Hildebrandt, "Simplifying and isolating failure-inducing input", 2002). At most `runs` schedules are run.
    """
    letters, left = _letters(result), sorted(result.taken)
    size, best = len(left), result
    while size >= 1 and runs > 0:
        place = 0
        while place < len(left) and runs > 0:
            fewer = left[:place] + left[place + size :]
            runs -= 1
            tried = run(result.seed, frozenset(fewer), forgets=result.forgets)
            if letters & _letters(tried):
                left, best = _taken(tried, fewer), tried
                show(f"{len(left)} choices left, {len(tried.trace)} lines")
            else:
                place += size
        size //= 2
    return best


def _letters(result: Result) -> set[str]:
    """Which invariants are broken."""
    return {each.partition(")")[0] for each in result.violations}


def _taken(result: Result, allowed: Collection[str]) -> list[str]:
    """The allowed questions that were still asked and answered otherwise."""
    return sorted(result.taken.intersection(allowed))
