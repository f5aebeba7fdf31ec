"""`python -m benchmarks`: measure the solver, print the figures, and compare them with those of an earlier run."""

import time
from contextlib import ExitStack
from pathlib import Path

import click

from benchmarks.drawn_scenarios import SCENARIOS, SIZES
from benchmarks.reference import naive_model
from benchmarks.report import Report, show
from benchmarks.running import measured

RESULTS = Path(__file__).parent / "results" / "solver.json"


@click.command()
@click.option("--only", default="", help="Only scenarios whose names begin with this text.")
@click.option(
    "--nodes", multiple=True, type=click.Choice([str(size) for size in SIZES]), help="Numbers of nodes; default: all."
)
@click.option(
    "--instances", type=click.IntRange(1), help="Number of instances of every row; default: the scenario's own number."
)
@click.option("--minutes", type=float, default=18.0, help="The target duration of the run; rows are cut short for it.")
@click.option("--naive/--no-naive", default=True, help="Also solve with the naive model.")
@click.option("--write", type=click.Path(path_type=Path, dir_okay=False), help="File for the rows, as JSON.")
def main(
    *, only: str, nodes: tuple[str, ...], instances: int | None, minutes: float, naive: bool, write: Path | None
) -> None:
    """Measure the solver on 1, 6 and 18 copies of the Lingjun network, a data set of 847 hosts."""
    report, began = Report.beside(RESULTS), time.monotonic()
    asked = [
        (size, scenario)
        for size in (tuple(map(int, nodes)) or SIZES)
        for scenario in SCENARIOS
        if scenario.name.startswith(only) and size in scenario.instances
    ]
    with ExitStack() as stack:
        model = stack.enter_context(naive_model()) if naive else None
        for position, (size, scenario) in enumerate(asked):
            share = max(0.0, began + minutes * 60 - time.monotonic()) / (len(asked) - position)
            row = measured(scenario, size, instances or scenario.instances[size], seconds=share, model=model)
            show(report.add(row, scenario, time.monotonic() - began))
    show(report.summary())
    if write is not None:
        report.write(write)


if __name__ == "__main__":
    main()
