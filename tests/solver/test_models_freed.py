"""The solver's models are freed without a run of the garbage collector."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from solver.cp_model import CpModel


@pytest.fixture
def no_cycles_looked_for() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_cycles_looked_for")
def test_a_model_is_freed_as_soon_as_nobody_has_it() -> None:
    model = CpModel()
    model.add(model.new_int_var(0, 3, "x") >= 2)
    assert vars(model) == {}
    seen = weakref.ref(model)
    del model
    assert seen() is None
