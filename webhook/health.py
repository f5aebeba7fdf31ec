"""The plain HTTP port for the kubelet's health probes: `/healthz` (the process is alive) and `/readyz` (it can do its
work).

Health probes have their own port, so that they never compete for the threads of the TLS port. Readiness still sends a
request to the TLS port, so that it reports the state of that port too.
"""

import http.client
import ssl
import threading
from collections.abc import Callable, Mapping

from werkzeug.wrappers import Request, Response

from serving.background import BackgroundPort
from timing.clock import SYSTEM_CLOCK, Clock

Check = Callable[[], str]
"""A readiness check. It returns "" if it passes, else the reason why not."""

SELF_CALL_SECONDS = 2.0
"""The time limit of a request to the webhook's own TLS port."""


def health_server(host: str, port: int, checks: Mapping[str, Check]) -> BackgroundPort:
    """Return a server of `/healthz` and `/readyz`. The process is ready if all of the named checks pass.

    :raises OSError: the server cannot listen on the port.
    """

    @Request.application
    def application(request: Request) -> Response:
        return _answer(request.path, checks)

    return BackgroundPort("health", (host, port), application)


class TLSSelfCall:
    """A readiness check: the webhook's own TLS port answers, and presents the right certificate.

    :param address: host and port of the TLS port.
    :param expected: returns the certificate (DER) that the port must present; None if no certificate is loaded yet.
    :param keep: the seconds for which a passed check is not repeated.
    """

    def __init__(
        self,
        address: tuple[str, int],
        expected: Callable[[], bytes | None],
        keep: float = 5.0,
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._address = address
        self._expected = expected
        self._keep = keep
        self._lock = threading.Lock()
        self._good_until = 0.0

    def __call__(self) -> str:
        """Send a request to the TLS port. Return "" if it answers, else the problem."""
        with self._lock:
            if self._clock.monotonic() < self._good_until:
                return ""
            problem = self._ask()
            if not problem:
                self._good_until = self._clock.monotonic() + self._keep
            return problem

    def _ask(self) -> str:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False  # the certificate itself is compared instead
        context.verify_mode = ssl.CERT_NONE
        host, port = self._address
        connection = http.client.HTTPSConnection(host, port, timeout=SELF_CALL_SECONDS, context=context)
        try:
            connection.connect()
            if connection.sock.getpeercert(binary_form=True) != self._expected():
                return "the TLS side shows another certificate"
            connection.request("GET", "/mutate")
            connection.getresponse().read()
        except (OSError, http.client.HTTPException) as error:
            return f"the TLS side does not answer: {error}"
        finally:
            connection.close()
        return ""


def _answer(path: str, checks: Mapping[str, Check]) -> Response:
    if path == "/healthz":
        return Response("ok\n")
    if path == "/readyz":
        missing = {name: text for name, check in checks.items() if (text := check())}
        text = "".join(f"{name}: {missing.get(name, 'ok')}\n" for name in checks)
        return Response(text, status=503 if missing else 200)
    return Response("not found\n", status=404)
