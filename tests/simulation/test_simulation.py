"""Random schedules: crashes, lost answers, late watches and users' edits break no invariant (docs/decisions/0036).

A failure names its seed: `make simulate SEED=…` replays and minimises it.
"""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from thorough import FRESH_SEED

from simulation import invariants
from simulation.known import unknown
from simulation.minimise import minimised
from simulation.schedule import run, simulating

FAST, FIXED = 4, 20
FRESH = int(os.environ.get("PHALANX_SIMULATED_SCHEDULES", "20"))
"""How many fresh seeds a run tries: with the fixed ones less than half a minute of an idle core."""


@pytest.fixture(autouse=True)
def simulated() -> Iterator[None]:
    """No real time, and plans within this process."""
    with simulating():
        yield


def check(seed: int) -> None:
    """Run one schedule."""
    result = run(seed)
    if news := unknown(result.violations):
        pytest.fail(f"seed {seed}: {'; '.join(news)}\nmake simulate SEED={seed}")


@pytest.mark.parametrize("seed", range(FAST))
def test_a_schedule_breaks_no_invariant(seed: int) -> None:
    check(seed)


@pytest.mark.thorough
@pytest.mark.parametrize("tens", range(FIXED // 10))
def test_fixed_schedules_break_no_invariant(tens: int) -> None:
    for seed in range(FAST + 10 * tens, FAST + 10 * tens + 10):
        check(seed)


@pytest.mark.thorough
def test_fresh_schedules_break_no_invariant() -> None:
    """`PHALANX_FRESH_SEED` of the run draws the same ones again."""
    first = int(os.environ[FRESH_SEED])
    for seed in range(first, first + FRESH):
        check(seed)


@pytest.mark.parametrize("seed", [2925709911, 880191112252, 880191112137])
def test_a_gang_is_counted_again_when_its_gang_object_changes(seed: int) -> None:
    """The Gang is created again after its pods were bound, or its minimum rises while no pod changes."""
    check(seed)


def test_a_seed_replays() -> None:
    assert run(FAST) == run(FAST)


@pytest.mark.thorough
def test_a_seed_replays_in_another_process() -> None:
    """The order of a set of texts differs from process to process. In this schedule two probes are left over at once,
    and the order of a set decided which of them was deleted first.
    """
    code = (
        "from simulation.schedule import run, simulating\nwith simulating():\n    print('\\n'.join(run(300191).trace))"
    )
    traces = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(traces) == 1


def test_a_schedule_without_choices_is_harmless() -> None:
    result = run(FAST, frozenset())
    assert result.taken == frozenset()
    assert result.violations == ()


def test_a_failing_schedule_is_minimised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all that happens in a schedule only what the violation needs is left."""
    monkeypatch.setattr(invariants, "SETTLED_SECONDS", -1000.0)
    monkeypatch.setattr(invariants.Invariants, "_all_fitting_started", _no_rival)
    result = next(each for each in map(run, range(50)) if any("rival" in text for text in each.violations))
    shortest = minimised(result, runs=40)
    assert any("rival" in text for text in shortest.violations)
    assert len(shortest.taken) < len(result.taken)


def _no_rival(self: object) -> None:
    pods = self._pods  # type: ignore[attr-defined]
    if any(name.startswith("default/r") for name in pods):
        self.violated("rival", "there is a rival")  # type: ignore[attr-defined]
