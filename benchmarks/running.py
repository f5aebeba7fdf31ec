"""Runs scenarios of the solver's benchmark: draws their instances, measures them, and computes the rows."""

import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import inf
from random import Random

from benchmarks.drawn_scenarios import Scenario
from benchmarks.filling import Cluster, Load, filled
from benchmarks.measuring import Bench, Sample, bench, stated
from benchmarks.network import HOSTS
from benchmarks.reference import Naive, reference
from benchmarks.room import Room
from benchmarks.rows import Row, row
from gangs.model import Gang

SEED = 4
"""The first part of the seed of each instance. The other parts are the scenario's name, the number of nodes and the
number of the instance.
"""
COMPARED = 1
"""The number of instances of every row that the naive model solves, too."""


def instances(scenario: Scenario, nodes: int, count: int) -> Iterator[tuple[Cluster, Random, Room]]:
    """Yield the cluster, a random number generator and the free capacity of each instance of a scenario at one size.

    The instances get the scenario's shares of used GPUs (`fills`) in turn.
    """
    for number in range(count):
        cluster = cluster_of(nodes // HOSTS, scenario.fills[number % len(scenario.fills)], scenario.pods)
        rng = Random(f"{SEED}/{scenario.name}/{nodes}/{number}")  # noqa: S311 -- draws instances, keeps no secrets
        yield cluster, rng, room_of(cluster.load, scenario.evicting_below)


@lru_cache(maxsize=6)
def cluster_of(copies: int, fill: float, pods: int) -> Cluster:
    """Return the cluster of this many copies of the Lingjun network, with this share of its GPUs in use.

    The last clusters are cached.
    """
    return filled(Load(copies, fill, SEED, pods))


@lru_cache(maxsize=12)
def room_of(load: Load, evicting_below: int | None) -> Room:
    """Return the free capacity of a cluster, in which the capacity of pods of a lower priority than `evicting_below`
    counts as free; None: of no pods.
    """
    return Room(cluster_of(load.copies, load.fill, load.pods).snapshot, evicting_below)


def measured(scenario: Scenario, nodes: int, count: int, *, seconds: float = inf, model: Naive | None = None) -> Row:
    """Return the row of a scenario at one size, with the naive model's results if `model` is given.

    The first gang is solved once before, uncounted, because a new worker does not know the cluster yet. `seconds`:
    after this time no further instance starts. One instance always runs. The time does not include the draws of
    instances and clusters.
    """
    asked = [(cluster, scenario.draw(rng, room)) for cluster, rng, room in instances(scenario, nodes, count)]
    samples: list[Sample] = []
    until = time.monotonic() + seconds
    with bench() as worker:
        worker.one(*stated(asked[0][1][0], asked[0][0]))
        for each in asked:
            if samples and time.monotonic() >= until:
                break
            samples.append(_sample(worker, *each))
    pairs = []
    if model is not None:
        for sample, (cluster, gangs) in zip(samples[:COMPARED], asked, strict=False):
            if (pair := model.beside(sample, gangs, cluster)) is not None:
                pairs.append(pair)
    return row(scenario.name, nodes, samples, reference=reference(pairs))


def _sample(worker: Bench, cluster: Cluster, gangs: Sequence[Gang]) -> Sample:
    if len(gangs) > 1:
        return worker.several(gangs, cluster)
    return worker.one(*stated(gangs[0], cluster))
