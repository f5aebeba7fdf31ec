"""Measures a stream of gangs of many sizes that arrive one after the other, run for a while and end.

The results are throughput and waiting times. A new gang is created whenever fewer than `MOST_WAITING` pods wait for a
node, so the cluster sets the pace and not the benchmark. For pods without a gang the scheduler sets the pace; for gangs
the slowest component does.
"""

import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import heappop, heappush
from statistics import quantiles
from typing import Self

from benchmarks.live import load
from controlplane.control_plane import ControlPlane

SIZES: Mapping[int, int] = {2: 40, 8: 30, 32: 15, 64: 10, 128: 5}
"""The share of gangs in per cent, by their number of pods."""
MOST_WAITING = 1024
"""The most pods that may wait for a node before the next gang is created. A single gang may exceed it."""
_RUNS = (5.0, 30.0)
"""The shortest and the longest time in seconds that a gang runs once all of its pods are bound."""
_SEED = 16
_LONGEST = 1800.0
_PROBE_SECONDS = 0.1
"""Seconds between two measurements of a pod's admission."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A gang that arrives: its number of pods, and the seconds that they run."""

    size: int
    runs: float


@dataclass(frozen=True, slots=True)
class Spread:
    """The median and the 99th percentile of many times, in seconds."""

    p50: float
    p99: float


@dataclass(frozen=True, slots=True)
class Passed:
    """The measurement of one stream of gangs.

    `seconds`: from the creation of the first pod until the last pod was bound. `starts`: by size of a gang, from the
    creation of its last pod until all of its pods were bound. `admissions`: how long the creation of a gang's pod took
    meanwhile, in dry runs.
    """

    mode: str
    gangs: int
    pods: int
    seconds: float
    starts: Mapping[int, Spread]
    admissions: Spread

    @property
    def pods_a_second(self) -> float:
        """The pods bound per second."""
        return self.pods / self.seconds


def arrivals(count: int) -> list[Arrival]:
    """Return `count` random gangs. Equal counts give equal gangs."""
    draw = random.Random(_SEED)  # noqa: S311 - nothing secret
    sizes = draw.choices(list(SIZES), list(SIZES.values()), k=count)
    return [Arrival(size, draw.uniform(*_RUNS)) for size in sizes]


def passed(plane: ControlPlane, coming: Sequence[Arrival], mode: str, *, gangs: bool) -> Passed:
    """Create all gangs of a stream, let them run, delete them, and return the measurement of the stream.

    `gangs`: whether the pods are created as gangs of Phalanx; False: without a gang. :raises TimeoutError: the pods
    were not all bound in time.
    """
    stream, probe = _Stream(plane, mode, gangs=gangs), _AdmissionTimer(plane)
    with stream, probe:
        first = time.monotonic()
        for number, arrival in enumerate(coming):
            stream.bring(f"{mode}-{number}", arrival)
        last = stream.await_bound()
    starts: dict[int, list[float]] = {}
    for lot in stream.lots.values():
        starts.setdefault(lot.arrival.size, []).append(max(0.0, lot.bound - lot.created))
    return Passed(
        mode,
        len(coming),
        sum(each.size for each in coming),
        last - first,
        {size: spread(starts[size]) for size in sorted(starts)},
        spread(probe.seconds),
    )


def spread(seconds: Sequence[float]) -> Spread:
    """Return the median and the 99th percentile of these times. Expects at least one."""
    cuts = quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else [*seconds] * 99
    return Spread(cuts[49], cuts[98])


@dataclass(slots=True)
class _Lot:
    """One gang of the stream. Times are monotonic seconds.

    `created`: when all its pods had been created. `bound`: when all its pods were seen bound. `waiting`: its pods that
    have no node yet.
    """

    arrival: Arrival
    created: float = float("inf")
    bound: float = 0.0
    waiting: set[str] = field(default_factory=set)


class _Stream:
    """Creates the gangs of a stream, watches their pods and deletes them. Use it as a context manager."""

    def __init__(self, plane: ControlPlane, mode: str, *, gangs: bool) -> None:
        self.lots: dict[str, _Lot] = {}
        self._plane, self._mode, self._gangs = plane, mode, gangs
        self._changed = threading.Condition()
        self._waiting: dict[str, _Lot] = {}
        """By pod that waits for a node: its gang."""
        self._going: list[tuple[float, str]] = []
        """A heap of gangs by the time at which they have run long enough."""
        self._over = False
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._watch, self._remove)]
        self._since = plane.request("GET", f"{load.PODS}?limit=1")["metadata"]["resourceVersion"]

    def __enter__(self) -> Self:
        """Start the threads that watch pods and delete gangs."""
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Wait until the last gang is deleted, and end the threads."""
        with self._changed:
            self._over = True
            self._changed.notify_all()
        for each in self._threads:
            each.join()

    def bring(self, name: str, arrival: Arrival) -> None:
        """Create a gang as soon as few enough pods wait for a node."""
        pods = load.pods(name, arrival.size, member=self._gangs)
        lot = _Lot(arrival, waiting={each["metadata"]["name"] for each in pods})
        with self._changed:
            self._await(lambda: not self._waiting or len(self._waiting) + arrival.size <= MOST_WAITING)
            self.lots[name] = lot
            self._waiting |= dict.fromkeys(lot.waiting, lot)
        if self._gangs:
            self._plane.create(load.GANGS, [load.gang(name, arrival.size)])
        self._plane.create(load.PODS, pods)
        lot.created = time.monotonic()

    def await_bound(self) -> float:
        """Wait until all pods are bound. Return the time at which the last one was seen bound."""
        with self._changed:
            self._await(lambda: not self._waiting)
            return max(lot.bound for lot in self.lots.values())

    def _await(self, holds: Callable[[], bool]) -> None:
        if not self._changed.wait_for(holds, _LONGEST):
            raise TimeoutError(f"{len(self._waiting)} pods were not bound within {_LONGEST:.0f} s")

    def _watch(self) -> None:
        """Record when pods are bound. When the API server ends a watch, the next watch continues where it ended."""
        while not self._over:
            connection = self._plane.watch(load.PODS, self._since)
            with suppress(OSError, ValueError):
                for line in connection.getresponse():
                    self._note(json.loads(line)["object"])
                    if self._over:
                        break
            connection.close()

    def _note(self, pod: load.Manifest) -> None:
        name, now = pod["metadata"]["name"], time.monotonic()
        self._since = pod["metadata"]["resourceVersion"]
        if not pod["spec"].get("nodeName"):
            return
        with self._changed:
            lot = self._waiting.pop(name, None)
            if lot is None:
                return
            lot.waiting.discard(name)
            if not lot.waiting:
                lot.bound = now
                heappush(self._going, (now + lot.arrival.runs, name.rpartition("-")[0]))
            self._changed.notify_all()

    def _remove(self) -> None:
        """Delete gangs that have run long enough, one after the other; after the end of the stream, all at once."""
        while True:
            with self._changed:
                if not self._going and self._over:
                    return
                soon = self._going[0][0] - time.monotonic() if self._going else _PROBE_SECONDS
                if soon > 0 and not self._over:
                    self._changed.wait(min(soon, _PROBE_SECONDS))
                    continue
                _, name = heappop(self._going)
            for number in range(self.lots[name].arrival.size):
                self._plane.request("DELETE", f"{load.PODS}/{name}-{number}?gracePeriodSeconds=0")
            if self._gangs:
                self._plane.request("DELETE", f"{load.GANGS}/{name}")


class _AdmissionTimer:
    """Every tenth of a second, asks the API server to create a gang's pod with `dryRun=All`, and measures how long the
    answer takes.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self.seconds: list[float] = []
        self._plane, self._over = plane, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        """Start the thread that measures the admission of a pod, ten times a second."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the thread that measures admissions, and wait until it has ended."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        (pod,) = load.pods("tried", 1, member=True)
        while not self._over.wait(_PROBE_SECONDS):
            began = time.monotonic()
            self._plane.request("POST", f"{load.PODS}?dryRun=All", pod)
            self.seconds.append(time.monotonic() - began)


def table(streams: Sequence[Passed]) -> Iterator[str]:
    """Yield the lines of a Markdown table of streams."""
    sizes = sorted({size for each in streams for size in each.starts})
    heads = ["mode", "gangs", "pods", "pods a second", "tried admissions, p50 and p99, ms"]
    heads += [f"{size} pods" for size in sizes]
    yield f"| {' | '.join(heads)} |"
    yield "| --- " + "| ---: " * (len(heads) - 1) + "|"
    for each in streams:
        tried = f"{each.admissions.p50 * 1000:.0f} {each.admissions.p99 * 1000:.0f}"
        cells = [each.mode, f"{each.gangs:,}", f"{each.pods:,}", f"{each.pods_a_second:.1f}", tried]
        starts = (each.starts.get(size) for size in sizes)
        cells += ["" if start is None else f"{start.p50:.2f} {start.p99:.2f}" for start in starts]
        yield f"| {' | '.join(cells)} |"
