"""`python -m benchmarks.live.large_cluster`: measure our two servers in clusters of many nodes and running pods.

etcd, API server, scheduler and controller-manager are real. Nodes and running pods are objects without a kubelet. All
of them exist before our servers start, so that the servers start into a cluster in use.
"""

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import click

from benchmarks.live import load, machine_usage, stream
from controlplane.control_plane import LONG_LEASES, ControlPlane, Options
from controlplane.deployment import Deployment
from controlplane.running.components import COMPONENTS

SETTLE_SECONDS, IDLE_SECONDS = 20.0, 30.0
LONGEST = 1800.0
ROUNDS = 5
GANG = 8
"""The number of pods of the gangs whose time until all pods are bound is measured."""
OTHERS = "running"
"""The namespace of the pods that already run."""
LOOK_SECONDS = 0.02
_SHARE = 100


@dataclass(frozen=True, slots=True)
class Size:
    """The figures of the two servers in a cluster of so many nodes, running pods and waiting gangs.

    By server, `ready`: seconds from its start until it serves. `megabytes`: its memory after it has settled. `idle`:
    the percentage of a core that it uses when idle. `seconds`: the median time of a gang of 8 pods, from the creation
    of its last pod until all its pods are bound.
    """

    nodes: int
    pods: int
    gangs: int
    ready: Mapping[str, float]
    megabytes: Mapping[str, float]
    idle: Mapping[str, float]
    seconds: float


@dataclass(frozen=True, slots=True)
class Asked:
    """Which measurements are made in one cluster.

    First, small gangs are measured beside `gangs` waiting gangs whose rejection is already reported. Then a stream of
    `streamed` gangs and one gang of `large` pods are measured. At that time, `beside` gangs wait altogether.
    """

    pods_per_node: int
    gangs: int
    streamed: int
    large: int
    beside: int


@dataclass(frozen=True, slots=True)
class Found:
    """The figures of one cluster. `beside`: the number of gangs that wait while the streams are measured."""

    nodes: int
    sizes: tuple[Size, ...]
    streams: tuple[stream.Passed, ...]
    beside: int


@click.command()
@click.option("--nodes", "sizes", default="5000,15000", show_default=True, help="Clusters, separated by commas.")
@click.option("--pods-per-node", type=click.IntRange(0), default=7, show_default=True)
@click.option("--gangs", type=click.IntRange(0), default=500, show_default=True, help="Gangs that wait for capacity.")
@click.option("--stream", "streamed", type=click.IntRange(0), default=0, help="Gangs that arrive, run and end.")
@click.option("--large", type=click.IntRange(0), default=0, help="Pods of one large gang.")
@click.option("--beside", type=click.IntRange(0), default=0, help="Gangs that wait beside the stream.")
@click.option("--write", type=click.Path(path_type=Path, dir_okay=False), help="File for the page.")
def main(*, sizes: str, write: Path | None, **asked: int) -> None:
    """Measure start, memory and idle CPU of our servers in large clusters, and the time that gangs take to be bound."""
    about = f"{machine_usage.machine()}, load before the run {os.getloadavg()[0]:.1f}."
    text = page([_measured(int(nodes), Asked(**asked)) for nodes in sizes.split(",")], about)
    click.echo(text)
    if write is not None:
        write.write_text(text, encoding="utf-8")


def page(found: Sequence[Found], about: str) -> str:
    """Return the results of the whole run as a page in Markdown. `about`: a sentence about the machine."""
    lines = [
        "# What the servers need in large clusters",
        "",
        about,
        "`python -m benchmarks.live.large_cluster --write benchmarks/results/large_clusters.md` writes this page.",
        "`8 pods`: the time from the creation of a gang's last pod until all its pods are bound.",
        "",
        "| nodes | running pods | waiting gangs | server | start to ready, s | MB | idle, % of a core | 8 pods, s |",
        "| ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: |",
    ]
    for size in (size for each in found for size in each.sizes):
        for server in size.ready:
            cells = [f"{size.nodes:,}", f"{size.pods:,}", f"{size.gangs:,}", server, f"{size.ready[server]:.1f}"]
            cells += [f"{size.megabytes[server]:.0f}", f"{size.idle[server]:.1f}", f"{size.seconds:.2f}"]
            lines.append(f"| {' | '.join(cells)} |")
    for each in found:
        if each.streams:
            lines += ["", f"## A stream of gangs on {each.nodes:,} nodes, beside {each.beside:,} waiting gangs", ""]
            lines += [*_ABOUT_STREAMS, "", *stream.table(each.streams)]
    return "\n".join([*lines, ""])


_ABOUT_STREAMS = (
    "`stock`: the same pods without a gang. `2 pods` to `2048 pods`: for gangs of that size, the time in s from the",
    "creation of the last pod until all pods are bound, p50 and p99.",
    "`tried admissions`: a pod of a gang is created with `--dry-run=server` while the gangs arrive.",
)


def _measured(nodes: int, asked: Asked) -> Found:
    """Measure one cluster: first without waiting gangs, then with them, then with streams of gangs."""
    options = Options(components=[each for each in COMPONENTS if each != "kwok"], more=LONG_LEASES)
    with ControlPlane(options) as plane:
        fill(plane, nodes, asked.pods_per_node)
        pods = nodes * asked.pods_per_node
        click.echo(f"{nodes:,} nodes and {pods:,} pods are there")
        deployment, ready, servers = Deployment(plane), dict[str, float](), dict[str, int]()
        deployment.install()
        plane.apply([load.topology()])
        for name, start in (("webhook", deployment.start_webhook), ("controller", lambda: _controller(deployment))):
            began = time.monotonic()
            servers[name] = start().pid
            ready[name] = time.monotonic() - began
            if name == "webhook":
                deployment.register_webhook()
        found = list[Size]()
        for waiting in dict.fromkeys((0, asked.gangs)):
            _add_waiting(plane, range(waiting))
            _await(plane, load.GANGS, lambda answer: all(map(_answered, answer["items"])), "gangs to be told", pause=1)
            megabytes, idle = _idle(servers)
            seconds = median(_gang(plane, f"g{waiting}-{number}") for number in range(ROUNDS))
            found.append(Size(nodes, pods, waiting, ready, megabytes, idle, seconds))
            click.echo(str(found[-1]))
        _add_waiting(plane, range(asked.gangs, asked.beside))
        streams = tuple(_streams(plane, asked))
        click.echo(str(_idle(servers)))
        return Found(nodes, tuple(found), streams, max(asked.gangs, asked.beside))


def _streams(plane: ControlPlane, asked: Asked) -> Iterator[stream.Passed]:
    """Yield the measurements of the streams of gangs.

    Each stream is measured twice: first its pods start without gangs, then as gangs of Phalanx.
    """
    coming = {"": stream.arrivals(asked.streamed), "large ": [stream.Arrival(asked.large, 1.0)] if asked.large else []}
    for name, arrivals in coming.items():
        for mode in ("stock", "phalanx") if arrivals else ():
            passed = stream.passed(plane, arrivals, f"{name}{mode}".replace(" ", "-"), gangs=mode == "phalanx")
            click.echo(str(passed))
            yield passed


def _controller(deployment: Deployment) -> Any:
    return deployment.start_controller()


def fill(plane: ControlPlane, nodes: int, pods_per_node: int) -> None:
    """Create nodes whose status is ready at once, and pods that run on them."""
    condition = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    made = map(load.node, range(nodes))
    plane.create("/api/v1/nodes", [{**n, "status": {**n["status"], "conditions": [condition]}} for n in made])
    plane.create("/api/v1/namespaces", [{"metadata": {"name": OTHERS}}])
    account = f"/api/v1/namespaces/{OTHERS}/serviceaccounts/default"
    _await(plane, account, lambda answer: answer.get("kind") == "ServiceAccount", "a service account")
    plane.create(f"/api/v1/namespaces/{OTHERS}/pods", _running(nodes, pods_per_node))
    _await(plane, "/api/v1/nodes", lambda answer: all(map(load.ready, answer["items"])), "nodes to be ready", pause=5.0)


def _running(nodes: int, pods_per_node: int) -> Iterator[load.Manifest]:
    """Yield the running pods: each requests one CPU and is bound at its creation."""
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}}
    for number in range(nodes):
        name = load.node(number)["metadata"]["name"]
        for at in range(pods_per_node):
            yield {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"{name}-{at}", "namespace": OTHERS, "labels": {"app": f"a{number % _SHARE}"}},
                "spec": {"nodeName": name, "containers": [{"name": "main", "image": "pause", "resources": resources}]},
            }


def _add_waiting(plane: ControlPlane, numbers: Iterable[int]) -> None:
    """Create gangs that stay infeasible: two pods, each of which requests more GPUs than a node has."""
    names = [f"waits-{number}" for number in numbers]
    plane.create(load.GANGS, [load.gang(name, 2) for name in names])
    pods = [pod for name in names for pod in load.pods(name, 2, member=True)]
    gpus = {"nvidia.com/gpu": "16"}
    resources = {"requests": {"cpu": "8", **gpus}, "limits": gpus}
    container = {"name": "main", "image": "pause", "resources": resources}
    plane.create(load.PODS, [{**pod, "spec": {**pod["spec"], "containers": [container]}} for pod in pods])


def _answered(gang: load.Manifest) -> bool:
    return bool(gang.get("status", {}).get("phase") == "Unplaceable")


def _idle(servers: Mapping[str, int]) -> tuple[dict[str, float], dict[str, float]]:
    """Return, by server, its memory in MB, and the percentage of a core that it uses when idle."""
    time.sleep(SETTLE_SECONDS)
    before = machine_usage.usage_of(servers)
    time.sleep(IDLE_SECONDS)
    after = machine_usage.usage_of(servers)
    spent = machine_usage.spent(before, after)
    return {name: each.megabytes for name, each in after.items()}, {
        name: spent[name] / IDLE_SECONDS * 100 for name in servers
    }


def _gang(plane: ControlPlane, name: str) -> float:
    """Create a gang of 8 pods and return the seconds from the last pod created to all bound. The pods are deleted
    afterwards.
    """
    plane.create(load.GANGS, [load.gang(name, GANG)])
    pods = load.pods(name, GANG, member=True)
    labelled = [
        {**pod, "metadata": {**pod["metadata"], "labels": {**pod["metadata"]["labels"], "lot": name}}} for pod in pods
    ]
    plane.create(load.PODS, labelled)
    last = time.monotonic()
    lot = f"{load.PODS}?labelSelector=lot={name}"
    _await(plane, lot, lambda answer: all(pod["spec"].get("nodeName") for pod in answer["items"]), "a gang to be bound")
    seconds = time.monotonic() - last
    for pod in labelled:
        plane.request("DELETE", f"{load.PODS}/{pod['metadata']['name']}?gracePeriodSeconds=0")
    plane.request("DELETE", f"{load.GANGS}/{name}")
    _await(plane, lot, lambda answer: not answer["items"], "a gang to be gone")
    time.sleep(1)
    return seconds


def _await(plane: ControlPlane, path: str, holds: Any, what: str, *, pause: float = LOOK_SECONDS) -> None:
    end = time.monotonic() + LONGEST
    while not holds(plane.request("GET", path)):
        if time.monotonic() > end:
            raise TimeoutError(f"waited {LONGEST:.0f} s for {what}")
        time.sleep(pause)


if __name__ == "__main__":
    main()
