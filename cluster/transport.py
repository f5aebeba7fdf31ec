"""Requests to the API server over the official client: its authentication, TLS and connection pool, none of its models.

The client's typed decode costs a hundred times more than msgspec's, so callers get raw bytes or plain JSON.
"""

from collections.abc import Iterator, Mapping
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

Timeout = tuple[float, float]
DEFAULT_TIMEOUT: Timeout = (5.0, 30.0)


class Transport:
    """One API server, as one identity. Safe to share between threads."""

    def __init__(self, api_client: ApiClient) -> None:
        self._client = api_client

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
        """
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = content_type
        pairs = [(key, value) for key, value in (query or {}).items() if value is not None]
        verb, url, headers, _, _ = self._client.param_serialize(
            method, path, query_params=pairs, header_params=headers, auth_settings=["BearerToken"]
        )
        answer = self._client.call_api(verb, url, headers, body, _request_timeout=timeout)
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


def lines_of(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
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
    try:
        details = msgspec.json.decode(error.body or "{}").get("details") or {}
        return any(cause.get("reason") == "NamespaceTerminating" for cause in details.get("causes") or ())
    except (msgspec.DecodeError, AttributeError):
        return False
