"""Solves instances of the benchmark with the naive model: how much slower it is, or how long it ran without a proof."""

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks import naive
from benchmarks.filling import Cluster
from benchmarks.measuring import Sample
from benchmarks.naive import Open, Proven
from benchmarks.network import TOPOLOGY
from benchmarks.rows import NAIVE_TIMES, Reference
from gangs.model import Gang
from planning.framing.gang_problem import frame, frame_together
from solver.problem import Problem

LEAST_SECONDS, MOST_SECONDS = 1.0, 15.0
"""The shortest and the longest time limit of the naive model, in seconds. Between them, its limit is `NAIVE_TIMES`
times the solver's time.
"""
MOST_SEATS = 120_000
"""The largest product of gangs and nodes for which the naive model is tried. Stating a larger model takes longer than
its time limit.
"""


@dataclass(frozen=True, slots=True)
class Pair:
    """One instance, with the results of the solver (`sample`) and of the naive model (`found`)."""

    sample: Sample
    found: Proven | Open
    problem: Problem


class Naive:
    """The naive model in a separate process, so that its memory is freed and a crash does not end the benchmark."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool = pool

    def beside(self, sample: Sample, gangs: Sequence[Gang], cluster: Cluster) -> Pair | None:
        """Return the naive model's result beside the solver's; None if it cannot state the instance in time."""
        if len(gangs) * len(cluster.snapshot.nodes) > MOST_SEATS:
            return None
        problems = [frame(gang, cluster.snapshot, TOPOLOGY, running=cluster.running).problem for gang in gangs]
        if not all(map(naive.can_state, problems)):
            return None
        apart = len(gangs) > 1
        problem = problems[0]
        if apart:
            problem = frame_together(gangs, cluster.snapshot, TOPOLOGY, running=cluster.running).problem
        seconds = min(MOST_SECONDS, max(LEAST_SECONDS, NAIVE_TIMES * _answered(sample)))
        return Pair(sample, self._solved(problem, seconds, apart=apart), problem)

    def _solved(self, problem: Problem, seconds: float, *, apart: bool) -> Proven | Open:
        try:
            return self._pool.submit(naive.solve, problem, seconds, apart=apart).result()
        except BrokenProcessPool:
            return Open(seconds)


@contextmanager
def naive_model() -> Iterator[Naive]:
    """Yield the naive model in a process that has started already."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        pool.submit(int).result()
        yield Naive(pool)


def reference(pairs: Sequence[Pair]) -> Reference | None:
    """Return the naive model's figures for a row; None if there are no pairs to compare."""
    if not pairs:
        return None
    return Reference(
        instances=len(pairs),
        proven=sum(isinstance(pair.found, Proven) for pair in pairs),
        seconds=round(max(pair.found.seconds for pair in pairs), 2),
        times=round(min(pair.found.seconds / _answered(pair.sample) for pair in pairs), 1),
        equal=all(map(_equal, pairs)),
    )


def _answered(sample: Sample) -> float:
    """Return the solver's seconds from the problem to its result.

    The time to build the problem and to explain a rejection is left out, because the naive model does neither.
    """
    return sample.seconds - sample.phases["snapshot"] - sample.explaining


def _equal(pair: Pair) -> bool:
    """Whether solver and naive model have equal values. Also True if one of them proves nothing.

    Also True for an instance of several gangs, because the sample has no joint plan to compare.
    """
    if not isinstance(pair.found, Proven) or not pair.sample.proven_first or pair.sample.gangs > 1:
        return True
    plan = pair.sample.plan
    return pair.found.values == (None if plan is None else naive.values_of(pair.problem, plan))
