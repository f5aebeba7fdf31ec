"""A cluster in use: jobs arrive, are placed on single nodes as by a scheduler that knows no gangs, and end.

Jobs keep arriving at a given share of GPUs in use, until as many jobs have ended as ran when the share was first
reached. The free capacity is then as fragmented as in a real cluster. Equal loads give equal clusters on every machine.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random

from benchmarks.arrivals import Ask, Job, arrivals, without_gpus
from benchmarks.network import GPUS_PER_HOST, MEBIBYTES_PER_HOST, MILLICORES_PER_HOST, nodes
from cluster.capturing import snapshot_of
from cluster.snapshot import Snapshot
from gangs.model import GangKey
from kube.objects import (
    Container,
    DisruptionBudgetSpec,
    DisruptionBudgetStatus,
    LabelSelector,
    ObjectMeta,
    Pod,
    PodDisruptionBudget,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from planning.framing.running_gangs import RunningGang, RunningGangs

SOURCES = ("openb", "helios", "philly")
"""The sources of jobs. The jobs of each source use a third of the GPUs in use."""
PRIORITIES = {0: 20, 100: 30, 1000: 50}
"""The share of jobs in per cent, by the priority of a job."""
TEAMS = 8
"""The number of teams. Jobs are assigned to teams in turn. Each team's disruption budget allows the eviction of a tenth
of its pods.
"""

_TIGHT = 0.75
"""The share of pods that are placed on the fullest node with enough free capacity. Other pods are placed on any node
with enough free capacity.
"""
_TRIES = 8
_GIVE_UP = 200
"""After this many jobs in a row without a place, the cluster counts as full."""
_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Load:
    """How full a cluster of the benchmark is. The cluster consists of `copies` copies of the Lingjun network.

    `fill`: the share of its GPUs in use. `seed`: the seed of all random draws. `pods`: pods without GPUs are added
    until the cluster has this number of pods.
    """

    copies: int
    fill: float
    seed: int
    pods: int = 0


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster with its running pods, in the form that planning reads."""

    load: Load
    snapshot: Snapshot
    running: RunningGangs
    pods: int


@dataclass(frozen=True, slots=True)
class _Running:
    job: Job
    hosts: tuple[int, ...]
    started: float
    source: str
    number: int


@dataclass(slots=True)
class _Hosts:
    """The free capacity of every host, by the host's number.

    `by_gpus[n]`: the hosts with n free GPUs, in no order. `where[host]`: the index of the host in its list of
    `by_gpus`.
    """

    gpus: list[int]
    millicores: list[int]
    mebibytes: list[int]
    by_gpus: list[list[int]] = field(default_factory=list)
    where: list[int] = field(default_factory=list)

    def holds(self, host: int, ask: Ask) -> bool:
        """Whether a pod fits on a host."""
        return (
            self.gpus[host] >= ask.gpus
            and self.millicores[host] >= ask.millicores
            and self.mebibytes[host] >= ask.mebibytes
        )

    def take(self, host: int, ask: Ask, sign: int = 1) -> None:
        """Place a pod on a host; with sign -1, remove it."""
        self.millicores[host] -= sign * ask.millicores
        self.mebibytes[host] -= sign * ask.mebibytes
        if ask.gpus:
            self._leave(host)
            self.gpus[host] -= sign * ask.gpus
            self._enter(host)

    def _leave(self, host: int) -> None:
        held, place = self.by_gpus[self.gpus[host]], self.where[host]
        held[place] = held[-1]
        self.where[held[place]] = place
        held.pop()

    def _enter(self, host: int) -> None:
        held = self.by_gpus[self.gpus[host]]
        self.where[host] = len(held)
        held.append(host)


def filled(load: Load) -> Cluster:
    """Return the cluster with the running pods that the load describes."""
    hosts = nodes(load.copies)
    names = [node.metadata.name for node in hosts]
    pods: list[Pod] = []
    running: dict[str, RunningGang] = {}
    for each in sorted(_Replay(load, len(hosts)).run(), key=lambda each: each.number):
        made = list(_pods(each, names))
        pods += made
        if each.job.pods > 1:
            gang = RunningGang(GangKey("phalanx", made[0].metadata.namespace, f"job-{each.number}"), each.job.pods)
            running |= {pod.key: gang for pod in made}
    return Cluster(load, snapshot_of(hosts, pods, budgets=_budgets(pods)), running, len(pods))


class _Replay:
    """One simulation of jobs that arrive and end, beginning with empty hosts."""

    def __init__(self, load: Load, hosts: int) -> None:
        self._load, self._rng = load, Random(load.seed)  # noqa: S311 -- draws instances, keeps no secrets
        self._streams = {source: arrivals(source, self._rng) for source in SOURCES}
        self._hosts = _empty(hosts)
        self._target = load.fill * hosts * GPUS_PER_HOST
        self._used = dict.fromkeys(SOURCES, 0)
        self._running: dict[int, _Running] = {}
        self._endings: list[tuple[float, int]] = []
        self._numbers = count()
        self._now = 0.0

    def run(self) -> list[_Running]:
        """Return the jobs that run at the end of the simulation."""
        self._fill()
        for _ in range(len(self._running)):
            self._end_one()
            self._fill()
        self._top_up()
        return list(self._running.values())

    def _fill(self) -> None:
        """Start jobs until the wanted share of GPUs is used. Jobs that fit nowhere are dropped."""
        failed = 0
        while sum(self._used.values()) < self._target and failed < _GIVE_UP:
            source = min(SOURCES, key=self._used.__getitem__)
            failed = 0 if self._start(next(self._streams[source]), source) else failed + 1

    def _top_up(self) -> None:
        extra = without_gpus(self._rng)
        missing = self._load.pods - sum(each.job.pods for each in self._running.values())
        for _ in range(missing):
            small = next(extra)
            ask = Ask(0, max(1, small.each.millicores // 32), max(1, small.each.mebibytes // 32))
            self._start(Job(1, ask, small.seconds), "openb")

    def _start(self, job: Job, source: str) -> bool:
        chosen: list[int] = []
        for _ in range(job.pods):
            host = self._host(job.each)
            if host is None:
                for each in chosen:
                    self._hosts.take(each, job.each, -1)
                return False
            self._hosts.take(host, job.each)
            chosen.append(host)
        number = next(self._numbers)
        self._running[number] = _Running(job, tuple(chosen), self._now, source, number)
        heapq.heappush(self._endings, (self._now + job.seconds, number))
        self._used[source] += job.gpus
        return True

    def _end_one(self) -> None:
        self._now, number = heapq.heappop(self._endings)
        ended = self._running.pop(number)
        for host in ended.hosts:
            self._hosts.take(host, ended.job.each, -1)
        self._used[ended.source] -= ended.job.gpus

    def _host(self, ask: Ask) -> int | None:
        left = range(ask.gpus, GPUS_PER_HOST + 1)
        tight = ask.gpus and self._rng.random() < _TIGHT
        for gpus in left if tight else self._rng.sample(left, len(left)):
            held = self._hosts.by_gpus[gpus]
            for _ in range(min(_TRIES, len(held))):
                host = held[self._rng.randrange(len(held))]
                if self._hosts.holds(host, ask):
                    return host
        return None


def _empty(hosts: int) -> _Hosts:
    everything = list(range(hosts))
    by_gpus: list[list[int]] = [[] for _ in range(GPUS_PER_HOST)]
    return _Hosts(
        gpus=[GPUS_PER_HOST] * hosts,
        millicores=[MILLICORES_PER_HOST] * hosts,
        mebibytes=[MEBIBYTES_PER_HOST] * hosts,
        by_gpus=[*by_gpus, everything],
        where=list(range(hosts)),
    )


def _pods(each: _Running, names: list[str]) -> Iterator[Pod]:
    rng = Random(each.number)  # noqa: S311 -- as above
    priority = rng.choices(list(PRIORITIES), list(PRIORITIES.values()))[0]
    started = (_EPOCH + timedelta(seconds=int(each.started))).strftime("%Y-%m-%dT%H:%M:%SZ")
    team = f"team-{each.number % TEAMS}"
    for rank, host in enumerate(each.hosts):
        meta = ObjectMeta(name=f"job-{each.number}-{rank}", namespace=team, labels={"team": team})
        spec = PodSpec(node_name=names[host], priority=priority, containers=(container(each.job.each),))
        yield Pod(metadata=meta, spec=spec, status=PodStatus(phase="Running", start_time=started))


def container(ask: Ask) -> Container:
    """Return a container that requests the amounts in `ask`."""
    requests: dict[str, str | int | float] = {"cpu": f"{ask.millicores}m", "memory": f"{ask.mebibytes}Mi"}
    if ask.gpus:
        requests["nvidia.com/gpu"] = ask.gpus
    return Container(name="main", resources=ResourceRequirements(requests=requests))


def _budgets(pods: Iterable[Pod]) -> list[PodDisruptionBudget]:
    """Return a disruption budget for each of the `TEAMS` namespaces `team-N`: at most 10 % of its pods may be
    unavailable.

    The budgets have the status that the disruption controller of a running cluster would write.
    """
    running = Counter(pod.metadata.namespace for pod in pods)
    return [
        PodDisruptionBudget(
            metadata=ObjectMeta(name="tenth", namespace=f"team-{team}"),
            spec=DisruptionBudgetSpec(selector=LabelSelector(), max_unavailable="10%"),
            status=DisruptionBudgetStatus(disruptions_allowed=-(-running[f"team-{team}"] // 10)),
        )
        for team in range(TEAMS)
    ]
