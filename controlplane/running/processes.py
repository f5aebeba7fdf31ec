"""A program that runs beside us, with its log."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM, Signals

STOP_SECONDS = 5.0
TAIL_LINES = 15


class Program:
    """One process and its children, to be started, asked to end, killed, frozen, and started again."""

    def __init__(
        self, name: str, arguments: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self._arguments = [str(each) for each in arguments]
        self._log = log
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, in a session of its own so that a Ctrl-C in the terminal reaches only us.

        :raises RuntimeError: it runs already.
        """
        if self.running:
            raise RuntimeError(f"{self.name} runs already")
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(self._environment) if self._environment is not None else None,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its process id; 0 when it does not run."""
        return self._process.pid if self._process and self._process.poll() is None else 0

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return bool(self.pid)

    def signal(self, number: Signals) -> None:
        """Send it a signal, if it runs."""
        if self._process and self._process.poll() is None:
            self._process.send_signal(number)

    def freeze(self) -> None:
        """Let it do nothing until `thaw`, while its connections stay open."""
        self._signal_all(SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._signal_all(SIGCONT)

    def kill(self) -> None:
        """End it and its children as a power cut would, and wait until it is gone."""
        self._signal_all(SIGKILL)
        if self._process:
            self._process.wait()

    def terminate(self) -> None:
        """Ask it to end; do not wait."""
        self.signal(SIGTERM)

    def wait(self, seconds: float = STOP_SECONDS) -> None:
        """Wait for its end, and kill it when that takes too long."""
        if self._process is None:
            return
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()

    def stop(self) -> None:
        """Ask it to end and wait until it has."""
        self.terminate()
        self.wait()

    def tail(self) -> str:
        """The last lines of its log."""
        lines = self._log.read_text(errors="replace").splitlines() if self._log.exists() else []
        return "\n".join(lines[-TAIL_LINES:])

    def _signal_all(self, number: "Signals") -> None:
        """Send a signal to it and its children: it leads their process group."""
        if self._process and self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
