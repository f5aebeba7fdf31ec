"""Counts function calls: a cost that is the same on every machine."""

import sys
from collections.abc import Callable
from types import FrameType


def function_calls(action: Callable[[], object]) -> int:
    """Return how many functions this thread calls during `action`, in Python and in C."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(before)
    return calls
