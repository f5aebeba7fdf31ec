"""gunicorn's thread worker under TLS, cured of what stops it (gunicorn 27.0; pinned for the private names used here).

* The stock worker does the handshake and the first read of a TLS connection without any limit. As many idle
  connections as there are threads stop it, and Go's HTTP client, the API server's, opens idle connections by itself
  under bursts. Here a connection holds a thread only while it has something to read, and not for long.
* It waits in its one accepting thread for the other side to close. Here that is done beside it.
* It stops listening as soon as it is told to end. Here it first says so, by readiness and by closing each connection
  after its answer, and ends when clients have had time to go elsewhere.
"""

import select
import signal
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from gunicorn import util  # type: ignore[import-untyped]  # gunicorn has no types
from gunicorn.arbiter import Arbiter  # type: ignore[import-untyped]  # as above
from gunicorn.workers import gthread  # type: ignore[import-untyped]  # as above

LEAVE = signal.SIGUSR2
"""Tells a worker that it is going to be ended."""
CLOSING_THREADS = 4
CLOSE_SECONDS = 1.0
"""How long the other side may take to close after us."""


class Arrival(threading.local):
    """When the request that this thread answers could first be read, by the monotonic clock; None before the first."""

    time: float | None = None


class TLSThreadWorker(gthread.ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """Serves TLS connections from threads, none of which waits for a client without limit."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.leaving = False
        self.waiting = 0
        self._counting = threading.Lock()
        self.arrival = Arrival()
        self._closers: ThreadPoolExecutor | None = None

    def init_process(self) -> None:
        """Begin, in the worker's process."""
        self._closers = ThreadPoolExecutor(CLOSING_THREADS, "closing")
        super().init_process()

    def init_signals(self) -> None:
        """Besides gunicorn's own: hear that the end is near."""
        super().init_signals()
        signal.signal(LEAVE, self._leave)
        signal.siginterrupt(LEAVE, False)  # noqa: FBT003 -- the signature is signal's

    def enqueue_req(self, conn: Any) -> None:
        """Have a thread handle a connection that can be read."""
        conn.readable_since = time.monotonic()
        self._count(1)
        super().enqueue_req(conn)

    def handle(self, conn: Any) -> Any:
        """Handle one request, or defer: before the first byte, and between the handshake and the request."""
        self._count(-1)
        self.arrival.time = conn.readable_since
        if not conn.initialized:
            if not _readable(conn.sock):
                return gthread._DEFER  # noqa: SLF001 -- gunicorn has no public way; the version is pinned
            try:
                conn.init()
            except OSError as error:
                self.log.debug("TLS handshake failed: %s", error)
                return False
            conn.data_ready = conn.sock.pending() > 0 or _readable(conn.sock)
            if not conn.data_ready:
                return gthread._DEFER  # noqa: SLF001 -- as above
        return super().handle(conn)

    def handle_request(self, req: Any, conn: Any) -> Any:
        """Answer one request; the last one of its connection where the end is near."""
        if self.leaving:
            req.force_close()
        return super().handle_request(req, conn)

    def finish_request(self, conn: Any, fs: Future[Any]) -> None:
        """Keep the connection, or close it without waiting here for the other side."""
        over = fs.cancelled() or fs.exception() is not None or not fs.result()
        if not over or self._closers is None:
            super().finish_request(conn, fs)
            return
        self._closers.submit(self._close, conn)

    def _count(self, more: int) -> None:
        with self._counting:
            self.waiting += more

    def _close(self, conn: Any) -> None:
        with suppress(OSError):
            conn.sock.setblocking(False)  # noqa: FBT003 -- the signature is socket's
            util.close_graceful(conn.sock, CLOSE_SECONDS)
        self.method_queue.defer(self._closed)

    def _closed(self) -> None:
        self.nr_conns -= 1

    def _cap_keepalive(self, deadline: float) -> None:
        """At the end, connections that have never asked anything need no longer time than the others."""
        super()._cap_keepalive(deadline)
        for conn in self.pending_conns:
            conn.timeout = min(conn.timeout, deadline)

    def _leave(self, _signal: int, _frame: object) -> None:
        self.leaving = True


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


def _readable(sock: Any) -> bool:
    poller = select.poll()
    poller.register(sock, select.POLLIN)
    return bool(poller.poll(0))
