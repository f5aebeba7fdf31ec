"""Requests to the API server over the official client: its authentication, TLS and connection pool, none of its models.

The client's typed decode costs a hundred times more than msgspec's, so callers get raw bytes or plain JSON.
"""

import threading
from collections.abc import Callable, Generator, Mapping
from http import HTTPStatus
from typing import Any

import msgspec
import urllib3
from kubernetes.client import ApiClient
from kubernetes.client.exceptions import ApiException

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

UNREACHABLE = (urllib3.exceptions.HTTPError, OSError)
"""What the transport raises when the API server could not be reached; an answer of its own is an ApiException."""

SHORTEST_WAIT, LONGEST_WAIT = 1.0, 30.0
"""Seconds to wait for an API server that has too much to do: where it does not say, and however long it says."""
_LONG_NUMBER = 6

Timeout = tuple[float, float]
DEFAULT_TIMEOUT: Timeout = (5.0, 30.0)

Allowance = Callable[[], float]
"""Seconds that a write which is sent now may take. It raises what it likes where none may be sent any more."""


class _Sending(threading.local):
    """What a request of this thread asks once it is connected, right before it is sent."""

    allowance: Allowance | None = None


_SENDING = _Sending()


class _Connection(urllib3.connection.HTTPConnection):
    """One that may be sent nothing any more by the time it is made: to connect can take as long as to be stopped."""

    def request(self, *arguments: Any, **options: Any) -> None:
        """Send a request."""
        if _SENDING.allowance is not None:
            _SENDING.allowance()
        super().request(*arguments, **options)


class _SafeConnection(_Connection, urllib3.connection.HTTPSConnection):
    """The same over TLS."""


class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Connection


class _SafePool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _SafeConnection


class Transport:
    """One API server, as one identity. Safe to share between threads."""

    def __init__(self, api_client: ApiClient, allowance: Allowance | None = None) -> None:
        self._client = api_client
        self._client.rest_client.pool_manager.pool_classes_by_scheme = {"http": _Pool, "https": _SafePool}
        self._allowance = allowance

    def within(self, allowance: Allowance) -> "Transport":
        """The same API server and identity; every request but a GET asks `allowance` right before it is sent.

        What that allows is the limit for the client, and is told to the API server (`timeout`), which else could still
        carry out later what nobody waits for any more.
        """
        return Transport(self._client, allowance)

    def open(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        timeout: Timeout = DEFAULT_TIMEOUT,
    ) -> urllib3.BaseHTTPResponse:
        """Send one request and return the unread response (the caller reads or releases it).

        :param timeout: seconds to connect and seconds between bytes.
        :raises ApiException: the API server answered with an error (404: NotFoundException, 409: ConflictException …).
        :raises urllib3.exceptions.HTTPError, OSError: it could not be reached.

        Beside these it raises whatever the allowance of `within` does.
        """
        limit: Timeout | float = timeout
        if self._allowance is not None and method != "GET":
            limit = min(self._allowance(), timeout[1])
            query = {**(query or {}), "timeout": f"{limit:.3f}s"}
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = content_type
        pairs = [(key, value) for key, value in (query or {}).items() if value is not None]
        verb, url, headers, _, _ = self._client.param_serialize(
            method, path, query_params=pairs, header_params=headers, auth_settings=["BearerToken"]
        )
        _SENDING.allowance = None if method == "GET" else self._allowance
        answer = self._client.call_api(verb, url, headers, body, _request_timeout=limit)
        response: urllib3.BaseHTTPResponse = answer.response
        if not HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
            text = response.data.decode("utf-8", "replace")
            raise ApiException.from_response(http_resp=response, body=text, data=None)
        return response

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        timeout: Timeout = DEFAULT_TIMEOUT,
    ) -> Any:
        """Send one request and return the answer as plain JSON. Parameters and errors as in `open`."""
        response = self.open(method, path, query=query, body=body, content_type=content_type, timeout=timeout)
        return msgspec.json.decode(response.data or b"null")


def lines_of(response: urllib3.BaseHTTPResponse) -> Generator[bytes, None, None]:
    """Yield the lines of a watch as they come, until the server ends it; the connection is closed in the end.

    :raises urllib3.exceptions.HTTPError, OSError: the connection broke, or was silent for too long.
    """
    pending = b""
    try:
        for chunk in response.stream(amt=None, decode_content=False):
            *complete, pending = (pending + chunk).split(b"\n")
            yield from (line for line in complete if line)
    finally:
        response.close()
        response.release_conn()


def message_of(error: Exception) -> str:
    """Return what the API server said, or the error's own text: one line for a person."""
    if isinstance(error, ApiException):
        try:
            return str(msgspec.json.decode(error.body or "{}").get("message") or error.reason)
        except (msgspec.DecodeError, AttributeError):
            return str(error.reason)
    return str(error)


def namespace_ends(error: ApiException) -> bool:
    """Whether something could not be made because its namespace is being deleted (cause NamespaceTerminating)."""
    return _caused_by(error, "NamespaceTerminating")


def over_budget(error: ApiException) -> bool:
    """Whether a pod may not be evicted because of a disruption budget (cause DisruptionBudget of policy/v1).

    Other refusals have the same status, 429: priority and fairness, a full queue, a proxy.
    """
    return error.status == HTTPStatus.TOO_MANY_REQUESTS and _caused_by(error, "DisruptionBudget")


def asked_to_wait(error: ApiException) -> float | None:
    """Seconds after which a request may come again that was refused for its time alone; None where it was not.

    That is what 429 and 503 mean (RFC 6585, section 4, and RFC 9110, section 15.6.4), with or without a `Retry-After`.
    """
    if error.status not in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE) or over_budget(error):
        return None
    text = (error.headers or {}).get("Retry-After") or ""
    return min(float(text), LONGEST_WAIT) if text.isdecimal() and len(text) < _LONG_NUMBER else SHORTEST_WAIT


def _caused_by(error: ApiException, reason: str) -> bool:
    try:
        details = msgspec.json.decode(error.body or "{}").get("details") or {}
        return any(cause.get("reason") == reason for cause in details.get("causes") or ())
    except (msgspec.DecodeError, AttributeError):
        return False
