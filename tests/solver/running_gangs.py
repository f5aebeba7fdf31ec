"""Which evictions running gangs allow, for the brute-force searches. It follows docs/decisions/0002 only."""

from solver.problem import Problem, VictimGang


def gangs_hold(problem: Problem, chosen: tuple[int, ...]) -> bool:
    """Whether every gang keeps its minimums or goes as a whole."""
    for number, gang in enumerate(problem.victim_gangs):
        gone = [v for v in chosen if problem.victims[v].gang == number]
        if gone and len(gone) != gang.running and not _runs_on(gang, gone):
            return False
    return True


def cut_short(problem: Problem, chosen: tuple[int, ...]) -> int:
    """Count the running gangs that lose a member and fall below one of their minimums."""
    broken = 0
    for number, gang in enumerate(problem.victim_gangs):
        gone = [v for v in chosen if problem.victims[v].gang == number]
        broken += bool(gone) and not _runs_on(gang, gone)
    return broken


def _runs_on(gang: VictimGang, gone: list[int]) -> bool:
    """Whether the gang and each of its sets still have their minimum."""
    left = {part.name: part.running for part in gang.sets}
    for part in gang.sets:
        for v in gone:
            if v in part.victims:
                left[part.name] -= 1
    enough = all(left[part.name] >= part.minimum for part in gang.sets)
    return enough and gang.running - len(gone) >= gang.minimum
