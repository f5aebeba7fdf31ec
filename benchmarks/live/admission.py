"""`python -m benchmarks.live.admission`: measure what admission costs for pods of gangs and for planned objects.

Pods arrive at an even pace, regardless of earlier admissions. No pod is scheduled: of the control plane only etcd, API
server and controller-manager run, so that the machine has a processor to spare.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import click

from benchmarks.live import load, machine_usage
from benchmarks.live.large_cluster import fill
from benchmarks.live.stream import Spread, spread
from cli.installation.installed_objects import admission_policies, webhook_configurations
from controlplane.control_plane import LONG_LEASES, ControlPlane, Options, wait_until
from controlplane.deployment import Deployment
from kube.keys import GANG

NOBODY, WEBHOOK, POLICIES = "nobody", "the webhook", "policies"
WAYS = (NOBODY, WEBHOOK, POLICIES)
"""How a new pod of a gang is admitted in a lot: without Phalanx, by its webhook, or by its admission policies."""
CREATED, TRIED = "created", "tried"
"""Whether the pods of a lot are stored (CREATED) or not (TRIED, `dryRun=All`). No server follows a pod that is not
stored.
"""
SIBLINGS = 500
"""The number of pods of one gang."""
CLIENTS = 16
"""The number of clients that send requests at the same time."""
_LONGEST = 120.0
_SETTLE_SECONDS = 2.0
"""Seconds to wait after a lot of pods, until all servers have processed its effects."""
_EACH = 40
"""How often the creation of an object that is planned at its admission is measured, by dry runs."""
_OF_A_GANG = 512


@dataclass(frozen=True, slots=True)
class Asked:
    """The conditions under which one lot of pods is created. `way`: what admits the pods: nothing, Phalanx's webhook or
    its admission policies. `what`: whether the pods are stored. `per_second`: how many pods are created in a second.
    """

    way: str
    what: str
    per_second: int


@dataclass(frozen=True, slots=True)
class Lot:
    """The measurement of one lot of pods. `seconds`: for each pod, from the time when it was due to the response.

    `cpu`: by program, seconds of processor time for all pods.
    """

    asked: Asked
    seconds: Sequence[float]
    cpu: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Tried:
    """The measurement of an object that was created in a dry run several times, one after the other.

    `seconds`: the spread of the times. `cpu`: the webhook's seconds of CPU for one try.
    """

    name: str
    seconds: Spread
    cpu: float


@dataclass(frozen=True, slots=True)
class Plan:
    """The measurements of a run. `paces`: pods per second; `count`: the pods of a lot, for each pace, mode of admission
    and round.
    """

    nodes: int
    pods: int
    paces: tuple[int, ...]
    count: int
    rounds: int


@click.command()
@click.option("--nodes", type=click.IntRange(1), default=1000, show_default=True)
@click.option(
    "--pods",
    type=click.IntRange(0),
    default=20_000,
    show_default=True,
    help="Existing pods: half run, half wait in gangs.",
)
@click.option(
    "--per-second", "paces", default="100,200", show_default=True, help="Pods created per second, separated by commas."
)
@click.option("--count", type=click.IntRange(1), default=1000, show_default=True, help="Number of pods in a lot.")
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
@click.option("--write", type=click.Path(path_type=Path, dir_okay=False), help="File for the page.")
def main(*, paces: str, write: Path | None, **asked: int) -> None:
    """Measure the time that admission adds to the creation of a gang's pod, and the cost of forecasts at admission."""
    plan = Plan(paces=tuple(map(int, paces.split(","))), **asked)
    about = f"{machine_usage.machine()}, load before the run {os.getloadavg()[0]:.1f}."
    text = page(plan, *measured(plan), about)
    click.echo(text)
    if write is not None:
        write.write_text(text, encoding="utf-8")


def measured(plan: Plan) -> tuple[list[Lot], list[Tried]]:
    """Measure all lots of pods, and then the objects for which the webhook plans at admission.

    The modes of admission (no webhook, the webhook, the policies) are measured in turns.
    """
    components = ("etcd", "kube-apiserver", "kube-controller-manager")
    with ControlPlane(Options(components=components, more=LONG_LEASES)) as plane:
        deployment = Deployment(plane)
        deployment.install()
        plane.apply([load.topology()])
        fill(plane, plan.nodes, plan.pods // 2 // plan.nodes)
        programs = {"webhook": deployment.start_webhook().pid, "API server": plane.program("kube-apiserver").pid}
        ask(plane, deployment, WEBHOOK)
        _add_waiting(plane, plan.pods // 2)
        lots = list[Lot]()
        for number in range(plan.rounds):
            turn = number % len(WAYS)
            for way in (*WAYS[turn:], *WAYS[:turn]):
                ask(plane, deployment, way)
                for what, pace in product((CREATED, TRIED), plan.paces):
                    lots.append(_lot(plane, plan, Asked(way, what, pace), programs))
                    click.echo(_line(lots[-1]))
        ask(plane, deployment, WEBHOOK)
        return lots, [_tried(plane, *each, programs) for each in objects()]


def ask(plane: ControlPlane, deployment: Deployment, way: str) -> None:
    """Make the API server use only one mode of admission from now on: none, Phalanx's webhook or its admission
    policies. Returns when the change is in effect.
    """
    others = [*webhook_configurations(deployment.webhook_url(), b""), *admission_policies()]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": others})
    plane.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=listed)
    wait_until(lambda: not _gated(plane), _LONGEST, "the API server to ask nobody")
    if way == WEBHOOK:
        deployment.register_webhook()
    if way == POLICIES:
        plane.apply(admission_policies())
        wait_until(lambda: _gated(plane), _LONGEST, "the API server to go by the policies")


def objects() -> Iterator[tuple[str, str, load.Manifest]]:
    """Yield the objects whose creation is measured by dry runs: they are planned at their admission, or they cause the
    planning of other pods.

    Each has a name for the page of results, the API path at which it is created, and its manifest.
    """
    spec = {"template": {"metadata": {"labels": {"app": "a"}}, "spec": load.pod_spec()}, "replicas": _OF_A_GANG}
    selected = {**spec, "selector": {"matchLabels": {"app": "a"}}, "serviceName": "a"}
    job = load.job("tried", _OF_A_GANG, gang=True)
    metadata = job["metadata"]
    group = {"metadata": {"name": "tried", "namespace": load.NAMESPACE}, "spec": {"minMember": _OF_A_GANG}}
    yield f"Job of {_OF_A_GANG} pods, by annotation", load.JOBS, job
    yield f"Job of {_OF_A_GANG} pods, in a queue", load.JOBS, load.job("tried", _OF_A_GANG, queued=True)
    yield (
        f"StatefulSet of {_OF_A_GANG} pods, by annotation",
        f"/apis/apps/v1/namespaces/{load.NAMESPACE}/statefulsets",
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": selected},
    )
    yield "Gang of ours", load.GANGS, load.gang("tried", _OF_A_GANG)
    yield (
        "PodGroup of Koordinator's",
        f"/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/{load.NAMESPACE}/podgroups",
        {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup", **group},
    )


_ABOUT = (
    "Pods of gangs of {}, {:,} a lot, in a cluster of {:,} nodes and {:,} other pods, half of them in waiting "
    "gangs. Each pod is admitted without Phalanx, by our webhook, or by the policies of "
    "`manifests/admission-policy`, in turns; medians of {} rounds. `tried` pods join a gang whose members exist, "
    "and are not stored (`dryRun=All`), so their CPU is that of admission alone. The CPU of `created` pods includes"
    " what a server needs to follow them. A pod's time begins when the pod is due."
)


def page(plan: Plan, lots: Sequence[Lot], tried: Sequence[Tried], about: str) -> str:
    """Return the page of the whole run in Markdown."""
    lines = [
        "# What admission costs",
        "",
        about,
        _ABOUT.format(SIBLINGS, plan.count, plan.nodes, plan.pods, plan.rounds),
        "`python -m benchmarks.live.admission --write benchmarks/results/admission.md` writes this page.",
        "",
        "| pods | a second | asked | p50, ms | p99, ms | added p50 | added p99 | CPU, ms: API server | webhook |",
        "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for what, pace in product((CREATED, TRIED), plan.paces):
        nobody = _times(lots, Asked(NOBODY, what, pace))
        for way in WAYS:
            asked = Asked(way, what, pace)
            times = _times(lots, asked)
            more = [f"{after - before:.1f}" for before, after in zip(nobody, times, strict=True)]
            added = ["-", "-"] if way == NOBODY else more
            cells = [what, str(pace), way, *(f"{each:.1f}" for each in times), *added]
            cells += [f"{_cpu(lots, asked, program):.2f}" for program in ("API server", "webhook")]
            lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        f"Objects that are planned as they come, tried {_EACH} times, one after the other:",
        "",
        "| object | p50, ms | p99, ms | the webhook's CPU, ms |",
        "| --- | ---: | ---: | ---: |",
    ]
    for each in tried:
        cells = [each.name, *(f"{time * 1000:.1f}" for time in (each.seconds.p50, each.seconds.p99, each.cpu))]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def paced(ask_one: Callable[[int], Any], count: int, per_second: float) -> list[float]:
    """Send `count` requests at an even pace. Return for each the seconds from its due time to the response."""
    begin = time.monotonic() + 0.1

    def one(number: int) -> float:
        due = begin + number / per_second
        time.sleep(max(0.0, due - time.monotonic()))
        ask_one(number)
        return time.monotonic() - due

    with ThreadPoolExecutor(CLIENTS) as pool:
        return list(pool.map(one, range(count)))


def _times(lots: Sequence[Lot], asked: Asked) -> tuple[float, float]:
    """Return the median and the 99th percentile of the times of lots under the conditions `asked`, in milliseconds.

    Each is the median of its values in these lots.
    """
    spreads = [spread(each.seconds) for each in lots if each.asked == asked]
    return median(each.p50 for each in spreads) * 1000, median(each.p99 for each in spreads) * 1000


def _cpu(lots: Sequence[Lot], asked: Asked, program: str) -> float:
    """Return the program's milliseconds of CPU per pod, as the median of the lots under the conditions `asked`."""
    return median(each.cpu[program] / len(each.seconds) for each in lots if each.asked == asked) * 1000


def _line(lot: Lot) -> str:
    its = spread(lot.seconds)
    cpu = ", ".join(f"{name} {seconds / len(lot.seconds) * 1000:.2f} ms" for name, seconds in lot.cpu.items())
    asked = f"{lot.asked.what:8} {lot.asked.per_second:4} a second, {lot.asked.way:12}"
    return f"{asked} p50 {its.p50 * 1000:.1f} ms, p99 {its.p99 * 1000:.1f} ms; a pod {cpu}"


def _lot(plane: ControlPlane, plan: Plan, asked: Asked, programs: Mapping[str, int]) -> Lot:
    """Create pods of new gangs under the conditions in `asked`, measure them, and remove them again.

    :raises RuntimeError: a response was not as expected.
    """
    names = [f"lot-{number}" for number in range((plan.count - 1) // SIBLINGS + 1)]
    pods = [pod for name in names for pod in load.pods(name, SIBLINGS, member=True)][: plan.count]
    if asked.what == TRIED:  # the tried pod is one more pod of a waiting gang, whose other members exist
        pods = [{**pod, "metadata": {**pod["metadata"], "labels": {GANG: _waiting(0)}}} for pod in pods]
    plane.create(load.GANGS, [load.gang(name, SIBLINGS) for name in names])
    path = load.PODS if asked.what == CREATED else f"{load.PODS}?dryRun=All"

    def create(number: int) -> None:
        answer = plane.request("POST", path, pods[number])
        if answer["kind"] != "Pod" or bool(answer["spec"].get("schedulingGates")) == (asked.way == NOBODY):
            raise RuntimeError(f"{asked.way}: {answer}")

    time.sleep(_SETTLE_SECONDS)
    before = machine_usage.usage_of(programs)
    seconds = paced(create, plan.count, asked.per_second)
    time.sleep(_SETTLE_SECONDS)
    spent = machine_usage.spent(before, machine_usage.usage_of(programs))
    for name in names:
        plane.request("DELETE", f"{load.PODS}?gracePeriodSeconds=0&labelSelector={GANG}%3D{name}", seconds=_LONGEST)
        plane.request("DELETE", f"{load.GANGS}/{name}")
    return Lot(asked, seconds, spent)


def _tried(plane: ControlPlane, name: str, path: str, manifest: load.Manifest, programs: Mapping[str, int]) -> Tried:
    """Measure the cost of creating an object, over several dry runs.

    :raises RuntimeError: the API server refused the object.
    """
    create = partial(plane.request, "POST", f"{path}?dryRun=All", manifest)
    if "metadata" not in (answer := create()) or "code" in answer:
        raise RuntimeError(f"{name}: {answer}")
    before = machine_usage.usage_of(programs)
    seconds = list[float]()
    for _ in range(_EACH):
        began = time.monotonic()
        create()
        seconds.append(time.monotonic() - began)
    spent = machine_usage.spent(before, machine_usage.usage_of(programs))
    return Tried(name, spread(seconds), spent["webhook"] / _EACH)


def _gated(plane: ControlPlane) -> bool:
    (pod,) = load.pods("who-is-asked", 1, member=True)
    return bool(plane.request("POST", f"{load.PODS}?dryRun=All", pod).get("spec", {}).get("schedulingGates"))


def _waiting(number: int) -> str:
    """Return the name of the waiting gang with this number."""
    return f"waits-{number}"


def _add_waiting(plane: ControlPlane, count: int) -> None:
    """Create gangs that stay two pods below their minimum, so that they still wait with one more pod.

    At least one gang is created.
    """
    names = [_waiting(number) for number in range(max(1, count // SIBLINGS))]
    plane.create(load.GANGS, [load.gang(name, SIBLINGS + 2) for name in names])
    plane.create(load.PODS, [pod for name in names for pod in load.pods(name, SIBLINGS, member=True)])


if __name__ == "__main__":
    main()
