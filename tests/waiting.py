"""How a test waits for what another thread or process does. No test decides by how long that takes."""

import inspect
import os
import time
from collections.abc import Callable

PATIENCE_SECONDS = float(os.environ.get("PHALANX_PATIENCE_SECONDS", "300"))
"""Far longer than anything here takes, so that only a fault lets it expire. A machine under load may need a minute.
The mutation check sets the variable, because most planted faults make a test wait in vain.
"""
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.005, 0.2
"""Seconds between two looks at the condition."""


def wait_for(
    condition: Callable[[], object], reason: str | Callable[[], object] = "", seconds: float = PATIENCE_SECONDS
) -> None:
    """Return when the condition holds.

    `reason`: what is awaited, or a function that shows the state; the text of the error. Without it the error shows the
    source line of the condition. Raises AssertionError after `seconds`.
    """
    deadline, pause = time.monotonic() + seconds, _SHORTEST_PAUSE
    while not condition():
        if time.monotonic() > deadline:
            said = reason() if callable(reason) else reason or inspect.getsource(condition).strip()
            raise AssertionError(f"waited {seconds:g} s in vain: {said}")
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
