"""A program that runs beside us and ends with us, however we end."""

import ctypes
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

PR_SET_PDEATHSIG = 1
STOP_SECONDS = 10.0
TAIL_LINES = 15

_LIBC = ctypes.CDLL(None, use_errno=True)


class Program:
    """One process with its log. It gets SIGKILL when the thread that started it dies, so start it from the main one."""

    def __init__(
        self, name: str, arguments: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self._arguments = [str(each) for each in arguments]
        self._log = log
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, in a process group of its own so that a Ctrl-C in the terminal reaches only us."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(self._environment) if self._environment is not None else None,
                start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - one system call; nothing else dies with its parent
            )

    @property
    def pid(self) -> int:
        """Its process id; 0 when it does not run."""
        return self._process.pid if self._process and self._process.poll() is None else 0

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return bool(self.pid)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it runs."""
        if self._process and self._process.poll() is None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """End it as a power cut would, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        if self._process:
            self._process.wait()

    def terminate(self) -> None:
        """Ask it to end; do not wait."""
        self.signal(signal.SIGTERM)

    def wait(self, seconds: float = STOP_SECONDS) -> None:
        """Wait for its end, and kill it when that takes too long."""
        if self._process is None:
            return
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()

    def tail(self) -> str:
        """The last lines of its log."""
        lines = self._log.read_text(errors="replace").splitlines() if self._log.exists() else []
        return "\n".join(lines[-TAIL_LINES:])


def _die_with_parent() -> None:
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
