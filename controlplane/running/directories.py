"""A directory for one run of a control plane. However the run ends, the directory and all programs of the run are
removed.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from controlplane.running import janitor

PREFIX = "phalanx-run-"


class RunDirectory:
    """A context manager that creates a directory and removes it. If this process dies first, the janitor removes it.

    The janitor detects the end of this process by a closed pipe, so it also works after SIGKILL. A signal handler would
    miss SIGKILL. A parent-death signal is sent already when a thread of the parent ends.
    """

    def __init__(self) -> None:
        self.path = Path()
        self._janitor: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Path:
        """Create the directory and start the janitor."""
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._janitor = subprocess.Popen(
            [sys.executable, "-I", "-S", janitor.__file__, str(self.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},  # without the mark of an outer run, whose janitor would kill this one
            start_new_session=True,  # so that a Ctrl-C in the terminal does not reach the janitor
        )
        return self.path

    def __exit__(self, *_: object) -> None:
        """Kill the programs of the run that still run, and remove the directory."""
        if self._janitor and self._janitor.stdin:
            self._janitor.stdin.close()
            self._janitor.wait()
