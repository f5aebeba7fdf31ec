"""Connections of urllib3 to the API server, which write the head of a request and read that of its response themselves.

urllib3 connects, verifies certificates, uses proxies and keeps connections open. urllib3 and http.client write a
request header by header, send head and body apart, and parse the head of a response as an e-mail. This takes more CPU
time than TLS and all system calls of the request together (docs/decisions/0029).
"""

import http.client
import threading
from collections.abc import Callable, Mapping
from typing import Any

import urllib3

from cluster.api.incoming import Incoming

Allowance = Callable[[], float]
"""Function that returns how many seconds a write that is sent now may take. It raises an exception of its own if no
write may be sent any more, because the term of a leader is over.
"""


class Sending(threading.local):
    """The `Allowance` of the request that this thread is sending: it raises if the leader's term is over.

    The connection calls the `Allowance` right before it sends the request.
    """

    allowance: Allowance | None = None


SENDING = Sending()


class Connection(urllib3.connection.HTTPConnection):
    """A connection that calls the request's `Allowance` again right before it sends the request.

    Connecting may take so long that the leader's term has ended by then. The `Allowance` raises in this case.
    """

    incoming: Incoming | None = None
    """The response that is being read from the connection, or was read last."""
    _asked: tuple[str, str, dict[str, Any]] = "", "", {}
    """Method and URL of the last request, and urllib3's options for its response."""

    def request(  # type: ignore[override]  # only what a pool of urllib3 passes
        self,
        method: str,
        url: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        chunked: bool = False,  # noqa: ARG002 - urllib3 passes it, and it is always False
        **options: Any,
    ) -> None:
        """Send a request, head and body together. `headers` must contain `Host`.

        :raises http.client.CannotSendRequest: the last response has not been read to its end.
        :raises ValueError: a header contains a line break.
        """
        if self.incoming is not None and not self.incoming.isclosed():
            raise http.client.CannotSendRequest("the last response has not been read")
        lines = [f"{method} {url} HTTP/1.1", *(f"{name}: {value}" for name, value in (headers or {}).items())]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        head = "\r\n".join(lines)
        if head.count("\r") != len(lines) - 1 or head.count("\n") != len(lines) - 1:
            raise ValueError("a header of the request contains a line break")
        self._asked = method, url, options
        if self.sock is None:
            self.connect()
        self.sock.settimeout(self.timeout)
        if SENDING.allowance is not None:
            SENDING.allowance()
        self.sock.sendall(f"{head}\r\n\r\n".encode("latin-1") + (body or b""))

    def getresponse(self) -> urllib3.HTTPResponse:  # type: ignore[override]  # urllib3's own type, too
        """Read the head of the answer to the last request. Return the response, its body unread."""
        method, url, options = self._asked
        self.sock.settimeout(self.timeout)
        incoming = self.incoming = Incoming(self.sock, method=method)
        try:
            incoming.begin()
        except BaseException:
            incoming.close()
            raise
        shutdown = getattr(self.sock, "shutdown", None)  # a connection of TLS within TLS has none
        if incoming.will_close:
            self.close()  # the response keeps the socket open until it is read
        return urllib3.HTTPResponse(
            body=incoming,
            headers=incoming.fields,
            status=incoming.status,
            version=incoming.version,
            reason=incoming.reason,
            original_response=incoming,
            request_method=method,
            request_url=url,
            sock_shutdown=shutdown,
            **options,
        )


class SafeConnection(Connection, urllib3.connection.HTTPSConnection):
    """A TLS connection that calls the request's `Allowance` right before it sends a request, like `Connection`."""


class Pool(urllib3.HTTPConnectionPool):
    """A pool of connections without TLS."""

    ConnectionCls = Connection  # type: ignore[assignment]  # `request` takes a body of bytes only


class SafePool(urllib3.HTTPSConnectionPool):
    """A pool of TLS connections."""

    ConnectionCls = SafeConnection  # type: ignore[assignment]  # as above
