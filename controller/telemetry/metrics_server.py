"""The controller's `/metrics` over TLS, for clients whose token is allowed to read that path. It serves no other path.

The certificate is created at start and signed by a CA that no client knows. It only encrypts the client's token on the
network. So scrapers must be configured not to verify it, as for the metrics of other controllers
(https://book.kubebuilder.io/reference/metrics). The replicas have no common name that one certificate could carry.
"""

import ssl
import tempfile
from pathlib import Path

from werkzeug.wrappers import Request, Response

from certs.authority import AUTHORITY_LIFETIME, ServerNames, issue, new_authority
from cluster.api.token_reviews import AccessCheck, refusal
from controller.telemetry.metrics import CONTENT_TYPE, Metrics
from serving.background import BackgroundPort
from timing.clock import SYSTEM_CLOCK, Clock

PATH = "/metrics"


def metrics_server(
    host: str, port: int, metrics: Metrics, access: AccessCheck, clock: Clock = SYSTEM_CLOCK
) -> BackgroundPort:
    """Return a server of `/metrics` at this address. `access` decides which clients may read the path.

    :raises OSError: if the port is not available.
    """

    @Request.application
    def application(request: Request) -> Response:
        return _answer(request, metrics, access)

    context = _self_signed(clock)
    return BackgroundPort("metrics", (host, port), application, lambda: context)


def _self_signed(clock: Clock) -> ssl.SSLContext:
    now = clock.wall()
    pair = issue(new_authority("phalanx-metrics", now), ServerNames(dns=("localhost",)), now, AUTHORITY_LIFETIME)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with tempfile.TemporaryDirectory() as folder:  # the ssl module reads keys from files only
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
