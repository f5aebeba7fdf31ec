"""Counts function calls: a cost that is the same on every machine."""

import gc
import sys
from collections.abc import Callable
from types import FrameType


def function_calls(action: Callable[[], object]) -> int:
    """Return how many functions this thread calls during `action`, in Python and in C.

    Garbage is not collected meanwhile, because the finalizers of other tests' objects would count.
    """
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before, collecting = sys.getprofile(), gc.isenabled()
    gc.disable()
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(before)
        if collecting:
            gc.enable()
    return calls
