"""gunicorn as this webhook runs it: one worker process with threads, because one process holds one watch cache.

Replicas scale it, not processes. Whatever has threads (caches, the health port, the certificate watch) is made in
the worker, after the fork. Docs of the settings: https://gunicorn.org/reference/settings/
"""

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from flask import Flask
from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]  # gunicorn has no types
from gunicorn.arbiter import Arbiter  # type: ignore[import-untyped]  # as above
from gunicorn.config import Config  # type: ignore[import-untyped]  # as above

from webhook.health import Check, HealthServer, TLSSelfCall
from webhook.limits import Limits
from webhook.tls import CertificateFolder
from webhook.worker import PoliteArbiter, TLSThreadWorker

log = logging.getLogger(__name__)

WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 -- this table is not a binding
"""The loopback address through which a server that listens everywhere can be asked."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Where to listen and how. Times in seconds.

    `keepalive` exceeds the 90 s for which the API server keeps idle connections: a POST on a connection that is
    being closed cannot be repeated. After SIGTERM the server is not ready and closes each connection after its answer,
    but goes on for `notice`; then it listens no more, and requests in flight may take `drain`. `most_waiting` is how
    many requests may wait for one of the `threads` before more are refused. `client_authority` is a file of the
    certificates by which those of clients are judged; None: clients are not asked for any.
    """

    certificates: Path
    host: str = "0.0.0.0"  # noqa: S104 -- a server in a pod is reached by the pod's address
    port: int = 9443
    health_port: int = 8081
    threads: int = 32
    keepalive: int = 120
    notice: float = 5.0
    drain: int = 25
    most_waiting: int = 400
    certificate_poll: float = 2.0
    client_authority: Path | None = None


class Service(Protocol):
    """What is served, made in the worker process."""

    app: Flask

    def checks(self) -> dict[str, Check]:
        """What must hold before requests are sent here, besides TLS."""

    def certificate_changed(self, not_after: datetime) -> None:
        """Told the end of life of each certificate that is taken into use."""

    def close(self) -> None:
        """The worker ends."""


class WebhookServer(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's application object. `run()` serves until SIGTERM or SIGINT, then exits the process."""

    def __init__(self, settings: Settings, make_service: Callable[[], Service]) -> None:
        self.settings = settings
        self.make_service = make_service
        self._ends: list[Callable[[], None]] = []
        self.service: Service | None = None
        super().__init__()

    def load_default_config(self) -> None:
        """Start from a configuration that always means TLS."""
        self.cfg = _TLSConfig(self.usage, prog=self.prog)

    def load_config(self) -> None:
        """Hand our settings to gunicorn."""
        settings = self.settings
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        for name, value in {
            "bind": f"{host}:{settings.port}",
            "workers": 1,
            "worker_class": "webhook.worker.TLSThreadWorker",
            "threads": settings.threads,
            "keepalive": settings.keepalive,
            "timeout": 60,
            "graceful_timeout": settings.drain,
            "backlog": 512,
            "worker_connections": 1000,
            "do_handshake_on_connect": False,
            "max_requests": 0,
            "preload_app": False,
            "control_socket_disable": True,
            "worker_tmp_dir": "/dev/shm",  # noqa: S108 -- gunicorn's own advice: its heartbeat must not touch a disk
            "loglevel": "warning",
            "ssl_context": self._ssl_context,
            "post_worker_init": self._begin,
            "worker_exit": self._end,
            "proc_name": "phalanx-webhook",
        }.items():
            self.cfg.set(name, value)

    def load(self) -> Limits:
        """Make what is served; called in the worker."""
        self.service = self.make_service()
        self._ends.append(self.service.close)
        self._limits = Limits(self.service.app, self.settings.most_waiting)
        return self._limits

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT, then exit the process. Whatever cannot be begun is said on stderr."""
        try:
            PoliteArbiter(self, self.settings.notice).run()
        except RuntimeError as error:
            sys.exit(f"Error: {error}")

    def _ssl_context(self, config: object, default: object) -> Any:
        return self._certificates.context_of(config, default)

    def _begin(self, worker: TLSThreadWorker) -> None:
        """In the worker, before it accepts: certificates, then the health port."""
        service = self.service
        if service is None:
            raise RuntimeError("gunicorn started a worker without loading the application")
        self._limits.watch(worker)
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
            "stay": lambda: "this replica is about to end" if worker.leaving else "",
        }
        health = self._health_server(checks)
        health.start()
        self._ends.append(health.stop)
        sys.setswitchinterval(0.001)  # a thread that computes gives way to one that answers five times sooner

    def _health_server(self, checks: dict[str, Check]) -> HealthServer:
        host, port = self.settings.host, self.settings.health_port
        try:
            return HealthServer(host, port, checks)
        except OSError as error:
            log.error("cannot listen at --host=%s --health-port=%s: %s", host, port, error)  # noqa: TRY400 -- no fault
            raise SystemExit(Arbiter.APP_LOAD_ERROR) from error

    def _shown(self) -> bytes | None:
        current = self._certificates.current
        return current.certificate if current else None

    def _end(self, _arbiter: object, _worker: object) -> None:
        while self._ends:
            self._ends.pop()()


class _TLSConfig(Config):  # type: ignore[misc]  # gunicorn has no types
    """A configuration for TLS whose certificate may come later than the server."""

    @property
    def is_ssl(self) -> bool:
        """Always: gunicorn would look for files at start instead."""
        return True
