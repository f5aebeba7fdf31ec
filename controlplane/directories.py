"""A directory for one run, gone after it, however the run ends."""

import fcntl
import shutil
import tempfile
from pathlib import Path
from typing import IO

PREFIX = "phalanx-controlplane-"


class RunDirectory:
    """Made on entering, removed on leaving. What a killed run left is removed by the next one: its lock is free."""

    def __init__(self) -> None:
        self.path = Path()
        self._lock: IO[str] | None = None

    def __enter__(self) -> Path:
        """Make it."""
        sweep()
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._lock = (self.path / "lock").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return self.path

    def __exit__(self, *_: object) -> None:
        """Remove it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock:
            self._lock.close()


def sweep() -> None:
    """Remove the directories of runs that are over."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            with (path / "lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
        except OSError:
            continue
