"""Passes requests from the event loop to a WSGI application: a request is received, waits for its turn, gets a thread.

A request with a body that is too large is answered with 413. If too many requests wait, a request is answered with 429
and `Retry-After`, and the API server retries within its own timeout. The WSGI environment of a request contains, as
`phalanx.waited`, the seconds since the request was received completely.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from io import BytesIO
from typing import Any

import msgspec

from serving.http_protocol import PEER_CERTIFICATE
from serving.limits import ConnectionLimits
from serving.turns import OverdrawnError, OverloadedError, Turns

WAITED = "phalanx.waited"
"""The key, in the WSGI environment, of the seconds that the request has waited for a thread."""
JUDGE, CALLER = "phalanx.judge", "X-Phalanx-Caller"
"""If the WSGI environment has the key `JUDGE`, the application only decides whether the request is allowed. In its
answer, the header `CALLER` identifies the caller (`Pool.judged_in`).
"""
WSGI = Callable[[dict[str, Any], Any], Iterable[bytes]]
Scope = dict[str, Any]
Message = dict[str, Any]
Receive = Callable[[], Any]
Send = Callable[[Message], Any]


def peer_certificate(environ: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the verified client certificate of a request, in the form of `ssl.SSLSocket.getpeercert`; None if the
    client has sent none.
    """
    found: Mapping[str, Any] | None = environ["asgi.scope"]["state"].get(PEER_CERTIFICATE)
    return found


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool of threads for requests of one kind, so that requests of another kind cannot take all threads.

    `threads`: the number of threads. `waiting`: the most requests that wait for one. `judged_in`: the name of a pool in
    which the application first decides whether a request is allowed; "": no decision is needed. In that pool, the WSGI
    environment of the request has the key `JUDGE`. The application allows the request by answering 204, with an
    identifier of the caller in the header `CALLER`. `most_each`: the most requests of one caller that wait or are
    answered; None: no limit.
    """

    threads: int
    waiting: int
    judged_in: str = ""
    most_each: int | None = None


class _Lane:
    """A pool in operation: its queue of waiting requests and its threads."""

    def __init__(self, name: str, pool: Pool) -> None:
        self.pool = pool
        self.turns = Turns(pool.threads, pool.waiting, pool.most_each)
        self.threads = ThreadPoolExecutor(pool.threads, name)


class Application:
    """An ASGI application that answers requests by a WSGI application, in pools of threads.

    :param pools: the pools by name.
    :param pool_of: returns the name of the pool that answers requests to a path.
    """

    def __init__(
        self, application: WSGI, pools: Mapping[str, Pool], pool_of: Callable[[str], str], limits: ConnectionLimits
    ) -> None:
        self._application = application
        self._lanes = {name: _Lane(name, pool) for name, pool in pools.items()}
        self._pool_of = pool_of
        self._limits = limits
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. uvicorn calls this for each request (ASGI)."""
        body = bytearray()
        try:
            if await self._collected(scope, receive, send, body):
                await self._answered(scope, bytes(body), send)
        finally:
            self._held -= len(body)

    async def _answered(self, scope: Scope, body: bytes, send: Send) -> None:
        lane, read_at = self._lanes[self._pool_of(scope["path"])], time.monotonic()
        source = scope["client"][0] if scope.get("client") else ""
        try:
            if lane.pool.judged_in:
                environ = {**environ_of(scope, b""), JUDGE: True}
                response = await self._asked(self._lanes[lane.pool.judged_in], source, environ, read_at)
                source = response.header(CALLER)
            if not lane.pool.judged_in or response.status == HTTPStatus.NO_CONTENT:
                response = await self._asked(lane, source, environ_of(scope, body), read_at)
        except OverdrawnError:
            text = f"at most {lane.turns.most_each} requests of one caller wait here at a time; ask again"
            await _refuse(send, 429, text, (b"retry-after", b"1"))
            return
        except OverloadedError:
            text = f"overloaded: more than {lane.turns.waiting} requests wait to be answered; ask again"
            await _refuse(send, 429, text, (b"retry-after", b"1"))
            return
        headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in response.headers]
        await _send(send, response.status, headers, response.body)

    async def _asked(self, lane: _Lane, source: str, environ: dict[str, Any], read_at: float) -> "Answer":
        """Wait for a thread of this pool, and return the answer that the application computes there.

        :param source: whose turn it is in the queue: the client's address, or the caller.
        :param read_at: when the request was received completely, in monotonic seconds.
        :raises OverloadedError: if too many requests wait.
        """
        async with lane.turns.turn(source):
            work = partial(answer, self._application, environ, read_at)
            return await asyncio.get_running_loop().run_in_executor(lane.threads, work)

    async def _collected(self, scope: Scope, receive: Receive, send: Send, body: bytearray) -> bool:
        """Receive the request's body into `body`. Return whether the application must answer the request.

        False if the client has gone, or if the request was refused here because of its size.
        """
        declared = _declared(scope)
        too_large = declared > self._limits.body_bytes
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return False  # the client has gone
            chunk = message.get("body", b"")
            if not too_large:
                body += chunk
                self._held += len(chunk)
                if self._held > self._limits.bodies_bytes:
                    await _refuse(
                        send, 429, "overloaded: too much is being received; ask again", (b"retry-after", b"1")
                    )
                    return False
            if len(body) > self._limits.body_bytes:
                too_large, declared = True, len(body)
            if not message.get("more_body", False):
                break
        if too_large:
            text = f"the body is of {declared} bytes; at most {self._limits.body_bytes} are read"
            await _refuse(send, 413, text)
        return not too_large


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer of a WSGI application: the code of its HTTP status, its headers, and its body."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str:
        """Return the value of a header; "" if it is absent."""
        return next((value for each, value in self.headers if each.lower() == name.lower()), "")


def answer(application: WSGI, environ: dict[str, Any], read_at: float) -> Answer:
    """Call the WSGI application and return its whole answer. Runs in a thread of a pool."""
    environ[WAITED] = time.monotonic() - read_at
    status, headers = "", list[tuple[str, str]]()

    def start_response(given: str, headers_given: list[tuple[str, str]], _error: object = None) -> None:
        nonlocal status, headers
        status, headers = given, headers_given

    parts = application(environ, start_response)
    try:
        body = b"".join(parts)
    finally:
        # an application may return parts that must be closed after they have been read (PEP 3333)
        if (close := getattr(parts, "close", None)) is not None:
            close()
    code, _, _ = status.partition(" ")
    return Answer(int(code), headers, body)


def environ_of(scope: Scope, body: bytes) -> dict[str, Any]:
    """Return the WSGI environment (PEP 3333) of an ASGI request, with the ASGI scope in it as `asgi.scope`."""
    environ: dict[str, Any] = {
        "asgi.scope": scope,
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": scope["path"].encode().decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "SERVER_NAME": str(scope["server"][0]) if scope.get("server") else "",
        "SERVER_PORT": str(scope["server"][1]) if scope.get("server") else "",
        "REMOTE_ADDR": str(scope["client"][0]) if scope.get("client") else "",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope["scheme"],
        "wsgi.input": BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for name, value in scope["headers"]:
        _put_header(environ, name.decode("latin-1"), value.decode("latin-1"))
    return environ


def _put_header(environ: dict[str, Any], name: str, value: str) -> None:
    """Add a request header to the WSGI environment. If a header occurs twice, its values are joined by a comma.

    Names with "_" are dropped, because in the environment they would equal names with "-".
    """
    if "_" in name or name in ("content-length", "transfer-encoding"):
        return
    key = "CONTENT_TYPE" if name == "content-type" else f"HTTP_{name.upper().replace('-', '_')}"
    environ[key] = f"{environ[key]},{value}" if key in environ else value


def _declared(scope: Scope) -> int:
    length = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    return int(length)


async def _refuse(send: Send, status: int, text: str, *headers: tuple[bytes, bytes]) -> None:
    body = msgspec.json.encode({"error": text})
    length = (b"content-length", str(len(body)).encode())
    all_headers = [(b"content-type", b"application/json"), length, *headers]
    await _send(send, status, all_headers, body)


async def _send(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
