"""Random instances in chunks: a fixed share in every run, and fresh seeds that another run has not seen.

| suite | seeds |
| --- | --- |
| `make test-fast` | the first `fast` of the fixed seeds |
| `make test` | these, and `fresh` seeds |
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


def chunks(instances: int, size: int, fast: int = 0, fresh: int = 0) -> Sequence[Any]:
    """Ranges of seeds, of at most `size` each, as parameters of a test.

    `instances`: all fixed seeds. `fast`: the size of the first range, which alone has no marker; 0 means `size`.
    `fresh`: the number of fresh seeds in `make test`; 0 means one for each 48 of `instances`.
    """
    few, fresh = fast or size, fresh or instances // 48
    drawn = int(os.environ[FRESH_SEED])
    return [
        _named(range(few)),
        *_marked(range(few, instances), size, pytest.mark.long),
        *([] if LONG else _marked(range(drawn, drawn + fresh), size, pytest.mark.thorough)),
    ]


def _marked(seeds: range, size: int, mark: pytest.MarkDecorator) -> Iterator[Any]:
    for place in range(0, len(seeds), size):
        yield _named(seeds[place : place + size], mark)


def _named(seeds: range, *marks: pytest.MarkDecorator) -> Any:
    return pytest.param(seeds, marks=marks, id=f"{'fresh-' * _is_fresh(seeds)}{seeds.start}-{seeds.stop - 1}")


def parts(count: int) -> Sequence[Any]:
    """Return the numbers of the parts of one test. All parts but the first are marked `long`."""
    return [0, *(pytest.param(part, marks=pytest.mark.long) for part in range(1, count))]


def mostly(fast: Sequence[Any], others: Sequence[Any]) -> Sequence[Any]:
    """Return the rows of a table. The rows of `others` are marked `long`."""
    return [*fast, *(pytest.param(*_row(each), marks=pytest.mark.long) for each in others)]


def _row(values: Any) -> tuple[Any, ...]:
    return values if isinstance(values, tuple) else (values,)
