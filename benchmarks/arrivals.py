"""Jobs as they arrive on real clusters: the openb trace itself, and Helios and Philly by their statistics.

For Helios and Philly, the shares of job sizes and run times are those of the last 15,000 jobs of each, as published in
DIR-LAB/Gen-Parallel-Workloads. For Philly, the few per cent without a published size are between 1 and 8 GPUs. The
openb trace is described in `data/README.md`. A fraction of a GPU counts as a whole GPU, because extended resources have
no fractions.
"""

import csv
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from pathlib import Path
from random import Random

from benchmarks.network import GPUS_PER_HOST

HELIOS: Mapping[int, float] = {
    1: 55.0,
    2: 5.0,
    4: 6.0,
    8: 22.0,
    16: 5.4,
    24: 1.0,
    32: 2.3,
    48: 1.0,
    64: 0.4,
    96: 0.2,
    128: 0.2,
    160: 0.2,
}
"""The share of Helios jobs in per cent, by the number of GPUs of a job. The one per cent from 64 to 160 GPUs is spread
over four sizes.
"""
PHILLY: Mapping[int, float] = {1: 80.0, 2: 4.2, 4: 4.1, 8: 9.9, 16: 1.6, 32: 0.2}
MEDIAN_SECONDS, MEAN_SECONDS = 277.0, 13_683.0
"""The run time of a Helios job: median and mean, in seconds. The distribution is assumed to be log-normal, for Philly
too.
"""
MILLICORES_PER_GPU, MEBIBYTES_PER_GPU = 12_000, 96 << 10
"""Requests of Helios and Philly jobs per GPU. They are assumed: all GPUs of a host take three quarters of
its amounts.
"""

_OPENB = Path(__file__).parent / "data" / "openb_pod_list_default.csv"
_SIGMA = math.sqrt(2 * math.log(MEAN_SECONDS / MEDIAN_SECONDS))


@dataclass(frozen=True, slots=True)
class Ask:
    """The requests of one pod: GPUs, millicores, MiB."""

    gpus: int
    millicores: int
    mebibytes: int


@dataclass(frozen=True, slots=True)
class Job:
    """A number of equal pods that start together, and their run time in seconds."""

    pods: int
    each: Ask
    seconds: float

    @property
    def gpus(self) -> int:
        """The GPUs of all pods of the job together."""
        return self.pods * self.each.gpus


def arrivals(source: str, rng: Random) -> Iterator[Job]:
    """Yield jobs of "openb", "helios" or "philly", without end."""
    return _replayed(rng) if source == "openb" else _drawn(HELIOS if source == "helios" else PHILLY, rng)


def without_gpus(rng: Random) -> Iterator[Job]:
    """Yield the jobs of the openb trace that request no GPU, without end."""
    return (job for job in _replayed(rng) if not job.each.gpus)


def _replayed(rng: Random) -> Iterator[Job]:
    """Yield the jobs of the openb trace in their order, beginning with a random job. After the last job comes the first
    one.
    """
    trace = _openb()
    start = rng.randrange(len(trace))
    return cycle(trace[start:] + trace[:start])


def _drawn(sizes: Mapping[int, float], rng: Random) -> Iterator[Job]:
    counts, shares = list(sizes), list(sizes.values())
    while True:
        gpus = rng.choices(counts, shares)[0]
        held = min(gpus, GPUS_PER_HOST)
        ask = Ask(held, held * MILLICORES_PER_GPU, held * MEBIBYTES_PER_GPU)
        yield Job(gpus // held, ask, rng.lognormvariate(math.log(MEDIAN_SECONDS), _SIGMA))


@cache
def _openb() -> tuple[Job, ...]:
    with _OPENB.open(encoding="utf-8", newline="") as file:
        return tuple(
            Job(
                1,
                Ask(int(row["num_gpu"]), int(row["cpu_milli"]), int(row["memory_mib"])),
                float(row["deletion_time"]) - float(row["creation_time"]),
            )
            for row in csv.DictReader(file)
        )
