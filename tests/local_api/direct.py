"""`cluster.api.transport.Transport` without a network: the same calls, answers and errors, from a store in memory.

Most tests of the controller ask nothing about HTTP, and a controller opens some eighty connections when it starts.
`LocalApi.connect` goes over HTTP.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any

import msgspec
import urllib3
from kubernetes.client.exceptions import ApiException

from cluster.api.transport import DEFAULT_TIMEOUT, Timeout, Transport
from local_api.resources import Address, address
from local_api.server import LocalApi, Request

Answer = tuple[int, Mapping[str, str], Any]
"""Status, headers and body."""


class Response:
    """The part of urllib3's response that product code uses."""

    connection = None

    def __init__(self, status: int, headers: Mapping[str, str], data: bytes = b"") -> None:
        self.status, self.headers, self.data = status, headers, data

    @property
    def reason(self) -> str:
        """The phrase of the status, such as "Not Found"."""
        return HTTPStatus(self.status).phrase

    def read(self) -> bytes:
        """Return the body."""
        return self.data

    def release_conn(self) -> None:
        """Do nothing: there is no connection."""


class _Watch(Response):
    """The response to a watch: a line for each event, until the server ends it or `shutdown` is called."""

    def __init__(self, api: LocalApi, at: Address, query: Mapping[str, str]) -> None:
        super().__init__(HTTPStatus.OK, {})
        self._api, self._at, self._query, self._over = api, at, query, False

    def stream(self, **_: Any) -> Iterator[bytes]:
        """Yield one line for each event."""
        for event in self._api.follow(self._at, self._query, lambda: self._over):
            yield msgspec.json.encode(event) + b"\n"

    def shutdown(self) -> None:
        """End the watch from another thread."""
        self._over = True
        self._api.store.wake_watches()

    def close(self) -> None:
        """End the watch."""
        self._over = True


def response_to(answer: Answer) -> Response:
    """Return the response. Raises the exception of the official client if it is an error."""
    status, headers, body = answer
    response = Response(status, headers, msgspec.json.encode(body))
    if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        raise ApiException.from_response(http_resp=response, body=json.dumps(body), data=None)
    return response


class DirectTransport(Transport):
    """One client of a local API server. Every thread carries out its own requests."""

    def __init__(self, api: LocalApi, allowance: Callable[[], float] | None = None) -> None:
        self._api = api
        self._fence = allowance

    def within(self, allowance: Callable[[], float]) -> "DirectTransport":
        """Return a transport that calls `allowance` before every request but GETs."""
        return DirectTransport(self._api, allowance)

    def open(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        timeout: Timeout = DEFAULT_TIMEOUT,
        headers: Mapping[str, str] | None = None,  # noqa: ARG002 - the signature of the base class
    ) -> Any:
        """Carry out one request. Faults of the server apply as over HTTP."""
        asked = {key: str(value) for key, value in (query or {}).items() if value is not None}
        if self._fence is not None and method != "GET":
            asked["timeout"] = f"{min(self._fence(), timeout[1]):.3f}s"
        at = address(path, self._api.served)
        if asked.get("watch") == "true" and at is not None:
            return _Watch(self._api, at, asked)
        sent = None if body is None else msgspec.json.decode(msgspec.json.encode(body))
        answer = self._api.serve(Request(method, path, asked, sent, content_type))
        if answer is None:
            raise urllib3.exceptions.ProtocolError("connection reset")
        return response_to(answer)
