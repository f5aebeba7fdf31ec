"""Rows of the solver's benchmark: figures over the instances of one scenario at one size, and the checks of the
figures.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.measuring import WITHIN, Sample

PHASES = ("snapshot", "model", "solve", "verify")
STATING_MS = 30.0
"""The limit for the median time to state the problem of one gang at 5,082 nodes, in milliseconds."""
_SEVERAL = "joint-"
"""The prefix of the names of scenarios with several gangs in one problem."""
NAIVE_TIMES = 20
"""How many times slower than the solver the naive model must be, so that the check of a row succeeds."""
_MIDDLE, _LARGE = 5_082, 15_246


@dataclass(frozen=True, slots=True)
class Reference:
    """The results of the naive model on the first instances of a row.

    `proven`: the number of instances for which it proved goals 1 to 3. `seconds`: the longest time that it took or was
    given. `times`: the smallest factor by which it was slower than the solver on one instance. `equal`: whether both
    reached the same values in all instances that both have proven.
    """

    instances: int
    proven: int
    seconds: float
    times: float
    equal: bool


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of one scenario at one size. All times are in milliseconds.

    `proven_share`: the share of instances whose goals 1-3 are proven within `WITHIN`. `proven_all_share`: the share of
    instances whose goals are all proven within `WITHIN`. `stages_ms`: by phase of planning (`PHASES`), the median time.
    `gaps`: by goal, how many instances have it as the first goal that is not proven, and its largest distance from its
    bound.
    """

    scenario: str
    nodes: int
    instances: int
    placed: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float
    stages_ms: dict[str, float]
    proven_share: float
    proven_all_share: float
    peak_mb: float
    gaps: dict[str, dict[str, int]] = field(default_factory=dict)
    reference: Reference | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """One requirement on a row, the value that was found, and whether the row meets the requirement."""

    what: str
    wanted: str
    found: str
    met: bool


def row(scenario: str, nodes: int, samples: Sequence[Sample], *, reference: Reference | None = None) -> Row:
    """Return the row of these samples: percentiles of the times, shares of proven goals, memory."""
    times = [sample.seconds * 1000 for sample in samples]
    return Row(
        scenario=scenario,
        nodes=nodes,
        instances=len(samples),
        placed=sum(sample.placed for sample in samples),
        p50_ms=_rounded(percentile(times, 50)),
        p95_ms=_rounded(percentile(times, 95)),
        p99_ms=_rounded(percentile(times, 99)),
        max_ms=_rounded(max(times)),
        stages_ms={
            phase: _rounded(percentile([sample.phases[phase] * 1000 for sample in samples], 50)) for phase in PHASES
        },
        proven_share=_share([sample.proven_first for sample in samples], samples),
        proven_all_share=_share([sample.proven_all for sample in samples], samples),
        peak_mb=_rounded(max(sample.peak for sample in samples) / 1e6),
        gaps=_gaps(samples),
        reference=reference,
    )


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that `share` per cent of the values do not exceed (nearest rank)."""
    return sorted(values)[max(0, math.ceil(len(values) * share / 100) - 1)]


def exponent(rows: Sequence[Row]) -> float | None:
    """Return how the median time grows with the number of nodes: the slope of their logarithms, by least squares.

    None for fewer than two rows.
    """
    points = [(math.log(each.nodes), math.log(max(each.p50_ms, 0.001))) for each in rows]
    if len(points) < 2:  # noqa: PLR2004 -- one point has no slope
        return None
    middle = sum(x for x, _ in points) / len(points)
    mean = sum(y for _, y in points) / len(points)
    spread = sum((x - middle) ** 2 for x, _ in points)
    return round(sum((x - middle) * (y - mean) for x, y in points) / spread, 2)


def _share(proven: Sequence[bool], samples: Sequence[Sample]) -> float:
    return round(
        sum(each and sample.seconds <= WITHIN for each, sample in zip(proven, samples, strict=True)) / len(samples), 4
    )


def _gaps(samples: Sequence[Sample]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for sample in samples:
        if sample.gap is not None:
            entry = found.setdefault(sample.gap.goal, {"instances": 0, "at_most": 0})
            entry["instances"] += 1
            entry["at_most"] = max(entry["at_most"], abs(sample.gap.value - sample.gap.bound))
    return found


def _rounded(value: float) -> float:
    return round(value, 2)


def checks(each: Row, target_ms: float | None) -> list[Check]:
    """Return the checks of a row that docs/benchmark.md lists as targets. `target_ms`: the scenario's limit for the
    99th percentile of the time; None: no limit.

    At 5,082 nodes, times and the shares of proven goals are checked. At 15,246 nodes, the share of proven goals 1 to 3
    and the memory are checked. A row with results of the naive model is compared with them.
    """
    found = []
    if each.nodes == _MIDDLE:
        if target_ms is not None:
            found.append(_most("p99", each.p99_ms, target_ms, "ms"))
        if not each.scenario.startswith(_SEVERAL):
            found.append(_most("stating", each.stages_ms["snapshot"], STATING_MS, "ms"))
        found += [_least("goals 1-3", each.proven_share, 0.99), _least("all goals", each.proven_all_share, 0.90)]
    if each.nodes == _LARGE:
        found += [_least("goals 1-3", each.proven_share, 0.95), _most("memory", each.peak_mb, 600, "MB")]
    if each.reference is not None:
        found.append(_beaten(each.reference))
    return found


def growth_check(found: float) -> Check:
    """Return the check that times grow about linearly with the number of nodes.

    `found`: the measured growth exponent.
    """
    return _most("growth exponent", found, 1.2, "")


def _most(what: str, value: float, most: float, unit: str) -> Check:
    return Check(what, f"≤ {most:g} {unit}".strip(), f"{value:g} {unit}".strip(), met=value <= most)


def _least(what: str, value: float, least: float) -> Check:
    return Check(what, f"≥ {least:.0%}", f"{value:.1%}", met=value >= least)


def _beaten(reference: Reference) -> Check:
    proven = f"{reference.times:g} times slower" if reference.proven else f"unproven after {reference.seconds:g} s"
    found = proven if reference.equal else "another optimum"
    met = reference.equal and (not reference.proven or reference.times >= NAIVE_TIMES)
    return Check("naive model", f"{NAIVE_TIMES} times slower or unproven", found, met=met)


def compared(now: Row, before: Mapping[tuple[str, int], Row]) -> tuple[float, float] | None:
    """Return the ratios of the median and of the 99th percentile, now to before; None if `before` has no row of this
    scenario and size.
    """
    old = before.get((now.scenario, now.nodes))
    if old is None:
        return None
    return round(now.p50_ms / max(old.p50_ms, 0.01), 2), round(now.p99_ms / max(old.p99_ms, 0.01), 2)
