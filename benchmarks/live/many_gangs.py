"""`python -m benchmarks.live.many_gangs`: create many small gangs at once, as stock pods, with Phalanx, Kueue and the
scheduler's own gangs, one after the other on one control plane.

The scheduler may send many requests a second here, so that it does not set the pace.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import click

from benchmarks.live import (
    api_server_load,
    gang_page,
    gang_rows,
    gang_starts,
    keeping,
    kueue,
    load,
    machine_usage,
    starting,
)
from benchmarks.live.gang_rows import (
    API_SERVER,
    KUEUE,
    MODES,
    MODES_BESIDE,
    NOTHING,
    OURS,
    SCHEDULER,
    THEIRS,
    Lot,
    Setup,
)
from benchmarks.live.modes import NATIVE, PHALANX, REST_SECONDS, STOCK
from controlplane import operators
from controlplane.control_plane import ControlPlane, Options, wait_until

_GPUS_OF_NODE = 8
_WRITERS = 8
_LONGEST = 900.0
"""Seconds that the pods of all Jobs may take to be bound, or to be deleted. Two busy cores need minutes."""
_WEBHOOK_SECONDS = 30
"""The timeout of the webhook's calls, the longest that Kubernetes allows. At the 5 s of the manifests, a machine with
ten times as many processes as cores refused one of 60 Jobs that were created at once.
"""
_JOBS: Mapping[str, Callable[..., load.Manifest]] = {
    STOCK: load.job,
    PHALANX: partial(load.job, gang=True),
    KUEUE: partial(load.job, queued=True),
    NATIVE: partial(load.job, grouped=True),
}
"""By mode: the function that builds a Job."""


@dataclass(frozen=True, slots=True)
class Installation:
    """The control plane of a measurement, with one installed system (nothing, Phalanx or Kueue).

    :ivar beside: the installed system.
    :ivar programs: by name, the process ids of the programs whose CPU is measured.
    :ivar profiles: the folder for CPU profiles of the API server; None: no profiles.
    """

    plane: ControlPlane
    setup: Setup
    beside: str
    programs: Mapping[str, int]
    profiles: Path | None


def _modes(context: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in value.split(","))
    if unknown := [name for name in names if name not in MODES]:
        raise click.BadParameter(f"{', '.join(unknown)}: there are {', '.join(MODES)}", context, parameter)
    return names


@click.command()
@click.option("--nodes", type=click.IntRange(1), default=600, show_default=True)
@click.option("--jobs", type=click.IntRange(1), default=60, show_default=True, help="Jobs created at once.")
@click.option("--size", type=click.IntRange(2), default=8, show_default=True, help="Pods of a Job.")
@click.option("--gpus", type=click.IntRange(1, _GPUS_OF_NODE), default=4, show_default=True, help="GPUs of a pod.")
@click.option(
    "--scheduler-qps",
    type=click.IntRange(1),
    default=2000,
    show_default=True,
    help="The scheduler's limit of requests per second.",
)
@click.option(
    "--modes",
    default=",".join(MODES),
    show_default=True,
    callback=_modes,
    help="Separated by commas. Stock is measured alone, and again beside each system.",
)
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True, help="Measurements of each mode.")
@click.option(
    "--write",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File for the page; its figures are written beside it (.json). Existing figures are compared first.",
)
@click.option(
    "--profile",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for CPU profiles of the API server, for `go tool pprof`.",
)
def main(*, modes: tuple[str, ...], rounds: int, write: Path | None, profile: Path | None, **asked: int) -> None:
    """Measure how long many gangs take that are created at once, and what they cost.

    Exits with status 1 if Phalanx needs more, compared with stock, than in the earlier run whose page is `write`. Then
    this page and the file of its figures stay unchanged.
    """
    setup = Setup(**asked)
    if setup.pods > (most := setup.nodes * (_GPUS_OF_NODE // setup.gpus)):
        raise click.UsageError(f"{setup.pods} pods do not fit: {setup.nodes} nodes hold {most} pods of this size")
    busy = os.getloadavg()[0]
    lots = list(measured(setup, modes, rounds, profile))
    loop = median(lot.loop.cpu for lot in lots)
    about = f"{machine_usage.machine()}, load before the run {busy:.1f}; a fixed loop takes {loop:.2f} s of CPU."
    rows = gang_rows.rows(lots, setup)
    text = gang_page.page(rows, setup, about, REST_SECONDS)
    click.echo(text)
    if write is not None:
        texts = {write: text, keeping.table_of(write): gang_rows.as_json(rows, setup, about)}
        sentences, good = keeping.write(texts, gang_rows.changes(rows, keeping.earlier(write), setup))
        click.echo("\n".join(sentences))
        if not good:
            raise SystemExit(1)


def measured(setup: Setup, modes: Sequence[str], rounds: int, profiles: Path | None) -> Iterator[Lot]:
    """Yield the measured lots of Jobs: first with nothing installed, then beside Phalanx, then beside Kueue.

    Beside each system, its modes are measured in turns.
    """
    if KUEUE in modes:
        operators.program(kueue.NAME)
    options = Options(
        feature_gates=load.FEATURE_GATES,
        runtime_config=load.RUNTIME_CONFIG,
        more=starting.flags(setup.scheduler_qps),
    )
    with ControlPlane(options) as plane:
        starting.add_nodes(plane, setup.nodes)
        shared = {API_SERVER: plane.program("kube-apiserver").pid, SCHEDULER: plane.program("kube-scheduler").pid}
        for beside, wanted in modes_beside(modes).items():
            if beside == THEIRS and PHALANX in modes:
                kueue.replace_phalanx(plane)
            installation = Installation(plane, setup, beside, {**shared, **_installed(plane, beside)}, profiles)
            time.sleep(REST_SECONDS)
            for number in range(rounds):
                for mode in wanted:
                    lot = _measured(installation, mode, number)
                    click.echo(gang_page.text(lot))
                    yield lot


def modes_beside(modes: Sequence[str]) -> dict[str, list[str]]:
    """Return, by installed system, the modes to measure beside it, in the order of measurement.

    A system is installed only if one of its own modes is wanted.
    """
    wanted = {beside: [mode for mode in possible if mode in modes] for beside, possible in MODES_BESIDE.items()}
    return {beside: chosen for beside, chosen in wanted.items() if chosen and (beside == NOTHING or chosen != [STOCK])}


def _installed(plane: ControlPlane, beside: str) -> dict[str, int]:
    """Install a system, and return the process ids of its servers by name."""
    if beside == OURS:
        return starting.install(plane, _WEBHOOK_SECONDS)
    return {kueue.NAME: kueue.start(plane)} if beside == THEIRS else {}


def _measured(installation: Installation, mode: str, number: int) -> Lot:
    """Create all Jobs of one mode, measure until all their pods are bound, and delete them.

    :raises TimeoutError: the pods were not all bound in time.
    """
    plane, setup = installation.plane, installation.setup
    prefix = f"{mode}-{installation.beside.lower()}-{number}"
    names = [f"{prefix}-{job:04}" for job in range(setup.jobs)]
    jobs = [_JOBS[mode](name, setup.size, gpus=setup.gpus) for name in names]
    loop = machine_usage.timed_loop()
    with gang_starts.BindingWatch(plane) as watch, api_server_load.profiled(plane, installation.profiles, prefix):
        requests, usage = api_server_load.requests_so_far(plane), machine_usage.usage_of(installation.programs)
        began = time.monotonic()
        if mode == NATIVE:
            plane.create(load.POD_GROUPS, [load.pod_group(name, setup.size) for name in names])
        plane.create(load.JOBS, jobs)
        created = time.monotonic() - began
        changes = watch.await_bound(setup.pods, _LONGEST)
        time.sleep(REST_SECONDS)
        cpu = machine_usage.spent(usage, machine_usage.usage_of(installation.programs))
        requests = api_server_load.requests_so_far(plane) - requests
    events = api_server_load.events_of(plane, prefix)
    starts = gang_starts.starts(changes, setup.jobs, setup.size, began)
    _remove(plane, mode, names)
    return Lot(installation.beside, mode, starts, created, cpu, requests, events, loop)


def _remove(plane: ControlPlane, mode: str, names: Sequence[str]) -> None:
    """Delete Jobs, several at a time, and wait until their pods are gone, and all objects that Phalanx or Kueue keeps
    for them.
    """
    paths = [f"{load.JOBS}/{name}?propagationPolicy=Background" for name in names]
    if mode == NATIVE:
        paths += [f"{load.POD_GROUPS}/{name}" for name in names]
    with ThreadPoolExecutor(_WRITERS) as pool:
        list(pool.map(partial(plane.request, "DELETE"), paths))
    wait_until(lambda: not plane.request("GET", f"{load.PODS}?limit=1")["items"], _LONGEST, "pods to be deleted")
    wait_until(lambda: not (_items(plane, load.GANGS) or kueue.workloads(plane)), _LONGEST, "gangs to be deleted")
    time.sleep(REST_SECONDS)


def _items(plane: ControlPlane, path: str) -> list[dict[str, Any]]:
    """Return the objects at a path; none if the API server does not serve the path."""
    answer = plane.request("GET", path)
    return answer.get("items") or [] if isinstance(answer, dict) else []


if __name__ == "__main__":
    main()
