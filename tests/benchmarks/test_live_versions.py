"""The comparison of versions: which configuration a name means, and the page's lines."""

import click
import pytest
from click.testing import CliRunner

from benchmarks.live import versions
from benchmarks.live.figures import rows
from benchmarks.live.modes import PHALANX, STOCK, Lot

CPU = {"webhook": 0.5, "controller": 1.0}


@pytest.mark.parametrize(
    ("name", "version", "placeholders", "atomic"),
    [
        ("1.36", "1.36.3", True, False),
        ("1.34-scheduler", "1.34.4 (scheduler only)", True, False),
        (versions.USUAL, "1.37.1", False, False),
        (f"{versions.USUAL}-atomic", "1.37.1", False, True),
    ],
)
def test_a_name_means_a_version_and_a_way_to_start(name: str, version: str, placeholders: bool, atomic: bool) -> None:  # noqa: FBT001 -- columns
    found = versions.configuration(name)
    assert (found.version, found.has_placeholders, found.atomic) == (version, placeholders, atomic)


def test_an_unknown_configuration_is_refused_before_anything_starts() -> None:
    answer = CliRunner().invoke(versions.main, ["--on", "1.36,1.12"])
    assert answer.exit_code == click.UsageError.exit_code
    known = "1.34, 1.36, 1.34-scheduler, 1.36-scheduler, 1.38-scheduler, 1.37, 1.37-atomic"
    assert f"1.12: there are {known}" in answer.output


def test_the_page_has_the_largest_gangs_first_and_each_configurations_own_stock() -> None:
    lots = [
        *(Lot(STOCK, size, seconds / 2, seconds, 1, CPU, beside="1.36") for size in (8, 512) for seconds in (1.0, 2.0)),
        *(Lot(PHALANX, size, 2.0, 3.0, 1, CPU, beside="1.36") for size in (8, 512)),
        Lot(STOCK, 512, 0.25, 0.5, 1, CPU, beside="1.37-atomic"),
        Lot(PHALANX, 512, 1.0, 1.0, 1, CPU, beside="1.37-atomic", grouped=512),
    ]
    lines = [line for line in versions.page(rows(lots), "10 nodes").splitlines() if line.startswith(("| 512", "| 8"))]
    cpu = "webhook 0.50 + controller 1.00"
    older = (
        "1.36.3 | placeholders | pod by pod | 1 | 1.50 (1.00-2.00) | 3.00 | 2.00 "
        f"| 0.75 (0.50-1.00) | 2.00 | 2.7 | {cpu} |"
    )
    assert lines == [
        f"| 512 | {older}",
        f"| 512 | 1.37.1 | nominations | one cycle | 1 | 0.50 | 1.00 | 2.00 | 0.25 | 1.00 | 4.0 | {cpu} |",
        f"| 8 | {older}",
    ]


def test_a_gang_that_started_in_another_way_ends_the_measurement() -> None:
    atomic = versions.configuration(f"{versions.USUAL}-atomic")
    versions.check(Lot(PHALANX, 8, 1.0, 1.0, 1, grouped=8), atomic)
    with pytest.raises(click.ClickException, match="7 of 8 pods are in a PodGroup, not 8"):
        versions.check(Lot(PHALANX, 8, 1.0, 1.0, 1, grouped=7), atomic)
    with pytest.raises(click.ClickException, match="8 of 8 pods are in a PodGroup, not 0"):
        versions.check(Lot(PHALANX, 8, 1.0, 1.0, 1, grouped=8), versions.configuration("1.36"))
