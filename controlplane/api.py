"""Plain HTTP requests to the control plane's API server, with the rights of the administrator."""

import http.client
import json
import re
import ssl
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from urllib3 import HTTPSConnectionPool
from urllib3.exceptions import HTTPError

Manifest = Mapping[str, Any]

REQUEST_SECONDS = 120.0
_WRITERS = 8
_REFUSED = 400
"""HTTP statuses from here on are refusals."""
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


class RefusedError(Exception):
    """The API server refused an object. The text is the API server's message."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the API server.

    `body`: the decoded JSON; for an answer of another type, its text. `warnings`: the texts that kubectl prints after
    "Warning: ".
    """

    status: int
    body: Any
    warnings: tuple[str, ...]

    @property
    def refused(self) -> bool:
        """Whether the API server has rejected the request (HTTP status 400 or above)."""
        return self.status >= _REFUSED


class ApiServer:
    """A client of the control plane's API server. Safe to share between threads.

    It reuses connections: a handshake for each request would cost both sides more than most answers, and a test that
    waits sends twenty requests a second.
    """

    def __init__(self, host: str, token: str, ca_file: Path) -> None:
        self.host, self.token, self.ca_file = host, token, ca_file
        address, _, port = host.partition(":")
        self._pool = HTTPSConnectionPool(
            address, int(port), maxsize=2 * _WRITERS, ca_certs=str(ca_file), retries=False, timeout=REQUEST_SECONDS
        )

    def close(self) -> None:
        """Close the idle connections."""
        self._pool.close()

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        content_type: str = "application/json",
        *,
        seconds: float = REQUEST_SECONDS,
    ) -> Any:
        """Send a request and return the decoded answer, whatever its status.

        :param seconds: the timeout to connect, and between bytes of the answer.
        :raises OSError: no server listens, or the connection ended before the answer.
        """
        return self.ask(method, path, body, content_type, seconds).body

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        content_type: str = "application/json",
        seconds: float = REQUEST_SECONDS,
    ) -> Answer:
        """Send a request and return the answer with its status and warnings.

        :param seconds: the timeout to connect, and between bytes of the answer.
        :raises OSError: no server listens, or the connection ended before the answer.
        """
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type}
        text = json.dumps(body) if body is not None else None
        try:
            answer = self._pool.urlopen(method, path, text, headers, timeout=seconds)
        except HTTPError as error:
            raise ConnectionError(str(error)) from error
        decoded = answer.json() if answer.headers.get("Content-Type") == "application/json" else answer.data.decode()
        return Answer(answer.status, decoded, tuple(map(_warning, answer.headers.getlist("Warning"))))

    def read(self, path: str, seconds: float = REQUEST_SECONDS) -> bytes:
        """Return the body of the answer to a GET as it is, such as a CPU profile.

        :param seconds: the timeout to connect, and between bytes of the answer.
        :raises OSError: no server listens, or the connection ended before the answer.
        :raises RefusedError: the API server rejected the request.
        """
        try:
            answer = self._pool.urlopen("GET", path, None, {"Authorization": f"Bearer {self.token}"}, timeout=seconds)
        except HTTPError as error:
            raise ConnectionError(str(error)) from error
        if answer.status >= _REFUSED:
            raise RefusedError(f"GET {path}: {answer.data.decode(errors='replace')}")
        return bytes(answer.data)

    def create(self, path: str, objects: Iterable[Manifest]) -> None:
        """Create many objects of one kind, several at a time.

        :raises RefusedError: the API server rejected an object; other objects may have been created.
        """
        manifests = list(objects)
        parts = [manifests[start::_WRITERS] for start in range(min(_WRITERS, len(manifests)))]
        with ThreadPoolExecutor(_WRITERS) as pool:
            for done in [pool.submit(self._create, path, part) for part in parts]:
                done.result()

    def apply(self, path: str, manifest: Manifest) -> None:
        """Server-side apply one object. `path`: the object's own path.

        :raises RefusedError: the API server rejected the object.
        """
        query = "?fieldManager=phalanx-installation&force=true"
        self._accepted(self.ask("PATCH", path + query, manifest, "application/apply-patch+yaml"), manifest)

    def watch(self, path: str, since: str, fields: str = "") -> http.client.HTTPSConnection:
        """Begin a watch after the resourceVersion `since`. Its events are the lines of the connection's response.

        :param fields: a field selector; empty: all objects. An object that begins to match is ADDED, and one that no
            longer matches is DELETED.
        """
        connection = self.connect(None)
        query = f"?watch=true&resourceVersion={since}&fieldSelector={quote(fields)}"
        connection.request("GET", path + query, headers={"Authorization": f"Bearer {self.token}"})
        return connection

    def connect(self, timeout: float | None) -> http.client.HTTPSConnection:
        """Return a new connection to the API server that is not opened yet. `timeout`: in seconds; None waits for
        ever.
        """
        trust = ssl.create_default_context(cafile=str(self.ca_file))
        return http.client.HTTPSConnection(self.host, context=trust, timeout=timeout)

    def _create(self, path: str, objects: list[Manifest]) -> None:
        for each in objects:
            self._accepted(self.ask("POST", path, each), each)

    def _accepted(self, answer: Answer, manifest: Manifest) -> None:
        if answer.refused:
            name, said = manifest["metadata"].get("name"), answer.body
            raise RefusedError(f"{manifest.get('kind')} {name}: {said.get('message', said)}")


def _warning(header: str) -> str:
    """Return the text of an HTTP Warning header, without its quotes (RFC 9111)."""
    found = _WARNING.match(header.encode("latin-1").decode())
    return re.sub(r"\\(.)", r"\1", found[1]) if found else header
