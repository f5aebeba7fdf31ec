"""Plain HTTP to the control plane's API server, as the administrator."""

import http.client
import json
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Manifest = Mapping[str, Any]
Ask = Callable[..., Any]
"""What `ApiServer.request` asks: method, path, body and its content type; the decoded answer."""

REQUEST_SECONDS = 30.0
_WRITERS = 8
_REFUSED = 400
"""HTTP statuses from here on are refusals."""


class RefusedError(Exception):
    """The API server refused an object; the text is its own."""


@dataclass(frozen=True, slots=True)
class ApiServer:
    """Where the API server is and how to be trusted by it."""

    host: str
    token: str
    ca_file: Path

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        content_type: str = "application/json",
        *,
        seconds: float = REQUEST_SECONDS,
    ) -> Any:
        """Ask, on a connection of its own; returns the decoded answer, whatever its status. Nothing may take longer
        than `seconds` to come.

        :raises OSError: there is nobody to ask.
        :raises http.client.HTTPException: the server went away while it answered.
        """
        connection = self.connect(seconds)
        try:
            return self._ask(connection, method, path, body, content_type)[1]
        finally:
            connection.close()

    @contextmanager
    def kept(self) -> Iterator[Ask]:
        """Ask again and again on one connection, from one thread: no handshake is paid for each question."""
        connection = self.connect(REQUEST_SECONDS)

        def ask(method: str, path: str, body: object = None, content_type: str = "application/json") -> Any:
            return self._ask(connection, method, path, body, content_type)[1]

        try:
            yield ask
        finally:
            connection.close()

    def create(self, path: str, objects: Iterable[Manifest]) -> None:
        """Create many objects of one kind, several at a time.

        :raises RefusedError: one was not accepted; others may have been.
        """
        manifests = list(objects)
        parts = [manifests[start::_WRITERS] for start in range(min(_WRITERS, len(manifests)))]
        with ThreadPoolExecutor(_WRITERS) as pool:
            for done in [pool.submit(self._create, path, part) for part in parts]:
                done.result()

    def watch(self, path: str, since: str) -> http.client.HTTPSConnection:
        """Begin a watch; its events are the lines of the connection's response."""
        connection = self.connect(None)
        query = f"?watch=true&resourceVersion={since}"
        connection.request("GET", path + query, headers={"Authorization": f"Bearer {self.token}"})
        return connection

    def connect(self, timeout: float | None) -> http.client.HTTPSConnection:
        """A connection that has not been opened yet; None waits for ever."""
        trust = ssl.create_default_context(cafile=str(self.ca_file))
        return http.client.HTTPSConnection(self.host, context=trust, timeout=timeout)

    def _create(self, path: str, objects: list[Manifest]) -> None:
        connection = self.connect(REQUEST_SECONDS)
        try:
            for each in objects:
                status, answer = self._ask(connection, "POST", path, each)
                if status >= _REFUSED:
                    name = each["metadata"].get("name")
                    raise RefusedError(f"{each.get('kind')} {name}: {answer.get('message', answer)}")
        finally:
            connection.close()

    def _ask(
        self,
        connection: http.client.HTTPSConnection,
        method: str,
        path: str,
        body: object = None,
        content_type: str = "application/json",
    ) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type}
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        response = connection.getresponse()
        text = response.read()
        decoded = json.loads(text) if response.getheader("Content-Type") == "application/json" else text.decode()
        return response.status, decoded
