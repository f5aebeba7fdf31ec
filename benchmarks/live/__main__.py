"""`python -m benchmarks.live`: compare the stock scheduler, Phalanx, the scheduler's own gangs and Kueue on one control
plane, in turns.
"""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from benchmarks.live import crowding, evictions, figures, kueue, load, machine_usage, modes, report, starting
from benchmarks.live.keeping import Run, keep
from controlplane import operators
from controlplane.control_plane import ControlPlane, Options

IDLE_SECONDS = 30.0
SETTLE_SECONDS = 20.0
"""Seconds from the start until the idle servers are measured."""
OURS = tuple(mode for mode in modes.MODES if mode != modes.JOB_KUEUE)
BESIDE_KUEUE = (modes.JOB_STOCK, modes.JOB_KUEUE)
_NOT_CROWDED = modes.FLOOR
"""The mode that is not measured if other pods use some nodes: its pods name their nodes themselves, and some of these
nodes would be full.
"""

Idle = dict[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Plan:
    """Which lots a run measures: for each size and mode, `rounds` lots (a lot: pods that are created together and
    measured).
    """

    nodes: int
    sizes: tuple[int, ...]
    rounds: int
    modes: tuple[str, ...]


def _modes(context: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in value.split(","))
    if unknown := [name for name in names if name not in modes.MODES]:
        raise click.BadParameter(f"{', '.join(unknown)}: there are {', '.join(modes.MODES)}", context, parameter)
    return names


@click.command()
@click.option("--nodes", type=click.IntRange(load.PER_RACK), default=5000, show_default=True)
@click.option("--sizes", default="512,64,8", show_default=True, help="Numbers of pods in a lot, separated by commas.")
@click.option(
    "--rounds", type=click.IntRange(1), default=3, show_default=True, help="Number of lots of each size and mode."
)
@click.option(
    "--modes",
    "names",
    default=",".join(modes.MODES),
    show_default=True,
    callback=_modes,
    help="Measured in turns; separated by commas.",
)
@click.option(
    "--scheduler-qps", type=click.IntRange(1), help="The scheduler's limit of requests per second; default: 50."
)
@click.option(
    "--write",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File for the page; its figures are written beside it (.json). Existing figures are compared first.",
)
@click.option("--picture", type=click.Path(path_type=Path, dir_okay=False), help="File for the picture (.svg).")
def main(
    *,
    nodes: int,
    sizes: str,
    rounds: int,
    names: tuple[str, ...],
    scheduler_qps: int | None,
    write: Path | None,
    picture: Path | None,
) -> None:
    """Measure how long pods take from their creation until they are bound.

    Exits with status 1 if Phalanx takes longer, relative to the stock scheduler, than in the earlier run whose page is
    `write`. Then this page, the file of its figures and the picture stay unchanged.
    """
    plan = Plan(nodes, tuple(map(int, sizes.split(","))), rounds, names)
    about = (
        f"{nodes} nodes of kwok, {machine_usage.machine()}, load before the run {os.getloadavg()[0]:.1f}. "
        f"The scheduler may send {scheduler_qps or 50} requests a second and {scheduler_qps or 100} at once."
    )
    lots, idle, evicted = _measured(plan, starting.flags(scheduler_qps))
    rows = figures.rows(lots)
    text = report.page(rows, idle, evicted, about)
    click.echo(text)
    said, good = keep(Run(rows, text, about, nodes), write, picture) if write is not None else ([], True)
    for sentence in said:
        click.echo(sentence)
    if not good:
        raise SystemExit(1)


def _measured(plan: Plan, more: dict[str, Sequence[str]]) -> tuple[list[modes.Lot], Idle, list[evictions.Evicted]]:
    """Measure all lots of pods, then what the idle servers use, and then which pods a gang evicts."""
    if modes.JOB_KUEUE in plan.modes:
        operators.program(kueue.NAME)
    lots, idle = list[modes.Lot](), Idle()
    options = Options(feature_gates=load.FEATURE_GATES, runtime_config=load.RUNTIME_CONFIG, more=more)
    with ControlPlane(options) as plane:
        starting.add_nodes(plane, plan.nodes)
        click.echo(f"{plan.nodes} nodes are ready")
        servers = starting.install(plane)
        idle |= _idle(servers)
        lots += _lots(plane, plan, OURS, modes.Where(crowding.EMPTY, "Phalanx", servers))
        crowding.fill(plane, plan.nodes)
        lots += _lots(plane, plan, OURS, modes.Where(crowding.CROWDED, "Phalanx", servers))
        if modes.JOB_KUEUE in plan.modes:
            kueue.replace_phalanx(plane)
            servers = {kueue.NAME: kueue.start(plane)}
            lots += _lots(plane, plan, BESIDE_KUEUE, modes.Where(crowding.CROWDED, "Kueue", servers))
            crowding.empty(plane)
            idle |= _idle(servers)
            lots += _lots(plane, plan, BESIDE_KUEUE, modes.Where(crowding.EMPTY, "Kueue", servers))
    evicted = list[evictions.Evicted]()
    for mode in (each for each in evictions.MODES if each in plan.modes):
        with ControlPlane() as plane:
            evicted += evictions.measure(plane, mode)
    return lots, idle, evicted


def _lots(plane: ControlPlane, plan: Plan, possible: Sequence[str], where: modes.Where) -> Iterator[modes.Lot]:
    """Yield the measured lots of every mode, the modes in turns; each round starts with the next mode.

    `possible`: modes that can be measured now. Sizes that do not fit on the free nodes are left out.
    """
    crowded = where.scene == crowding.CROWDED
    wanted = [mode for mode in plan.modes if mode in possible and not (crowded and mode == _NOT_CROWDED)]
    free = crowding.free_in_racks(plan.nodes, crowding.taken(plan.nodes) if crowded else {})
    for size in plan.sizes:
        fewest = crowding.fewest(free, size)
        for number in range(plan.rounds if fewest else 0):
            turn = number % max(1, len(wanted))
            for mode in (*wanted[turn:], *wanted[:turn]):
                lot = modes.run(plane, modes.Asked(mode, size, number, fewest), where)
                click.echo(report.text(lot))
                yield lot


def _idle(servers: dict[str, int]) -> Idle:
    """Return, by server, the percentage of a core that the idle server uses, and its memory in MB."""
    time.sleep(SETTLE_SECONDS)
    before = machine_usage.usage_of(servers)
    time.sleep(IDLE_SECONDS)
    after = machine_usage.usage_of(servers)
    used = machine_usage.spent(before, after)
    return {name: (used[name] / IDLE_SECONDS * 100, after[name].megabytes) for name in servers}


if __name__ == "__main__":
    main()
