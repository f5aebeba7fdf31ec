"""A program that runs as a child process, with a log file."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM, Signals

STOP_SECONDS = 5.0
TAIL_LINES = 15


class Program:
    """One process with its children. It can be started, terminated, killed, frozen, and started again."""

    def __init__(
        self, name: str, arguments: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.arguments = [str(each) for each in arguments]
        """The program and its arguments."""
        self._log = log
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process in its own session, so that a Ctrl-C in the terminal does not reach it.

        :raises RuntimeError: the process runs already.
        """
        if self.running:
            raise RuntimeError(f"{self.name} runs already")
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self.arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(self._environment) if self._environment is not None else None,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id. 0 if the process does not run."""
        return self._process.pid if self._process and self._process.poll() is None else 0

    @property
    def running(self) -> bool:
        """Whether the process runs."""
        return bool(self.pid)

    def signal(self, number: Signals) -> None:
        """Send a signal to the process, without its children, if it runs."""
        if self._process and self._process.poll() is None:
            self._process.send_signal(number)

    def freeze(self) -> None:
        """Stop the process and its children until `thaw` (SIGSTOP). Their connections stay open."""
        self._signal_all(SIGSTOP)

    def thaw(self) -> None:
        """Let the process and its children continue (SIGCONT)."""
        self._signal_all(SIGCONT)

    def kill(self) -> None:
        """Kill the process and its children, like a power cut, and wait for its end."""
        self._signal_all(SIGKILL)
        if self._process:
            self._process.wait()

    def terminate(self) -> None:
        """Send SIGTERM to the process, and do not wait."""
        self.signal(SIGTERM)

    def wait(self, seconds: float = STOP_SECONDS) -> None:
        """Wait for the end of the process. If it takes longer than `seconds`, kill the process."""
        if self._process is None:
            return
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()

    def stop(self) -> None:
        """Send SIGTERM to the process and wait for its end."""
        self.terminate()
        self.wait()

    def tail(self) -> str:
        """Return the last lines of the process's log."""
        lines = self._log.read_text(errors="replace").splitlines() if self._log.exists() else []
        return "\n".join(lines[-TAIL_LINES:])

    def _signal_all(self, number: "Signals") -> None:
        """Send a signal to the process group of the process, and so to its children as well."""
        if self._process and self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
