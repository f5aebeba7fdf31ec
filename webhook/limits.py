"""What one replica takes upon itself: how large a request, how many at once. More is refused with a word."""

import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from webhook.worker import TLSThreadWorker

LARGEST_BODY = 8 * 1024 * 1024
"""An object and its old self of 1.5 MB each fit, and so does a cluster's worth of files for a dry run."""
LARGEST_REFUSED = 4 * LARGEST_BODY
"""A refused body is read up to here, and thrown away: many clients listen only when they have sent everything."""
CHUNK = 64 * 1024

StartResponse = Callable[..., Any]


class Limits:
    """WSGI middleware: refuses what is too much, and tells how long the rest has waited.

    Too large: 413. Too many at once: 429 with `Retry-After`, upon which the API server asks again within its own
    timeout. A request that is let through finds in its environment, as `phalanx.waited`, the seconds since it could
    first be read.
    """

    def __init__(self, application: Callable[..., Iterable[bytes]], most_waiting: int) -> None:
        self._application = application
        self._most_waiting = most_waiting
        self._worker: TLSThreadWorker | None = None

    def watch(self, worker: TLSThreadWorker) -> None:
        """Know the worker whose requests are counted."""
        self._worker = worker

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Answer, or have it answered."""
        size = int(environ.get("CONTENT_LENGTH") or 0)
        if size > LARGEST_BODY:
            text = f"the body is of {size} bytes; at most {LARGEST_BODY} are read"
            return _refuse(environ, start_response, "413 Content Too Large", text)
        worker = self._worker
        if worker is not None and worker.waiting > self._most_waiting:
            text = f"overloaded: more than {self._most_waiting} requests wait to be answered; ask again"
            return _refuse(environ, start_response, "429 Too Many Requests", text, ("Retry-After", "1"))
        if worker is not None and worker.arrival.time is not None:
            environ["phalanx.waited"] = time.monotonic() - worker.arrival.time
        return self._application(environ, start_response)


def _refuse(
    environ: dict[str, Any], start_response: StartResponse, status: str, text: str, *headers: tuple[str, str]
) -> Iterable[bytes]:
    left = LARGEST_REFUSED
    while left > 0 and (chunk := environ["wsgi.input"].read(min(CHUNK, left))):
        left -= len(chunk)
    answer = msgspec.json.encode({"error": text})
    length = ("Content-Length", str(len(answer)))
    start_response(status, [("Content-Type", "application/json"), length, *headers])
    return [answer]
