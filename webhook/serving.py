"""Runs the webhook under gunicorn, in one worker process with an event loop.

There is one process because each would hold a watch cache of its own; the webhook is scaled by replicas. Everything
that starts threads (caches, the health port, the certificate watch) is created in the worker process, after the fork.
Docs of the settings: https://gunicorn.org/reference/settings/
"""

import faulthandler
import logging
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from flask import Flask
from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]  # gunicorn has no types
from gunicorn.arbiter import Arbiter  # type: ignore[import-untyped]  # as above

from serving.application import Application, Pool
from serving.background import BackgroundPort
from serving.gunicorn_worker import LoopWorker, PoliteArbiter
from serving.limits import BACKLOG, KEEP_SECONDS, MOST_CONNECTIONS, ConnectionLimits
from serving.memory import keep_little
from serving.port import Port
from serving.tls import CertificateFolder
from webhook.health import Check, TLSSelfCall, health_server
from webhook.live_view.changes import CHANGES

log = logging.getLogger(__name__)

ADMISSION, GUARDED, VIEWERS = "admission", "guarded", "viewers"
"""The names of the pools of threads, so that slow requests do not delay admission.

`ADMISSION` answers API servers. `GUARDED` answers requests with a token, whose review may take long. `VIEWERS` answers
the live page's requests for changes, which wait until something changes.
"""
GUARDED_THREADS, GUARDED_WAITING = 6, 40
"""The threads of the pool `GUARDED`, and the most requests that wait for one of them."""
MOST_VIEWERS, MOST_OF_ONE_VIEWER = 40, 8
"""The most live pages that wait for changes at a time: in total, and with the same token. Their threads only wait."""

WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 -- this table is not a binding
"""By wildcard address: the loopback address at which a server that listens on the wildcard address can be reached."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of the server. All times are in seconds.

    `certificates`: the folder with `tls.crt` and `tls.key`. `certificate_poll`: the time between two checks of this
    folder for changes. `threads`: the threads that answer admission requests. `most_waiting`: the most requests that
    wait for one of them; further requests are refused. `connections`: the most open connections. `keepalive`: how long
    an idle connection stays open. After SIGTERM the server reports not ready and closes each connection after its
    answer, but accepts requests for `notice`. Then it stops listening, and requests in flight have `drain` to end.
    `client_authority`: a file with the CA certificates that verify client certificates. None: the server requests no
    client certificates.
    """

    certificates: Path
    host: str = "0.0.0.0"  # noqa: S104 -- a server in a pod is reached by the pod's address
    port: int = 9443
    health_port: int = 8081
    threads: int = 32
    keepalive: int = KEEP_SECONDS
    notice: float = 5.0
    drain: int = 25
    most_waiting: int = 400
    connections: int = MOST_CONNECTIONS
    certificate_poll: float = 2.0
    client_authority: Path | None = None


def pools(threads: int, most_waiting: int) -> dict[str, Pool]:
    """Return the pools of threads by name. `threads` and `most_waiting` are the sizes of the pool `ADMISSION`."""
    return {
        ADMISSION: Pool(threads, most_waiting),
        GUARDED: Pool(GUARDED_THREADS, GUARDED_WAITING),
        VIEWERS: Pool(MOST_VIEWERS, waiting=0, judged_in=GUARDED, most_each=MOST_OF_ONE_VIEWER),
    }


def pool_of(path: str) -> str:
    """Return the name of the pool of threads that answers requests to this path."""
    if path.startswith(("/mutate", "/validate")):
        return ADMISSION
    return VIEWERS if path == CHANGES else GUARDED


class Service(Protocol):
    """The application that the server runs. It is created in the worker process."""

    app: Flask

    def checks(self) -> dict[str, Check]:
        """The readiness checks of the application by name. The server adds checks of TLS and of its shutdown."""

    def certificate_changed(self, not_after: datetime) -> None:
        """Called when the server begins to serve another certificate. `not_after`: the end of its validity."""

    def close(self) -> None:
        """Release all resources. Called when the worker ends."""


class WebhookServer(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's application object. `run()` serves until SIGTERM or SIGINT, then exits the process."""

    def __init__(self, settings: Settings, make_service: Callable[[], Service]) -> None:
        self.settings = settings
        self.make_service = make_service
        self._ends: list[Callable[[], None]] = []
        self.service: Service | None = None
        self._port: Port | None = None
        self._leaving = False
        super().__init__()

    def load_config(self) -> None:
        """Pass the settings to gunicorn. gunicorn calls this at the start."""
        settings = self.settings
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        for name, value in {
            "bind": f"{host}:{settings.port}",
            "workers": 1,
            "worker_class": "serving.gunicorn_worker.LoopWorker",
            "timeout": 60,
            "graceful_timeout": settings.drain,
            "backlog": BACKLOG,
            "max_requests": 0,
            "preload_app": False,
            "control_socket_disable": True,
            "worker_tmp_dir": "/dev/shm",  # noqa: S108 -- gunicorn's own advice: its heartbeat must not touch a disk
            "loglevel": "warning",
            "post_worker_init": self._begin,
            "worker_exit": self._end,
            "proc_name": "phalanx-webhook",
        }.items():
            self.cfg.set(name, value)

    def load(self) -> "WebhookServer":
        """Create the service. gunicorn calls this in the worker process."""
        self.service = self.make_service()
        self._ends.append(self.service.close)
        return self

    async def serve(self, sockets: list[socket.socket]) -> None:
        """Serve HTTPS on the listening socket, in the worker's event loop. `sockets` has exactly one."""
        service = self.service
        if service is None:
            raise RuntimeError("gunicorn started a worker without loading the application")
        settings, (listening,) = self.settings, sockets
        limits = ConnectionLimits(connections=settings.connections, keep_seconds=settings.keepalive)
        application = Application(service.app, pools(settings.threads, settings.most_waiting), pool_of, limits)
        self._port = Port(listening, application, limits, self._certificates.context)
        await self._port.serve()

    def leave(self) -> None:
        """Report not ready from now on, and close each connection after its next answer."""
        self._leaving = True
        if self._port is not None:
            self._port.leave()

    async def end(self, seconds: float) -> None:
        """Answer the requests in flight, for at most `seconds`."""
        if self._port is not None:
            await self._port.end(seconds)

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT, then exit the process. Errors at the start are printed on stderr."""
        faulthandler.enable()  # the worker inherits it: a crash of a native library names its threads and Python frames
        keep_little()  # the workers are forked from here
        try:
            PoliteArbiter(self, self.settings.notice).run()
        except RuntimeError as error:
            sys.exit(f"Error: {error}")

    def _begin(self, _worker: LoopWorker) -> None:
        """Load the certificates, then start the health port. gunicorn calls this in the worker before it serves."""
        service = self.service
        if service is None:
            raise RuntimeError("gunicorn started a worker without loading the application")
        self._certificates = CertificateFolder(
            self.settings.certificates, service.certificate_changed, self.settings.client_authority
        )
        self._certificates.watch(self.settings.certificate_poll)
        self._ends.append(self._certificates.stop)
        address = WILDCARDS.get(self.settings.host, self.settings.host), self.settings.port
        checks: dict[str, Check] = {
            **service.checks(),
            "certificate": self._certificates.problem,
            "tls": TLSSelfCall(address, self._shown),
            "stay": lambda: "this replica is about to end" if self._leaving else "",
        }
        health = self._health_server(checks)
        health.start()
        self._ends.append(health.stop)
        sys.setswitchinterval(0.001)  # Python's default is 0.005 s: a computing thread yields sooner

    def _health_server(self, checks: dict[str, Check]) -> BackgroundPort:
        host, port = self.settings.host, self.settings.health_port
        try:
            return health_server(host, port, checks)
        except OSError as error:
            log.error("cannot listen at --host=%s --health-port=%s: %s", host, port, error)  # noqa: TRY400 -- no fault
            raise SystemExit(Arbiter.APP_LOAD_ERROR) from error

    def _shown(self) -> bytes | None:
        current = self._certificates.current
        return current.certificate if current else None

    def _end(self, _arbiter: object, _worker: object) -> None:
        while self._ends:
            self._ends.pop()()
