"""Prints the rows of the solver's benchmark, writes them as JSON and as a page, and compares them with committed
rows.
"""

import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import click
import msgspec

from benchmarks.drawn_scenarios import Scenario
from benchmarks.rows import Check, Row, checks, compared, exponent, growth_check


class Results(msgspec.Struct, frozen=True):
    """The content of `results/solver.json`.

    `growth`: by scenario, the exponent with which the time grows with the number of nodes. `seconds`: the duration of
    the run. `load`: the machine's load average over 15 minutes at the end of the run. The run itself counts as 1.
    """

    machine: str
    rows: tuple[Row, ...]
    growth: dict[str, float] = {}
    seconds: float = 0.0
    load: float = 0.0


@dataclass(slots=True)
class Report:
    """The rows of a run, and the rows of an earlier run (`before`) with which they are compared."""

    before: Mapping[tuple[str, int], Row]
    rows: list[Row] = field(default_factory=list)
    found: list[tuple[Row, Check]] = field(default_factory=list)
    seconds: float = 0.0

    @classmethod
    def beside(cls, file: Path) -> "Report":
        """Return a report without rows. Rows that are added later are compared with the results in this file, if the
        file exists.
        """
        rows = read(file).rows if file.exists() else ()
        return cls({(each.scenario, each.nodes): each for each in rows})

    def add(self, new: Row, scenario: Scenario, seconds: float) -> Iterator[str]:
        """Add a row, `seconds` after the start of the run, and yield the row and its checks as lines of text."""
        self.rows.append(new)
        self.seconds = seconds
        asked = checks(new, scenario.target_ms)
        self.found += [(new, check) for check in asked]
        phases = " ".join(f"{phase} {value:g}" for phase, value in new.stages_ms.items())
        yield (
            f"{new.scenario:26} {new.nodes:6} n={new.instances:<4} placed={new.placed:<4}"
            f" p50={new.p50_ms:<9g} p95={new.p95_ms:<9g} p99={new.p99_ms:<9g} max={new.max_ms:<9g}"
            f" proven={new.proven_share:.1%}/{new.proven_all_share:.1%} peak={new.peak_mb:g}MB [{phases}]"
        )
        if new.gaps:
            yield "    open: " + ", ".join(
                f"{goal} in {gap['instances']}, by {gap['at_most']} at most" for goal, gap in new.gaps.items()
            )
        if (ratio := compared(new, self.before)) is not None:
            yield f"    beside the committed one: p50 x {ratio[0]:g}, p99 x {ratio[1]:g}"
        yield from map(_line, asked)

    def growth(self) -> dict[str, float]:
        """Return the growth exponent of every scenario that was measured at more than one size."""
        found = {}
        for name, rows in groupby(sorted(self.rows, key=lambda each: each.scenario), key=lambda each: each.scenario):
            if (slope := exponent(list(rows))) is not None:
                found[name] = slope
        return found

    def summary(self) -> Iterator[str]:
        """Yield lines about the growth of times, and about the checks that failed."""
        growth = {name: growth_check(value) for name, value in self.growth().items()}
        for name, check in growth.items():
            yield f"{name:26} {_line(check).strip()}"
        missed = [f"{row.scenario} at {row.nodes}: {check.what}" for row, check in self.found if not check.met]
        missed += [f"{name}: {check.what}" for name, check in growth.items() if not check.met]
        total = len(self.found) + len(growth)
        yield f"{total - len(missed)} of {total} met" + (f"; missed: {', '.join(missed)}" if missed else "")

    def write(self, file: Path) -> None:
        """Write the rows as JSON, and beside it a page in Markdown."""
        results = Results(
            machine(), tuple(self.rows), self.growth(), round(self.seconds, 1), round(os.getloadavg()[2], 1)
        )
        file.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
        missed = [f"- {row.scenario} at {row.nodes}: {_text(check)}" for row, check in self.found if not check.met]
        missed += [
            f"- {name}: {_text(check)}"
            for name, check in ((name, growth_check(value)) for name, value in results.growth.items())
            if not check.met
        ]
        file.with_suffix(".md").write_text(
            "\n".join([*_page(results), *(missed or ["Nothing."])]) + "\n", encoding="utf-8"
        )


def read(file: Path) -> Results:
    """Return the results of a run. Raises msgspec.ValidationError if the file has another content."""
    return msgspec.json.decode(file.read_bytes(), type=Results)


def machine() -> str:
    """Return processors and Python version of the machine as text, without a host name."""
    model = next(
        (line.partition(":")[2].strip() for line in _cpu_lines() if line.startswith("model name")), platform.machine()
    )
    return f"{os.cpu_count()} x {model}, Python {platform.python_version()}"


def show(lines: Iterator[str]) -> None:
    """Print each line as soon as it is yielded, because a row takes a while."""
    for line in lines:
        click.echo(line)


def _cpu_lines() -> list[str]:
    file = Path("/proc/cpuinfo")
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def _line(check: Check) -> str:
    return f"    {'met   ' if check.met else 'MISSED'} {_text(check)}"


def _text(check: Check) -> str:
    return f"{check.what}: {check.found} (wanted {check.wanted})"


def _page(results: Results) -> Iterator[str]:
    """Yield the page of a run in Markdown. docs/benchmark.md explains how to read it."""
    yield "# What the solver's benchmark found last"
    yield f"\n{results.machine}, {results.seconds / 60:.0f} minutes, load {results.load:g} (1 is the run itself)."
    yield "How to read it: `docs/benchmark.md`.\n"
    yield "| scenario | nodes | instances | p50 ms | p95 | p99 | max | goals 1-3 | all goals | MB | naive model |"
    yield "| --- |" + " ---: |" * 9 + " --- |"
    for row in results.rows:
        naive = row.reference
        beside = (
            "" if naive is None else f"{naive.times:g} x" if naive.proven else f"unproven after {naive.seconds:g} s"
        )
        yield (
            f"| {row.scenario} | {row.nodes:,} | {row.instances} | {row.p50_ms:g} | {row.p95_ms:g} | {row.p99_ms:g} "
            f"| {row.max_ms:g} | {row.proven_share:.1%} | {row.proven_all_share:.1%} | {row.peak_mb:.0f} | {beside} |"
        )
    yield "\n## Growth exponents\n"
    yield ", ".join(f"{name} {value:g}" for name, value in results.growth.items()) or "None: one size was measured."
    yield "\n## Missed\n"
