"""A worker process that runs the solver, and the two pipes to it.

The process is started by exec, never by fork alone, so that it does not inherit threads and locks of the server. It
ends by itself when its parent ends, even by SIGKILL.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import msgspec

from planning.solver_pool.node_layouts import Sender
from planning.solver_pool.pipes import Channel
from planning.solver_pool.tasks import Failed, Ready, Reply, Request

COMMAND = (sys.executable, "-m", "planning.solver_pool.worker")
START_SECONDS = 60.0
"""How long a worker may take to start. The start happens once and is not charged to a caller's time limit."""
_GONE = "a worker has ended or took too long"


class WorkerError(Exception):
    """A worker died, hung, failed or sent an invalid reply."""


class Worker:
    """One worker process. Two threads must not use it at a time. Raises `WorkerError` if it cannot be started."""

    def __init__(self, command: Sequence[str]) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(each for each in sys.path if each),
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
        }
        try:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        except OSError as error:
            raise WorkerError(f"a worker cannot be started: {error}") from error
        self.peak = 0
        self._channel = Channel(self._stdin, self._stdout)
        self._sender = Sender()
        self._ready = False
        self._decoder: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)

    def await_ready(self) -> float:
        """Wait until the worker has started, and return how many seconds that took. Raises `WorkerError`."""
        if self._ready:
            return 0.0
        began = time.monotonic()
        if not isinstance(self._next(began + START_SECONDS), Ready):
            raise WorkerError("the worker did not say that it is ready")
        self._ready = True
        return time.monotonic() - began

    def replies(self, request: Request, seconds: float) -> Iterator[Reply]:
        """Send the request and yield the worker's replies. Raises `WorkerError` if the worker fails or after `seconds`.

        The worker must not be used again after an error.
        """
        end = time.monotonic() + seconds
        body = msgspec.msgpack.encode(request, enc_hook=self._sender.pack)
        try:
            self._channel.send(body, end)
        except OSError as error:
            raise WorkerError(_GONE) from error
        while True:
            yield self._next(end)

    def note(self, reply: Reply) -> None:
        """Record the worker's peak memory from a reply. Raises `WorkerError` if the reply says that the solver
        failed.
        """
        if isinstance(reply, Failed):
            raise WorkerError(f"the solver failed: {reply.reason}")
        if not isinstance(reply, Ready):
            self.peak = max(self.peak, reply.peak)

    def close(self) -> None:
        """Kill the process at once, and close its pipes."""
        self.process.kill()
        self.process.wait()
        self._stdin.close()
        self._stdout.close()

    @property
    def _stdin(self) -> BinaryIO:
        return _pipe(self.process.stdin)

    @property
    def _stdout(self) -> BinaryIO:
        return _pipe(self.process.stdout)

    def _next(self, end: float) -> Reply:
        try:
            body = self._channel.receive(end)
        except TimeoutError:
            body = None
        if body is None:
            raise WorkerError(_GONE)
        try:
            return self._decoder.decode(body)
        except msgspec.DecodeError as error:
            raise WorkerError("the worker answers in another language") from error


def _pipe(pipe: object) -> BinaryIO:
    return pipe  # type: ignore[return-value]  # Popen opens it because of PIPE
