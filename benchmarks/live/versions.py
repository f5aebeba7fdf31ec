"""`python -m benchmarks.live.versions`: compare gangs with the stock scheduler on an older version of Kubernetes with
placeholders, on the usual version, and on the usual version with atomic release.

Each configuration has a control plane of its own, and the stock scheduler is measured alternately with Phalanx there.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from benchmarks.live import figures, load, machine_usage, modes, report, starting
from benchmarks.live.figures import LiveRow
from benchmarks.live.keeping import Run, keep
from benchmarks.live.modes import PHALANX, STOCK
from controlplane.control_plane import ControlPlane, Options
from controlplane.programs.binaries import VERSION
from controlplane.programs.other_versions import NAMES, OTHER, SCHEDULER_ONLY, binaries_of
from kube.placeholders import HOLDING_CLASS
from kube.versions import forgets, version_of

USUAL = VERSION.removeprefix("v").rpartition(".")[0]
ATOMIC = "-atomic"
"""The suffix of the configuration with atomic release."""
CONFIGURATIONS = (*NAMES, USUAL, f"{USUAL}{ATOMIC}")
_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_HEAD = (
    "| pods | Kubernetes | reserved by | release | rounds | stock: first created to all bound, s | Phalanx, s "
    "| x stock | stock: last created to all bound, s | Phalanx, s | x stock | CPU of its servers, s |\n"
    "| ---: | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |"
)
_WORDS = (
    "Median (least-most). `make bench` writes this page. Each configuration has a control plane of its own. `stock`: "
    "ungrouped pods, in turns with the gangs. Gangs require one block of 1,000 nodes. A gang's pods are created when "
    "the controller has written the status of its Gang. A member takes six writes with placeholders, and two without. "
    "`one cycle`: the members are in a PodGroup, and kube-scheduler binds them in one scheduling cycle."
)


@dataclass(frozen=True, slots=True)
class Configuration:
    """A version of Kubernetes, and how gangs start on it.

    `minor`: the version as `binaries_of` takes it; "" means the usual version. `atomic`: whether gangs start in one
    scheduling cycle.
    """

    name: str
    minor: str
    atomic: bool

    @property
    def version(self) -> str:
        """The version of Kubernetes; only the scheduler's if the other programs have the usual version."""
        minor = self.minor.removesuffix(SCHEDULER_ONLY)
        version = OTHER.get(minor, VERSION).removeprefix("v")
        return f"{version} (scheduler only)" if self.minor.endswith(SCHEDULER_ONLY) else version

    @property
    def has_placeholders(self) -> bool:
        """Whether placeholders reserve the capacity of members."""
        return forgets(version_of(self.minor.removesuffix(SCHEDULER_ONLY) or USUAL))


def configuration(name: str) -> Configuration:
    """Return the configuration with this name, which is one of `CONFIGURATIONS`."""
    minor = name.removesuffix(ATOMIC)
    return Configuration(name, "" if minor == USUAL else minor, name.endswith(ATOMIC))


def _names(context: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in value.split(","))
    if unknown := [name for name in names if name not in CONFIGURATIONS]:
        raise click.BadParameter(f"{', '.join(unknown)}: there are {', '.join(CONFIGURATIONS)}", context, parameter)
    return names


@click.command()
@click.option("--nodes", type=click.IntRange(load.PER_RACK), default=5000, show_default=True)
@click.option("--sizes", default="512,8", show_default=True, help="Numbers of pods in a lot, separated by commas.")
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True, help="Lots of each size and mode.")
@click.option(
    "--on",
    "names",
    default=f"1.36,{USUAL},{USUAL}{ATOMIC}",
    show_default=True,
    callback=_names,
    help="Configurations, separated by commas.",
)
@click.option(
    "--write",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File for the page; its figures are written beside it (.json). Existing figures are compared first.",
)
def main(*, nodes: int, sizes: str, rounds: int, names: Sequence[str], write: Path | None) -> None:
    """Measure how long gangs take on each configuration, relative to the stock scheduler there.

    Exits with status 1 if Phalanx takes longer, relative to the stock scheduler, than in the earlier run whose page is
    `write`. Then this page and the file of its figures stay unchanged.
    """
    about = f"{nodes} nodes of kwok, {machine_usage.machine()}, load before the run {os.getloadavg()[0]:.1f}."
    configurations = [configuration(name) for name in names]
    for each in configurations:
        binaries_of(each.minor)  # a build beside a measurement would disturb it
    lots = list[modes.Lot]()
    for each in configurations:
        lots += measured(each, nodes, tuple(map(int, sizes.split(","))), rounds)
    rows = figures.rows(lots)
    text = page(rows, about)
    click.echo(text)
    said, good = keep(Run(rows, text, about, nodes), write, None) if write is not None else ([], True)
    for sentence in said:
        click.echo(sentence)
    if not good:
        raise SystemExit(1)


def measured(asked: Configuration, nodes: int, sizes: Sequence[int], rounds: int) -> Iterator[modes.Lot]:
    """Yield the lots of a configuration, alternately of stock and of Phalanx.

    :raises click.ClickException: gangs did not start as the configuration says.
    """
    options = Options(
        feature_gates=load.FEATURE_GATES if asked.atomic else {},
        runtime_config=load.RUNTIME_CONFIG if asked.atomic else (),
        more=starting.flags(None),
    )
    given = ("--scheduler-version", asked.minor.removesuffix(SCHEDULER_ONLY)) if SCHEDULER_ONLY in asked.minor else ()
    with ControlPlane(options, binaries_of(asked.minor)) as plane:
        starting.add_nodes(plane, nodes)
        click.echo(f"{asked.name}: {nodes} nodes are ready")
        servers = starting.install(plane, controller_options=given, atomic_release=asked.atomic)
        where = modes.Where(beside=asked.name, servers=servers)
        for size in sizes:
            for number in range(rounds):
                for mode in (STOCK, PHALANX) if number % 2 == 0 else (PHALANX, STOCK):
                    lot = modes.run(plane, modes.Asked(mode, size, number, known=True), where)
                    click.echo(f"{asked.name}, {report.text(lot)}")
                    check(lot, asked)
                    yield lot
        if _has_placeholder_classes(plane) != asked.has_placeholders:
            raise click.ClickException(f"{asked.name}: members had placeholders: {not asked.has_placeholders}")


def check(lot: modes.Lot, asked: Configuration) -> None:
    """Check that a gang started as its configuration says, and that ungrouped pods are in no PodGroup.

    :raises click.ClickException: the gang did not start so, or an ungrouped pod is in a PodGroup.
    """
    wanted = lot.size if asked.atomic and lot.mode == PHALANX else 0
    if lot.grouped != wanted:
        raise click.ClickException(f"{asked.name}: {lot.grouped} of {lot.size} pods are in a PodGroup, not {wanted}")


def _has_placeholder_classes(plane: ControlPlane) -> bool:
    """Return whether placeholders were used.

    The controller creates a PriorityClass before the first placeholder, and never deletes it.
    """
    classes = plane.request("GET", _CLASSES)["items"]
    return any(each["metadata"]["name"].startswith(HOLDING_CLASS) for each in classes)


def page(rows: Sequence[LiveRow], about: str) -> str:
    """Return the results as a page in Markdown: a line for each size and configuration.

    :param about: a sentence about the machine and the setup of the run.
    """
    by_key = {(row.size, row.beside, row.mode): row for row in rows}
    pairs = [(by_key[size, beside, STOCK], row) for (size, beside, mode), row in by_key.items() if mode == PHALANX]
    ordered = sorted(pairs, key=lambda pair: -pair[1].size)
    return "\n".join(["# Gangs by version of Kubernetes, live", "", about, "", _WORDS, "", _HEAD, *_lines(ordered), ""])


def _lines(pairs: Sequence[tuple[LiveRow, LiveRow]]) -> Iterator[str]:
    for stock, ours in pairs:
        asked = configuration(ours.beside)
        cells = [
            str(ours.size),
            asked.version,
            "placeholders" if asked.has_placeholders else "nominations",
            "one cycle" if asked.atomic else "pod by pod",
            str(ours.rounds),
            stock.since_first.text(),
            ours.since_first.text(),
            ours.x_stock.text() if ours.x_stock else "-",
            stock.since_last.text(),
            ours.since_last.text(),
            f"{ours.x_stock_last:.1f}" if ours.x_stock_last is not None else "-",
            " + ".join(f"{name} {spread.text()}" for name, spread in ours.cpu.items()),
        ]
        yield f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
