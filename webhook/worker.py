"""gunicorn's thread worker under TLS, cured of what stops it (gunicorn 27.0; pinned for the private names used here).

* The stock worker does the handshake and the first read of a TLS connection without any limit. As many idle
  connections as there are threads stop it, and Go's HTTP client, the API server's, opens idle connections by itself
  under bursts. Here a connection gets a thread for what has arrived, and goes back to the poller when more is needed:
  for its first byte, for each part of its handshake, and for the rest of its request.
* It waits in its one accepting thread for the other side to close. Here that is done beside it, and hardly where
  nothing was answered or many are to be closed: they count as connections, of which there may be only so many.
* It stops listening as soon as it is told to end. Here it first says so, by readiness and by closing each connection
  after its answer, and ends when clients have had time to go elsewhere.
"""

import signal
import ssl
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from gunicorn import http, sock, util  # type: ignore[import-untyped]  # gunicorn has no types
from gunicorn.arbiter import Arbiter  # type: ignore[import-untyped]  # as above
from gunicorn.workers import gthread  # type: ignore[import-untyped]  # as above

from webhook.inbox import Inbox
from webhook.tls import READ_SECONDS

LEAVE = signal.SIGUSR2
"""Tells a worker that it is going to be ended."""
CLOSING_THREADS = 4
LOOK_SECONDS = 0.5
CLOSE_SECONDS = 1.0
"""How long the other side may take to close after us."""
HURRIED_CLOSE_SECONDS = 0.005
"""The same where no request was answered, or where more than MOST_CLOSING are to be closed. Not zero: what has arrived
is taken, because closing on unread bytes resets the connection, and an alert or an answer under way would be lost."""
MOST_CLOSING = 16


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
        self._closing = 0
        self._next_look = 0.0

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
        """Answer one request if it has arrived; else defer until more has."""
        self._count(-1)
        self.arrival.time = conn.readable_since
        try:
            if not self._arrived(conn):
                return gthread._DEFER  # noqa: SLF001 -- gunicorn has no public way; the version is pinned
        except OSError as error:
            self.log.debug("nothing arrives any more: %s", error)
            return False
        return super().handle(conn)

    def _arrived(self, conn: Any) -> bool:
        """Go on with the handshake, then with the request, as far as possible without waiting."""
        if not hasattr(conn, "inbox"):
            conn.inbox, conn.due = Inbox(), time.monotonic() + READ_SECONDS
            conn.sock = sock.ssl_wrap_socket(conn.sock, self.cfg)
        if not conn.initialized:
            try:
                conn.sock.do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return False
            conn.initialized, conn.due = True, None
            conn.parser = http.get_parser(self.cfg, conn.sock, conn.client)
        conn.sock.setblocking(False)  # noqa: FBT003 -- the signature is socket's
        conn.inbox.add(conn.parser.unreader.take_buffered())  # what came together with the request before
        whole: bool = conn.inbox.collect(conn.sock)
        if not whole:
            if conn.inbox.begun and conn.due is None:
                conn.due = time.monotonic() + READ_SECONDS
            return False
        conn.due = None
        conn.parser.unreader.unread(conn.inbox.take())
        return True

    def handle_request(self, req: Any, conn: Any) -> Any:
        """Answer one request; the last one of its connection where the end is near."""
        if self.leaving:
            req.force_close()
        return super().handle_request(req, conn)

    def finish_request(self, conn: Any, fs: Future[Any]) -> None:
        """Keep the connection, or close it without waiting here for the other side."""
        over = fs.cancelled() or fs.exception() is not None or not fs.result()
        if over and self._closers is not None:
            self._closing += 1
            self._closers.submit(self._close, conn)
            return
        super().finish_request(conn, fs)
        due = getattr(conn, "due", None)
        if due is not None:
            conn.timeout = min(conn.timeout, due)

    def murder_pending(self) -> None:
        """Close connections whose handshake or request was due. Unlike gunicorn's they are not in the order of it."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + LOOK_SECONDS
        for conn in [each for each in self.pending_conns if each.timeout <= now]:
            self.pending_conns.remove(conn)
            with suppress(OSError, KeyError, ValueError):
                self.poller.unregister(conn.sock)
            self.nr_conns -= 1
            conn.close()

    def _count(self, more: int) -> None:
        with self._counting:
            self.waiting += more

    def _close(self, conn: Any) -> None:
        patient = conn.initialized and self._closing <= MOST_CLOSING
        with suppress(OSError):
            conn.sock.setblocking(False)  # noqa: FBT003 -- the signature is socket's
            util.close_graceful(conn.sock, CLOSE_SECONDS if patient else HURRIED_CLOSE_SECONDS)
        self.method_queue.defer(self._closed)

    def _closed(self) -> None:
        self._closing -= 1
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
