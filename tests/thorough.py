"""Random instances in chunks: a fixed share in every run, and fresh seeds that another run has not seen.

| suite | seeds |
| --- | --- |
| `make test-fast` | the first `fast` of the fixed seeds |
| `make test` | `usual` of them: half are the first fixed seeds, half are fresh |
| `make test-long` | all fixed seeds |

`conftest.py` draws where the fresh seeds begin, and pytest prints it. `PHALANX_FRESH_SEED=N` draws the same ones again.
"""

import os
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

LONG = int(os.environ.get("PHALANX_BRUTE_FORCE_INSTANCES", "0")) >= 20_000
"""Whether this is the long suite, which is run on an idle machine."""

FRESH_SEED = "PHALANX_FRESH_SEED"
"""The environment variable that holds the first fresh seed. All processes of one run must see the same value."""
_FIRST_FRESH = 1_000_000
"""No test has so many fixed seeds."""
_MANY = 100


def drawn_seed() -> int:
    """The first fresh seed of a new run."""
    return _FIRST_FRESH + int.from_bytes(os.urandom(4))


def has_rare_cases(seeds: range) -> bool:
    """Whether a test may require that rare cases occur: in the first range, and in a hundred other fixed seeds."""
    return seeds.start == 0 or (len(seeds) >= _MANY and not _is_fresh(seeds))


def _is_fresh(seeds: range) -> bool:
    return seeds.start >= _FIRST_FRESH


def chunks(instances: int, size: int, fast: int = 0, usual: int = 0) -> Sequence[Any]:
    """Ranges of seeds, of at most `size` each, as parameters of a test.

    `instances`: all fixed seeds. `fast`: the size of the first range, which alone has no marker `thorough`; 0 means
    `size`. `usual`: the number of seeds in `make test`; 0 means a sixth of `instances`.
    """
    few, usual = fast or size, usual or instances // 6
    if LONG:
        return [_named(range(few)), *_thorough(range(few, instances), size)]
    fixed = max(few, usual - usual // 2)
    first = int(os.environ[FRESH_SEED])
    return [_named(range(few)), *_thorough(range(few, fixed), size), *_thorough(range(first, first + usual // 2), size)]


def _thorough(seeds: range, size: int) -> Iterator[Any]:
    for place in range(0, len(seeds), size):
        yield _named(seeds[place : place + size], pytest.mark.thorough)


def _named(seeds: range, *marks: pytest.MarkDecorator) -> Any:
    return pytest.param(seeds, marks=marks, id=f"{'fresh-' * _is_fresh(seeds)}{seeds.start}-{seeds.stop - 1}")


def parts(count: int) -> Sequence[Any]:
    """Return the numbers of the parts of one test. All parts but the first are marked `thorough`."""
    return [0, *(pytest.param(part, marks=pytest.mark.thorough) for part in range(1, count))]


def mostly(fast: Sequence[Any], others: Sequence[Any]) -> Sequence[Any]:
    """Return the rows of a table. The rows of `others` take long, so they are marked `thorough`."""
    return [*fast, *(pytest.param(*_row(each), marks=pytest.mark.thorough) for each in others)]


def _row(values: Any) -> tuple[Any, ...]:
    return values if isinstance(values, tuple) else (values,)
