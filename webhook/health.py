"""The plain HTTP port: `/healthz` (the process lives) and `/readyz` (it can do its work), and nothing else.

Probes have their own port, so that they never compete for the threads of the TLS port. Readiness still sends a request
to the TLS port, so that it reports the state of that port too.
"""

import http.client
import ssl
import threading
from collections.abc import Callable, Mapping

from werkzeug.wrappers import Request, Response

from serving.background import BackgroundPort
from timing.clock import SYSTEM_CLOCK, Clock

Check = Callable[[], str]
"""Answers "" when all is well, else what is missing."""

SELF_CALL_SECONDS = 2.0


def health_server(host: str, port: int, checks: Mapping[str, Check]) -> BackgroundPort:
    """Serves the two paths; `checks` by name decide on readiness. Raises OSError where the port cannot be had."""

    @Request.application
    def application(request: Request) -> Response:
        return _answer(request.path, checks)

    return BackgroundPort("health", (host, port), application)


class TLSSelfCall:
    """Asks our own TLS port, at `address`, for an answer; a good answer is kept for `keep` seconds.

    `expected` gives the certificate (DER) that must be shown, None while there is none.
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
        """Whether the TLS side answers: "" or what went wrong."""
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
