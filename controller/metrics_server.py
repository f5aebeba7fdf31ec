"""The controller's `/metrics` over TLS, for whoever may read that path; nothing else is served there.

The certificate is made at start, signed by nobody that a client knows: it keeps the token from being read on the way,
and a scraper is configured not to verify it, as for other controllers' metrics
(https://book.kubebuilder.io/reference/metrics). The replicas have no common name that one certificate could carry.
"""

import ssl
import tempfile
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from werkzeug.serving import ThreadedWSGIServer
from werkzeug.wrappers import Request, Response

from certs.authority import AUTHORITY_LIFETIME, ServerNames, issue, new_authority
from cluster.access import AccessCheck, refusal
from cluster.listening import Quiet, listen
from controller.metrics import CONTENT_TYPE, Metrics

PATH = "/metrics"
PATIENCE_SECONDS = 10.0
"""A connection that says nothing for so long is closed; each has a thread of its own."""


class MetricsServer:
    """Serves from threads of its own until `stop`. Raises OSError where the port cannot be had."""

    def __init__(self, host: str, port: int, metrics: Metrics, access: AccessCheck) -> None:
        @Request.application
        def application(request: Request) -> Response:
            return _answer(request, metrics, access)

        with listen(host, port) as listening:
            self._server = _TLSServer(host, port, application, handler=Quiet, fd=listening.fileno())

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self._server.port)

    def start(self) -> None:
        """Begin to serve."""
        threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True).start()

    def stop(self) -> None:
        """End serving and give the port back."""
        self._server.shutdown()
        self._server.server_close()


class _TLSServer(ThreadedWSGIServer):
    """Shakes hands in each connection's own thread: a silent client holds up nobody else."""

    daemon_threads = True

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._context = _self_signed()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Serve one connection."""
        request.settimeout(PATIENCE_SECONDS)
        try:
            with self._context.wrap_socket(request, server_side=True) as secured:
                super().finish_request(secured, client_address)
        except OSError:
            return  # it spoke no TLS, or hung up


def _self_signed() -> ssl.SSLContext:
    now = datetime.now(UTC)
    pair = issue(new_authority("phalanx-metrics", now), ServerNames(dns=("localhost",)), now, AUTHORITY_LIFETIME)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with tempfile.TemporaryDirectory() as folder:  # ssl reads keys from files only
        certificate, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
        certificate.write_bytes(pair.certificate)
        key.touch(mode=0o600)
        key.write_bytes(pair.key)
        context.load_cert_chain(certificate, key)
    return context


def _answer(request: Request, metrics: Metrics, access: AccessCheck) -> Response:
    if request.path != PATH:
        return Response("not found\n", status=404)
    if request.method != "GET":
        return Response("method not allowed\n", status=405, headers={"Allow": "GET"})
    refused = refusal(access, request.headers.get("Authorization", ""), "get", PATH)
    if refused is not None:
        return Response(f"{refused.text}\n", status=refused.status, headers=refused.headers)
    return Response(metrics.text(), content_type=CONTENT_TYPE)
