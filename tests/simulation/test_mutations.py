"""The faults of the mutation check can be planted in the code as it is. `make mutations` plants them."""

from pathlib import Path

import pytest

from simulation.mutations import MUTATIONS, Mutation

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_fault_can_be_planted(mutation: Mutation) -> None:
    text = (ROOT / mutation.file).read_text()
    assert text.count(mutation.old) == 1
    compile(text.replace(mutation.old, mutation.new), mutation.file, "exec")
    assert mutation.old != mutation.new


def test_no_two_faults_have_one_name() -> None:
    assert len({each.name for each in MUTATIONS}) == len(MUTATIONS) >= 25
