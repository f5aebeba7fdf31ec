"""`python -m benchmarks`: measure the solver, print what was found, compare it with what was found before."""

from pathlib import Path

import click

from benchmarks.report import Report, show
from benchmarks.running import measured
from benchmarks.scenarios import SCENARIOS, SIZES

RESULTS = Path(__file__).parent / "results" / "solver.json"


@click.command()
@click.option("--only", default="", help="Scenarios whose names begin with this.")
@click.option("--nodes", multiple=True, type=click.Choice([str(size) for size in SIZES]), help="Sizes; default: all.")
@click.option("--instances", type=click.IntRange(1), help="Instances of every row, instead of its own number.")
@click.option("--write", type=click.Path(path_type=Path, dir_okay=False), help="Where the rows go, as JSON.")
def main(only: str, nodes: tuple[str, ...], instances: int | None, write: Path | None) -> None:
    """Measure the solver on the Lingjun network: once, 6 and 18 times over."""
    report = Report.beside(RESULTS)
    for size in SIZES if not nodes else tuple(map(int, nodes)):
        for scenario in SCENARIOS:
            if scenario.name.startswith(only) and size in scenario.instances:
                report.add(measured(scenario, size, instances or scenario.instances[size]), scenario)
                show(report.last())
    show(report.summary())
    if write is not None:
        report.write(write)


if __name__ == "__main__":
    main()
