"""gunicorn's worker process over an event loop. gunicorn restarts it when it dies or hangs, and passes on signals.

It uses the documented interface of custom workers (https://gunicorn.org/design/): `notify` as the heartbeat,
`init_process` and `run`. It serves the application that gunicorn loads, which is a `Served`.
"""

import asyncio
import os
import signal
import time
from typing import Any, Protocol

from gunicorn.arbiter import Arbiter  # type: ignore[import-untyped]  # gunicorn has no types
from gunicorn.workers.base import Worker  # type: ignore[import-untyped]  # as above

LEAVE = signal.SIGUSR2
"""The signal that announces to a worker that it will be stopped."""
HEARTBEAT_SECONDS = 1.0


class Served(Protocol):
    """The server that a worker runs in its loop."""

    async def serve(self, sockets: list[Any]) -> None:
        """Serve gunicorn's listening sockets until cancelled."""

    def leave(self) -> None:
        """Announce the coming stop to clients."""

    async def end(self, seconds: float) -> None:
        """Answer the received requests, for at most this many seconds."""


class LoopWorker(Worker):  # type: ignore[misc]  # gunicorn has no types
    """A worker process with one event loop."""

    def init_signals(self) -> None:
        """Handle `LEAVE` and SIGTERM in the loop, besides gunicorn's own signals.

        A second signal to stop ends the worker at once.
        """
        super().init_signals()
        signal.set_wakeup_fd(-1)  # the loop has its own
        self._loop = asyncio.new_event_loop()
        self._loop.add_signal_handler(LEAVE, self._leave)
        self._loop.add_signal_handler(signal.SIGTERM, self._end)

    def run(self) -> None:
        """Serve until the worker is stopped."""
        self._over = asyncio.Event()
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        served: Served = self.wsgi
        serving = asyncio.ensure_future(served.serve([each.sock for each in self.sockets]))
        beating = asyncio.ensure_future(self._beat())
        over = asyncio.ensure_future(self._over.wait())
        await asyncio.wait((serving, over), return_when=asyncio.FIRST_COMPLETED)
        failed = serving.exception() if serving.done() else None
        for each in (serving, over):
            each.cancel()
        await asyncio.gather(serving, over, return_exceptions=True)
        await served.end(self.cfg.graceful_timeout)
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)
        if failed is not None:
            raise failed

    async def _beat(self) -> None:
        """Send the heartbeat to gunicorn, and stop when the master process has gone."""
        while True:
            self.notify()
            if self.ppid != os.getppid():
                self._over.set()
            await asyncio.sleep(HEARTBEAT_SECONDS)

    def _leave(self) -> None:
        self.wsgi.leave()

    def _end(self) -> None:
        self.alive = False
        self._over.set()


class PoliteArbiter(Arbiter):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's master process, which on SIGTERM gives notice before it ends. A second signal ends it sooner."""

    def __init__(self, app: Any, notice: float) -> None:
        self._notice = notice
        super().__init__(app)

    def handle_term(self) -> None:
        """Give notice, wait, then end as gunicorn does."""
        self.kill_workers(LEAVE)
        end = time.monotonic() + self._notice
        while self.WORKERS and (left := end - time.monotonic()) > 0:
            if set(self.wait_for_signals(timeout=left)) - {signal.SIGCHLD}:
                break
            self.reap_workers()
        super().handle_term()
