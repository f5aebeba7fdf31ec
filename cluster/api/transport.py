"""Sends requests to the API server, with authentication, TLS and connection pool of the official Python client.

The client's typed decoding costs a hundred times more than msgspec's, so callers get raw bytes or plain JSON. The
client's processing of parameters and bodies costs as much as sending them, so requests use its connection pool
directly.
"""

from collections.abc import Callable, Generator, Mapping
from functools import cached_property, lru_cache
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec
import urllib3
from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException

from cluster.api.connections import SENDING, Allowance, Pool, SafePool
from cluster.api.incoming import Incoming
from timing.clock import SYSTEM_CLOCK, Clock

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

ONLY_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
"""Value of the header `Accept` for an answer with the object's metadata only. Encoding the whole object takes about a
tenth of the API server's time for a patch of a pod. Answers without an object, such as an eviction's, have none."""

UNREACHABLE = (urllib3.exceptions.HTTPError, OSError)
"""Exceptions of the transport if the API server cannot be reached. An error response raises ApiException instead."""

SHORTEST_WAIT, LONGEST_WAIT = 1.0, 30.0
"""Seconds to wait for an overloaded API server: the wait if it sends no `Retry-After`, and the longest wait."""
SIGNED_IN_SECONDS = 1.0
"""Seconds for which an authentication header is reused before the client is asked for a new one."""
_LONG_NUMBER = 6
"""The number of digits from which a `Retry-After` is ignored as senseless."""
_SAME_FOR_BEARERS = (
    *("host", "ssl_ca_cert", "ca_cert_data", "verify_ssl", "assert_hostname", "tls_server_name"),
    *("proxy", "no_proxy", "proxy_headers", "retries", "keep_alive"),
)
"""Settings of a client that name the API server and how it is verified. None of them identifies the caller."""

Timeout = tuple[float, float]
"""Seconds to connect, and seconds between received bytes."""
DEFAULT_TIMEOUT: Timeout = (5.0, 30.0)


class Transport:
    """Sends requests to one API server with one identity. Safe to share between threads."""

    def __init__(
        self,
        api_client: ApiClient,
        allowance: Allowance | None = None,
        *,
        bearer: str = "",
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Use the connections and the configuration of this client.

        :param allowance: called before every request but GETs (`within`); None: writes are always allowed.
        :param bearer: the token for authentication; "": the client's configuration decides.
        """
        self._client = api_client
        self._clock = clock
        self._bearer = bearer
        self._allowance = allowance
        self._signature: tuple[float, Mapping[str, str]] = 0.0, {}
        self._client.rest_client.pool_manager.pool_classes_by_scheme = {"http": Pool, "https": SafePool}

    def within(self, allowance: Allowance) -> "Transport":
        """Return a transport for the same API server and identity that calls `allowance` before every request but GETs.

        `allowance` raises an exception if the leader that sends the request may write no more.

        The seconds that `allowance` returns are the time limit of the request. They are also sent to the API server as
        `timeout`. So the API server carries out no write after the client has stopped waiting for it.
        """
        return Transport(self._client, allowance, bearer=self._bearer, clock=self._clock)

    def for_bearers(self) -> "Callable[[str], Transport]":
        """Return a function that makes a transport for a given token, to the same API server.

        Requests of such a transport authenticate with the token only, and not with this transport's identity.
        """
        ours = self._client.configuration
        theirs = Configuration()
        theirs.api_key, theirs.api_key_prefix, theirs.refresh_api_key_hook = {}, {}, None
        theirs.cert_file = theirs.key_file = None
        for name in _SAME_FOR_BEARERS:
            setattr(theirs, name, getattr(ours, name))
        client = ApiClient(theirs)
        return lambda token: Transport(client, bearer=token, clock=self._clock)

    def open(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        timeout: Timeout = DEFAULT_TIMEOUT,
        headers: Mapping[str, str] | None = None,
    ) -> urllib3.BaseHTTPResponse:
        """Send one request. Return the response unread: the caller must read or release it.

        :param headers: replace the default headers of the same name.
        :param timeout: seconds to connect and seconds between bytes.
        :raises ApiException: the API server answered with an error (404: NotFoundException, 409: ConflictException …).
        :raises urllib3.exceptions.HTTPError, OSError: the API server could not be reached.

        It also raises the exceptions of the allowance that was given to `within`.
        """
        limit: Timeout | float = timeout
        asked = _encoded(tuple((query or {}).items()))
        if self._allowance is not None and method != "GET":
            limit = min(self._allowance(), timeout[1])
            asked = f"{asked}{'&' if asked else ''}timeout={limit:.3f}s"
        sent = {**self._same_headers, **self._signed_in(), **(headers or {})}
        if body is not None:
            sent["Content-Type"] = content_type
        SENDING.allowance = None if method == "GET" else self._allowance
        response: urllib3.BaseHTTPResponse = self._pool.urlopen(
            method,
            f"{self._prefix}{path}{'?' if asked else ''}{asked}",
            body=None if body is None else msgspec.json.encode(body),
            headers=sent,
            assert_same_host=False,
            timeout=urllib3.Timeout(connect=limit[0], read=limit[1])
            if isinstance(limit, tuple)
            else urllib3.Timeout(total=limit),
            preload_content=False,
        )
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
        headers: Mapping[str, str] | None = None,
        kind: Any = Any,
    ) -> Any:
        """Send one request and return the decoded answer. For the other parameters and errors, see `open`.

        :param kind: the type to decode into: `Any` for plain JSON, a Struct for its fields only, `msgspec.Raw` for
            undecoded bytes.
        """
        response = self.open(
            method, path, query=query, body=body, content_type=content_type, timeout=timeout, headers=headers
        )
        return msgspec.json.decode(response.data or b"null", type=kind)

    @cached_property
    def _pool(self) -> urllib3.HTTPConnectionPool:
        """The connection pool of the API server. It is looked up once, because each look-up costs time."""
        pool: urllib3.HTTPConnectionPool = self._client.rest_client.pool_manager.connection_from_url(
            self._client.configuration.host
        )
        return pool

    @cached_property
    def _same_headers(self) -> Mapping[str, str]:
        """The headers of all requests, which a request may replace. `Host`: host and port of the API server's URL."""
        host = str(urllib3.util.parse_url(self._client.configuration.host).netloc)
        return {
            "Host": host,
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            **self._client.default_headers,
        }

    @cached_property
    def _prefix(self) -> str:
        """The text before the path of each request: the path of the API server's URL.

        For a request over plain HTTP through a proxy it is the whole URL, which such a request must contain.
        """
        host: str = self._client.configuration.host
        proxied = self._client.rest_client.pool_manager.proxy is not None and self._pool.scheme == "http"
        return host if proxied else urlsplit(host).path

    def _signed_in(self) -> Mapping[str, str]:
        """Return the authentication header.

        The client creates it at most once in `SIGNED_IN_SECONDS`, because that is slow. The client also replaces a
        token before it expires.
        """
        if self._bearer:
            return {"Authorization": f"Bearer {self._bearer}"}
        until, headers = self._signature
        if self._clock.monotonic() >= until:
            made: dict[str, str] = {}
            self._client.update_params_for_auth(made, [], ["BearerToken"], "", "GET", None)
            headers = made
            self._signature = self._clock.monotonic() + SIGNED_IN_SECONDS, headers
        return headers


@lru_cache(maxsize=256)
def _encoded(query: tuple[tuple[str, Any], ...]) -> str:
    """Return the query as text for a URL, without the entries whose value is None."""
    return urlencode([(key, value) for key, value in query if value is not None])


def lines_of(response: urllib3.BaseHTTPResponse, *, drained: bool = False) -> Generator[bytes, None, None]:
    """Yield the lines of a watch response as they arrive, until the server ends it. Then close the connection.

    :param drained: whether to yield an empty line each time before waiting, when all arrived lines have been yielded.
    :raises urllib3.exceptions.HTTPError, OSError: the connection broke, or was silent for too long.
    """
    pending = b""
    try:
        for chunk in response.stream(amt=None, decode_content=False):
            *complete, pending = (pending + chunk).split(b"\n")
            yield from (line for line in complete if line)
            if drained and not pending and not _at_hand(response):
                yield b""
    finally:
        response.close()
        response.release_conn()


def _at_hand(response: urllib3.BaseHTTPResponse) -> bool:
    """Whether more data of a response has arrived; True if that is unknown."""
    incoming = getattr(response.connection, "incoming", None)
    return not isinstance(incoming, Incoming) or incoming.at_hand()


def message_of(error: Exception) -> str:
    """Return the message of an API server's error answer, or the text of any other error, for users."""
    if isinstance(error, ApiException):
        try:
            return str(msgspec.json.decode(error.body or "{}").get("message") or error.reason)
        except (msgspec.DecodeError, AttributeError):
            return str(error.reason)
    return str(error)


def namespace_ends(error: ApiException) -> bool:
    """Whether an object could not be created because its namespace is being deleted (cause NamespaceTerminating)."""
    return _caused_by(error, "NamespaceTerminating")


def over_budget(error: ApiException) -> bool:
    """Whether an eviction was refused because of a disruption budget (cause DisruptionBudget of policy/v1).

    The status 429 alone does not show that: an overloaded API server or a proxy answers with it, too.
    """
    return error.status == HTTPStatus.TOO_MANY_REQUESTS and _caused_by(error, "DisruptionBudget")


def asked_to_wait(error: ApiException) -> float | None:
    """Return the seconds after which a rejected request may be retried; None if the rejection is not temporary.

    Status 429 and 503 are temporary, with or without a `Retry-After` (RFC 6585, section 4, and RFC 9110, section
    15.6.4). A refusal by a disruption budget is not.
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
