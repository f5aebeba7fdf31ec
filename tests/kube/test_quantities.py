"""Quantities in, integers out."""

import subprocess
import sys
from decimal import ROUND_CEILING, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.utils.quantity import format_quantity

from kube.quantities import LARGEST, amount

GI = 2**30


@pytest.mark.parametrize(
    ("resource", "text", "expected"),
    [
        ("cpu", "1", 1000),
        ("cpu", "500m", 500),
        ("cpu", "0.1", 100),
        ("cpu", 0.1, 100),
        ("cpu", 2, 2000),
        ("cpu", "1u", 1),
        ("cpu", "1.0005", 1001),
        ("memory", "16Gi", 16 * GI),
        ("memory", "1500m", 2),
        ("memory", "1e3", 1000),
        ("memory", "128974848", 128974848),
        ("ephemeral-storage", "1.5Ki", 1536),
        ("nvidia.com/gpu", "8", 8),
        ("nvidia.com/gpu", 8, 8),
        ("pods", "110", 110),
        ("example.com/thing", "1k", 1000),
        ("memory", "8E", 8 * 10**18),
        ("memory", "9e999999", LARGEST),
        ("cpu", "9E", LARGEST),
        ("memory", "1e-999999", 1),
    ],
)
def test_a_quantity_is_read_in_its_base_unit_and_rounded_up(resource: str, text: str | float, expected: int) -> None:
    assert amount(resource, text) == expected


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "1_000", "٣", "NaN", "inf", "-1", "-1m", "1Zi", "Ki", "1ki", ".", "a"]
)
def test_what_is_no_quantity_is_refused_by_its_text(text: str) -> None:
    with pytest.raises(ValueError, match=r"quantity|negative") as refused:
        amount("cpu", text)
    assert repr(text) in str(refused.value)


SCALES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


@given(st.integers(min_value=0, max_value=2**20), st.sampled_from(sorted(SCALES)))
def test_what_the_client_writes_in_any_unit_is_read_back(count: int, suffix: str) -> None:
    value = count * SCALES[suffix]
    assert amount("memory", format_quantity(Decimal(value), suffix)) == value


@given(st.decimals(min_value=0, max_value=10**9, places=6, allow_nan=False, allow_infinity=False))
def test_cpu_is_never_rounded_down(cores: Decimal) -> None:
    assert amount("cpu", f"{cores:f}") == int((cores * 1000).to_integral_value(ROUND_CEILING))


def test_reading_quantities_does_not_load_the_whole_client() -> None:
    program = "import sys, kube.quantities; sys.exit('kubernetes.client' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
