"""Runs scenarios: draws their instances, measures them, makes the rows."""

from collections.abc import Iterator
from functools import lru_cache
from random import Random

from benchmarks.filling import Cluster, Load, filled
from benchmarks.measuring import Bench, Sample, bench, stated
from benchmarks.network import HOSTS
from benchmarks.room import Room
from benchmarks.rows import Row, row
from benchmarks.scenarios import Scenario

SEED = 4
"""Of all draws; the number of the instance, its scenario and its size are added to it."""


def instances(scenario: Scenario, nodes: int, count: int) -> Iterator[tuple[Cluster, Random, Room]]:
    """Cluster, seed and room of every instance of a scenario at one size; the fills by turns."""
    for number in range(count):
        cluster = cluster_of(nodes // HOSTS, scenario.fills[number % len(scenario.fills)], scenario.pods)
        rng = Random(f"{SEED}/{scenario.name}/{nodes}/{number}")  # noqa: S311 -- draws instances, keeps no secrets
        yield cluster, rng, room_of(cluster.load, scenario.evicting_below)


@lru_cache(maxsize=5)
def cluster_of(copies: int, fill: float, pods: int) -> Cluster:
    """The cluster of a size under a load."""
    return filled(Load(copies, fill, SEED, pods))


@lru_cache(maxsize=8)
def room_of(load: Load, evicting_below: int | None) -> Room:
    """What a cluster has left."""
    return Room(cluster_of(load.copies, load.fill, load.pods).snapshot, evicting_below)


def measured(scenario: Scenario, nodes: int, count: int) -> Row:
    """The row of a scenario at one size. One more instance goes before it, uncounted: a worker that has just started
    has not seen the cluster yet.
    """
    with bench() as worker:
        _sample(worker, scenario, *next(instances(scenario, nodes, 1)))
        samples = [_sample(worker, scenario, *each) for each in instances(scenario, nodes, count)]
    return row(scenario.name, nodes, samples)


def _sample(worker: Bench, scenario: Scenario, cluster: Cluster, rng: Random, room: Room) -> Sample:
    gangs = scenario.draw(rng, room)
    if len(gangs) > 1:
        return worker.several(gangs, cluster)
    return worker.one(*stated(gangs[0], cluster))
