"""Clears up after a run of a control plane, however the run ended: kills its programs and removes its directory.

The janitor is a process of its own that holds the other end of a pipe. It acts when the pipe closes: the run is over,
or its process was killed. It imports only the standard library, so it starts with the bare interpreter.

    python janitor.py DIRECTORY
"""

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

MARK = "PHALANX_CONTROL_PLANE"
"""Every program of a run has this variable in its environment, with the run's directory; children inherit it."""

_PATIENCE_SECONDS = 10.0


def clear(directory: Path) -> None:
    """Kill the programs of the run and remove its directory, repeatedly, because a dying program may still write a
    file.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        left = list(marked(directory))
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not left and not directory.exists():
            return
        shutil.rmtree(directory, ignore_errors=True)
        time.sleep(0.01)


def marked(directory: Path) -> Iterator[int]:
    """Yield the ids of the processes that belong to the run in `directory`."""
    mark = f"{MARK}={directory}".encode()
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark in environment.read_bytes().split(b"\0"):
                yield int(environment.parent.name)


if __name__ == "__main__":
    sys.stdin.buffer.read()
    clear(Path(sys.argv[1]))
