"""A worker process of gunicorn with an event loop, and a master process that announces a stop to its workers.

gunicorn restarts the worker when it dies or hangs, and passes signals on to it. The worker uses gunicorn's documented
interface of custom workers (https://gunicorn.org/design/). The application that gunicorn loads must be a `Served`.
"""

import asyncio
import os
import signal
import time
from typing import Any, Protocol

from gunicorn.arbiter import Arbiter  # type: ignore[import-untyped]  # gunicorn has no types
from gunicorn.workers.base import Worker  # type: ignore[import-untyped]  # as above

LEAVE = signal.SIGUSR2
"""The signal by which the master process announces to a worker that it will be stopped."""
HEARTBEAT_SECONDS = 1.0
"""Seconds between two heartbeats to gunicorn's master process."""


class Served(Protocol):
    """The server that a worker runs in its event loop."""

    async def serve(self, sockets: list[Any]) -> None:
        """Serve gunicorn's listening sockets until cancelled."""

    def leave(self) -> None:
        """Announce the coming stop to clients: report not ready, and close each connection after its next answer."""

    async def end(self, seconds: float) -> None:
        """Accept no connection any more, and answer the received requests for at most this many seconds."""


class LoopWorker(Worker):  # type: ignore[misc]  # gunicorn has no types
    """A worker process of gunicorn with one event loop. It serves the loaded application (`Served`)."""

    def init_signals(self) -> None:
        """Handle the signals `LEAVE` and SIGTERM in the event loop, besides gunicorn's own signals. gunicorn calls
        this.
        """
        super().init_signals()
        signal.set_wakeup_fd(-1)  # asyncio's event loop sets a descriptor of its own
        self._loop = asyncio.new_event_loop()
        self._loop.add_signal_handler(LEAVE, self._leave)
        self._loop.add_signal_handler(signal.SIGTERM, self._end)

    def run(self) -> None:
        """Serve until the worker is stopped. gunicorn calls this."""
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
        """Send heartbeats to gunicorn's master process, and stop the worker when that process has gone. Never ends."""
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
    """gunicorn's master process, which on SIGTERM announces the stop to its workers before it stops them.

    A second signal ends the wait in between.

    :param notice: the seconds between the announcement and the stop.
    """

    def __init__(self, app: Any, notice: float) -> None:
        self._notice = notice
        super().__init__(app)

    def handle_term(self) -> None:
        """Handle SIGTERM: announce the stop to the workers, wait for `notice` seconds, then stop as gunicorn does."""
        self.kill_workers(LEAVE)
        end = time.monotonic() + self._notice
        while self.WORKERS and (left := end - time.monotonic()) > 0:
            if set(self.wait_for_signals(timeout=left)) - {signal.SIGCHLD}:
                break
            self.reap_workers()
        super().handle_term()
